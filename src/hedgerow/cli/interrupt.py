"""
Interrupted: Ctrl-C while a command's parts are still being read.

A library that imports another in passing takes an interruption for a module that is not there, and goes on without. So
until there is something to tidy up, Ctrl-C ends the process at once, with one line.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn


class InterruptStatus(int):
    """The status of a command that was interrupted and has said so itself."""


STATUS = InterruptStatus(130)


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """Ctrl-C ends the process at once, unless whoever started it does not want it to be minded."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: object) -> NoReturn:
    with suppress(OSError):
        os.write(2, b"Interrupted.\n")
    os._exit(STATUS)

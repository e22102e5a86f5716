"""
The start of the command line, and signals that arrive meanwhile: Ctrl-C and SIGTERM.

Some libraries import optional modules and take an interruption for a missing module. So until there is something to
clean up, Ctrl-C ends the process at once with one line.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn


class InterruptStatus(int):
    """The exit status of a command that was interrupted and has printed its own message."""


STATUS = InterruptStatus(130)


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """End the process at once on Ctrl-C, unless the parent process made it ignore SIGINT."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """
    Let SIGTERM end the process at once with status 0, until the event loop has its own handler.

    Enter this before a port is bound: a client that sees the open port may take the process for started. Nothing has
    been served yet, so there is nothing to finish. When the body ends without an exception, the process is about to
    end, and SIGTERM is ignored from then on.
    """
    previous = signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        yield
    except BaseException:
        signal.signal(signal.SIGTERM, previous)
        raise
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def main() -> None:
    """Run the command line, and let Ctrl-C end it even while its modules are imported."""
    with exit_on_interrupt():
        from hedgerow.cli.main import main as run_command
    run_command()


def _exit(_number: int, _frame: object) -> NoReturn:
    with suppress(OSError):
        os.write(2, b"Interrupted.\n")
    os._exit(STATUS)

"""
Beside: text that is made by two processes, where Python's lock would let only one thread of this one work.

The other process is a copy of this one as it stands, made by the system in a moment; it writes its part to a file that
has no name, and ends. Where it fails, or there is no such thing as a copy, all is made here.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from typing import BinaryIO

Makes = Callable[[int, int], Iterator[str]]
"""Makes the pieces of the text for the things from one place to before another."""

LEAST = 5000
"""Fewer things are not worth another process."""

_AT_ONCE = 1 << 20


def in_two(make: Makes, middle: int, end: int) -> Iterator[str]:
    """What *make* makes of all things up to *end*; those from *middle* on are another process's."""
    if end < LEAST or (os.cpu_count() or 1) < 2 or not hasattr(os, "fork"):  # noqa: PLR2004 - one alone
        yield from make(0, end)
        return
    with tempfile.TemporaryFile(prefix="hedgerow-report-") as file:
        child = os.fork()
        if not child:
            _make_there(make, middle, end, file)
        done = False
        try:
            yield from make(0, middle)
            done = os.waitpid(child, 0)[1] == 0
            child = 0
        finally:
            if child:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        if not done:
            yield from make(middle, end)
            return
        file.seek(0)
        begun = b""
        while block := file.read(_AT_ONCE):
            whole = (begun + block).rpartition(b"\n")
            begun = whole[2]
            yield (whole[0] + whole[1]).decode()
        yield begun.decode()


def _make_there(make: Makes, middle: int, end: int, file: BinaryIO) -> None:
    """In the other process; it never comes back."""
    status = 1
    try:
        # Who interrupts means the process that was started; that one ends this.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for piece in make(middle, end):
            file.write(piece.encode())
        file.flush()
        status = 0
    finally:
        os._exit(status)

"""
Beside: pieces of text that another process makes, where Python's lock would let only one thread of this one work.

The other process is a copy of this one as it stands, made by the system in a moment; it writes its pieces to a file
that has no name, each behind its length, and ends. Where it fails, or there is no such thing as a copy, there are no
pieces: who wanted them makes them himself.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from struct import Struct
from typing import BinaryIO, Self

_LENGTH = Struct("<Q")


class ForkedWriter:
    """Pieces that are being made. To be closed."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._file: BinaryIO = tempfile.TemporaryFile(prefix="hedgerow-report-")  # noqa: SIM115 - closed with it
        self._child = os.fork() if hasattr(os, "fork") else 0
        if hasattr(os, "fork") and not self._child:
            _make(pieces, self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        child, self._child = self._child, 0
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self._file.close()

    def pieces(self) -> list[bytes] | None:
        """The pieces, once they are all there; None where that went wrong."""
        if not self._child:
            return None
        status = os.waitpid(self._child, 0)[1]
        self._child = 0
        if status:
            return None
        self._file.seek(0)
        return [self._file.read(*_LENGTH.unpack(head)) for head in iter(lambda: self._file.read(_LENGTH.size), b"")]


def _make(pieces: Iterator[str], file: BinaryIO) -> None:
    """In the other process; it never comes back."""
    status = 1
    try:
        # Who interrupts means the process that was started; that one ends this.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for piece in pieces:
            told = piece.encode()
            file.write(_LENGTH.pack(len(told)))
            file.write(told)
        file.flush()
        status = 0
    finally:
        os._exit(status)

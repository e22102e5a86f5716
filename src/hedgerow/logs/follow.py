"""
Follow: the newest part of a growing log, kept in a file of bounded size.

`hedgerow report --follow` judges that file again and again. A rotated log is read to its end before the new one is
opened; a truncated log is read from its beginning. Only whole lines are kept.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from hedgerow.errors import LogError
from hedgerow.logs.formats import readable
from hedgerow.logs.reader import MAX_LINE_BYTES

KEPT_BYTES = 64_000_000
"""How much of a log is kept: some 300,000 lines. Above it the older half is dropped."""

_BLOCK = 1 << 20
_MAGIC = (b"\x1f\x8b", b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"PAR1", b"SQLite format 3")


class FollowedLog:
    """
    The last lines of the log at *path*, in the file `kept`. To be closed.

    `catch_up` copies what is new. *dropped* is true once older lines were dropped.
    """

    def __init__(self, path: str, *, most: int = KEPT_BYTES) -> None:
        self._path = Path(path)
        self._most = most
        self._source: BinaryIO | None = None
        self._was_there = False
        self._rest = b""
        self.dropped = False
        self._open()
        if self._source is not None and self._source.read(16).startswith(_MAGIC):
            self._source.close()
            raise LogError(f"{readable(path)}: --follow needs a plain text log that a server writes to")
        self._begin()
        self._folder = tempfile.TemporaryDirectory(prefix="hedgerow-follow-")
        self.kept = Path(self._folder.name) / "log"
        self.kept.touch()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._source is not None:
            self._source.close()
        self._folder.cleanup()

    def catch_up(self) -> bool:
        """Copy whatever is new. Return whether there was anything."""
        copied = self._copy()
        if self._source is None or self._was_rotated():
            if self._source is not None:
                self._source.close()
                # A line without an end in the old file has its end nowhere.
                self._rest = b""
            self._open()
            copied |= self._copy()
        return copied

    def _open(self) -> None:
        try:
            self._source = self._path.open("rb")
            self._was_there = True
        except FileNotFoundError:
            # Between the two steps of a rotation there is none.
            if not self._was_there:
                raise LogError(f"{readable(str(self._path))}: there is no such file") from None
            self._source = None
        except OSError as error:
            raise LogError(f"{readable(str(self._path))}: cannot be read: {error.strerror}") from None

    def _begin(self) -> None:
        """Start so late that no more than the kept bytes are read."""
        source = self._source
        if source is None:
            return
        begin = max(os.fstat(source.fileno()).st_size - self._most // 2, 0)
        source.seek(begin)
        if begin:
            source.readline(MAX_LINE_BYTES)
            self.dropped = True

    def _was_rotated(self) -> bool:
        try:
            there = self._path.stat()
        except OSError:
            return False
        mine = os.fstat(self._source.fileno()) if self._source is not None else None
        return mine is None or (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino)

    def _copy(self) -> bool:
        source = self._source
        if source is None:
            return False
        if os.fstat(source.fileno()).st_size < source.tell():
            source.seek(0)
            self._rest = b""
        copied = False
        while block := source.read(_BLOCK):
            whole, newline, rest = (self._rest + block).rpartition(b"\n")
            # A line that never ends is cut: the reader counts it as bad.
            self._rest = rest if len(rest) <= MAX_LINE_BYTES else b""
            if newline:
                self._keep(whole + newline)
                copied = True
        return copied

    def _keep(self, lines: bytes) -> None:
        with self.kept.open("ab") as file:
            file.write(lines)
            size = file.tell()
        if size > self._most:
            self.dropped = True
            with self.kept.open("rb") as file:
                file.seek(size - self._most // 2)
                file.readline()
                newest = file.read()
            self.kept.write_bytes(newest)

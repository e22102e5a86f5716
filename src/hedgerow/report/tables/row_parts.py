"""
Parts: the rows of a log on this machine, in memory as far as they may be there, else in files that go away with them.

The rows of a source are all in one part (`arranging`), so that each is small enough to be sorted in memory, one for
each processor at a time; a part that is not is divided once more, by source and time.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from hedgerow.errors import StoreError
from hedgerow.report.tables.row_builder import Rows
from hedgerow.report.tables.row_order import PARTS, ROW, WORDS, Matrix, arranged, columns_of, divided
from hedgerow.report.tables.temp_dir import TempDir

WORKERS = os.cpu_count() or 1
_SHARE_OF_ROWS = 0.6
_COPIES = 4
_SAMPLED = 10_000
_WAITING = 2

_Answer = TypeVar("_Answer")


class RowParts:
    """
    Rows of numbers (`COLUMNS`), with *memory* bytes for all that is done with them.

    To be closed: then nothing of it is left. *directory* is where the files lie; the system's place for such where none
    is given.
    """

    def __init__(self, *, memory: int, directory: Path | None = None) -> None:
        self._place = TempDir(directory)
        self._most_in_memory = int(memory * _SHARE_OF_ROWS)
        self._most_sorted = max(1, memory // (_COPIES * WORKERS * ROW.itemsize))
        """Rows that are sorted at once."""
        self._waiting: list[list[Matrix]] = [[] for _ in range(PARTS)]
        self._size = 0
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="hedgerow-rows")
        self._adding: list[Future[None]] = []
        self._arranged: list[list[Piece]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._beside.shutdown(cancel_futures=True)
        self._waiting.clear()
        self._arranged = None
        self._place.close()

    def add(self, rows: Rows) -> None:
        """Add *rows* behind those that are there; those of one source stay in this order."""
        # Beside whoever makes the next rows, in their turn.
        self._settle(_WAITING)
        self._adding.append(self._beside.submit(self._add, rows))

    def _settle(self, left: int = 0) -> None:
        """Wait for the rows that are on their way, but for so many additions."""
        while len(self._adding) > left:
            self._adding.pop(0).result()

    def _add(self, rows: Rows) -> None:
        matrix, ends = divided(rows)
        for part, (start, end) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
            if start < end:
                self._waiting[part].append(matrix[start:end])
        self._size += matrix.nbytes
        if self._size > self._most_in_memory:
            for part in range(PARTS):
                self._write_away(part)
            self._size = 0

    def _write_away(self, part: int) -> None:
        """The rows of a part that are in memory go to its file."""
        waiting = self._waiting[part]
        if waiting:
            with _told(), self._path(part).open("ab") as file:
                for rows in waiting:
                    file.write(rows.data)
            waiting.clear()

    def _path(self, part: int) -> Path:
        return self._place.path / f"{part}"

    def pieces(self) -> list[list[Piece]]:
        """The rows of each part by source and time, in pieces; those of one time as they came."""
        if self._arranged is None:
            self._settle()
            self._arranged = on_all(self._arrange, range(PARTS))
            _give_back()
        return self._arranged

    def rows(self) -> Iterator[Rows]:
        """All rows, some at a time: those of a source together, by time."""
        for part in self.pieces():
            for piece in part:
                yield columns_of(piece.load())

    def _arrange(self, part: int) -> list[Piece]:
        waiting, path = self._waiting[part], self._path(part)
        if not path.exists():
            pieces = [Piece(arranged(waiting))] if waiting else []
            waiting.clear()
            return pieces
        self._write_away(part)
        whole = path.stat().st_size <= self._most_sorted * ROW.itemsize
        pieces = []
        for number, one in enumerate([path] if whole else self._ranges(path)):
            there = path.with_name(f"{path.name}-arranged-{number}")
            rows = arranged([_loaded(one)])
            with _told(), there.open("wb") as file:
                file.write(rows.data)
            pieces.append(Piece(there))
        path.unlink()
        return pieces

    def _ranges(self, path: Path) -> Iterator[Path]:
        """The rows in the file *path* in several files, which follow each other by source and time."""
        whole = np.memmap(path, np.uint64, "r").reshape(-1, WORDS)
        step = max(1, len(whole) // _SAMPLED)
        source, t = whole[::step, 0], whole[::step, 1].view(np.int64)
        order = np.lexsort((t, source))
        cuts = order[:: max(1, len(order) * self._most_sorted // (2 * len(whole)))][1:]
        paths = [path.with_name(f"{path.name}-range-{number}") for number in range(len(cuts) + 1)]
        for begin in range(0, len(whole), self._most_sorted):
            some = np.array(whole[begin : begin + self._most_sorted])
            own, at = some[:, 0], some[:, 1].view(np.int64)
            number = np.zeros(len(some), np.int64)
            for cut in cuts.tolist():
                number += (own > source[cut]) | ((own == source[cut]) & (at >= t[cut]))
            for k in np.unique(number).tolist():
                with _told(), paths[k].open("ab") as file:
                    file.write(some[number == k].data)
        for one in paths:
            if one.exists():
                yield one
                one.unlink()


class Piece:
    """Rows by source and time: in memory, or in a file."""

    def __init__(self, held: Matrix | Path) -> None:
        self._held = held

    def load(self) -> Matrix:
        return _loaded(self._held) if isinstance(self._held, Path) else self._held


def on_all(answer: Callable[[Any], _Answer], some: Sequence[Any]) -> list[_Answer]:
    """What *answer* says of each of *some*, on all processors."""
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="hedgerow-parts") as pool:
        return list(pool.map(answer, some))


def _give_back() -> None:
    """What is free goes back to the system: glibc keeps arrays of some megabytes for later, in each thread."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong on disk, in one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"the tables cannot be made: {reason}; name another place by TMPDIR") from None


def _loaded(path: Path) -> Matrix:
    with _told():
        return np.fromfile(path, np.uint64).reshape(-1, WORDS)

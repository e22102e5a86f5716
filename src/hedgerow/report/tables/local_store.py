"""
Local store: the rows of a log on this machine, and what is asked about them, answered on all processors.

Rows are in memory as far as they may be there, else in files that go away with the store. The rows of a source are all
in one part, so that each part is small enough to be sorted in memory, one for each processor at a time; a part that is
not is divided once more, by source and time. A small log has one part only, and needs no compiled functions.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import StoreError
from hedgerow.logs.dialect import Dialect
from hedgerow.logs.reader import ReadCounts
from hedgerow.report.shape.autocorrelation import Levels
from hedgerow.report.shape.features import Features, features
from hedgerow.report.shape.series import Counts, SeriesPlan
from hedgerow.report.tables.distinct import (
    GROUPS,
    DistinctPairs,
    Pairs,
    Select,
    by_group,
    different,
    in_ranges,
    page_of,
)  # fmt: skip
from hedgerow.report.tables.figures import Figures, SiteFacts, count, join_figures
from hedgerow.report.tables.ingest import Progress, read
from hedgerow.report.tables.queries import DAY, Columns
from hedgerow.report.tables.row_builder import OTHERS, RowBuilder
from hedgerow.report.tables.rows import (
    ANY,
    ODD,
    PARTS,
    ROW,
    Rows,
    SourceRuns,
    arranged,
    blocks,
    divide,
    first_pages,
    join,
    join_runs,
    part_of,
    runs,
    sort_rows,
    take,
)  # fmt: skip
from hedgerow.report.tables.url_features import ASSET, CALL, PAGE

WORKERS = os.cpu_count() or 1
SMALL = 25_000
"""Rows of the largest logs that are not worth compiled functions."""

_SHARE_OF_ROWS = 0.6
_COPIES = 4
_SAMPLED = 10_000
_FEATURES_AT_ONCE = 4096
_ERRORS_FROM = 400

_Answer = TypeVar("_Answer")
_Pair = tuple[NDArray[np.uint64], NDArray[Any]]


class TemporaryDirectory:
    """
    A directory of its own in *directory*, or in the system's place for such. To be closed: then it is gone.

    It is registered for removal before it is made: Python's own leaves one behind if Ctrl-C comes in between.
    """

    def __init__(self, directory: Path | None = None) -> None:
        try:
            self.path = (directory or Path(tempfile.gettempdir())) / f"hedgerow-report-{secrets.token_hex(8)}"
            self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
            self.path.mkdir(mode=0o700)
        except OSError as error:
            raise StoreError(f"no room for the tables: {error}; name another place by TMPDIR") from None

    def close(self) -> None:
        self._remove()


class Piece:
    """Rows by source and time: in memory, or in a file."""

    def __init__(self, held: Rows | Path) -> None:
        self._held = held

    def load(self) -> Rows:
        return _loaded(self._held) if isinstance(self._held, Path) else self._held


class LocalStore:
    """
    Rows, with *memory* bytes for all that is done with them.

    To be closed: then nothing of it is left. *directory* is where the files lie; the system's place for such where none
    is given.
    """

    def __init__(self, *, memory: int, directory: Path | None = None) -> None:
        self._directory = TemporaryDirectory(directory)
        self._most_in_memory = int(memory * _SHARE_OF_ROWS)
        self._most_sorted = max(1, memory // (_COPIES * WORKERS * ROW.itemsize))
        """Rows that are sorted at once."""
        self._waiting: list[list[Rows]] = [[] for _ in range(PARTS)]
        self._small: list[Rows] | None = []
        """All rows, as long as they are few; they are in no part yet."""
        self._in_memory = 0
        self._arranged: list[list[Piece]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._waiting.clear()
        self._small = None
        self._arranged = None
        self._directory.close()

    def read(
        self, paths: Sequence[str], builder: RowBuilder, progress: Progress | None, dialect: Dialect
    ) -> ReadCounts:
        return read(paths, self, builder, progress, dialect)

    def add(self, rows: Rows) -> None:
        """Add *rows* behind those that are there; those of one source stay in this order."""
        if self._small is not None:
            self._small.append(take(rows, np.flatnonzero(rows["kind"] != ODD)))
            if sum(map(len, self._small)) <= SMALL:
                return
            rows, self._small = join(self._small), None
        for part, mine in enumerate(divide(rows)):
            if len(mine):
                self._waiting[part].append(mine)
        self._in_memory += rows.nbytes
        if self._in_memory > self._most_in_memory:
            for part in range(PARTS):
                self._write_away(part)
            self._in_memory = 0

    def _write_away(self, part: int) -> None:
        """Write the rows of a part that are in memory to its file."""
        waiting = self._waiting[part]
        if waiting:
            with _one_line(), self._path(part).open("ab") as file:
                for rows in waiting:
                    file.write(rows.data)
            waiting.clear()

    def _path(self, part: int) -> Path:
        return self._directory.path / f"{part}"

    def pieces(self) -> list[list[Piece]]:
        """The rows of each part by source and time, in pieces; those of one time as they came."""
        if self._arranged is None and self._small is not None:
            self._arranged = [[Piece(sort_rows(join(self._small)))]]
        elif self._arranged is None:
            self._arranged = on_all(self._arrange, range(PARTS))
            _trim_memory()
        return self._arranged

    def rows(self) -> Iterator[Rows]:
        """All rows, some at a time: those of a source together, by time."""
        for part in self.pieces():
            for piece in part:
                yield piece.load()

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
            with _one_line(), there.open("wb") as file:
                file.write(rows.data)
            pieces.append(Piece(there))
        path.unlink()
        return pieces

    def _ranges(self, path: Path) -> Iterator[Path]:
        """The rows in the file *path* in several files, which follow each other by source and time."""
        whole = np.memmap(path, ROW, "r")
        sample = whole[:: max(1, len(whole) // _SAMPLED)]
        source, t = sample["source"].copy(), sample["t"].copy()
        order = np.lexsort((t, source))
        cuts = order[:: max(1, len(order) * self._most_sorted // (2 * len(whole)))][1:]
        paths = [path.with_name(f"{path.name}-range-{number}") for number in range(len(cuts) + 1)]
        for begin in range(0, len(whole), self._most_sorted):
            some = np.array(whole[begin : begin + self._most_sorted])
            own, at = some["source"], some["t"]
            number = np.zeros(len(some), np.int64)
            for cut in cuts.tolist():
                number += (own > source[cut]) | ((own == source[cut]) & (at >= t[cut]))
            for k in np.unique(number).tolist():
                with _one_line(), paths[k].open("ab") as file:
                    file.write(take(some, np.flatnonzero(number == k)).data)
        for one in paths:
            if one.exists():
                yield one
                one.unlink()

    def hosts(self, first_page: int) -> Columns:
        assets = sum(self._on_shares(_assets_by_place), np.zeros(GROUPS, np.int64))
        led, parents, there = np.zeros((3, GROUPS), np.int64)
        for pages, pairs in self._distinct(_pages_and_parents):
            others = pairs[page_of(pairs) != page_of(np.array([first_page], np.uint64))]
            led += by_group(pairs)
            parents += by_group(others)
            there += by_group(others[np.isin(page_of(others), pages)])
        places = np.flatnonzero(led)
        return {"place": places, "assets": assets[places], "parents": parents[places], "there": there[places]}

    def groups(self, least: int) -> NDArray[Any]:
        pages = sum((by_group(pairs) for (pairs,) in self._distinct(_pages_by_shape)), np.zeros(GROUPS, np.int64))
        return np.flatnonzero(pages >= least)

    def leads(self, places: Sequence[int]) -> Columns:
        own = np.zeros(GROUPS, np.bool_)
        own[list(places)] = True
        pages, parents = np.zeros((2, GROUPS), np.int64)
        for of_pages, of_parents in self._distinct(partial(_pages_and_parents_by_lead, own)):
            pages += by_group(of_pages)
            parents += by_group(of_parents)
        leads = np.flatnonzero(pages)
        return {"lead": leads, "pages": pages[leads], "parents": parents[leads]}

    def count(self, facts: SiteFacts) -> Figures:
        compiled = self._small is None

        def of_part(pieces: list[Piece]) -> Figures:
            return count((piece.load() for piece in pieces), facts, compiled=compiled)

        return join_figures(on_all(of_part, self.pieces()))

    def series(self, origin: int, step: int) -> Columns:
        return _columns(self._runs(self.pieces(), origin, step))

    def series_of(self, sources: NDArray[np.uint64], origin: int, step: int) -> Columns:
        parts = self.pieces()
        chosen = [parts[part] for part in np.unique(part_of(sources)).tolist()] if len(parts) == PARTS else parts
        found = _columns(self._runs(chosen, origin, step))
        mine = np.isin(found["source"], sources)
        return {name: column[mine] for name, column in found.items()}

    def features(self, counts: Counts, plan: SeriesPlan, levels: Levels, least: int) -> Features:
        """Some sources at a time, so that all processors have something to do; each is for itself."""
        cuts = np.unique(np.append(np.arange(0, counts.size, _FEATURES_AT_ONCE), counts.size))
        ends = np.searchsorted(counts.rows, cuts)

        def of_some(k: int) -> Features:
            mine, size = slice(ends[k], ends[k + 1]), int(cuts[k + 1] - cuts[k])
            some = Counts(counts.rows[mine] - cuts[k], counts.bins[mine], counts.values[mine], size)
            return features(some, plan, levels=levels, least=least)

        if len(cuts) < 3:  # noqa: PLR2004 - one of them
            return features(counts, plan, levels=levels, least=least)
        found = on_all(of_some, range(len(cuts) - 1))
        sources = np.concatenate([one.sources + cut for one, cut in zip(found, cuts[:-1], strict=True)])
        starts, requests, rows = (
            np.concatenate([getattr(one, name) for one in found]) for name in ("starts", "requests", "rows")
        )
        return Features(sources, starts, requests, rows, found[0].comparable)

    def days(self, automatic: NDArray[np.uint64]) -> Columns:
        found = _columns(self._runs(self.pieces(), 0, DAY, CALL + 1))
        ordinary = ~np.isin(found["source"], automatic)
        numbers, which = np.unique(found["n"], return_inverse=True)
        return {
            "n": numbers,
            "days": np.bincount(which, minlength=len(numbers)),
            "ordinary": np.bincount(which, weights=ordinary, minlength=len(numbers)).astype(np.int64),
        }

    def first_pages(self, sources: NDArray[np.uint64], most: int) -> Columns:
        wanted = np.sort(sources)

        def of_part(pieces: list[Piece]) -> list[Rows]:
            taken = np.zeros(len(wanted), np.int64)
            return [first_pages(piece.load(), wanted, taken, most, CALL + 1) for piece in pieces]

        rows = join([rows for part in on_all(of_part, self.pieces()) for rows in part])
        # Sorted within each part, so those of a source are behind each other already.
        rows = take(rows, np.argsort(rows["source"], kind="stable"))
        return {name: rows[name] for name in ("source", "t", "page", "shape", "status")}

    def _runs(self, parts: Sequence[list[Piece]], origin: int, step: int, below: int = ANY) -> list[SourceRuns]:
        """How many rows of each source in *parts* are in each interval."""

        def of_part(pieces: list[Piece]) -> list[SourceRuns]:
            return [runs(piece.load(), origin, step, below) for piece in pieces]

        return [one for part in on_all(of_part, parts) for one in part]

    def _on_shares(self, answer: Callable[[Iterator[Rows]], _Answer]) -> list[_Answer]:
        """What *answer* says of the rows, in as many shares as there are processors."""
        parts = self.pieces()

        def of_share(k: int) -> _Answer:
            return answer(some for part in parts[k::WORKERS] for piece in part for some in blocks(piece.load()))

        return on_all(of_share, range(min(WORKERS, max(1, len(parts)))))

    def _distinct(self, select: Select) -> Iterator[list[Pairs]]:
        """The different pairs that *select* finds in all rows; see `in_ranges`."""

        def of_share(low: int, share: Iterator[Rows]) -> DistinctPairs:
            found = DistinctPairs(select, low)
            for rows in share:
                found.add(rows)
            return found

        return in_ranges(lambda low: self._on_shares(partial(of_share, low)))


def _assets_by_place(share: Iterator[Rows]) -> NDArray[np.int64]:
    found = np.zeros(GROUPS, np.int64)
    for rows in share:
        counts = np.bincount(rows["place"][rows["kind"] == ASSET])
        found[: len(counts)] += counts
    return found


def _are_pages(rows: Rows) -> NDArray[np.bool_]:
    """Which requests are for pages that are there."""
    return np.asarray((rows["kind"] == PAGE) & (rows["status"] < _ERRORS_FROM))


def _pages_by_shape(rows: Rows) -> list[_Pair]:
    there = _are_pages(rows)
    return [(rows["page"][there], rows["shape"][there])]


def _pages_and_parents(rows: Rows) -> list[_Pair]:
    """Pages that are there, in one group; and the pages that led anywhere, by their host."""
    pages, led = rows["page"][_are_pages(rows)], rows["place"] > OTHERS
    return [(pages, np.zeros_like(pages)), (rows["parent"][led], rows["place"][led])]


def _pages_and_parents_by_lead(own: NDArray[np.bool_], rows: Rows) -> list[_Pair]:
    """Pages to which one of an *own* host led, and those that led to them, both by the shape of the latter."""
    led = np.asarray((rows["kind"] == PAGE) & own[rows["place"]])
    return [(rows["page"][led], rows["lead"][led]), (rows["parent"][led], rows["lead"][led])]


def _columns(found: Sequence[SourceRuns]) -> Columns:
    """The runs of all parts, by source; what two pieces have of one interval is one."""
    if not found:
        return {"source": np.zeros(0, np.uint64), "bin": np.zeros(0, np.int64), "n": np.zeros(0, np.int64)}
    sources, sizes, bins, n = join_runs(found)
    source = np.repeat(sources, sizes)
    if len(different(sources)) < len(sources):
        begins = np.append(True, (source[1:] != source[:-1]) | (bins[1:] != bins[:-1]))
        source, bins, n = source[begins], bins[begins], np.add.reduceat(n, np.flatnonzero(begins))
    return {"source": source, "bin": bins, "n": n}


def on_all(answer: Callable[[Any], _Answer], some: Sequence[Any]) -> list[_Answer]:
    """What *answer* says of each of *some*, on all processors."""
    if len(some) < 2:  # noqa: PLR2004 - a thread for one would only cost time
        return list(map(answer, some))
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="hedgerow-parts") as pool:
        return list(pool.map(answer, some))


def _trim_memory() -> None:
    """Give free memory back to the system: glibc keeps arrays of some megabytes for later, in each thread."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


@contextmanager
def _one_line() -> Iterator[None]:
    """Report what goes wrong on disk in one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"the tables cannot be made: {reason}; name another place by TMPDIR") from None


def _loaded(path: Path) -> Rows:
    with _one_line():
        return np.fromfile(path, ROW)

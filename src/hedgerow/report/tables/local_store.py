"""
Local store: the rows of a log on this machine, and answers to queries about them, on all processors.

Rows are in memory as far as allowed, the rest in files that are removed with the store. All rows of a source are in one
part, so each part is small enough to be sorted in memory, one for each processor at a time. A larger part is divided
again, by source and time. A small log has one part and needs no compiled functions.
"""

from __future__ import annotations

import os
import secrets
import shutil
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
from hedgerow.report.tables.figures import Figures, SiteFacts, count, join_figures
from hedgerow.report.tables.ingest import Progress, read
from hedgerow.report.tables.queries import DAY, Columns
from hedgerow.report.tables.row_builder import OTHERS, RowBuilder
from hedgerow.report.tables.rows import (
    ANY,
    GROUPS,
    ODD,
    PARTS,
    ROW,
    DistinctPairs,
    Pairs,
    Rows,
    Select,
    SourceRuns,
    arranged,
    begins,
    blocks,
    by_group,
    different,
    divide,
    first_pages,
    in_ranges,
    join,
    join_runs,
    page_of,
    part_of,
    runs,
    sort_rows,
    take,
)
from hedgerow.report.tables.url_features import ASSET, CALL, PAGE
from hedgerow.unused_memory import release_unused_memory

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
    A new directory in *directory* or in the system's temporary directory, removed by `close`.

    Its removal is registered before it is made: Python's own class leaves one behind if Ctrl-C comes in between.
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
    """Rows sorted by source and time, in memory or in a file."""

    def __init__(self, held: Rows | Path) -> None:
        self._held = held

    def load(self) -> Rows:
        return _loaded(self._held) if isinstance(self._held, Path) else self._held


class LocalStore:
    """Rows, with *memory* bytes for all work on them. *directory* is for its files. `close` removes everything."""

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
        """Add *rows* behind the others. The rows of one source keep their order."""
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
        """Return the rows of each part in pieces, sorted by source and time. Rows of one time keep their order."""
        if self._arranged is None and self._small is not None:
            self._arranged = [[Piece(sort_rows(join(self._small)))]]
        elif self._arranged is None:
            self._arranged = on_all(self._arrange, range(PARTS))
            release_unused_memory()
        return self._arranged

    def rows(self) -> Iterator[Rows]:
        """Yield all rows, some at a time: those of a source together, by time."""
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
        """Yield files with the rows in the file *path*, divided into ranges of source and time."""
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
        """Compute features for some sources at a time, so that all processors have work. Sources are independent."""
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
        return {name: rows[name] for name in ("source", "t", "page", "shape", "status", "flags")}

    def _runs(self, parts: Sequence[list[Piece]], origin: int, step: int, below: int = ANY) -> list[SourceRuns]:
        """Count the rows of each source in *parts* by interval."""

        def of_part(pieces: list[Piece]) -> list[SourceRuns]:
            return [runs(piece.load(), origin, step, below) for piece in pieces]

        return [one for part in on_all(of_part, parts) for one in part]

    def _on_shares(self, answer: Callable[[Iterator[Rows]], _Answer]) -> list[_Answer]:
        """Return what *answer* gives for the rows, in one share for each processor."""
        parts = self.pieces()

        def of_share(k: int) -> _Answer:
            return answer(some for part in parts[k::WORKERS] for piece in part for some in blocks(piece.load()))

        return on_all(of_share, range(min(WORKERS, max(1, len(parts)))))

    def _distinct(self, select: Select) -> Iterator[list[Pairs]]:
        """Yield the distinct pairs that *select* finds in all rows; see `in_ranges`."""

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
    """Return which requests are for existing pages."""
    return np.asarray((rows["kind"] == PAGE) & (rows["status"] < _ERRORS_FROM))


def _pages_by_shape(rows: Rows) -> list[_Pair]:
    there = _are_pages(rows)
    return [(rows["page"][there], rows["shape"][there])]


def _pages_and_parents(rows: Rows) -> list[_Pair]:
    """Select existing pages in one group, and the pages of referrers by their host."""
    pages, led = rows["page"][_are_pages(rows)], rows["place"] > OTHERS
    return [(pages, np.zeros_like(pages)), (rows["parent"][led], rows["place"][led])]


def _pages_and_parents_by_lead(own: NDArray[np.bool_], rows: Rows) -> list[_Pair]:
    """Select pages with a referrer on an *own* host, and the pages of these referrers, both by the latter's shape."""
    led = np.asarray((rows["kind"] == PAGE) & own[rows["place"]])
    return [(rows["page"][led], rows["lead"][led]), (rows["parent"][led], rows["lead"][led])]


def _columns(found: Sequence[SourceRuns]) -> Columns:
    """Return the runs of all parts, by source. Two pieces with rows in one interval give one run."""
    if not found:
        return {"source": np.zeros(0, np.uint64), "bin": np.zeros(0, np.int64), "n": np.zeros(0, np.int64)}
    sources, sizes, bins, n = join_runs(found)
    source = np.repeat(sources, sizes)
    if len(different(sources)) < len(sources):
        first = np.flatnonzero(begins(source, bins))
        source, bins, n = source[first], bins[first], np.add.reduceat(n, first)
    return {"source": source, "bin": bins, "n": n}


def on_all(answer: Callable[[Any], _Answer], some: Sequence[Any]) -> list[_Answer]:
    """Return what *answer* gives for each of *some*, on all processors."""
    if len(some) < 2:  # noqa: PLR2004 - a thread for one would only cost time
        return list(map(answer, some))
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="hedgerow-parts") as pool:
        return list(pool.map(answer, some))


@contextmanager
def _one_line() -> Iterator[None]:
    """Report disk errors in one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"the tables cannot be made: {reason}; name another place by TMPDIR") from None


def _loaded(path: Path) -> Rows:
    with _one_line():
        return np.fromfile(path, ROW)

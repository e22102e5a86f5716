"""
Store: the rows of a log on this machine, in memory as far as they may be there, else in files that go away with them.

The rows of a source are all in one of several parts (`arranging`), so that each part is small enough to be sorted in
memory, one for each processor at a time; a part that is not is divided once more, by source and time. Questions are
answered part by part.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.analyse.arranging import PARTS, ROW, WORDS, Matrix, Runs, arranged, columns_of, divided, first_pages, runs
from hedgerow.analyse.counting import Figures, Kinds, count, together
from hedgerow.analyse.describing import ASSET, PAGE
from hedgerow.analyse.different import Different
from hedgerow.analyse.numbering import Numbering, Rows
from hedgerow.analyse.questions import DAY, Columns
from hedgerow.analyse.reading import Progress, read
from hedgerow.errors import StoreError
from hedgerow.logs.dialect import Dialect
from hedgerow.logs.reader import Tally
from hedgerow.shape.autocorrelation import Levels
from hedgerow.shape.features import Features, features
from hedgerow.shape.series import Counts, Plan

_SHARE_OF_ROWS = 0.6
_COPIES = 4
_SAMPLED = 10_000
_ERRORS_FROM = 400
_CALLS_BELOW = 2
_WORKERS = os.cpu_count() or 1
_WAITING = 2
_FEATURES_AT_ONCE = 4096

_Answer = TypeVar("_Answer")


class Piece(NamedTuple):
    """Rows by source and time: in memory, or in a file."""

    rows: Matrix | None
    path: Path | None

    def load(self) -> Matrix:
        return self.rows if self.rows is not None else _loaded(self.path)


class Store:
    """
    Rows of numbers (`COLUMNS`), with *memory* bytes for all that is done with them.

    To be closed: then nothing of it is left. *directory* is where the files lie; the system's place for such where none
    is given.
    """

    def __init__(self, *, memory: int, directory: Path | None = None) -> None:
        try:
            self._place = tempfile.TemporaryDirectory(prefix="hedgerow-report-", dir=directory)
        except OSError as error:
            raise StoreError(f"no room for the tables: {error}; name another place by TMPDIR") from None
        self._most_in_memory = int(memory * _SHARE_OF_ROWS)
        self._most_sorted = max(1, memory // (_COPIES * _WORKERS * ROW.itemsize))
        """Rows that are sorted at once."""
        self._waiting: list[list[Matrix]] = [[] for _ in range(PARTS)]
        self._size = 0
        self._on_disk = False
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="hedgerow-rows")
        self._adding: list[Future[None]] = []
        self._arranged: list[list[Piece]] | None = None
        self._counted: dict[tuple[int, int, int], Runs] = {}

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
        self._place.cleanup()

    def read(self, paths: Sequence[str], numbering: Numbering, progress: Progress | None, dialect: Dialect) -> Tally:
        return read(paths, self, numbering, progress, dialect)

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
            self._write_away()

    def _write_away(self) -> None:
        """All rows in memory go to the files of their parts."""
        self._on_disk = True
        for part, waiting in enumerate(self._waiting):
            if waiting:
                with _told(), self._path(f"{part}").open("ab") as file:
                    for rows in waiting:
                        file.write(rows.data)
                waiting.clear()
        self._size = 0

    def _path(self, name: str) -> Path:
        return Path(self._place.name) / name

    def _pieces(self) -> list[list[Piece]]:
        """The rows of each part by source and time; those of one time as they came."""
        if self._arranged is None:
            self._settle()
            self._arranged = _on_all(self._arrange, range(PARTS))
        return self._arranged

    def _arrange(self, part: int) -> list[Piece]:
        waiting, path = self._waiting[part], self._path(f"{part}")
        if not path.exists():
            rows = [Piece(arranged(np.concatenate(waiting)), None)] if waiting else []
            waiting.clear()
            return rows
        if sum(map(len, waiting)) + path.stat().st_size // ROW.itemsize <= self._most_sorted:
            several = [np.concatenate([_loaded(path), *waiting])]
        else:
            with _told(), path.open("ab") as file:
                for rows in waiting:
                    file.write(rows.data)
            several = (_loaded(one) for one in self._in_ranges(path))
        waiting.clear()
        pieces = []
        for number, rows in enumerate(several):
            piece = Piece(None, self._path(f"{part}-arranged-{number}"))
            _write(piece.path, arranged(rows))
            pieces.append(piece)
        path.unlink()
        return pieces

    def _in_ranges(self, path: Path) -> Iterator[Path]:
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
        del whole
        for one in paths:
            if one.exists():
                yield one
                one.unlink()

    def hosts(self, first_page: int) -> Columns:
        pages, parents = Different(), Different()
        assets: dict[int, int] = {}
        for found in self._on_parts(_hosts_of):
            pages.take(found.pages)
            parents.take(found.parents)
            for place, number in enumerate(found.assets.tolist()):
                if number:
                    assets[place] = assets.get(place, 0) + number
        halvings = max(pages.halvings, parents.halvings)
        pages.halve(halvings)
        parents.halve(halvings)
        parent, place = parents.pairs
        counted = parent != np.uint64(first_page)
        there = counted & np.isin(parent, pages.pairs[0])
        places = np.unique(place).astype(np.int64)
        size = int(places.max(initial=-1)) + 1
        index = place.astype(np.int64)
        return {
            "place": places,
            "assets": np.array([assets.get(one, 0) for one in places.tolist()], np.int64),
            "parents": np.bincount(index[counted], minlength=size)[places],
            "there": np.bincount(index[there], minlength=size)[places],
        }

    def groups(self, least: int) -> NDArray[Any]:
        found = Different(enough=least, size=1 << 20)
        for one in self._on_parts(lambda pieces: _groups_of(pieces, least)):
            found.take(one)
        return np.array(sorted(shape for shape, pages in found.by_other().items() if pages >= least), np.int64)

    def leads(self, places: Sequence[int]) -> Columns:
        own = np.zeros(max(places) + 1, np.bool_)
        own[list(places)] = True
        pages, parents = Different(), Different()
        for found in self._on_parts(lambda pieces: _leads_of(pieces, own)):
            pages.take(found[0])
            parents.take(found[1])
        by_pages, by_parents = pages.by_other(), parents.by_other()
        leads = sorted(by_pages)
        return {
            "lead": np.array(leads, np.int64),
            "pages": np.array([by_pages[lead] for lead in leads], np.int64),
            "parents": np.array([by_parents.get(lead, 1) for lead in leads], np.int64),
        }

    def count(self, kinds: Kinds) -> Figures:
        def of_part(pieces: list[Piece]) -> Figures:
            return count((columns_of(piece.load()) for piece in pieces), kinds)

        return together(_on_all(of_part, self._pieces()))

    def series(self, origin: int, step: int) -> Columns:
        source, bins, n = self._runs(origin, step, 256)
        return {"source": source, "bin": bins, "n": n}

    def series_of(self, sources: NDArray[np.uint64], origin: int, step: int) -> Columns:
        source, bins, n = self._runs(origin, step, 256)
        mine = np.isin(source, sources)
        return {"source": source[mine], "bin": bins[mine], "n": n[mine]}

    def features(self, counts: Counts, plan: Plan, levels: Levels, least: int) -> Features:
        """Some sources at a time, so that all processors have something to do; each is for itself."""
        cuts = np.unique(np.append(np.arange(0, counts.size, _FEATURES_AT_ONCE), counts.size))
        ends = np.searchsorted(counts.rows, cuts)

        def of_some(k: int) -> Features:
            mine, size = slice(ends[k], ends[k + 1]), int(cuts[k + 1] - cuts[k])
            some = Counts(counts.rows[mine] - cuts[k], counts.bins[mine], counts.values[mine], size)
            return features(some, plan, levels=levels, least=least)

        if len(cuts) < 3:  # noqa: PLR2004 - one of them
            return features(counts, plan, levels=levels, least=least)
        found = _on_all(of_some, range(len(cuts) - 1))
        sources = np.concatenate([one.sources + cut for one, cut in zip(found, cuts[:-1], strict=True)])
        starts, requests, rows = (
            np.concatenate([getattr(one, name) for one in found]) for name in ("starts", "requests", "rows")
        )
        return Features(sources, starts, requests, rows, found[0].comparable)

    def days(self, automatic: NDArray[np.uint64]) -> Columns:
        source, _, n = self._runs(0, DAY, _CALLS_BELOW)
        ordinary = ~np.isin(source, automatic)
        numbers, which = np.unique(n, return_inverse=True)
        return {
            "n": numbers,
            "days": np.bincount(which, minlength=len(numbers)),
            "ordinary": np.bincount(which, weights=ordinary, minlength=len(numbers)).astype(np.int64),
        }

    def first_pages(self, sources: NDArray[np.uint64], most: int) -> Columns:
        wanted = np.sort(sources)

        def of_part(pieces: list[Piece]) -> list[Matrix]:
            taken = np.zeros(len(wanted), np.int64)
            return [first_pages(piece.load(), wanted, taken, most) for piece in pieces]

        found = [rows for part in _on_all(of_part, self._pieces()) for rows in part]
        rows = np.concatenate(found) if found else np.zeros((0, WORDS), np.uint64)
        # Sorted within each part, so those of a source are behind each other already.
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        columns = columns_of(rows)
        return {name: columns[name] for name in ("source", "t", "page", "shape")}

    def _runs(self, origin: int, step: int, below: int) -> Runs:
        """How many rows of each source are in each interval, by source and interval."""
        asked = origin, step, below
        if asked not in self._counted:

            def of_part(pieces: list[Piece]) -> list[Runs]:
                return [runs(piece.load(), origin, step, below) for piece in pieces]

            found = [one for part in _on_all(of_part, self._pieces()) for one in part]
            self._counted = {asked: _joined(found)}
        return self._counted[asked]

    def _on_parts(self, answer: Callable[[list[Piece]], _Answer]) -> list[_Answer]:
        """What *answer* says of all pieces, some of them for each processor."""
        parts = self._pieces()
        some = [[piece for part in parts[k::_WORKERS] for piece in part] for k in range(_WORKERS)]
        return _on_all(answer, some)


class _Hosts(NamedTuple):
    pages: Different
    parents: Different
    assets: NDArray[np.int64]


def _hosts_of(pieces: list[Piece]) -> _Hosts:
    """Pages that were there, parents by the place they are at, and assets by place."""
    pages, parents, assets = Different(), Different(), np.zeros(0, np.int64)
    for piece in pieces:
        rows = columns_of(piece.load())
        kind, place = rows["kind"], rows["place"]
        pages.enter(rows["page"], np.zeros(len(kind), np.uint8), (kind == PAGE) & (rows["status"] < _ERRORS_FROM))
        parents.enter(rows["parent"], place, place > 1)
        more = np.bincount(place[kind == ASSET], minlength=len(assets))
        more[: len(assets)] += assets
        assets = more
    return _Hosts(pages, parents, assets)


def _groups_of(pieces: list[Piece], least: int) -> Different:
    found = Different(enough=least, size=1 << 20)
    for piece in pieces:
        rows = columns_of(piece.load())
        found.enter(rows["page"], rows["shape"], (rows["kind"] == PAGE) & (rows["status"] < _ERRORS_FROM))
    return found


def _leads_of(pieces: list[Piece], own: NDArray[np.bool_]) -> tuple[Different, Different]:
    pages, parents = Different(), Different()
    for piece in pieces:
        rows = columns_of(piece.load())
        place = rows["place"]
        led = (rows["kind"] == PAGE) & own[np.where(place < len(own), place, 0)]
        pages.enter(rows["page"], rows["lead"], led)
        parents.enter(rows["parent"], rows["lead"], led)
    return pages, parents


def _on_all(answer: Callable[[Any], _Answer], some: Sequence[Any]) -> list[_Answer]:
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="hedgerow-parts") as pool:
        return list(pool.map(answer, some))


def _joined(found: list[Runs]) -> Runs:
    """The runs of all parts, by source; what two pieces have of one interval is one."""
    if not found:
        none = np.zeros(0, np.int64)
        return none.astype(np.uint64), none, none
    source, bins, n = (np.concatenate(columns) for columns in zip(*found, strict=True))
    order = np.argsort(source, kind="stable")
    source, bins, n = source[order], bins[order], n[order]
    begins = np.ones(len(source), np.bool_)
    begins[1:] = (source[1:] != source[:-1]) | (bins[1:] != bins[:-1])
    if begins.all():
        return source, bins, n
    return source[begins], bins[begins], np.add.reduceat(n, np.flatnonzero(begins))


class _told:  # noqa: N801 - as `suppress`
    """What goes wrong on disk, in one line."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, OSError):
            raise StoreError(f"the tables cannot be made: {error.strerror or error}; name another place by TMPDIR") from None


def _write(path: Path, rows: Matrix) -> None:
    with _told(), path.open("wb") as file:
        file.write(rows.data)


def _loaded(path: Path) -> Matrix:
    with _told():
        return np.fromfile(path, np.uint64).reshape(-1, WORDS)

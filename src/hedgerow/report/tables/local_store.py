"""
Store: the rows of a log on this machine (`parts`), and what is asked about them: answered part by part, on all
processors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.logs.dialect import Dialect
from hedgerow.logs.reader import ReadCounts
from hedgerow.report.shape.autocorrelation import Levels
from hedgerow.report.shape.features import Features, features
from hedgerow.report.shape.series import Counts, SeriesPlan
from hedgerow.report.tables.distinct_count import DistinctCount
from hedgerow.report.tables.figures import Figures, Kinds, count, together
from hedgerow.report.tables.ingest import Progress, read
from hedgerow.report.tables.projection import led, referred, visited
from hedgerow.report.tables.queries import DAY, Columns
from hedgerow.report.tables.row_builder import RowBuilder
from hedgerow.report.tables.row_order import (
    ANY,
    WORDS,
    Matrix,
    SourceRuns,
    columns_of,
    first_pages,
    joined,
    part_of,
    runs,
)
from hedgerow.report.tables.row_parts import WORKERS, Piece, RowParts, on_all

_CALLS_BELOW = 2
_FEATURES_AT_ONCE = 4096

_Answer = TypeVar("_Answer")


class LocalStore(RowParts):
    """Rows that answer `questions`; see `RowParts`."""

    def read(
        self, paths: Sequence[str], numbering: RowBuilder, progress: Progress | None, dialect: Dialect
    ) -> ReadCounts:
        return read(paths, self, numbering, progress, dialect)

    def hosts(self, first_page: int) -> Columns:
        pages, parents = DistinctCount(), DistinctCount()
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
        parent, at = parents.pairs
        counted = parent != np.uint64(first_page)
        there = counted & np.isin(parent, pages.pairs[0])
        index = at.astype(np.int64)
        places = np.unique(index)
        size = int(places.max(initial=-1)) + 1
        return {
            "place": places,
            "assets": np.array([assets.get(one, 0) for one in places.tolist()], np.int64),
            "parents": np.bincount(index[counted], minlength=size)[places],
            "there": np.bincount(index[there], minlength=size)[places],
        }

    def groups(self, least: int) -> NDArray[Any]:
        found = DistinctCount(enough=least)
        for one in self._on_parts(lambda pieces: _groups_of(pieces, least)):
            found.take(one)
        return np.array(sorted(shape for shape, pages in found.by_other().items() if pages >= least), np.int64)

    def leads(self, places: Sequence[int]) -> Columns:
        own = np.zeros(max(places) + 1, np.bool_)
        own[list(places)] = True
        pages, parents = DistinctCount(), DistinctCount()
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

        return together(on_all(of_part, self.pieces()))

    def series(self, origin: int, step: int) -> Columns:
        return _columns(*self._runs(self.pieces(), origin, step))

    def series_of(self, sources: NDArray[np.uint64], origin: int, step: int) -> Columns:
        pieces = self.pieces()
        found = _columns(*self._runs([pieces[part] for part in np.unique(part_of(sources)).tolist()], origin, step))
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
        found = _columns(*self._runs(self.pieces(), 0, DAY, _CALLS_BELOW))
        ordinary = ~np.isin(found["source"], automatic)
        numbers, which = np.unique(found["n"], return_inverse=True)
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

        found = [rows for part in on_all(of_part, self.pieces()) for rows in part]
        rows = np.concatenate(found) if found else np.zeros((0, WORDS), np.uint64)
        # Sorted within each part, so those of a source are behind each other already.
        order = np.argsort(rows[:, 0], kind="stable")
        columns = columns_of(rows)
        return {name: columns[name][order] for name in ("source", "t", "page", "shape", "status")}

    def _runs(self, parts: Sequence[list[Piece]], origin: int, step: int, below: int = ANY) -> list[SourceRuns]:
        """How many rows of each source in *parts* are in each interval."""

        def of_part(pieces: list[Piece]) -> list[SourceRuns]:
            return [runs(piece.load(), origin, step, below) for piece in pieces]

        return [one for part in on_all(of_part, parts) for one in part]

    def _on_parts(self, answer: Callable[[list[Piece]], _Answer]) -> list[_Answer]:
        """What *answer* says of all pieces, some of them for each processor."""
        parts = self.pieces()
        some = [[piece for part in parts[k::WORKERS] for piece in part] for k in range(WORKERS)]
        return on_all(answer, some)


class _Hosts(NamedTuple):
    pages: DistinctCount
    parents: DistinctCount
    assets: NDArray[np.int64]


def _hosts_of(pieces: list[Piece]) -> _Hosts:
    """Pages that were there, parents by the place they are at, and assets by place."""
    pages, parents, assets = DistinctCount(), DistinctCount(), np.zeros(0, np.int64)
    for piece in pieces:
        rows = piece.load()
        page, _ = visited(rows)
        pages.enter(page, np.zeros_like(page))
        parent, place, places = referred(rows)
        parents.enter(parent, place)
        more = np.bincount(places, minlength=len(assets))
        more[: len(assets)] += assets
        assets = more
    return _Hosts(pages, parents, assets)


def _groups_of(pieces: list[Piece], least: int) -> DistinctCount:
    found = DistinctCount(enough=least)
    for piece in pieces:
        found.enter(*visited(piece.load()))
    return found


def _leads_of(pieces: list[Piece], own: NDArray[np.bool_]) -> tuple[DistinctCount, DistinctCount]:
    pages, parents = DistinctCount(), DistinctCount()
    for piece in pieces:
        page, parent, lead = led(piece.load(), own)
        pages.enter(page, lead)
        parents.enter(parent, lead)
    return pages, parents


def _columns(*found: SourceRuns) -> Columns:
    """The runs of all parts, by source; what two pieces have of one interval is one."""
    if not found:
        return {"source": np.zeros(0, np.uint64), "bin": np.zeros(0, np.int64), "n": np.zeros(0, np.int64)}
    sources, sizes, bins, n = joined(found)
    source = np.repeat(sources, sizes)
    if len(np.unique(sources)) < len(sources):
        begins = np.ones(len(source), np.bool_)
        begins[1:] = (source[1:] != source[:-1]) | (bins[1:] != bins[:-1])
        source, bins, n = source[begins], bins[begins], np.add.reduceat(n, np.flatnonzero(begins))
    return {"source": source, "bin": bins, "n": n}

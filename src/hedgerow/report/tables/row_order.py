"""
Arranging: rows one behind the other in memory, brought to their parts and into the order of source and time. Compiled.

A row takes 64 bytes, as many as a processor fetches at once: to move one costs little more than to look at it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.tables.jit import M1, compiled, lean
from hedgerow.report.tables.row_builder import COLUMNS, Rows
from hedgerow.report.tables.url_features import CALL

ROW = np.dtype([*COLUMNS.items(), ("nothing", np.uint32)])
WORDS = ROW.itemsize // 8
PARTS = 64
"""Into which all rows are divided, those of a source in one."""

_TO_PART = np.uint64(64 - 6)
_SOURCE, _TIME = 0, 1
ANY = 256
"""Above every kind."""

_HALF = 1 << 31

Matrix = NDArray[np.uint64]
"""Rows as numbers of 64 bits, `WORDS` each."""


def columns_of(matrix: Matrix) -> Rows:
    """The columns of some rows, without copying them."""
    rows = matrix.view(ROW).reshape(len(matrix))
    return {name: rows[name] for name in COLUMNS}


def part_of(source: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The part in which the rows of each source are."""
    return (source * M1 >> _TO_PART).astype(np.int64)


@lean
def _sizes(source: Any, sizes: Any) -> None:
    for i in range(len(source)):
        sizes[np.int64(source[i] * M1 >> _TO_PART)] += 1


@lean
def _divide(
    places: Any, source: Any, t: Any, page: Any, parent: Any, order: Any, shape: Any, lead: Any, place: Any, agent: Any,
    status: Any, kind: Any, flags: Any, out: Any,
) -> None:  # fmt: skip
    """*places* are where the next row of each part goes in *out*."""
    for i in range(len(source)):
        part = np.int64(source[i] * M1 >> _TO_PART)
        k = places[part]
        places[part] = k + 1
        out[k, 0] = source[i]
        out[k, 1] = np.uint64(t[i])
        out[k, 2] = page[i]
        out[k, 3] = parent[i]
        out[k, 4] = order[i]
        out[k, 5] = np.uint64(shape[i]) | np.uint64(lead[i]) << np.uint64(32)
        out[k, 6] = np.uint64(place[i]) | np.uint64(agent[i]) << np.uint64(32)
        small = np.uint64(kind[i]) << np.uint64(16) | np.uint64(flags[i]) << np.uint64(24)
        out[k, 7] = np.uint64(status[i]) | small


def divided(rows: Rows) -> tuple[Matrix, NDArray[np.int64]]:
    """*rows*, those of a part together and else in their order; and where each part begins and the last ends."""
    ends = np.zeros(PARTS + 1, np.int64)
    _sizes(rows["source"], ends[1:])
    np.cumsum(ends, out=ends)
    out = np.empty((len(rows["source"]), WORDS), np.uint64)
    columns: Any = (rows[name] for name in COLUMNS)
    _divide(ends[:-1].copy(), *columns, out)  # type: ignore[call-arg]
    return out, ends


@compiled
def _numbered(own: Any, numbers: Any) -> Any:
    """The different sources in *own*, which are those of rows; *numbers* gets which of them each row is of."""
    size = 1 << 12
    table = np.full(size, -1, np.int64)
    found = np.empty(size, np.uint64)
    count = 0
    for i in range(len(own)):
        source = own[i]
        place = np.int64(source * M1 >> np.uint64(20)) & (size - 1)
        while table[place] >= 0 and found[table[place]] != source:
            place = (place + 1) & (size - 1)
        if table[place] < 0:
            table[place] = count
            found[count] = source
            count += 1
            if 2 * count >= size:
                size *= 4
                table = np.full(size, -1, np.int64)
                more = np.empty(size, np.uint64)
                more[:count] = found[:count]
                found = more
                for k in range(count):
                    place = np.int64(found[k] * M1 >> np.uint64(20)) & (size - 1)
                    while table[place] >= 0:
                        place = (place + 1) & (size - 1)
                    table[place] = k
            numbers[i] = count - 1
        else:
            numbers[i] = table[place]
    return found[:count].copy()


@lean
def _bring(rows: Any, numbers: Any, places: Any, out: Any) -> None:
    for i in range(len(rows)):
        k = places[numbers[i]]
        places[numbers[i]] = k + 1
        for word in range(WORDS):
            out[k, word] = rows[i, word]


@compiled
def _by_time(rows: Any, bounds: Any) -> None:
    """Sort the rows of each source by time, where they are not; those of the same time stay as they came."""
    for s in range(len(bounds) - 1):
        start, end = bounds[s], bounds[s + 1]
        late = False
        for i in range(start + 1, end):
            if np.int64(rows[i, _TIME]) < np.int64(rows[i - 1, _TIME]):
                late = True
                break
        if late:
            times = np.empty(end - start, np.int64)
            for i in range(start, end):
                times[i - start] = np.int64(rows[i, _TIME])
            order = np.argsort(times, kind="mergesort")
            before = rows[start:end].copy()
            for i in range(len(order)):
                rows[start + i] = before[order[i]]


def arranged(some: Sequence[Matrix]) -> Matrix:
    """The rows in *some*, one behind the other, by source and time; of the same time as they came."""
    own = np.concatenate([rows[:, _SOURCE] for rows in some])
    numbers = np.empty(len(own), np.int64)
    sources = _numbered(own, numbers)
    order = np.argsort(sources)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    numbers = rank[numbers]
    bounds = np.zeros(len(order) + 1, np.int64)
    np.cumsum(np.bincount(numbers, minlength=len(order)), out=bounds[1:])
    out = np.empty((len(own), WORDS), np.uint64)
    places, begin = bounds[:-1].copy(), 0
    for rows in some:
        _bring(rows, numbers[begin : begin + len(rows)], places, out)
        begin += len(rows)
    _by_time(out, bounds)
    return out


@lean
def _runs(rows: Any, origin: int, step: int, below: int, source: Any, bins: Any, counts: Any) -> int:
    """
    How many rows of each source are in each interval of *step* from *origin* on, of those whose kind is *below*.

    The rows are arranged. Into *source*, *bins* and *counts*; gives how many there are.
    """
    found = 0
    for i in range(len(rows)):
        if np.int64(rows[i, 7] >> np.uint64(16) & np.uint64(255)) >= below:
            continue
        number = (np.int64(rows[i, _TIME]) - origin) // step
        if found and bins[found - 1] == number and source[found - 1] == rows[i, _SOURCE]:
            counts[found - 1] += 1
        else:
            source[found] = rows[i, _SOURCE]
            bins[found] = number
            counts[found] = 1
            found += 1
    return found


class SourceRuns(NamedTuple):
    """By source (rising, *runs* of each) and interval (*bins*): how many rows (*counts*)."""

    sources: NDArray[np.uint64]
    runs: NDArray[np.int64]
    bins: NDArray[Any]
    counts: NDArray[Any]


def runs(rows: Matrix, origin: int, step: int, below: int = ANY) -> SourceRuns:
    """By source and interval, in this order: how many of the arranged *rows*; of those whose kind is *below*."""
    source, bins, counts = np.empty(len(rows), np.uint64), np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    found = _runs(rows, origin, step, below, source, bins, counts)
    source, bins, counts = source[:found], bins[:found], counts[:found]
    begins = np.flatnonzero(np.append(True, source[1:] != source[:-1])[:found])
    # They are many: in half the bytes, where they fit.
    small = bool(found) and int(bins.min()) >= -_HALF and int(bins.max()) < _HALF
    return SourceRuns(
        source[begins],
        np.diff(begins, append=found),
        bins.astype(np.int32 if small else np.int64),
        counts.astype(np.int32),
    )


def joined(found: Sequence[SourceRuns]) -> SourceRuns:
    """The runs of several pieces that share no source, or go on where the one before ends; by source."""
    sources, sizes, bins, counts = (np.concatenate([one[k] for one in found]) for k in range(4))
    order = np.argsort(sources, kind="stable")
    ends = np.cumsum(sizes)[order]
    sizes = sizes[order]
    # Where each run is to come from.
    places = np.repeat(ends - np.cumsum(sizes), sizes) + np.arange(len(bins))
    return SourceRuns(sources[order], sizes, bins[places], counts[places])


@lean
def _first_pages(rows: Any, wanted: Any, taken: Any, most: int, out: Any) -> int:
    """The places of the first *most* pages and calls of each *wanted* source (rising); *taken* were there before."""
    found = 0
    w = 0
    for i in range(len(rows)):
        source = rows[i, _SOURCE]
        while w < len(wanted) and wanted[w] < source:
            w += 1
        if w == len(wanted):
            break
        if wanted[w] == source and taken[w] < most and (rows[i, 7] >> np.uint64(16) & np.uint64(255)) <= CALL:
            taken[w] += 1
            out[found] = i
            found += 1
    return found


def first_pages(rows: Matrix, wanted: NDArray[np.uint64], taken: NDArray[np.int64], most: int) -> Matrix:
    """Of the arranged *rows* the first *most* pages and calls of each *wanted* source (rising); see `_first_pages`."""
    out = np.empty(len(rows), np.int64)
    found: Matrix = rows[out[: _first_pages(rows, wanted, taken, most, out)]]
    return found

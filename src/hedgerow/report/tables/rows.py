"""
Rows: each line of a log in 64 bytes, the size of a cache line, and distinct pages of rows.

Moving a row costs little more than reading it. So rows are arrays of records, divided into parts by source and sorted
by source and time part by part.

A pair is a page and its group (its shape, or the host of the referrer) in one number: the digest of the page with the
group in its lowest bits. At most `MOST` pairs of a kind are kept at once. If there are more, pages with the lowest
digests are counted first, and all rows are read again for the higher ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.tables.jit import Kernel
from hedgerow.report.tables.line_parser import OTHER_CLIENT

ROW = np.dtype(
    [
        ("source", np.uint64),
        ("t", np.int64),  # microseconds since 1970
        ("page", np.uint64),  # the digest of the target
        ("parent", np.uint64),  # the digest of the page that led there, as if it were one of the site
        ("ord", np.uint64),  # the order key of the target
        ("shape", np.uint32),
        ("lead", np.uint32),  # the shape of the page that led there
        ("place", np.uint32),  # the host that led there
        ("agent", np.uint32),
        ("status", np.uint16),
        ("kind", np.uint8),
        ("flags", np.uint8),
        ("unused", np.uint32),
    ]
)
COLUMNS = ROW.names[:-1] if ROW.names else ()
ODD = 255
"""The kind of a row of whose line nothing is known; such rows are not kept."""

Rows = NDArray[np.void]
"""An array of `ROW`."""

PARTS = 64
ANY = 256
"""Above every kind."""

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_TO_PART, _TO_SLOT = np.uint64(64 - 6), np.uint64(20)
_ALL_BUT_LAST_BYTE = np.uint64((1 << 64) - 256)
_HALF = 1 << 31
_BLOCK = 1 << 14
_BYTES = np.dtype(f"V{ROW.itemsize}")
_MOST_LATE = 1000


def take(rows: Rows, order: NDArray[np.int64]) -> Rows:
    """Return the rows at the places *order*. Numpy copies records without fields five times as fast."""
    return rows.view(_BYTES)[order].view(ROW)


def join(some: Sequence[Rows]) -> Rows:
    """Concatenate rows."""
    if len(some) == 1:
        return some[0]
    return np.concatenate([rows.view(_BYTES) for rows in some]).view(ROW) if some else np.zeros(0, ROW)


def part_of(source: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the part of each source."""
    return (source * _FACTOR >> _TO_PART).astype(np.int64)


@Kernel
def _renumber(rows: Any, numbers: Any, network: bool) -> Any:
    """Replace the symbols in *rows* by their *numbers*. Return the first and last time. Networks are IPv4 /24."""
    first = 1 << 62
    last = -first
    for i in range(len(rows)):
        row = rows[i]
        if row.kind == ODD:
            continue
        first, last = min(first, row.t), max(last, row.t)
        if row.source >= OTHER_CLIENT:
            row.source = numbers[row.source - OTHER_CLIENT]
        elif network:
            row.source &= _ALL_BUT_LAST_BYTE
        row.shape, row.lead = numbers[row.shape], numbers[row.lead]
        row.place, row.agent = numbers[row.place], numbers[row.agent]
    return first, last


def renumber(rows: Rows, numbers: NDArray[np.uint64], *, network: bool) -> tuple[int, int]:
    """Replace the symbols in scanned *rows*. Return the first and last time."""
    first, last = _renumber.compiled(rows, numbers, network)
    return int(first), int(last)


@Kernel
def _divide(rows: Any, ends: Any, out: Any) -> None:
    """Copy *rows* to *out* by part. *ends* (zeros) gets the end of each part."""
    for i in range(len(rows)):
        if rows[i].kind != ODD:
            ends[np.int64(rows[i].source * _FACTOR >> _TO_PART)] += 1
    for part in range(PARTS - 1, -1, -1):
        ends[part] = ends[:part].sum()
    for i in range(len(rows)):
        if rows[i].kind != ODD:
            own = np.int64(rows[i].source * _FACTOR >> _TO_PART)
            out[ends[own]] = rows[i]
            ends[own] += 1


def divide(rows: Rows) -> list[Rows]:
    """Divide *rows* by part, in their order, without `ODD` ones."""
    ends, out = np.zeros(PARTS, np.int64), np.empty(len(rows), ROW)
    _divide.compiled(rows, ends, out)
    return np.split(out, ends)[:PARTS]


@Kernel
def _group(sources: Any, slots: Any, found: Any, groups: Any) -> int:
    """Put the distinct *sources* into *found*, and the index of each source into *groups*. Return their number."""
    mask = len(slots) - 1
    count = 0
    for i in range(len(sources)):
        slot: Any = np.int64(sources[i] * _FACTOR >> _TO_SLOT) & mask
        while slots[slot] and found[slots[slot] - 1] != sources[i]:
            slot = (slot + 1) & mask
        if not slots[slot]:
            found[count] = sources[i]
            count += 1
            slots[slot] = count
        groups[i] = slots[slot] - 1
    return count


@Kernel
def _bring(rows: Any, groups: Any, places: Any, out: Any) -> None:
    """Copy each row to the next place of its group in *out*."""
    for i in range(len(rows)):
        out[places[groups[i]]] = rows[i]
        places[groups[i]] += 1


@Kernel
def _late(rows: Any, bounds: Any, out: Any) -> int:
    """Put the sources (between *bounds*) whose rows are not sorted by time into *out*. Return their number."""
    count = 0
    for s in range(len(bounds) - 1):
        for i in range(bounds[s] + 1, bounds[s + 1]):
            if rows[i].t < rows[i - 1].t:
                out[count] = s
                count += 1
                break
    return count


def sort_rows(rows: Rows) -> Rows:
    """Sort *rows* by source and time; rows of the same time keep their order."""
    return take(rows, np.lexsort((rows["t"], rows["source"])))


def arranged(some: Sequence[Rows]) -> Rows:
    """Return what `sort_rows` gives for all rows in *some*, with compiled functions and without joining them first."""
    sources = np.concatenate([rows["source"] for rows in some])
    found, groups = np.empty(len(sources), np.uint64), np.empty(len(sources), np.int64)
    slots = np.zeros(2 << len(sources).bit_length(), np.int32)
    count = _group.compiled(sources, slots, found, groups)
    order = np.argsort(found[:count])
    sizes = np.bincount(groups, minlength=count)[order]
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    places = np.empty(count, np.int64)
    places[order] = bounds[:-1]
    out, begin = np.empty(len(sources), ROW), 0
    for rows in some:
        _bring.compiled(rows, groups[begin : begin + len(rows)], places, out)
        begin += len(rows)
    late = np.empty(count, np.int64)
    late = late[: _late.compiled(out, bounds, late)]
    if len(late) > _MOST_LATE:
        return sort_rows(out)
    for source in late.tolist():
        mine = out[bounds[source] : bounds[source + 1]]
        mine[:] = take(mine, np.argsort(mine["t"], kind="stable"))
    return out


def blocks(rows: Rows) -> Iterator[Rows]:
    """Yield some of *rows* at a time, so that intermediate results stay in the cache."""
    for begin in range(0, len(rows), _BLOCK):
        yield rows[begin : begin + _BLOCK]


class SourceRuns(NamedTuple):
    """The number of rows (*counts*) by source (ascending, *runs* of each) and interval (*bins*)."""

    sources: NDArray[np.uint64]
    runs: NDArray[np.int64]
    bins: NDArray[Any]
    counts: NDArray[Any]


def begins(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows of *columns* differ from the row before; the first one does."""
    found = np.ones(len(columns[0]), np.bool_)
    np.not_equal(columns[0][1:], columns[0][:-1], out=found[1:])
    for column in columns[1:]:
        found[1:] |= column[1:] != column[:-1]
    return found


def runs(rows: Rows, origin: int, step: int, below: int = ANY) -> SourceRuns:
    """
    Count the sorted *rows* whose kind is less than *below*, by source and interval, in this order.

    Intervals have *step* microseconds and start at *origin*.
    """
    found: list[tuple[NDArray[Any], ...]] = [(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for some in blocks(rows):
        source, bins = some["source"].copy(), (some["t"] - origin) // step
        if below < ANY:
            wanted = some["kind"] < below
            source, bins = source[wanted], bins[wanted]
        first = np.flatnonzero(begins(source, bins))
        found.append((source[first], bins[first], np.diff(first, append=len(bins))))
    source, bins, counts = (np.concatenate(columns) for columns in zip(*found, strict=True))
    # A run may continue in the next block.
    first = np.flatnonzero(begins(source, bins))
    source, bins, counts = source[first], bins[first], np.add.reduceat(counts, first) if len(first) else counts
    first = np.flatnonzero(begins(source))
    # There are many: use half the bytes where the numbers fit.
    small = bool(len(bins)) and int(bins.min()) >= -_HALF and int(bins.max()) < _HALF
    bins, counts = bins.astype(np.int32 if small else np.int64), counts.astype(np.int32)
    return SourceRuns(source[first], np.diff(first, append=len(source)), bins, counts)


def join_runs(found: Sequence[SourceRuns]) -> SourceRuns:
    """Join the runs of several pieces by source. Pieces share no source, or continue where the one before ends."""
    sources, sizes, bins, counts = (np.concatenate([one[k] for one in found]) for k in range(4))
    order = np.argsort(sources, kind="stable")
    ends = np.cumsum(sizes)[order]
    sizes = sizes[order]
    # The old position of each run.
    places = np.repeat(ends - np.cumsum(sizes), sizes) + np.arange(len(bins))
    return SourceRuns(sources[order], sizes, bins[places], counts[places])


def first_pages(rows: Rows, wanted: NDArray[np.uint64], taken: NDArray[np.int64], most: int, below: int) -> Rows:
    """
    Return the first *most* rows of each *wanted* source (ascending) whose kind is less than *below*.

    *rows* are sorted. *taken* counts the rows of each source that earlier calls returned, and is updated.
    """
    places = np.flatnonzero(rows["kind"] < below)
    source = rows["source"][places]
    first = np.flatnonzero(begins(source))
    sizes = np.diff(first, append=len(source))
    which = np.searchsorted(wanted, source[first])
    mine = np.flatnonzero(which < len(wanted))
    mine = mine[wanted[which[mine]] == source[first[mine]]]
    first, which = first[mine], which[mine]
    sizes = np.minimum(sizes[mine], most - taken[which])
    taken[which] += sizes
    return take(rows, places[np.repeat(first - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())])


Pairs = NDArray[np.uint64]
Select = Callable[[Rows], Sequence[tuple[NDArray[np.uint64], NDArray[Any]]]]
"""Digests and groups of some rows, for one kind of pairs or several."""

MOST = 1 << 21
GROUPS = 1 << 18
"""More than there may be texts of one kind."""

_GROUP = np.uint64(GROUPS - 1)


def group_of(pairs: Pairs) -> NDArray[np.int64]:
    return (pairs & _GROUP).astype(np.int64)


def page_of(pairs: Pairs) -> NDArray[np.uint64]:
    """Return the digests of pages, as far as pairs contain them."""
    return pairs & ~_GROUP


def by_group(pairs: Pairs) -> NDArray[np.int64]:
    """Count the pages of each group."""
    return np.bincount(group_of(pairs), minlength=GROUPS)


def different(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the distinct *values*, sorted; numpy's `unique` takes far longer."""
    ordered = np.sort(values)
    return ordered[begins(ordered)]


class DistinctPairs:
    """The distinct pairs that *select* finds in rows, of pages with digests from *low* on."""

    def __init__(self, select: Select, low: int = 0) -> None:
        self._select = select
        self._low = low
        self.high: int | None = None
        """Where the digests end that are counted; None where all are."""
        self._found: list[list[Pairs]] = [[np.zeros(0, np.uint64)] for _ in select(np.zeros(0, ROW))]
        self._size = 0

    def add(self, rows: Rows) -> None:
        for found, (digest, group) in zip(self._found, self._select(rows), strict=True):
            pairs = digest & ~_GROUP | group.astype(np.uint64)
            if self._low:
                pairs = pairs[pairs >= np.uint64(self._low)]
            if self.high is not None:
                pairs = pairs[pairs < np.uint64(self.high)]
            # Most repetitions follow each other.
            found.append(different(pairs[begins(pairs)]))
            self._size += len(found[-1])
        if self._size > 2 * MOST:
            self.pairs()

    def pairs(self, high: int | None = None) -> list[Pairs]:
        """Return the pairs of each kind, sorted, of pages below the digest *high* if given."""
        kinds = [different(np.concatenate(found)) for found in self._found]
        longest = max(kinds, key=len)
        if len(longest) > MOST:
            self.high = max(int(page_of(longest)[MOST // 2]), self._low + GROUPS)
        ends = [end for end in (self.high, high) if end is not None]
        if ends:
            kinds = [pairs[: np.searchsorted(pairs, np.uint64(min(ends)))] for pairs in kinds]
        self._found, self._size = [[pairs] for pairs in kinds], sum(map(len, kinds))
        return kinds


def in_ranges(count: Callable[[int], Sequence[DistinctPairs]]) -> Iterator[list[Pairs]]:
    """
    Yield the distinct pairs of each kind, one range of digests after the other.

    *count* counts the pairs from a digest on, in several shares of the rows.
    """
    low: int | None = 0
    while low is not None:
        shares = count(low)
        for share in shares:
            share.pairs()
        low = min((share.high for share in shares if share.high is not None), default=None)
        kinds = zip(*(share.pairs(low) for share in shares), strict=True)
        yield [different(np.concatenate(pairs)) for pairs in kinds]

"""
Rows: what is kept of each line of a log, in 64 bytes, as many as a processor fetches at once.

To move a row costs little more than to look at it. So rows are arrays of records, divided into parts by their source
and brought into the order of source and time part by part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """The rows at the places *order*; numpy copies records without fields five times as fast."""
    return rows.view(_BYTES)[order].view(ROW)


def join(some: Sequence[Rows]) -> Rows:
    """The rows in *some*, one behind the other."""
    if len(some) == 1:
        return some[0]
    return np.concatenate([rows.view(_BYTES) for rows in some]).view(ROW) if some else np.zeros(0, ROW)


def part_of(source: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The part in which the rows of each source are."""
    return (source * _FACTOR >> _TO_PART).astype(np.int64)


@Kernel
def _renumber(rows: Any, numbers: Any, network: bool) -> Any:
    """Replace the symbols in *rows* by their *numbers*; the first and the last time. Networks are IPv4 /24."""
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
    """Replace the symbols in scanned *rows*; the first and the last time, where there are any."""
    first, last = _renumber.compiled(rows, numbers, network)
    return int(first), int(last)


@Kernel
def _divide(rows: Any, ends: Any, out: Any) -> None:
    """Bring *rows* to *out* by part; *ends* (zeros) gets where each part ends."""
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
    """*rows* by part, in each as they came, without those that are `ODD`."""
    ends, out = np.zeros(PARTS, np.int64), np.empty(len(rows), ROW)
    _divide.compiled(rows, ends, out)
    return np.split(out, ends)[:PARTS]


@Kernel
def _group(sources: Any, slots: Any, found: Any, groups: Any) -> int:
    """Put the different *sources* into *found* and which of them each is into *groups*; gives how many there are."""
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
    """Put each row where the next one of its group goes in *out*."""
    for i in range(len(rows)):
        out[places[groups[i]]] = rows[i]
        places[groups[i]] += 1


@Kernel
def _late(rows: Any, bounds: Any, out: Any) -> int:
    """Put the sources (between *bounds*) whose rows are not in the order of time into *out*; gives how many."""
    count = 0
    for s in range(len(bounds) - 1):
        for i in range(bounds[s] + 1, bounds[s + 1]):
            if rows[i].t < rows[i - 1].t:
                out[count] = s
                count += 1
                break
    return count


def sort_rows(rows: Rows) -> Rows:
    """*rows* by source and time; of the same time as they came."""
    return take(rows, np.lexsort((rows["t"], rows["source"])))


def arranged(some: Sequence[Rows]) -> Rows:
    """What `sort_rows` gives for all rows in *some*, by compiled functions, without joining them first."""
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
    """Some of *rows* at a time, so that what is computed of them stays near the processor."""
    for begin in range(0, len(rows), _BLOCK):
        yield rows[begin : begin + _BLOCK]


class SourceRuns(NamedTuple):
    """By source (rising, *runs* of each) and interval (*bins*): how many rows (*counts*)."""

    sources: NDArray[np.uint64]
    runs: NDArray[np.int64]
    bins: NDArray[Any]
    counts: NDArray[Any]


def runs(rows: Rows, origin: int, step: int, below: int = ANY) -> SourceRuns:
    """
    By source and interval, in this order: how many of the arranged *rows*; of those whose kind is *below*.

    Intervals are of *step* microseconds, from *origin* on.
    """
    found: list[tuple[NDArray[Any], ...]] = []
    for some in blocks(rows):
        source, bins = some["source"], (some["t"] - origin) // step
        if below < ANY:
            wanted = some["kind"] < below
            source, bins = source[wanted], bins[wanted]
        begins = np.flatnonzero(np.append(True, (source[1:] != source[:-1]) | (bins[1:] != bins[:-1]))[: len(bins)])
        found.append((source[begins], bins[begins], np.diff(begins, append=len(bins))))
    source, bins, counts = map(np.concatenate, zip(*found, strict=True)) if found else (np.zeros(0, np.int64),) * 3
    # A run may go on in the next block.
    begins = np.flatnonzero(np.append(True, (source[1:] != source[:-1]) | (bins[1:] != bins[:-1]))[: len(bins)])
    source, bins = source[begins], bins[begins]
    counts = np.add.reduceat(counts, begins) if len(begins) else counts
    first = np.flatnonzero(np.append(True, source[1:] != source[:-1])[: len(source)])
    # They are many: in half the bytes, where they fit.
    small = bool(len(bins)) and int(bins.min()) >= -_HALF and int(bins.max()) < _HALF
    bins, counts = bins.astype(np.int32 if small else np.int64), counts.astype(np.int32)
    return SourceRuns(source[first].astype(np.uint64), np.diff(first, append=len(source)), bins, counts)


def join_runs(found: Sequence[SourceRuns]) -> SourceRuns:
    """The runs of several pieces that share no source, or go on where the one before ends; by source."""
    sources, sizes, bins, counts = (np.concatenate([one[k] for one in found]) for k in range(4))
    order = np.argsort(sources, kind="stable")
    ends = np.cumsum(sizes)[order]
    sizes = sizes[order]
    # Where each run is to come from.
    places = np.repeat(ends - np.cumsum(sizes), sizes) + np.arange(len(bins))
    return SourceRuns(sources[order], sizes, bins[places], counts[places])


def first_pages(rows: Rows, wanted: NDArray[np.uint64], taken: NDArray[np.int64], most: int, below: int) -> Rows:
    """
    Of the arranged *rows* the first *most* whose kind is *below*, of each *wanted* source (rising).

    *taken* says, and is told, how many of each there are already.
    """
    source = np.ascontiguousarray(rows["source"])
    starts, ends = np.searchsorted(source, wanted), np.searchsorted(source, wanted, side="right")
    found = []
    for k in np.flatnonzero((ends > starts) & (taken < most)).tolist():
        mine = rows[starts[k] : ends[k]]
        mine = take(mine, np.flatnonzero(mine["kind"] < below)[: most - taken[k]])
        taken[k] += len(mine)
        found.append(mine)
    return join(found)

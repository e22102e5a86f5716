"""
Series: how many requests a source sent in each interval, from a common origin (PubCrawl, section 3.2).

The interval, the window and the lags follow the log's span. With two days or more it is the paper's: half an hour, 96
lags, and windows of five days, of which a source is judged by the one in which it sent most. With less, the interval
shrinks so that there is something to see, nothing can be said of days, and the plan says so.

Most sources of a log are silent most of the time, so the counts are kept as (source, interval, count) and become a
matrix one block of sources at a time: memory does not grow with sources times intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DAY = 86_400.0
HALF_HOUR = 1800.0
WINDOW = 240
LAGS = 96
SIX_HOURS = 13
"""Six hours of half-hour points, made odd as a local regression wants it."""

LEAST_POINTS = 32
BLOCK = 256
"""Sources that become a matrix at a time: what is made of so many stays near the processor."""

_INTERVALS = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1200.0)


class SeriesPlan(msgspec.Struct, frozen=True):
    """
    How a log becomes series.

    Intervals of *interval* seconds from *origin* on, *bins* of them; windows of *points* intervals that begin at
    *starts*; *lags* of auto-correlation; a season of *period* points. *day* is a day in points, or None where the log
    is shorter than two. *points* is 0 where the log is too short for any shape. *said* tells all that in a sentence.
    """

    origin: float
    interval: float
    bins: int
    points: int
    starts: tuple[int, ...]
    lags: int
    period: int
    day: int | None
    said: str


def plan_of(first: float, last: float) -> SeriesPlan:
    """The plan for a log whose first request is at *first* and whose last one is at *last*, in seconds."""
    span = max(last - first, 0.0)
    if span >= 2 * DAY - HALF_HOUR:
        bins = int(span // HALF_HOUR) + 1
        points = min(bins, WINDOW)
        # The last window ends with the log, and may overlap the one before.
        starts = sorted({*range(0, bins - points + 1, points), bins - points})
        said = f"Series of half-hour intervals over {span / DAY:.1f} days, windows of {points / 48:.1f} days."
        return SeriesPlan(first, HALF_HOUR, bins, points, tuple(starts), min(LAGS, points - 1), 48, 48, said)
    fitting = [interval for interval in _INTERVALS if span / interval >= LAGS]
    interval = fitting[-1] if fitting else _INTERVALS[0]
    bins = int(span // interval) + 1
    if bins < LEAST_POINTS:
        said = f"The log spans {span:.0f} seconds: too little for the shape of traffic."
        return SeriesPlan(first, interval, bins, 0, (), 0, 0, None, said)
    lags, period = min(LAGS, bins - 1), min(48, bins // 2)
    said = (
        f"The log spans less than two days ({span / 3600:.1f} hours): intervals of {interval:g} seconds and {lags} lags"
        " instead of half an hour and 96, and nothing can be said of daily rhythms."
    )
    return SeriesPlan(first, interval, bins, bins, (0,), lags, period, None, said)


class Counts(NamedTuple):
    """
    Requests by source and interval: source *rows[i]* (0 to *size* - 1) sent *values[i]* in interval *bins[i]*.

    Sorted by row and bin, no pair twice, no value 0. That is what "group by source, interval" gives.
    """

    rows: Ints
    bins: Ints
    values: Floats
    size: int

    @staticmethod
    def of_times(sources: ArrayLike, times: ArrayLike, plan: SeriesPlan, size: int) -> Counts:
        """Of single requests: each one's source, as a number below *size*, and its time."""
        rows = np.asarray(sources, dtype=np.int64)
        at = np.floor((np.asarray(times, dtype=np.float64) - plan.origin) / plan.interval).astype(np.int64)
        keys = np.sort(rows * plan.bins + np.clip(at, 0, plan.bins - 1))
        begins = changes(keys)
        values = np.diff(np.r_[begins, len(keys)])
        return Counts(keys[begins] // plan.bins, keys[begins] % plan.bins, values.astype(np.float64), size)

    @staticmethod
    def of_matrix(matrix: ArrayLike) -> Counts:
        """Of a matrix with one row a source and one column an interval."""
        dense = np.asarray(matrix, dtype=np.float64)
        rows, bins = np.nonzero(dense)
        return Counts(rows.astype(np.int64), bins.astype(np.int64), dense[rows, bins], len(dense))

    @property
    def totals(self) -> Floats:
        """The requests of each source."""
        return np.bincount(self.rows, self.values, self.size).astype(np.float64)

    def busiest(self, plan: SeriesPlan) -> Ints:
        """Where, for each source, the window begins in which it sent most; of equals the first. 0 for the silent."""
        starts = np.zeros(self.size, dtype=np.int64)
        if len(plan.starts) <= 1 or not len(self.rows):
            return starts
        # A log may have very many windows, and a source is in few of them: so no table of sources by windows is made.
        window = self.bins // plan.points
        begins = changes(self.rows, window)
        rows, windows = self.rows[begins], window[begins]
        sums = np.add.reduceat(self.values, begins)
        # What comes after the last whole window is in the one that ends with the log, and counts there.
        sums[windows == plan.bins // plan.points] = 0.0
        first = changes(rows)
        most = np.zeros(self.size)
        most[rows[first]] = np.maximum.reduceat(sums, first)
        # The first of equals comes last, and stays.
        best = np.flatnonzero(sums == most[rows])[::-1]
        starts[rows[best]] = windows[best] * plan.points
        last = self.bins >= plan.bins - plan.points
        more = np.bincount(self.rows[last], self.values[last], self.size) > most
        starts[more] = plan.bins - plan.points
        return starts

    def blocks(self, sources: Ints, starts: Ints, points: int, *, block: int = BLOCK) -> Iterator[tuple[slice, Floats]]:
        """
        The counts of *sources* (ascending) as matrices of at most *block* rows, with the part of *sources* each is of.

        *starts[i]* is the first interval of the *points* that are wanted of *sources[i]*.
        """
        begins = np.searchsorted(self.rows, sources, side="left")
        ends = np.searchsorted(self.rows, sources, side="right")
        for begin in range(0, len(sources), block):
            part = slice(begin, min(begin + block, len(sources)))
            matrix = np.zeros((part.stop - part.start, points))
            lengths = ends[part] - begins[part]
            row = np.repeat(np.arange(part.stop - part.start), lengths)
            first = np.cumsum(lengths) - lengths
            index = np.arange(int(lengths.sum())) - np.repeat(first - begins[part], lengths)
            column = self.bins[index] - np.repeat(starts[part], lengths)
            inside = (column >= 0) & (column < points)
            matrix[row[inside], column[inside]] = self.values[index[inside]]
            yield part, matrix


def changes(*columns: Ints) -> Ints:
    """Where one of the *columns* is not what it was before; the first place is such a one."""
    found = np.ones(len(columns[0]), dtype=np.bool_)
    found[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(found)


def normalised(counts: Floats) -> Floats:
    """Equation 1: each row as shares of its sum; a row of zeros stays one."""
    total = counts.sum(axis=1, keepdims=True)
    return counts / np.where(total > 0, total, 1.0)

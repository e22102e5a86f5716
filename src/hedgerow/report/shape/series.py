"""
Series: requests of a source in each interval, from a common origin (PubCrawl, section 3.2), their daily rhythm, and
their trend and season.

Interval, window and lags follow the span of the log. With two days or more they are the paper's: half an hour, 96 lags,
and windows of five days; a source is judged by its busiest window. With less, the interval shrinks, and nothing can be
said about days.

Most sources are silent most of the time. So counts are stored as (source, interval, count) and become a matrix one
block of sources at a time: memory does not grow with sources times intervals.

Trend and season are found by STL (Cleveland et al. 1990). Without its robust loop STL is linear: for a given length
each step (local regression over the days of one hour, moving averages, local regression over neighbours) is a matrix,
and so is their composition. The two matrices, for trend and season, are built once for each length and kept; a thousand
series then cost milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
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
_INNER = 5
_QUANTILE = 0.95
_KEPT = 8
_ROWS = 128
_LEAST_DISTANCE = 0.001
_MOST_DISTANCE = 0.999


class SeriesPlan(msgspec.Struct, frozen=True):
    """
    How a log becomes series.

    *bins* intervals of *interval* seconds from *origin* on; windows of *points* intervals that begin at *starts*;
    *lags* of auto-correlation; a season of *period* points. *day* is a day in points, None for a log of less than two
    days. *points* is 0 if the log is too short. *description* is a sentence about all that.
    """

    origin: float
    interval: float
    bins: int
    points: int
    starts: tuple[int, ...]
    lags: int
    period: int
    day: int | None
    description: str


def plan_of(first: float, last: float) -> SeriesPlan:
    """Return the plan for a log from *first* to *last*, in seconds."""
    span = max(last - first, 0.0)
    if span >= 2 * DAY - HALF_HOUR:
        bins = int(span // HALF_HOUR) + 1
        points = min(bins, WINDOW)
        # The last window ends with the log, and may overlap the one before.
        starts = sorted({*range(0, bins - points + 1, points), bins - points})
        description = f"Series of half-hour intervals over {span / DAY:.1f} days, windows of {points / 48:.1f} days."
        return SeriesPlan(first, HALF_HOUR, bins, points, tuple(starts), min(LAGS, points - 1), 48, 48, description)
    fitting = [interval for interval in _INTERVALS if span / interval >= LAGS]
    interval = fitting[-1] if fitting else _INTERVALS[0]
    bins = int(span // interval) + 1
    if bins < LEAST_POINTS:
        description = f"The log spans {span:.0f} seconds: too little for the shape of traffic."
        return SeriesPlan(first, interval, bins, 0, (), 0, 0, None, description)
    lags, period = min(LAGS, bins - 1), min(48, bins // 2)
    description = (
        f"The log spans less than two days ({span / 3600:.1f} hours): intervals of {interval:g} seconds and {lags} lags"
        " instead of half an hour and 96, and nothing can be said of daily rhythms."
    )
    return SeriesPlan(first, interval, bins, bins, (0,), lags, period, None, description)


class Counts(NamedTuple):
    """
    Requests by source and interval: source *rows[i]* (0 to *size* - 1) sent *values[i]* in interval *bins[i]*.

    Sorted by row and bin, without duplicates and zeros, as "GROUP BY source, interval" gives them.
    """

    rows: Ints
    bins: Ints
    values: Floats
    size: int

    @staticmethod
    def of_times(sources: ArrayLike, times: ArrayLike, plan: SeriesPlan, size: int) -> Counts:
        """Count single requests, given by source (a number below *size*) and time."""
        rows = np.asarray(sources, dtype=np.int64)
        at = np.floor((np.asarray(times, dtype=np.float64) - plan.origin) / plan.interval).astype(np.int64)
        keys = np.sort(rows * plan.bins + np.clip(at, 0, plan.bins - 1))
        begins = changes(keys)
        values = np.diff(np.r_[begins, len(keys)])
        return Counts(keys[begins] // plan.bins, keys[begins] % plan.bins, values.astype(np.float64), size)

    @staticmethod
    def of_matrix(matrix: ArrayLike) -> Counts:
        """Convert a matrix with a row for each source and a column for each interval."""
        dense = np.asarray(matrix, dtype=np.float64)
        rows, bins = np.nonzero(dense)
        return Counts(rows.astype(np.int64), bins.astype(np.int64), dense[rows, bins], len(dense))

    @property
    def totals(self) -> Floats:
        return np.bincount(self.rows, self.values, self.size).astype(np.float64)

    def busiest(self, plan: SeriesPlan) -> Ints:
        """Return the start of each source's busiest window, the first of equals; 0 for silent sources."""
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
        Yield the counts of *sources* (ascending) as matrices of at most *block* rows, with the slice of *sources*.

        *starts[i]* is the first of *points* intervals of *sources[i]*.
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
    """Return where one of the *columns* differs from the row before, including the first row."""
    found = np.ones(len(columns[0]), dtype=np.bool_)
    found[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(found)


def normalised(counts: Floats) -> Floats:
    """Equation 1: each row as shares of its sum. A row of zeros stays as it is."""
    total = counts.sum(axis=1, keepdims=True)
    return counts / np.where(total > 0, total, 1.0)


NIGHT = 0.33
"""
How deep a day is at the least where people are: half way between the shallowest day of a crowd, one from all over the
world, and the deepest of a crawl, on one half of the series that are known (docs/evaluation/logs.md).
"""

_LEAST_DAYS = 3
_LEAST_A_DAY = 200.0
_WIDTH = 6
_DAY = 48
# A day around an interval: half of the first and half of the last half-hour, so that it has no more of one side.
_AROUND = np.concatenate(([0.5], np.ones(_DAY - 1), [0.5]))


class DailyRhythm(NamedTuple):
    """*depth*: by how much the quietest three hours of a typical day are below the busiest three, 0 to 1."""

    depth: float
    days: int
    crawl: bool | None
    text: str


def rhythm(counts: ArrayLike, night: float = NIGHT) -> DailyRhythm:
    """
    Return the rhythm of requests in half-hour intervals. It is a crawl if the day is no deeper than *night*.

    Nothing is known without three days of at least 200 requests in the 24 hours around each interval: fewer make quiet
    hours by chance. The first and last twelve hours have no such day around them.
    """
    series = np.asarray(counts, dtype=np.float64)
    around = np.convolve(series, _AROUND, "valid") if len(series) > _DAY else np.zeros(0)
    enough = around >= _LEAST_A_DAY
    days = int(enough.sum()) // _DAY
    if days < _LEAST_DAYS:
        return DailyRhythm(0.0, days, None, "Too few days or requests to tell a rhythm.")
    half = _DAY // 2
    measured = series[half : len(series) - half][enough] / around[enough] * _DAY
    hour = (np.flatnonzero(enough) + half) % _DAY
    typical = np.bincount(hour, measured, _DAY) / np.maximum(np.bincount(hour, minlength=_DAY), 1)
    smooth = np.convolve(np.concatenate((typical, typical[: _WIDTH - 1])), np.ones(_WIDTH) / _WIDTH, "valid")
    depth = float(1.0 - smooth.min() / smooth.max())
    crawl = depth <= night
    text = f"Over {days} days the quietest three hours have {1 - depth:.0%} of the busiest three's requests: " + (
        "people sleep, this does not." if crawl else "it sleeps and wakes as people do."
    )
    return DailyRhythm(depth, days, crawl, text.replace("%", " %"))


class Operators(NamedTuple):
    """The matrices whose product with a series is its trend and its season."""

    trend: Floats
    season: Floats


@lru_cache(maxsize=_KEPT)
def operators(points: int, period: int, season_window: int, trend_window: int) -> Operators:
    """
    STL's matrices for series of *points*, whose season lasts *period* points.

    The windows are odd numbers of points of the local regression (of seasons, for the season's). The low-pass window
    is the smallest odd number above *period*, as usual. The inner loop runs five times from a trend of 0.
    """
    if points < 2 * period:
        raise ValueError(f"{points} points are less than two seasons of {period}")
    low_pass = period + 1 + period % 2
    cycle = _cycle_matrix(points, period, season_window)
    averages = _moving_average(points + 2, 3) @ _moving_average(points + period + 1, period)
    averages = averages @ _moving_average(points + 2 * period, period)
    low = local_regression(points, low_pass) @ averages
    # The season is what the days of each hour have in common, less what that has of a trend.
    smooth_season = (cycle[period : period + points] - low @ cycle).copy()
    smooth_trend = local_regression(points, trend_window)
    identity = np.eye(points)
    trend = np.zeros((points, points))
    season = np.zeros((points, points))
    for _ in range(_INNER):
        season = smooth_season @ (identity - trend)
        trend = smooth_trend @ (identity - season)
    for matrix in (trend, season):
        matrix.setflags(write=False)
    return Operators(trend, season)


def local_regression(points: int, window: int, *, beyond: int = 0) -> Floats:
    """
    The matrix that smooths *points* evenly spaced values: a line through the *window* nearest, weighted by distance.

    With *beyond* the line is also read that many points before the first and after the last.
    """
    at = np.arange(1, points + 1, dtype=np.float64)
    # One row for each point that is read.
    x = np.arange(1 - beyond, points + beyond + 1, dtype=np.float64)[:, None]
    inside = min(window, points)
    left = np.clip(x - (window + 1) // 2 + 1, 1, points - inside + 1)
    right = left + inside - 1
    reach = np.maximum(x - left, right - x) + max(window - points, 0) // 2
    distance = np.abs(at - x)
    weights = (1.0 - (distance / np.maximum(reach, 1.0)) ** 3) ** 3
    weights[distance <= _LEAST_DISTANCE * reach] = 1.0
    weights[(distance > _MOST_DISTANCE * reach) | (at < left) | (at > right)] = 0.0
    total = weights.sum(axis=1, keepdims=True)
    # Far beyond the ends no neighbour counts: the nearest value stands.
    alone = total[:, 0] <= 0
    weights[alone, np.argmin(distance[alone], axis=1)] = total[alone] = 1.0
    weights /= total
    middle = np.vecdot(weights, at)[:, None]
    spread = np.vecdot(weights, (at - middle) ** 2)[:, None]
    sloping = (np.sqrt(spread) > _LEAST_DISTANCE * (points - 1)) & (reach > 0)
    slope = np.where(sloping, (x - middle) / np.where(sloping, spread, 1.0), 0.0)
    return np.asarray(weights * (1.0 + slope * (at - middle)))


def _cycle_matrix(points: int, period: int, window: int) -> Floats:
    """Smooths the values of the same place in each season, one season before the first and after the last included."""
    matrix = np.zeros((points + 2 * period, points))
    places = [np.arange(place, points, period) for place in range(period)]
    smooth = {count: local_regression(count, window, beyond=1) for count in {len(mine) for mine in places}}
    for place, mine in enumerate(places):
        found = smooth[len(mine)]
        matrix[place : place + period * len(found) : period, place::period] = found
    return matrix


def _moving_average(points: int, length: int) -> Floats:
    rows = points - length + 1
    matrix = np.zeros((rows, points))
    for row in range(rows):
        matrix[row, row : row + length] = 1.0 / length
    return matrix


def decompose(series: Floats, found: Operators) -> tuple[Floats, Floats]:
    """Trend and season of each row of *series*, the same to the last bit whatever rows are beside it."""
    trend, season = np.empty_like(series), np.empty_like(series)
    block = np.zeros((_ROWS, series.shape[1]))
    for begin in range(0, len(series), _ROWS):
        # Products of another size may be added up in another order.
        part = series[begin : begin + _ROWS]
        block[: len(part)] = part
        for whole, matrix in ((trend, found.trend), (season, found.season)):
            whole[begin : begin + len(part)] = (block @ matrix.T)[: len(part)]
    return trend, season


def trend_dispersion(trend: Floats, series: Floats) -> Floats:
    """
    The index of dispersion of the differenced trend: its variance over the mean of the counts.

    The paper writes IDC[dT], variance over mean; but the mean of a differenced series is only its last value less its
    first, which is about 0 and of either sign. So the mean is that of the series, as in the index of dispersion of
    counts. It does not depend on how many requests a source sends.
    """
    mean = np.maximum(series.mean(axis=1), np.finfo(np.float64).tiny)
    return np.asarray(np.diff(trend, axis=1).var(axis=1) / mean)


def season_over_trend(season: Floats, trend: Floats) -> Floats:
    """Equation 4: the season's amplitude over the trend's, of which the highest twentieth is left out."""
    amplitude = season.max(axis=1) - season.min(axis=1)
    # Where the trend is 0 or below nearly always, the ratio has no meaning but "very large": it is held at a bound.
    return np.asarray(np.minimum(amplitude / np.maximum(_quantile(trend, _QUANTILE), 1e-9), 1e3))


def _quantile(rows: Floats, share: float) -> Floats:
    """That of each row, between two of its values; to sort them all is quicker than numpy's way to find these two."""
    below, between = divmod(share * (rows.shape[1] - 1), 1.0)
    first, second = np.sort(rows, axis=1)[:, int(below) : int(below) + 2].T
    return np.asarray(first + (second - first) * between)

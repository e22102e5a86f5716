"""
Features: the eight numbers of a source's traffic (PubCrawl, table 1), and nine of our own.

The eight come from one window, the source's busiest. They suit sources with a thousand requests a day; most sources
send a few dozen, whose auto-correlation is mostly chance. So six more describe when the requests of the whole log come:
a person comes for a while and leaves, a crawler returns at all hours. Three describe what is shorter than any interval:
a browser loads a page with all its parts within a second, and then the reader reads; a crawler spaces its requests.
Each is a share that does not depend on the number of requests or the length of the log.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.report.shape.autocorrelation import Levels, autocorrelation, describe
from hedgerow.report.shape.series import (
    DAY,
    SIX_HOURS,
    Counts,
    SeriesPlan,
    changes,
    decompose,
    normalised,
    operators,
    season_over_trend,
    trend_dispersion,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EIGHT = ("r1", "r2", "decay", "alternation", "spikes", "daily", "trend_dispersion", "season_over_trend")
FURTHER = ("spread", "visits", "days", "hours", "peak", "silence")
FINE = ("seconds", "tens", "minutes")
NAMES = EIGHT + FURTHER + FINE

LEAST_REQUESTS = 20
"""Fewer requests have no shape."""

_HOURS = 24


class Fine(NamedTuple):
    """In how many distinct seconds, tens of seconds and minutes each source sent something."""

    seconds: Floats
    tens: Floats
    minutes: Floats

    @staticmethod
    def of_times(sources: ArrayLike, times: ArrayLike, size: int) -> Fine:
        rows = np.asarray(sources, dtype=np.int64)
        at = np.array(times, dtype=np.float64)
        at -= np.floor(at.min()) if len(at) else 0.0
        found = [_distinct(rows, np.floor(at / scale).astype(np.int64), size) for scale in (1, 10, 60)]
        return Fine(*(part.astype(np.float64) for part in found))


class Features(NamedTuple):
    """
    One row for each of *sources* (numbers of the log's sources, ascending), in the order of NAMES.

    The columns of FINE are nan if seconds were not counted. *starts* is the beginning of each window, *requests* the
    number in the whole log. *comparable*: the log has two days or more, so its features mean what they meant in
    training.
    """

    sources: Ints
    starts: Ints
    requests: Floats
    rows: Floats
    comparable: bool


def features(
    counts: Counts,
    plan: SeriesPlan,
    fine: Fine | None = None,
    *,
    levels: Levels | None = None,
    least: int = LEAST_REQUESTS,
) -> Features:
    """Return the features of every source with at least *least* requests; of none if the log is too short."""
    totals = counts.totals
    sources = np.nonzero(totals >= least)[0] if plan.points else np.zeros(0, dtype=np.int64)
    starts = counts.busiest(plan)[sources]
    rows = np.zeros((len(sources), len(NAMES)))
    for part, block in counts.blocks(sources, starts, plan.points):
        rows[part, : len(EIGHT)] = eight(normalised(block), plan, levels or Levels())
    if len(sources):
        rows[:, len(EIGHT) : -len(FINE)] = further(counts, plan)[sources]
        rows[:, -len(FINE) :] = np.nan if fine is None else shares(fine, totals)[sources]
    return Features(sources, starts, totals[sources], rows, plan.day is not None)


def eight(series: Floats, plan: SeriesPlan, levels: Levels) -> Floats:
    """Return table 1 for each row of *series*, which are shares of the row's requests."""
    coefficients = autocorrelation(series, plan.lags)
    shape = describe(coefficients, plan.points, levels, day=plan.day)
    trend, season = decompose(series, operators(plan.points, plan.period, SIX_HOURS, SIX_HOURS))
    return np.column_stack(
        (
            coefficients[:, 0],
            coefficients[:, 1],
            shape.decay,
            shape.alternation,
            shape.spikes,
            shape.daily,
            trend_dispersion(trend, series),
            season_over_trend(season, trend),
        )
    )


def further(counts: Counts, plan: SeriesPlan) -> Floats:
    """
    Return how the requests of every source are spread over the log, in the order of FURTHER.

    *spread*: intervals with a request, of the possible ones. *visits*: runs of such intervals, likewise. *days*,
    *hours* (of the day): likewise. *peak*: the share of requests in the fullest interval. *silence*: the longest time
    without a request, including the ends of the log, as a share of the log.
    """
    rows, bins, size = counts.rows, counts.bins, counts.size
    totals = np.maximum(counts.totals, 1.0)
    active = np.bincount(rows, minlength=size)
    # Of intervals that follow each other the one is the other's next: what they are less their place is the same.
    visits = np.bincount(rows[changes(rows, bins - np.arange(len(bins)))], minlength=size)
    per_day = max(round(DAY / plan.interval), 1)
    in_day = max(per_day // _HOURS, 1)
    all_days = -(-plan.bins // per_day)
    all_hours = min(-(-plan.bins // in_day), _HOURS)
    days = np.bincount(rows[changes(rows, bins // per_day)], minlength=size)
    first = changes(rows)
    hours = np.bitwise_count(_of_each(np.bitwise_or, 1 << bins // in_day % _HOURS, rows, first, size))
    peak = _of_each(np.maximum, counts.values, rows, first, size)
    return np.column_stack(
        (
            active / np.minimum(totals, plan.bins),
            visits / np.minimum(totals, (plan.bins + 1) // 2),
            days / np.minimum(totals, all_days),
            hours / np.minimum(totals, all_hours),
            peak / totals,
            _silence(rows, bins, first, size, plan.bins),
        )
    )


def shares(fine: Fine, totals: Floats) -> Floats:
    """Return seconds per request, tens of seconds per second, minutes per ten seconds, in the order of FINE."""
    return np.column_stack(
        (
            fine.seconds / np.maximum(totals, 1.0),
            fine.tens / np.maximum(fine.seconds, 1.0),
            fine.minutes / np.maximum(fine.tens, 1.0),
        )
    )


def _distinct(rows: Ints, values: Ints, size: int) -> Ints:
    """Count the distinct values of each row."""
    width = int(values.max(initial=0)) + 1
    keys = np.sort(rows * width + values)
    return np.bincount(keys[changes(keys)] // width, minlength=size)


def _of_each(joined: np.ufunc, values: NDArray[Any], rows: Ints, first: Ints, size: int) -> NDArray[Any]:
    """Reduce the *values* of each row to one, 0 for none. *first* is where each of the *rows* begins."""
    found = np.zeros(size, dtype=values.dtype)
    if len(first):
        found[rows[first]] = joined.reduceat(values, first)
    return found


def _silence(rows: Ints, bins: Ints, first: Ints, size: int, all_bins: int) -> Floats:
    gaps = np.diff(bins, prepend=0) - 1
    gaps[first] = bins[first]
    longest = _of_each(np.maximum, gaps, rows, first, size)
    last = np.append(first[1:], len(rows))[: len(first)] - 1
    longest[rows[last]] = np.maximum(longest[rows[last]], all_bins - 1 - bins[last])
    return np.asarray(longest / all_bins)

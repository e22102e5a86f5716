"""
Decomposition of series into trend, season and rest, by STL (Cleveland et al. 1990), as one matrix product.

Without its robust loop STL is linear: for a given length each step (local regression over the days of one hour, moving
averages, local regression over neighbours) is a matrix, and so is their composition. The two matrices, for trend and
season, are built once for each length and kept; a thousand series then cost milliseconds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_INNER = 5
_QUANTILE = 0.95
_KEPT = 8
_ROWS = 128
_LEAST_DISTANCE = 0.001
_MOST_DISTANCE = 0.999


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

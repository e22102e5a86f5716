"""
Auto-correlation: how a series resembles itself some intervals later (PubCrawl, section 3.3.1 and appendix A).

The coefficients of many series at once, by one batched Fourier transform; the standard errors of the moving-average
model (Bartlett); four runs over the lags; and from these, by the paper's tables 10 to 12, how fast the coefficients
decay, how their sign alternates, and where they have local spikes. What the tables call low, average and high is in
`Levels`, learned in training.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

DECAYS = ("none", "cut-off", "linear", "exponential")
ALTERNATIONS = ("none", "single", "oscillation", "erratic")

_SIGNIFICANT = 2.0
_NULL = 0.1
_NO_VARIANCE = 1e-24


class Levels(msgspec.Struct, frozen=True):
    """
    What the tables 10 to 12 call low, average and high. Shares are of the lags, differences are of coefficients.

    *fall_low*: first less last coefficient, below it nothing has decayed. *fall_average*: first less middle one.
    *trend_low* to *trend_high*: the balanced share of rising lags. *inflections_low*, *inflections_high*: the number of
    trend runs, as a share of the lags. *null_low*, *null_average*: the share of null lags. *spike_low*: the length of
    the first significant run, in lags. *gap_high*: the longest run of insignificant lags, as a share of them.
    *null_lag_low*: where the first null run begins, as a share. *signs_average*: the number of sign runs, as a share,
    above which it oscillates; *regular_average*: the coefficient of variation of their lengths below which that is
    regular. *local_low*: the longest that a local spike may be, in lags.
    """

    fall_low: float = 0.15
    fall_average: float = 0.35
    trend_low: float = 0.35
    trend_high: float = 0.65
    inflections_low: float = 0.3
    inflections_high: float = 0.5
    null_low: float = 0.3
    null_average: float = 0.5
    spike_low: float = 3.0
    gap_high: float = 0.5
    null_lag_low: float = 0.1
    signs_average: float = 0.05
    regular_average: float = 0.75
    local_low: float = 8.0


class Runs(NamedTuple):
    """The four runs of appendix A, one row a series and one column a lag, from lag 1 on."""

    trend: Flags
    sign: Flags
    significance: Flags
    null: Flags


class Shape(NamedTuple):
    """What the tables make of the runs: indices into DECAYS and ALTERNATIONS, a count, and whether one is daily."""

    decay: Ints
    alternation: Ints
    spikes: Ints
    daily: Flags


def autocorrelation(series: Floats, lags: int) -> Floats:
    """
    The coefficients r_1 to r_lags of each row of *series*; all 0 for a row that never changes.

    The usual estimate: the mean of the whole row is taken off, and every lag is divided by the variance of the whole
    row, so that far lags, with fewer pairs, shrink towards 0.
    """
    points = series.shape[1]
    centred = series - series.mean(axis=1, keepdims=True)
    # Twice as long, so that the end of the series does not meet its beginning.
    length = 1 << (2 * points - 1).bit_length()
    spectrum = np.fft.rfft(centred, length, axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    products = np.fft.irfft(power, length, axis=1)[:, : lags + 1]
    whole = np.einsum("ij,ij->i", centred, centred)
    still = whole <= _NO_VARIANCE * points
    whole[still] = 1.0
    found = np.asarray(products[:, 1:] / whole[:, None])
    found[still] = 0.0
    # The transform leaves noise of 1e-17 where the truth is 0, and the sign run would read meaning into it.
    found[np.abs(found) < 1e-12] = 0.0  # noqa: PLR2004
    return found


def standard_errors(coefficients: Floats, points: int) -> Floats:
    """The standard error of each coefficient, if all later ones were 0 in truth (Bartlett's moving-average model)."""
    squares = coefficients**2
    before = np.cumsum(squares, axis=1) - squares
    return np.asarray(np.sqrt((1.0 + 2.0 * before) / points))


def runs_of(coefficients: Floats, points: int) -> Runs:
    """Equations 5 to 8 of the paper."""
    size = np.abs(coefficients)
    trend = np.ones(coefficients.shape, dtype=np.bool_)
    trend[:, 1:] = size[:, 1:] >= size[:, :-1]
    largest = size.max(axis=1, keepdims=True)
    return Runs(
        trend=trend,
        sign=coefficients >= 0,
        significance=(size >= _SIGNIFICANT * standard_errors(coefficients, points)) & (size > 0),
        null=size <= _NULL * largest,
    )


def count_runs(flags: Flags) -> Ints:
    """How many stretches of equal values each row has."""
    return np.asarray(1 + np.count_nonzero(flags[:, 1:] != flags[:, :-1], axis=1))


def first_length(flags: Flags) -> Ints:
    """How many of the first values of each row are true."""
    return np.asarray(np.where(flags.all(axis=1), flags.shape[1], np.argmin(flags, axis=1)))


def first_true(flags: Flags) -> Ints:
    """Where the first true value of each row stands; behind the last where there is none."""
    return np.asarray(np.where(flags.any(axis=1), np.argmax(flags, axis=1), flags.shape[1]))


def longest_length(flags: Flags) -> Ints:
    """The length of the longest stretch of true values of each row."""
    count = np.cumsum(flags, axis=1, dtype=np.int32)
    at_last_false = np.maximum.accumulate(np.where(flags, 0, count), axis=1)
    return np.asarray((count - at_last_false).max(axis=1))


def length_variation(flags: Flags) -> Floats:
    """The standard deviation over the mean of the lengths of all stretches of each row; 0 for one stretch."""
    rows, lags = flags.shape
    change = flags[:, 1:] != flags[:, :-1]
    count = 1 + np.count_nonzero(change, axis=1)
    at = np.arange(1, lags, dtype=np.int32)
    # The lengths are the gaps between changes, the beginning and the end counted as changes.
    bounds = np.where(change, at, 0)
    previous = np.zeros((rows, lags), dtype=np.int32)
    previous[:, 1:] = np.maximum.accumulate(bounds, axis=1)
    squares = np.sum(np.where(change, (at - previous[:, :-1]) ** 2, 0), axis=1) + (lags - previous[:, -1]) ** 2
    mean = lags / count
    return np.asarray(np.sqrt(np.maximum(squares / count - mean**2, 0.0)) / mean)


class Metrics(NamedTuple):
    """What the tables 10 and 11 look at, for each row of coefficients."""

    fall: Floats
    middle: Floats
    rising: Floats
    inflections: Floats
    null: Floats
    first_spike: Floats
    gap: Floats
    null_lag: Floats
    signs: Floats
    variation: Floats


def metrics_of(coefficients: Floats, runs: Runs) -> Metrics:
    lags = coefficients.shape[1]
    size = np.abs(coefficients)
    return Metrics(
        fall=size[:, 0] - size[:, -1],
        middle=size[:, 0] - size[:, lags // 2],
        rising=np.asarray(runs.trend.mean(axis=1)),
        inflections=count_runs(runs.trend) / lags,
        null=np.asarray(runs.null.mean(axis=1)),
        first_spike=first_length(runs.significance).astype(np.float64),
        gap=longest_length(~runs.significance) / lags,
        null_lag=first_true(runs.null) / lags,
        signs=count_runs(runs.sign) / lags,
        variation=length_variation(runs.sign),
    )


def learn_levels(coefficients: Floats, points: int) -> Levels:
    """
    Low, average and high as they are among these series: the quartiles of each metric. No label is looked at.

    How long a local spike may be is not a matter of degree, and stays.
    """
    found = metrics_of(coefficients, runs_of(coefficients, points))

    def quartile(values: Floats, share: float) -> float:
        return float(f"{np.quantile(values, share):.4g}")

    return Levels(
        fall_low=quartile(found.fall, 0.25),
        fall_average=quartile(found.middle, 0.5),
        trend_low=quartile(found.rising, 0.25),
        trend_high=quartile(found.rising, 0.75),
        inflections_low=quartile(found.inflections, 0.25),
        inflections_high=quartile(found.inflections, 0.75),
        null_low=quartile(found.null, 0.25),
        null_average=quartile(found.null, 0.5),
        spike_low=quartile(found.first_spike, 0.25),
        gap_high=quartile(found.gap, 0.75),
        null_lag_low=quartile(found.null_lag, 0.25),
        signs_average=quartile(found.signs, 0.5),
        regular_average=quartile(found.variation, 0.5),
    )


def describe(coefficients: Floats, points: int, levels: Levels, *, day: int | None) -> Shape:
    """
    Decay, sign alternation and local spikes of each row of coefficients, by the tables 10 to 12.

    *day* is how many lags are a day, or None where the series is too short to tell. Each table is read from its top:
    the first row of which every line holds gives the value.
    """
    runs = runs_of(coefficients, points)
    found = metrics_of(coefficients, runs)
    no_decay = (
        (found.fall <= levels.fall_low)
        & (found.rising >= levels.trend_low)
        & (found.rising <= levels.trend_high)
        & (found.inflections >= levels.inflections_high)
        & (found.null <= levels.null_low)
    )
    cut_off = (
        (found.middle > levels.fall_average)
        & (found.first_spike <= levels.spike_low)
        & (found.gap >= levels.gap_high)
        & (found.null > levels.null_average)
        & (found.null_lag <= levels.null_lag_low)
    )
    linear = (
        (found.middle <= levels.fall_average)
        & (found.inflections <= levels.inflections_low)
        & (found.first_spike > levels.spike_low)
    )
    # "Exponential" asks for a longer first spike and few null lags, or is whatever else decays: so it is all the rest.
    decay = np.select([no_decay, cut_off, linear], [0, 1, 2], 3)
    changes = count_runs(runs.sign)
    oscillates = (found.signs > levels.signs_average) & (found.variation < levels.regular_average)
    alternation = np.select([changes == 1, changes == 2, oscillates], [0, 1, 2], 3)  # noqa: PLR2004
    spikes, daily = local_spikes(runs.significance, levels.local_low, day)
    return Shape(decay, alternation, spikes, daily)


def local_spikes(significance: Flags, longest: float, day: int | None) -> tuple[Ints, Flags]:
    """
    The number of short significant runs that begin after lag 1, and whether one covers half a day or a day.

    The run that begins at lag 1 is the decay itself; a long one is no spike but a second hill.
    """
    rows, lags = significance.shape
    padded = np.zeros((rows, lags + 2), dtype=np.int8)
    padded[:, 1:-1] = significance
    step = np.diff(padded, axis=1)
    row, begin = np.nonzero(step == 1)
    _, end = np.nonzero(step == -1)
    local = (begin > 0) & (end - begin <= longest)
    row, begin, end = row[local], begin[local], end[local]
    spikes = np.bincount(row, minlength=rows)
    daily = np.zeros(rows, dtype=np.bool_)
    if day is not None:
        # Column c is lag c + 1; a spike may miss its hour by one interval.
        for lag in (day // 2, day):
            daily[row[(begin <= lag) & (end >= lag - 1)]] = True
    return spikes, daily

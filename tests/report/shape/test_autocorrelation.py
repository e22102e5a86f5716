"""Coefficients and errors against statsmodels; runs and tables by hand."""

import numpy as np
import pytest

from hedgerow.report.shape.autocorrelation import (
    ALTERNATIONS,
    DECAYS,
    Levels,
    autocorrelation,
    count_runs,
    describe,
    first_length,
    first_true,
    learn_levels,
    length_variation,
    local_spikes,
    longest_length,
    metrics_of,
    runs_of,
    standard_errors,
)

from .real import real_series


def check(series, lags=96):
    acf = pytest.importorskip("statsmodels.tsa.stattools").acf
    found = autocorrelation(series, lags)
    errors = standard_errors(found, series.shape[1])
    for row, values in enumerate(series):
        truth, interval = acf(values, nlags=lags, alpha=0.05, fft=False, result_object=False)
        np.testing.assert_allclose(found[row], truth[1:], atol=1e-12)
        # statsmodels gives the interval of 95 %: 1.96 errors either way.
        np.testing.assert_allclose(errors[row], (interval[1:, 1] - truth[1:]) / 1.959963984540054, atol=1e-12)


def test_random_series_as_statsmodels_does():
    chance = np.random.default_rng(5)
    series = np.vstack((chance.poisson(2, (4, 240)), chance.standard_normal((2, 240)).cumsum(axis=1)))
    check(series.astype(float))
    check(chance.random((2, 97)))


def test_real_series_as_statsmodels_does():
    check(real_series())


def test_a_series_that_never_changes_has_no_correlation():
    assert not autocorrelation(np.full((2, 100), 0.01), 50).any()


def flags(text):
    return np.array([[c == "1" for c in text]])


def test_statistics_of_runs():
    run = flags("1110100")
    assert count_runs(run) == [4]
    assert first_length(run) == [3]
    assert first_length(flags("0111")) == [0]
    assert first_length(flags("1111")) == [4]
    assert first_true(flags("0010")) == [2]
    assert first_true(flags("0000")) == [4]
    assert longest_length(flags("0110111")) == [3]
    assert longest_length(flags("0000")) == [0]
    assert length_variation(flags("110011")) == [0]
    lengths = np.array([3, 1, 1, 2])
    assert length_variation(run)[0] == pytest.approx(lengths.std() / lengths.mean())


def test_equations_5_to_8():
    coefficients = np.array([[0.9, -0.5, 0.6, 0.05, -0.04]])
    runs = runs_of(coefficients, 100)
    assert runs.trend.tolist() == [[True, False, True, False, False]]
    assert runs.sign.tolist() == [[True, False, True, True, False]]
    assert runs.null.tolist() == [[False, False, False, True, True]]
    # The errors are 0.1, then sqrt((1 + 2 * 0.81) / 100) = 0.162, then 0.176, ...
    assert runs.significance.tolist() == [[True, True, True, False, False]]


def test_local_spikes_leave_the_first_run_out():
    significance = np.zeros((1, 96), dtype=bool)
    significance[0, :5] = True
    significance[0, 46:49] = True
    significance[0, 60:80] = True
    spikes, daily = local_spikes(significance, 8, 48)
    assert spikes == [1]
    assert daily == [True]
    assert local_spikes(significance, 8, None)[1] == [False]
    assert local_spikes(significance, 2, 48)[0] == [0]


def shape_of(coefficients):
    found = describe(np.array([coefficients]), 240, Levels(), day=48)
    return DECAYS[found.decay[0]], ALTERNATIONS[found.alternation[0]], int(found.spikes[0]), bool(found.daily[0])


def test_levels_are_the_quartiles_of_what_is_seen():
    coefficients = autocorrelation(np.random.default_rng(1).poisson(3, (400, 240)).astype(float), 96)
    levels = learn_levels(coefficients, 240)
    assert levels.trend_low < 0.5 < levels.trend_high < 0.7
    assert levels.inflections_low < levels.inflections_high
    assert levels.null_low < levels.null_average
    found = metrics_of(coefficients, runs_of(coefficients, 240))
    assert 0.2 < (found.fall <= levels.fall_low).mean() < 0.3
    assert describe(coefficients, 240, levels, day=48).decay.tolist().count(DECAYS.index("none")) > 0


def test_tables_10_to_12():
    lags = np.arange(1, 97)
    chance = np.random.default_rng(2)
    assert shape_of(1 - lags / 150)[:2] == ("linear", "none")
    assert shape_of(np.exp(-lags / 10))[:2] == ("exponential", "none")
    assert shape_of(np.where(lags < 3, 0.8, 0.01 * (-1.0) ** lags))[0] == "cut-off"
    assert shape_of(0.15 * chance.choice([-1, 1], 96) * (0.7 + 0.3 * chance.random(96)))[0] == "none"
    assert shape_of(np.where(lags < 20, 0.5, -0.2))[1] == "single"
    assert shape_of(0.5 * np.cos(2 * np.pi * lags / 12))[1] == "oscillation"
    daily = np.where(np.abs(lags - 48) <= 1, 0.9, 0.001)
    assert shape_of(daily)[2:] == (1, True)

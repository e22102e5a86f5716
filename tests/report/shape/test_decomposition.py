"""Trend and season against statsmodels' STL, on random and real series."""

import numpy as np
import pytest

from hedgerow.report.shape.decomposition import decompose, operators, season_over_trend, trend_dispersion

from .real import real_series

# statsmodels wants a trend window above the period, so the paper's six hours (13) are checked with a period of 12.
SIZES = [(240, 48, 13, 49), (240, 12, 13, 13), (97, 48, 7, 83), (241, 47, 13, 85)]


def check(series, points, period, season, trend):
    stl = pytest.importorskip("statsmodels.tsa.seasonal").STL
    found_trend, found_season = decompose(series, operators(points, period, season, trend))
    for row, values in enumerate(series):
        truth = stl(values, period=period, seasonal=season, trend=trend).fit()
        scale = max(1.0, values.max())
        np.testing.assert_allclose(found_trend[row], truth.trend, atol=1e-11 * scale)
        np.testing.assert_allclose(found_season[row], truth.seasonal, atol=1e-11 * scale)


@pytest.mark.parametrize(("points", "period", "season", "trend"), SIZES)
def test_random_series_as_statsmodels_does(points, period, season, trend):
    chance = np.random.default_rng(points + period)
    series = chance.poisson(3 + 2 * np.sin(2 * np.pi * np.arange(points) / period), (3, points)).astype(float)
    series[0] = chance.standard_normal(points).cumsum()
    series[1] = 0
    series[1, points // 3] = 40
    check(series, points, period, season, trend)


def test_real_series_as_statsmodels_does():
    check(real_series(), 240, 48, 13, 49)


def test_less_than_two_seasons_is_an_error():
    with pytest.raises(ValueError, match="two seasons"):
        operators(90, 48, 13, 13)


def test_a_daily_rhythm_is_season_and_a_steady_crawl_is_trend():
    day = np.clip(np.sin(2 * np.pi * np.arange(240) / 48), 0, None) / 240
    steady = np.full(240, 1 / 240)
    trend, season = decompose(np.array([day, steady]), operators(240, 48, 13, 13))
    ratio = season_over_trend(season, trend)
    assert ratio[0] > 1
    assert ratio[1] < 0.01


def test_a_trend_that_jumps_about_is_more_dispersed():
    chance = np.random.default_rng(9)
    calm, wild = chance.poisson(1000, 240) / 240_000, chance.gamma(0.2, 5, 240) / 240
    series = np.array([calm, wild])
    trend, _ = decompose(series, operators(240, 48, 13, 13))
    unsteady = trend_dispersion(trend, series)
    assert unsteady[1] > 20 * unsteady[0] > 0


def test_the_volume_does_not_matter():
    series = np.random.default_rng(3).poisson(4, (2, 240)).astype(float)
    series[1] = series[0] * 7
    trend, season = decompose(series / series.sum(axis=1, keepdims=True), operators(240, 48, 13, 13))
    assert np.allclose(trend[0], trend[1])
    assert np.allclose(season[0], season[1])

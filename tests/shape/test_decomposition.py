"""Trend and season against statsmodels' STL, on random and real series."""

import numpy as np
import pytest

from hedgerow.shape.decomposition import decompose, local_regression, operators, season_over_trend, trend_dispersion

STL = pytest.importorskip("statsmodels.tsa.seasonal").STL


@pytest.mark.parametrize(
    ("points", "period", "season", "trend"),
    [
        (240, 48, 13, 49),
        (240, 48, 7, 83),
        (240, 12, 13, 13),
        (97, 48, 13, 83),
        (96, 48, 13, 49),
        (241, 47, 13, 85),
        (500, 24, 35, 51),
    ],
)
def test_as_statsmodels(points, period, season, trend):
    chance = np.random.default_rng(points + period)
    hours = np.arange(points)
    series = chance.poisson(3 + 2 * np.sin(2 * np.pi * hours / period), (6, points)).astype(float)
    series[0] = chance.standard_normal(points).cumsum()
    series[1] = 0
    series[1, points // 3] = 40
    found_trend, found_season = decompose(series, operators(points, period, season, trend))
    for row in range(len(series)):
        truth = STL(series[row], period=period, seasonal=season, trend=trend).fit()
        np.testing.assert_allclose(found_trend[row], truth.trend, atol=1e-10)
        np.testing.assert_allclose(found_season[row], truth.seasonal, atol=1e-10)

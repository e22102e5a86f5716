"""Plans for logs of every span, counts by interval, and trend and season against statsmodels' STL."""

import numpy as np
import pytest

from hedgerow.report.shape.series import (
    DAY,
    Counts,
    decompose,
    normalised,
    operators,
    plan_of,
    season_over_trend,
    trend_dispersion,
)

from .real import real_series

# statsmodels wants a trend window above the period, so the paper's six hours (13) are checked with a period of 12.
SIZES = [(240, 48, 13, 49), (240, 12, 13, 13), (97, 48, 7, 83), (241, 47, 13, 85)]


def test_two_days_have_the_papers_intervals():
    plan = plan_of(1000.0, 1000.0 + 5 * DAY - 1)
    assert (plan.interval, plan.points, plan.lags, plan.day, plan.starts) == (1800.0, 240, 96, 48, (0,))
    short = plan_of(0, 2 * DAY - 1)
    assert (short.points, short.lags) == (96, 95)


def test_a_long_log_has_windows_and_the_last_one_ends_with_it():
    plan = plan_of(0, 12 * DAY - 1)
    assert plan.bins == 576
    assert plan.starts == (0, 240, 336)


def test_less_than_two_days_is_said():
    plan = plan_of(0, 20 * 3600.0)
    assert plan.day is None
    assert plan.points >= 96
    assert "less than two days" in plan.description


@pytest.mark.parametrize("span", [0, 1, 10, 30])
def test_a_log_of_a_moment_has_no_shape(span):
    plan = plan_of(5, 5 + span)
    assert plan.points == 0
    assert "too little" in plan.description


def test_a_thousand_years_work():
    plan = plan_of(0, 1000 * 365 * DAY)
    counts = Counts.of_times([0, 0, 1, 2], [0, 1000 * 365 * DAY, 5000, 500 * 365 * DAY], plan, 4)
    starts = counts.busiest(plan).tolist()
    assert starts[:2] == [0, 0]
    assert starts[2] * 1800 <= 500 * 365 * DAY < (starts[2] + 240) * 1800
    assert starts[3] == 0


def test_the_busiest_window_is_the_one_with_most():
    chance = np.random.default_rng(2)
    plan = plan_of(0, 17.3 * DAY)
    matrix = chance.poisson(0.02, (200, plan.bins)).astype(float)
    counts = Counts.of_matrix(matrix)
    sums = np.array([matrix[:, start : start + plan.points].sum(axis=1) for start in plan.starts])
    best = counts.busiest(plan)
    # Of equals the first.
    assert best.tolist() == [plan.starts[place] for place in sums.argmax(axis=0)]
    assert Counts.of_matrix(matrix[:, :0]).busiest(plan).tolist() == [0] * 200


def test_times_and_matrix_give_the_same_counts():
    chance = np.random.default_rng(1)
    plan = plan_of(0, 6 * DAY)
    sources, times = chance.integers(0, 7, 500), chance.uniform(0, 6 * DAY, 500)
    counts = Counts.of_times(sources, times, plan, 8)
    matrix = np.zeros((8, plan.bins))
    np.add.at(matrix, (sources, (times // 1800).astype(int)), 1)
    again = Counts.of_matrix(matrix)
    assert all(np.array_equal(a, b) for a, b in zip(counts[:3], again[:3], strict=True))
    assert np.array_equal(counts.totals, matrix.sum(axis=1))
    wanted, starts = np.array([1, 4, 7]), np.array([0, 49, 0])
    for part, block in counts.blocks(wanted, starts, 240, block=2):
        for row, (source, start) in enumerate(zip(wanted[part], starts[part], strict=True)):
            assert np.array_equal(block[row], matrix[source, start : start + 240])


def test_shares_add_up_to_one():
    assert normalised(np.array([[1.0, 3.0], [0.0, 0.0]])).tolist() == [[0.25, 0.75], [0.0, 0.0]]


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

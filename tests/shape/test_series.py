"""Plans for logs of every span, and counts by interval."""

import numpy as np
import pytest

from hedgerow.shape.series import DAY, Counts, normalised, plan_of


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
    assert "less than two days" in plan.said


@pytest.mark.parametrize("span", [0, 1, 10, 30])
def test_a_log_of_a_moment_has_no_shape(span):
    plan = plan_of(5, 5 + span)
    assert plan.points == 0
    assert "too little" in plan.said


def test_a_thousand_years_work():
    plan = plan_of(0, 1000 * 365 * DAY)
    counts = Counts.of_times([0, 0, 1], [0, 1000 * 365 * DAY, 5000], plan, 2)
    assert counts.in_windows(plan)[0].sum() >= 2


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

"""Plans for logs of every span, and counts by interval."""

import numpy as np
import pytest

from hedgerow.report.shape.series import DAY, Counts, normalised, plan_of


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

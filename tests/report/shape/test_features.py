"""The features of sources whose traffic is made by hand."""

from itertools import pairwise

import numpy as np
import pytest

from hedgerow.report.shape.features import NAMES, Fine, features, further
from hedgerow.report.shape.series import DAY, Counts, plan_of, rhythm


def traffic():
    """A steady crawler, a person who came once, an office by day, and somebody with three requests."""
    chance = np.random.default_rng(4)
    crawler = np.arange(0, 5 * DAY, 600.0)
    person = 2.3 * DAY + np.concatenate([page * 40 + np.zeros(10) for page in range(4)])
    office = np.concatenate([day * DAY + chance.uniform(8, 18, 60) * 3600 for day in range(5)])
    parts = [crawler, person, office, np.array([0.0, 5.0, 5 * DAY - 1])]
    sources = np.repeat(np.arange(4), [len(part) for part in parts])
    return sources, np.concatenate(parts)


def of(name, found, source):
    return found.rows[found.sources.tolist().index(source), NAMES.index(name)]


def test_what_the_features_tell():
    sources, times = traffic()
    plan = plan_of(times.min(), times.max())
    found = features(Counts.of_times(sources, times, plan, 4), plan, Fine.of_times(sources, times, 4))
    assert found.sources.tolist() == [0, 1, 2]
    assert of("spread", found, 0) == 1.0
    assert of("hours", found, 0) == 1.0
    assert of("peak", found, 1) == 1.0
    assert of("seconds", found, 0) == 1.0
    assert of("seconds", found, 1) == 0.1
    assert of("hours", found, 2) < 0.5
    assert of("days", found, 2) == 1.0
    assert of("daily", found, 2) == 1
    assert of("season_over_trend", found, 2) > of("season_over_trend", found, 0)
    assert of("silence", found, 1) > 0.4 > of("silence", found, 0)


def test_how_requests_lie_in_the_whole_log_as_counted_one_by_one():
    chance = np.random.default_rng(8)
    plan = plan_of(0, 9.3 * DAY)
    matrix = chance.poisson(np.geomspace(0.003, 1, 30)[:, None], (30, plan.bins)).astype(float)
    matrix[7] = 0
    found = further(Counts.of_matrix(matrix), plan)
    for row, requests in zip(found, matrix, strict=True):
        busy = np.flatnonzero(requests).tolist()
        total = max(requests.sum(), 1)
        visits = sum(at - 1 not in busy for at in busy)
        ends = [-1, *busy, plan.bins]
        silence = max((later - at - 1 for at, later in pairwise(ends)), default=0) if busy else 0
        assert row.tolist() == [
            len(busy) / min(total, plan.bins),
            visits / min(total, (plan.bins + 1) // 2),
            len({at // 48 for at in busy}) / min(total, 10),
            len({at // 2 % 24 for at in busy}) / min(total, 24),
            requests.max() / total,
            silence / plan.bins,
        ]


def test_without_seconds_they_are_unknown():
    sources, times = traffic()
    plan = plan_of(times.min(), times.max())
    found = features(Counts.of_times(sources, times, plan, 4), plan)
    assert np.isnan(found.rows[:, -3:]).all()
    assert not np.isnan(found.rows[:, :-3]).any()


def test_blocks_do_not_matter(monkeypatch):
    chance = np.random.default_rng(6)
    plan = plan_of(0, 9 * DAY)
    counts = Counts.of_times(chance.integers(0, 40, 4000), chance.uniform(0, 9 * DAY, 4000), plan, 40)
    whole = features(counts, plan).rows
    monkeypatch.setattr(Counts.blocks, "__kwdefaults__", {"block": 7})
    np.testing.assert_array_equal(features(counts, plan).rows, whole)


def test_a_log_of_a_second_has_none():
    plan = plan_of(7, 7)
    found = features(Counts.of_times(np.zeros(50), np.full(50, 7.0), plan, 1), plan)
    assert found.rows.shape == (0, len(NAMES))


def test_people_sleep_and_crowds_do_too():
    chance = np.random.default_rng(8)
    hours = np.arange(48 * 6) % 48
    crowd = chance.poisson(np.where((hours > 14) & (hours < 44), 300, 40)).astype(float)
    crowd[200:204] *= 20
    scraper = chance.poisson(300, 48 * 6)
    assert rhythm(crowd, 0.5).crawl is False
    assert rhythm(scraper, 0.5).crawl is True
    assert rhythm(scraper[:90], 0.5).crawl is None
    assert rhythm(scraper / 100, 0.5).crawl is None


@pytest.mark.parametrize("days", [-2.0, 2.0])
def test_what_comes_or_goes_over_days_is_no_part_of_a_rhythm(days):
    """The night falls where the level would fill it."""
    at = np.arange(48 * 6) / 48
    day = 1 + 0.3 * np.sin(2 * np.pi * at)
    assert rhythm(1000 * day).depth == pytest.approx(0.45, abs=0.01)
    assert rhythm(1000 * day * np.exp(at / days)).depth == pytest.approx(0.45, abs=0.03)

"""Who has one diet: what everybody eats ties nobody, and little data says little."""

import math

import numpy as np
import pytest

from hedgerow.report.campaigns import network_groups as company
from hedgerow.report.campaigns.group_links import Requests, _log_gamma, page_mix, same
from hedgerow.report.campaigns.search import find
from hedgerow.report.shape.series import Counts, plan_of

DAY = 86_400.0
ODDS = company.NetworkGroupLimits().odds


def eaten(tastes, requests, seed=1):
    """The diets of groups, each of which asks *requests* times by its own taste."""
    chance = np.random.default_rng(seed)
    kinds = np.concatenate([chance.choice(len(taste), requests, p=taste) for taste in tastes])
    groups = np.repeat(np.arange(len(tastes)), requests)
    return page_mix(groups, kinds, np.full(len(kinds), 200))


def own_tastes(count, kinds=30, seed=7):
    return np.random.default_rng(seed).dirichlet(np.full(kinds, 0.3), count)


def pairs(found):
    return [(one, other) for one, other, _ in same(found, range(len(found.groups)), ODDS)]


def test_two_of_one_diet_among_others_with_their_own():
    tastes = own_tastes(20)
    assert pairs(eaten([*tastes, tastes[3]], 200)) == [(3, 20)]


@pytest.mark.parametrize("requests", [50, 500, 5000])
def test_strangers_are_not_tied_however_much_they_ask_for(requests):
    assert pairs(eaten(own_tastes(40), requests)) == []


def test_where_all_eat_the_same_nobody_is_tied():
    """Every crawler of a small site asks for all of it: that is the site's shape, not theirs."""
    taste = own_tastes(1)[0]
    assert pairs(eaten([taste] * 30, 400)) == []


def test_success_is_part_of_a_diet():
    tastes = own_tastes(12)
    chance = np.random.default_rng(5)
    kinds = np.concatenate([chance.choice(30, 300, p=taste) for taste in [*tastes, tastes[0]]])
    groups = np.repeat(np.arange(13), 300)
    answers = np.where(groups == 12, 404, 200)
    assert (0, 12) in pairs(page_mix(groups, kinds, np.full(len(kinds), 200)))
    assert pairs(page_mix(groups, kinds, answers)) == []


def test_few_and_none():
    found = page_mix(np.repeat([0, 1, -1], [19, 30, 50]), np.arange(99), np.full(99, 200))
    assert found.groups.tolist() == [1]
    nothing = page_mix(*[np.zeros(0, np.int64)] * 3)
    assert nothing.groups.tolist() == []
    assert list(same(nothing, [], ODDS)) == []


def test_the_logarithm_of_gamma():
    values = 10.0 ** np.linspace(-9, 7, 200)
    assert _log_gamma(values) == pytest.approx([math.lgamma(value) for value in values], rel=1e-10, abs=1e-10)


def test_unrelated_crawlers_that_ask_for_robots_and_the_home_page_are_no_campaign():
    """That is what half of all crawlers do on a small site: 60 lone ones, and three networks of them."""
    chance = np.random.default_rng(9)
    names = [f"{a}.{chance.integers(256)}.{chance.integers(256)}.9" for a in range(20, 80)]
    names += [f"{network}.{n}" for network in ("198.51.100", "203.0.113", "192.0.2") for n in range(12)]
    targets = ["/robots.txt", "/"]
    rows = []
    for source in range(len(names)):
        for at in chance.uniform(0, 30 * DAY, 10):
            rows += [(source, at, 0), (source, at + chance.uniform(0, 20), 1)]
    sources, times, pages = (np.array(column) for column in zip(*rows, strict=True))
    requests = Requests.of_targets(sources, times, pages, targets, np.full(len(rows), 200))
    people = np.zeros(len(names), dtype=bool)
    plan = plan_of(0, 30 * DAY)
    found = find(names, people, Counts.of_times(sources, times, plan, len(names)), plan, requests)
    assert [one.members for one in found] == [tuple(range(60 + 12 * n, 72 + 12 * n)) for n in range(3)]

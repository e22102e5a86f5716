"""Sources that the site refuses alike."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.campaigns.refused import Robots, find

MEMBERS = 12
NETWORKS = [f"192.0.{n}.0/24" for n in range(40)]


def log(members=MEMBERS, *, others=20, given=20, requests=3):
    """*members* that are refused robots.txt, then *others*, of which so many are *given* it and asked for more."""
    own = [(requests, requests, requests)] * members
    rest = [(9, 2, 1)] * given + [(9, 2, 9)] * (others - given)
    return Robots(*(np.array(column) for column in zip(*own, *rest, strict=True)))


def found(robots, networks=NETWORKS, people=()):
    size = len(robots.requests)
    return find(list(networks[:size]), np.isin(np.arange(size), people), robots)


def test_those_who_are_refused_what_others_are_given_are_one_campaign():
    (one,) = found(log())
    assert (one.kind, one.members) == ("refused alike", tuple(range(MEMBERS)))
    assert one.text == (
        "12 sources in 12 networks that ask for nothing but robots.txt and are refused it, as others are not."
    )


@pytest.mark.parametrize(
    "robots",
    [
        pytest.param(log(9), id="too few"),
        pytest.param(log(given=9), id="the site has none for anybody"),
        pytest.param(log(others=9, given=9), id="hardly anybody else asks"),
        pytest.param(log(requests=11), id="they ask by the dozen"),
    ],
)
def test_otherwise_there_is_none(robots):
    assert found(robots) == []


def test_one_network_is_a_network():
    assert found(log(), ["192.0.2.0/24"] * 40) == []


def test_people_are_no_members():
    assert found(log(), people=(0, 1, 2)) == []
    (one,) = found(log(MEMBERS + 3), people=(0, 1, 2))
    assert one.members == tuple(range(3, MEMBERS + 3))

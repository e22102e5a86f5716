"""What workers share besides the state. Two objects on one state stand for two workers."""

from __future__ import annotations

import os
from contextlib import closing

import msgspec
import pytest

from hedgerow.challenge.clearance import ClearanceUsage
from hedgerow.request.robots_compliance import RobotsCompliance
from hedgerow.state.lmdb.shared_stores import LmdbClearanceUsage, LmdbRevokedBots, LmdbWorkerMetrics
from hedgerow.state.lmdb.state import LmdbState
from hedgerow.web.metrics import SiteMetrics, sum_metrics
from state.state_conformance import START, WINDOW


@pytest.fixture
def state(tmp_path):
    with closing(LmdbState(tmp_path / "state.lmdb", WINDOW)) as opened:
        yield opened


def test_a_clearance_that_is_handed_round_between_workers_is_noticed(state):
    first, second = LmdbClearanceUsage(state), LmdbClearanceUsage(state)
    assert first.record_use(b"c", b"n1", START) == 1
    assert second.record_use(b"c", b"n2", START + 1) == 2
    assert first.record_use(b"c", b"n1", START + 2) == 2
    assert second.is_shared(second.record_use(b"c", b"n3", START + 3))
    assert first.record_use(b"other", b"n1", START) == 1


def test_sightings_are_those_of_one_process(state):
    """Whatever is asked in whatever order: the same numbers as in memory."""
    shared, plain = LmdbClearanceUsage(state, window=5.0), ClearanceUsage(window=5.0)
    for n in range(300):
        asked = (b"c%d" % (n % 7), b"n%d" % (n * n % 5), START + n / 3)
        assert shared.record_use(*asked) == plain.record_use(*asked)


def test_sightings_of_long_ago_are_forgotten_as_others_come(state):
    clearance_usage = LmdbClearanceUsage(state, window=10.0)
    for n in range(100):
        clearance_usage.record_use(b"old%d" % n, b"n", START)
    for n in range(100):
        clearance_usage.record_use(b"new%d" % n, b"n", START + 60)
    assert len(clearance_usage) < 120


def test_a_lost_welcome_is_lost_in_all_workers(state):
    first, second = RobotsCompliance(unwelcome_for=60.0), RobotsCompliance(unwelcome_for=60.0)
    first.revoked_bots, second.revoked_bots = LmdbRevokedBots(state), LmdbRevokedBots(state)
    assert not second.is_revoked("Bot", START)
    first.revoke("Bot", START)
    assert second.is_revoked("Bot", START + 59)
    assert not second.is_revoked("Bot", START + 60)


def test_what_workers_have_counted_adds_up_and_who_has_ended_detains_nobody(state):
    tallies = LmdbWorkerMetrics(state)
    tallies.put(msgspec.msgpack.encode(SiteMetrics(decided={"pass": 3, "refuse": 1}, blocked=1, inside=2)))
    others = tallies.all()
    assert list(others) == [os.getpid()]
    # Process ids end below four million here.
    gone = {2**30: msgspec.msgpack.encode(SiteMetrics(decided={"pass": 10}, lost=4, inside=7))}
    total = sum_metrics(SiteMetrics(decided={"pass": 1}), {**others, **gone})
    assert total.decided == {"pass": 14, "refuse": 1}
    assert (total.blocked, total.lost, total.inside) == (1, 4, 2)

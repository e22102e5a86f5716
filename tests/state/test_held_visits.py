"""Answers that wait for a front: held, taken once, bounded; of one process and of workers."""

from __future__ import annotations

import pytest

from hedgerow.core.decision import Decision, Evidence
from hedgerow.state.held_visits import HeldVisit, MemoryHeldVisits
from hedgerow.state.lmdb import shared_stores
from hedgerow.state.lmdb.shared_stores import LmdbHeldVisits
from hedgerow.state.lmdb.state import LmdbState
from ledger.ledger_conformance import visit

DECISION = Decision("refuse", (Evidence("trap", "trap", 1.0, "Followed a link."),), 5.0)


def held(n: int = 0) -> HeldVisit:
    return HeldVisit(
        "GET", f"/{n}", b"/%d" % n, b"a=b", [(b"host", b"x\xff")], ("192.0.2.1", 9), "http", visit(n), DECISION
    )


@pytest.fixture(params=["memory", "lmdb"])
def two(request, tmp_path):
    """Two ways to what is held: those of two workers, or one for one process."""
    if request.param == "memory":
        one = MemoryHeldVisits()
        yield one, one
        return
    state = LmdbState(tmp_path / "state.lmdb", (), memory=10_000_000)
    yield LmdbHeldVisits(state), LmdbHeldVisits(state)
    state.close()


def test_it_is_taken_once_by_whoever_comes(two):
    one, other = two
    reference, given_up = one.hold(held(1), 10)
    assert given_up == []
    assert other.take(reference) == held(1)
    assert other.take(reference) is None
    assert one.take(reference) is None


@pytest.mark.parametrize("reference", ["", "x", "\xff", "A" * 32, "A" * 5000])
def test_what_nobody_has_held_is_not_there(two, reference):
    assert two[0].take(reference) is None


def test_the_oldest_are_given_up_where_there_are_too_many(two):
    one, other = two
    first, _ = one.hold(held(1), 2)
    assert other.hold(held(2), 2)[1] == []
    assert list(one.hold(held(3), 2)[1]) == [held(1)]
    assert other.take(first) is None


def test_who_ends_gives_up_its_own(two):
    one, _ = two
    reference, _ = one.hold(held(1), 10)
    one.hold(held(2), 10)
    assert one.take(reference) == held(1)
    assert list(one.leave()) == [held(2)]
    assert list(one.leave()) == []


def test_they_take_so_many_bytes_at_the_most(tmp_path, monkeypatch):
    monkeypatch.setattr(shared_stores, "_MAX_HELD_BYTES", 1_000)
    state = LmdbState(tmp_path / "state.lmdb", (), memory=10_000_000)
    pending = LmdbHeldVisits(state)
    given_up = [one for n in range(20) for one in pending.hold(held(n), 1_000)[1]]
    assert 10 < len(given_up) < 20
    assert given_up == [held(n) for n in range(len(given_up))]
    state.close()

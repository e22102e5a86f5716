"""The state is read once for several pages, and again after a change."""

from __future__ import annotations

import time

import pytest

from hedgerow.core.attack import ATTACK_KEY
from hedgerow.core.decision import Block, Evidence, VisitorScore
from hedgerow.errors import StoreError
from hedgerow.state.memory.state import MemoryState
from hedgerow.web.dashboard import snapshot
from hedgerow.web.dashboard.snapshot import Snapshot, Snapshots

NOW = 1_700_000_000.0
SUSPECT = VisitorScore("suspect", 0.6, NOW, 0, 1, 0, (("unmarked", 3), ("enumerated", 1)))


def block(key):
    return Block(key, key, NOW, NOW + 600, "refuse", Evidence("trap", "trap", 1.0, "Followed a hidden link."))


class Counting:
    """A state that counts how often it is read, and takes its time."""

    def __init__(self, seconds=0.0):
        self.reads, self.seconds = 0, seconds

    def blocks(self, _):
        self.reads += 1
        time.sleep(self.seconds)
        return [block("192.0.2.1")]

    def scores(self):
        return [("192.0.2.2", SUSPECT)]


def test_it_tells_visitors_from_prices_and_from_the_attack_switch():
    scores = [(f"10.0.{n // 256}.{n % 256}", SUSPECT if n % 2 else VisitorScore("person")) for n in range(2000)]
    found = Snapshot([block("192.0.2.1"), block(ATTACK_KEY)], [*scores, ("clearances:192.0.2.9", SUSPECT)], NOW)
    assert len(found.scores) == 2000
    assert list(found.blocks) == ["192.0.2.1"]
    assert found.suspects == 1000
    # A code counts once for each visitor, however often it was found.
    assert found.reasons == {"unmarked": 1000, "enumerated": 1000}


def test_the_longer_it_takes_the_longer_it_is_used():
    slow, quick = Counting(0.05), Counting()
    for state in (slow, quick):
        snapshots = Snapshots(lambda at, state=state: (state.blocks(at), state.scores()))
        snapshots.get(NOW)
        time.sleep(0.1)
        snapshots.get(NOW)
    assert slow.reads == 1
    assert quick.reads == 2


def test_a_change_is_seen_at_once():
    state = Counting(0.05)
    snapshots = Snapshots(lambda at: (state.blocks(at), state.scores()))
    first = snapshots.get(NOW)
    assert snapshots.get(NOW) is first
    snapshots.forget()
    assert snapshots.get(NOW) is not first


def test_it_reads_the_state_that_there_is(monkeypatch):
    monkeypatch.setattr(snapshot, "_REUSE", 0.0)
    state = MemoryState([])
    snapshots = Snapshots(lambda at: (state.blocks(at), state.scores()))
    assert snapshots.get(NOW).blocks == {}
    state.commit(block("192.0.2.3"))
    assert list(snapshots.get(NOW).blocks) == ["192.0.2.3"]


def test_who_waits_in_parts_is_not_kept_waiting_for_the_whole_copy():
    state = Counting(0.4)
    snapshots = Snapshots(lambda at: (state.blocks(at), state.scores()))
    start = time.monotonic()
    found, asked = None, 0
    while found is None:
        found = snapshots.stored(NOW, 0.05)
        asked += 1
    assert asked > 1
    assert time.monotonic() - start < 30
    assert found.keys == ["192.0.2.1", "192.0.2.2"]
    assert state.reads == 1
    assert snapshots.stored(NOW, 0.0) is found
    snapshots.forget()
    assert snapshots.stored(NOW, 60.0) is not found


def test_a_copy_that_cannot_be_made_is_an_error_for_who_waits():
    def fail(_):
        raise StoreError("no Redis")

    for _ in range(2):
        with pytest.raises(StoreError, match="no Redis"):
            Snapshots(fail).stored(NOW, 60.0)

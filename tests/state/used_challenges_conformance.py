"""What every store of spent challenges must do. A test module gives the fixture `opened`: a way to open one store."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

NOW = 1_800_000_000.0


def name(number: int) -> bytes:
    return number.to_bytes(12, "big")


class UsedChallengesConformance:
    @pytest.fixture
    def spent(self, opened):
        store = opened()
        yield store
        store.close()

    def test_once(self, spent):
        assert spent.mark_used(name(1), NOW + 30, NOW) is True
        assert spent.mark_used(name(1), NOW + 30, NOW) is False
        assert spent.mark_used(name(1), NOW + 30, NOW + 29.9) is False
        assert spent.mark_used(name(2), NOW + 30, NOW) is True

    def test_what_has_expired_is_not_accepted(self, spent):
        assert spent.mark_used(name(1), NOW, NOW) is False
        assert spent.mark_used(name(1), NOW - 1, NOW) is False

    def test_what_has_expired_takes_no_room(self, opened):
        spent = opened(most=50)
        for number in range(1_000):
            at = NOW + number
            assert spent.mark_used(name(number), at + 30, at), f"number {number}"
        assert len(spent) <= 100
        spent.close()

    def test_a_flood_never_makes_room_for_a_second_time(self, opened):
        """When there is no room those that expire soonest go first, and nothing as old as they is accepted."""
        spent = opened(most=100)
        ends = {name(n): NOW + 1 + n / 100 for n in range(2_000)}
        order = list(ends)
        random.Random(7).shuffle(order)
        accepted = [c for c in order if spent.mark_used(c, ends[c], NOW)]
        assert len(spent) <= 200
        assert not [c for c in accepted if spent.mark_used(c, ends[c], NOW)]
        # Who comes after the flood with a fresh challenge is let in.
        assert spent.mark_used(b"fresh", NOW + 60, NOW) is True
        assert spent.mark_used(b"fresh", NOW + 60, NOW) is False
        spent.close()

    def test_of_many_at_once_one(self, spent):
        with ThreadPoolExecutor(8) as threads:
            for number in range(50):
                results = list(threads.map(lambda _, n=number: spent.mark_used(name(n), NOW + 30, NOW), range(8)))
                assert results.count(True) == 1

"""
What every state must do. A store's test file makes a class of these tests and says how the store is made:

    class TestMemoryState(StateConformance):
        def state(self, windows, **options):
            return MemoryState(windows, **options)

*options* are `memory`, the bytes that counters may take, `most_blocks` and `remember`. A store also has
`use`, for other windows. `in_process` is how another process opens the same state, where one can.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from hedgerow.core.decision import Block, Evidence, ScoreUpdate
from hedgerow.core.rate_limit import LimitKey, RateLimit
from hedgerow.core.state import State, StateQuery, prefix_key
from property_tests import examples

START = 1_800_000_000.0
ANN, BOB, EVE = "account:ann", "account:bob", "account:eve"
HOME, AWAY = "192.0.2.1", "198.51.100.7"
NETWORK = "192.0.2.0/24"
WINDOW = (RateLimit(count=5, seconds=3.0),)
EVIDENCE = Evidence("density", "density-visitor", 1.0, "More than 5 pages in 3 seconds.")
_COUNTS = {
    "pages": {"page"},
    "requests": {"page", "call"},
    "everything": {"page", "call", "asset"},
    "prefetches": {"prefetch"},
}

# Each store's class of these tests is an executor of its own.
_SEVERAL = [HealthCheck.differing_executors]
# Eighths of a second: exact in floating point, so that a plain reference rounds nowhere.
_STEPS = st.integers(0, 16).map(lambda n: n / 8)
_KINDS = st.sampled_from(["page", "call", "asset", "prefetch"])
_WHO = st.sampled_from([(HOME, HOME), (ANN, HOME), (BOB, HOME), (ANN, AWAY), (AWAY, AWAY)])
_WINDOWS = st.lists(
    st.builds(
        RateLimit,
        count=st.integers(1, 8),
        seconds=st.sampled_from([0.5, 1.0, 3.0, 10.0]),
        by=st.sampled_from(["visitor", "prefix", "network"]),
        of=st.sampled_from(["pages", "requests", "everything", "prefetches"]),
    ),
    min_size=1,
    max_size=4,
)


def ask(at: float = 0.0, visitor: str = HOME, prefix: str | None = None, **fields: Any) -> StateQuery:
    if prefix is None:
        prefix = HOME if visitor.startswith("account:") else visitor
    fields = {"kind": "page", "network": "", "count": True, **fields}
    return StateQuery(START + at, visitor=visitor, prefix=prefix, **fields)


def block(key: str = HOME, prefix: str = HOME, since: float = 0.0, until: float = 60.0) -> Block:
    return Block(key, prefix, START + since, START + until, "refuse", EVIDENCE)


class Reference:
    """The counters as one would write them who has all the time and memory there is."""

    def __init__(self, windows: Sequence[RateLimit]) -> None:
        self.windows = windows
        self.visits: dict[str, list[tuple[float, str]]] = defaultdict(list)

    def record_visit(self, question: StateQuery) -> tuple[int, ...]:
        whose = {"visitor": question.visitor, "prefix": prefix_key(question.prefix), "network": question.network}
        for key in whose.values():
            self.visits[key].append((question.at, question.kind))
        return tuple(
            sum(
                question.at - window.seconds < at <= question.at and kind in _COUNTS[window.of]
                for at, kind in self.visits[whose[window.by]]
            )
            for window in self.windows
        )


class StateConformance:
    def state(self, windows: Sequence[RateLimit], **options: Any) -> State:
        raise NotImplementedError

    # ---- Counting

    def test_exactly_the_count_passes_and_one_more_is_caught(self):
        state = self.state(WINDOW)
        counts = [state.record_visit(ask(n / 10)).counts for n in range(6)]
        assert counts == [(1,), (2,), (3,), (4,), (5,), (6,)]
        assert state.record_visit(ask(2.9, AWAY)).counts == (1,)

    def test_a_visit_exactly_as_old_as_the_window_has_left_it(self):
        state = self.state(WINDOW)
        state.record_visit(ask(0.0))
        assert state.record_visit(ask(3.0)).counts == (1,)
        assert state.record_visit(ask(5.999)).counts == (2,)

    def test_what_counts_apart_does_not_add_to_the_visitors_own(self):
        """By visitor, by address and by network; moved to another kind, too. A block holds for both."""
        by: tuple[LimitKey, ...] = ("visitor", "prefix", "network")
        state = self.state([RateLimit(count=5, seconds=30.0, by=key) for key in by])
        for n, visitor in enumerate((HOME, ANN)):
            assert state.record_visit(ask(n, visitor, HOME, network=NETWORK)).counts == (1, n + 1, n + 1)
            for more in (1, 2, 3):
                apart = ask(n + more / 8, visitor, HOME, network=NETWORK, apart="/apart")
                assert state.record_visit(apart).counts == (more, 2 * n + more, 2 * n + more)
            state.record_visit(msgspec.structs.replace(apart, kind="asset"), "page")
        assert state.record_visit(ask(2, network=NETWORK)).counts == (2, 3, 3)
        assert state.record_visit(ask(2, network=NETWORK, apart="/apart")).counts == (3, 5, 5)
        state.commit(block(ANN, until=60.0))
        assert state.record_visit(ask(3, ANN, apart="/apart")).block is not None

    @pytest.mark.parametrize("shift", [n / 16 for n in range(48)])
    def test_a_burst_of_200_is_caught_wherever_it_begins(self, shift):
        """The thesis counts from a first arrival: 100 before and 100 after its boundary would both pass."""
        state = self.state((RateLimit(count=100, seconds=3.0),))
        state.record_visit(ask(0.0))
        counts = [state.record_visit(ask(shift + n * 0.0078125)).counts[0] for n in range(200)]
        assert max(counts) > 100
        assert sum(count <= 100 for count in counts) <= 100

    @given(_WINDOWS, st.lists(st.tuples(_STEPS, _WHO, _KINDS), max_size=60))
    @examples(150, suppress_health_check=_SEVERAL)
    def test_counts_are_those_of_a_plain_reference(self, windows, visits):
        state, reference = self.state(windows), Reference(windows)
        counted = {kind for window in windows for kind in _COUNTS[window.of]}
        at = 0.0
        for step, (visitor, prefix), kind in visits:
            at += step
            network = NETWORK if prefix == HOME else "198.51.100.0/24"
            question = ask(at, visitor, prefix, kind=kind, network=network)
            expected = reference.record_visit(question)
            found = state.record_visit(question).counts
            if kind not in counted:
                assert found == ()
                continue
            # A store may stop counting once a window is over its limit, and never before.
            for window, right, answered in zip(windows, expected, found, strict=True):
                assert answered == right or (answered > window.count and right > window.count)

    @given(st.lists(st.integers(0, 200).map(lambda n: n / 8), max_size=60))
    @examples(100, suppress_health_check=_SEVERAL)
    def test_out_of_order_nothing_is_made_up_and_the_newest_sees_all(self, times):
        windows = (RateLimit(count=100, seconds=3.0), RateLimit(count=100, seconds=10.0))
        state, reference = self.state(windows), Reference(windows)
        for number, at in enumerate(times, 1):
            expected, found = reference.record_visit(ask(at)), state.record_visit(ask(at)).counts
            assert all(answered <= right for answered, right in zip(found, expected, strict=True))
            if at == max(times[:number]):
                assert found == expected

    def test_a_verified_bot_is_not_counted(self):
        state = self.state(WINDOW)
        for _ in range(100):
            assert state.record_visit(ask(count=False)).counts == ()
        assert state.record_visit(ask()).counts == (1,)

    def test_accounts_of_one_address_add_up_with_who_has_none(self):
        state = self.state((RateLimit(count=9, seconds=3.0), RateLimit(count=9, seconds=3.0, by="prefix")))
        assert state.record_visit(ask(0.0)).counts == (1, 1)
        assert state.record_visit(ask(0.1, ANN)).counts == (1, 2)
        assert state.record_visit(ask(0.2, BOB)).counts == (1, 3)
        assert state.record_visit(ask(0.3, ANN)).counts == (2, 4)
        assert state.record_visit(ask(0.4)).counts == (2, 5)
        assert state.record_visit(ask(0.5, ANN, AWAY)).counts == (3, 1)

    def test_networks(self):
        state = self.state((RateLimit(count=9, seconds=3.0, by="network"),))
        for number, address in enumerate(["192.0.2.1", "192.0.2.2", "192.0.2.3"], 1):
            assert state.record_visit(ask(0.0, address, network=NETWORK)).counts == (number,)
        assert state.record_visit(ask(0.0, AWAY, network="198.51.100.0/24")).counts == (1,)

    def test_a_visit_that_turns_out_to_be_another_kind_is_still_one_visit(self):
        windows = (RateLimit(count=9, seconds=3.0), RateLimit(count=9, seconds=3.0, by="prefix", of="everything"))
        state = self.state(windows)
        assert state.record_visit(ask(0.0, ANN, kind="asset")).counts == (0, 1)
        assert state.record_visit(ask(0.0, ANN), "asset").counts == (1, 1)
        assert state.record_visit(ask(0.1, ANN, kind="call")).counts == (1, 2)
        assert state.record_visit(ask(0.1, ANN), "call").counts == (2, 2)
        assert state.record_visit(ask(0.2)).counts == (1, 3)

    def test_a_visit_of_a_kind_that_nobody_counted_is_counted_when_it_turns_out_to_be_a_page(self):
        state = self.state(WINDOW)
        for number in range(1, 8):
            question = ask(number / 10, kind="asset")
            assert state.record_visit(question).counts == ()
            assert state.record_visit(ask(number / 10), "asset").counts == (min(number, 6),)

    # ---- The rate of the whole site

    @pytest.mark.parametrize("rate", [0.5, 5.0, 50.0])
    def test_the_rate_of_the_site_is_that_of_steady_visits_of_all_its_visitors(self, rate):
        state = self.state(WINDOW)
        for n in range(int(60 * rate) + 20):
            found = state.record_visit(ask(n / rate, f"192.0.2.{n % 50}", site_rate=True)).site_rate
        assert found == pytest.approx(rate, rel=0.15, abs=0.05)
        assert state.record_visit(ask(10_000.0, site_rate=True)).site_rate < 0.1

    def test_only_visits_that_ask_for_it_add_to_the_rate_of_the_site(self):
        state = self.state(WINDOW)
        one = state.record_visit(ask(0.0, site_rate=True)).site_rate
        assert one == pytest.approx(0.0693147)
        assert state.record_visit(ask(0.0)).site_rate == 0.0
        assert state.record_visit(ask(0.0, count=False, site_rate=True)).site_rate == 0.0, "a verified bot"
        state.commit(block(AWAY, AWAY))
        state.record_visit(ask(0.0, AWAY, site_rate=True))
        assert state.record_visit(ask(0.0, site_rate=True)).site_rate == pytest.approx(2 * one), "nor who is blocked"

    def test_a_visit_that_turns_out_to_be_another_kind_adds_once_to_the_rate_of_the_site(self):
        state = self.state(WINDOW)
        for kind in ("asset", "call"):
            before = state.record_visit(ask(0.0, kind=kind, site_rate=True)).site_rate
            assert state.record_visit(ask(0.0, site_rate=True), kind).site_rate == pytest.approx(before)

    def test_a_late_visit_does_not_turn_the_rate_of_the_site_back(self):
        state = self.state(WINDOW)
        state.record_visit(ask(100.0, site_rate=True))
        assert state.record_visit(ask(0.0, site_rate=True)).site_rate == pytest.approx(2 * 0.0693147)
        assert state.record_visit(ask(110.0, site_rate=True)).site_rate == pytest.approx(2 * 0.0693147)

    def test_the_rate_of_the_site_outlives_settings_that_are_read_again(self):
        state = self.state(WINDOW)
        state.record_visit(ask(0.0, site_rate=True))
        state.use_limits((RateLimit(count=7, seconds=9.0),))
        assert state.record_visit(ask(0.0, site_rate=True)).site_rate == pytest.approx(2 * 0.0693147)

    # ---- Concurrency

    @pytest.mark.no_cover
    def test_no_count_is_lost_under_64_threads(self):
        threads, each = 64, 50
        windows = (RateLimit(count=100_000, seconds=100.0), RateLimit(count=100_000, seconds=100.0, by="prefix"))
        state = self.state(windows)
        seen: list[tuple[int, ...]] = []
        ready = threading.Barrier(threads)

        def visit(who: str) -> None:
            ready.wait()
            mine = [state.record_visit(ask(1.0, who)).counts for _ in range(each)]
            seen.extend(mine)
            assert all(a < b for a, b in pairwise(mine))

        running = [threading.Thread(target=visit, args=(ANN if n % 2 else HOME,)) for n in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        # Atomic: all visits of the prefix got a number of their own, from the first to the last.
        assert sorted(of_prefix for _, of_prefix in seen) == list(range(1, threads * each + 1))
        assert state.record_visit(ask(1.0)).counts == (threads * each // 2 + 1, threads * each + 1)

    # ---- Blocks

    def test_a_block_is_in_force_until_it_ends_and_then_the_client_returns_to_the_timetable(self):
        state = self.state(WINDOW)
        for n in range(6):
            state.record_visit(ask(n / 10))
        state.commit(block())
        assert state.record_visit(ask(1.0)).block == block()
        assert state.record_visit(ask(59.999)).block == block()
        assert state.record_visit(ask(60.0)).block is None
        assert state.record_visit(ask(60.1)).counts == (2,)

    def test_who_is_blocked_starts_from_nothing_even_in_a_long_window(self):
        state = self.state((RateLimit(count=5, seconds=3600.0, by="prefix"),))
        for n in range(6):
            state.record_visit(ask(n))
        state.commit(block(prefix_key(HOME), HOME, until=10.0))
        assert state.record_visit(ask(20.0)).counts == (1,)

    def test_visits_during_a_block_are_not_counted(self):
        state = self.state(WINDOW)
        state.commit(block(until=1.0))
        for n in range(100):
            assert state.record_visit(ask(n / 200)).counts == ()
        assert state.record_visit(ask(1.0)).counts == (1,)

    def test_a_block_is_renewed(self):
        state = self.state(WINDOW)
        state.commit(block(until=10.0))
        state.commit(block(until=20.0))
        assert state.record_visit(ask(15.0)).block == block(until=20.0)
        assert list(state.blocks(START)) == [block(until=20.0)]

    def test_blocks_are_of_one_visitor_of_everyone_at_an_address_or_of_a_network(self):
        state = self.state(WINDOW)
        state.commit(block(HOME))
        assert state.record_visit(ask(1.0)).block is not None
        assert state.record_visit(ask(1.0, ANN)).block is None
        state.commit(block(prefix_key(HOME)))
        assert state.record_visit(ask(1.0, ANN)).block is not None
        assert state.record_visit(ask(1.0, ANN, AWAY)).block is None
        state.commit(block("198.51.100.0/24", AWAY))
        assert state.record_visit(ask(1.0, AWAY)).block is None
        assert state.record_visit(ask(1.0, AWAY, network="198.51.100.0/24")).block is not None

    def test_a_block_without_a_name_is_nobodys(self):
        state = self.state(WINDOW)
        state.commit(block("", ""))
        assert state.record_visit(ask(1.0)).block is None

    def test_forgiveness(self):
        state = self.state(WINDOW)
        for n in range(6):
            state.record_visit(ask(n / 10))
        state.commit(block())
        assert state.forgive(HOME) is True
        assert state.forgive(HOME) is False
        assert state.forgive("nobody") is False
        memory = state.record_visit(ask(1.0))
        assert memory.block is None
        assert memory.counts == (1,)

    def test_who_is_forgiven_for_a_whole_address_is_not_blocked_again_at_once(self):
        state = self.state((RateLimit(count=5, seconds=60.0, by="prefix"),))
        for n in range(6):
            state.record_visit(ask(n / 10, ANN if n % 2 else HOME))
        state.commit(block(prefix_key(HOME)))
        assert state.forgive(prefix_key(HOME))
        assert state.record_visit(ask(1.0)).counts == (1,)

    def test_blocks_lists_those_in_force_in_the_order_of_the_last_offence(self):
        state = self.state(WINDOW)
        state.commit(block("a", "a", until=10.0))
        state.commit(block("b", "b", until=20.0))
        state.commit(block("c", "c", until=30.0))
        state.commit(block("a", "a", until=40.0))
        assert [b.key for b in state.blocks(START)] == ["b", "c", "a"]
        assert [b.key for b in state.blocks(START + 20.0)] == ["c", "a"]
        assert list(state.blocks(START + 40.0)) == []

    def test_strikes_are_the_accounts_of_an_address_that_are_blocked_now(self):
        state = self.state(WINDOW)
        assert state.record_visit(ask(0.0, EVE)).strikes == 0
        state.commit(block(ANN, HOME, until=10.0))
        state.commit(block(BOB, HOME, until=20.0))
        state.commit(block(BOB, HOME, until=20.0))
        state.commit(block(AWAY, AWAY, until=20.0))
        assert state.record_visit(ask(1.0, EVE)).strikes == 2
        assert state.record_visit(ask(1.0, EVE, AWAY)).strikes == 0
        assert state.record_visit(ask(10.0, EVE)).strikes == 1
        assert state.forgive(BOB)
        assert state.record_visit(ask(11.0, EVE)).strikes == 0

    def test_an_account_that_is_blocked_again_elsewhere_counts_there(self):
        state = self.state(WINDOW)
        state.commit(block(ANN, HOME, until=10.0))
        state.commit(block(ANN, AWAY, until=20.0))
        assert state.record_visit(ask(1.0, EVE)).strikes == 0
        assert state.record_visit(ask(1.0, EVE, AWAY)).strikes == 1
        assert state.forgive(ANN)
        assert state.record_visit(ask(1.0, EVE, AWAY)).strikes == 0

    # ---- Offences

    def test_an_offence_is_remembered_for_a_while_after_its_block(self):
        state = self.state(WINDOW, remember=100.0)
        state.commit(block(until=10.0))
        assert state.record_visit(ask(9.0)).offences == ()
        assert state.record_visit(ask(10.0)).offences == ((HOME, 1),)
        assert state.record_visit(ask(10.0, AWAY)).offences == ()
        assert state.record_visit(ask(109.0)).offences == ((HOME, 1),)
        assert state.record_visit(ask(110.0)).offences == ()
        assert state.record_visit(ask(20.0)).offences == ()

    def test_offences_of_the_visitor_of_everyone_there_and_of_the_network(self):
        state = self.state(WINDOW, remember=100.0)
        for key in (ANN, prefix_key(HOME), NETWORK, BOB):
            state.commit(msgspec.structs.replace(block(key, until=10.0), offence=len(key)))
        found = state.record_visit(ask(11.0, ANN, network=NETWORK)).offences
        assert sorted(found) == sorted((key, len(key)) for key in (ANN, prefix_key(HOME), NETWORK))

    def test_who_is_forgiven_has_no_offences(self):
        state = self.state(WINDOW, remember=100.0)
        state.commit(block())
        state.forgive(HOME)
        assert state.record_visit(ask(1.0)).offences == ()

    def test_without_a_memory_there_are_no_offences(self):
        state = self.state(WINDOW)
        state.commit(block(until=10.0))
        assert state.record_visit(ask(10.0)).offences == ()

    def test_no_more_offences_than_blocks_are_remembered(self):
        state = self.state(WINDOW, most_blocks=3, remember=100.0)
        for n in range(5):
            state.commit(block(f"192.0.2.{n}", f"192.0.2.{n}", until=1.0))
        known = [n for n in range(5) if state.record_visit(ask(2.0, f"192.0.2.{n}")).offences]
        assert known == [2, 3, 4]

    # ---- Bounds

    def test_of_too_many_blocks_the_one_of_the_oldest_offence_goes(self):
        state = self.state(WINDOW, most_blocks=3)
        for n in range(3):
            state.commit(block(f"192.0.2.{n}", f"192.0.2.{n}"))
        state.commit(block("192.0.2.0", "192.0.2.0", until=70.0))
        state.commit(block("192.0.2.9", "192.0.2.9"))
        assert [b.key for b in state.blocks(START)] == ["192.0.2.2", "192.0.2.0", "192.0.2.9"]

    def test_strikes_go_with_the_blocks(self):
        state = self.state(WINDOW, most_blocks=2)
        for name in "abcd":
            state.commit(block(f"account:{name}", HOME))
        assert state.record_visit(ask(1.0, EVE)).strikes == 2

    def test_a_flood_of_addresses_does_not_wash_a_block_away(self):
        state = self.state(WINDOW, memory=100_000, most_blocks=10)
        state.commit(block("203.0.113.9", "203.0.113.9"))
        for n in range(5_000):
            state.record_visit(ask(n / 1e6, f"10.0.{n // 250}.{n % 250}"))
        assert state.record_visit(ask(1.0, "203.0.113.9")).block is not None

    def test_other_windows_take_effect_and_what_is_remembered_stays(self):
        state = self.state(WINDOW)
        for n in range(4):
            state.record_visit(ask(n / 10))
        state.use_limits((RateLimit(count=2, seconds=1.0), RateLimit(count=9, seconds=3.0, of="requests")))
        assert state.record_visit(ask(0.4)).counts == (5, 5)
        state.use_limits(())
        assert state.record_visit(ask(0.5)).counts == ()

    # ---- Standings

    def test_a_standing_is_what_its_changes_made_it(self):
        state = self.state(WINDOW)
        assert state.record_visit(ask()).score is None
        for n in range(3):
            state.update_score(ScoreUpdate(HOME, START + n, 7, 1e9, weight=0.25, codes=("a",), suspicious=True))
        score = state.record_visit(ask()).score
        assert (round(score.total, 6), score.suspicious_visits, score.reasons) == (0.75, 3, (("a", 3),))
        assert state.record_visit(ask(visitor=ANN)).score is None
        assert [key for key, _ in state.scores()] == [HOME]

    def test_the_challenges_of_a_browser_count_on_over_midnight_and_those_of_an_address_do_not(self):
        state, holder = self.state(WINDOW), "clearance:0011"
        for key in (HOME, holder):
            for day, after in ((7, 0.0), (8, 600.0), (8, 30_000.0)):
                state.update_score(ScoreUpdate(key, START + after, day, 1e9, weight=0.1, challenged=True))
                if after == 600.0:
                    score = dict(state.scores())[key]
                    assert (score.day, score.challenges) == ((8, 1) if key == HOME else (7, 2))
        assert [(score.day, score.challenges) for _, score in state.scores()] == [(8, 2), (8, 1)]

    @pytest.mark.parametrize(("answers", "day"), [(True, 8), (False, 7)])
    def test_an_image_that_was_answered_ends_the_day_of_a_browser(self, answers, day):
        state, holder = self.state(WINDOW), "clearance:0011"
        for number in range(5):
            state.update_score(
                ScoreUpdate(holder, START + 10 * number, 7, 1e9, 1.0, ("a",), challenged=True, identity="suspect")
            )
            if number < 4 or answers:
                state.update_score(ScoreUpdate(holder, START + 10 * number + 5, 7, 1e9, cleared=True))
        state.update_score(ScoreUpdate(holder, START + 60, 8, 1e9, 0.1))
        assert dict(state.scores())[holder].day == day

    def test_some_keys_are_looked_up_without_the_others(self):
        state = self.state(WINDOW)
        assert state.look_up([HOME], START) == ([], [])
        for key in (HOME, ANN, "192.0.2.9"):
            state.update_score(ScoreUpdate(key, START, 7, 1e9, weight=0.25, codes=("a",)))
        blocks = [block("192.0.2.8", "192.0.2.8"), block("192.0.2.7", "192.0.2.7", until=1.0)]
        for one in blocks:
            state.commit(one)
        found, scores = state.look_up([ANN, "192.0.2.8", "192.0.2.7", HOME, "nobody"], START + 2.0)
        assert [one.key for one in found] == ["192.0.2.8"]
        assert scores == [pair for name in (ANN, HOME) for pair in state.scores() if pair[0] == name]

    def test_an_entry_alone_is_no_standing(self):
        state = self.state(WINDOW)
        state.update_score(ScoreUpdate(HOME, START, 1, 1.0, entry="/item/7"))
        memory = state.record_visit(ask())
        assert (memory.score, memory.entries) == (None, ("/item/7",))
        assert state.record_visit(ask(visitor=ANN)).entries == ()
        for n in range(20):
            state.update_score(ScoreUpdate(HOME, START, 1, 1.0, entry=f"/{n}"))
        assert state.record_visit(ask()).entries == tuple(f"/{n}" for n in range(12, 20))

    def test_an_entry_is_kept_right_after_a_solved_challenge(self):
        """Then a new challenge does not begin, but the visitor has come there all the same."""
        state = self.state(WINDOW)
        state.update_score(ScoreUpdate(HOME, START, 1, 1.0, challenged=True, cleared=True))
        state.update_score(ScoreUpdate(HOME, START, 1, 1.0, challenged=True, identity="suspect", entry="/item/7"))
        memory = state.record_visit(ask())
        assert memory.score is not None
        assert (memory.score.identity, memory.entries) == ("person", ("/item/7",))

    def test_forgiving_forgets_block_and_standing(self):
        state = self.state(WINDOW)
        state.update_score(ScoreUpdate(HOME, START, 1, 1.0, weight=0.5))
        state.commit(block(HOME))
        assert state.forgive(HOME) is True
        memory = state.record_visit(ask())
        assert (memory.block, memory.score) == (None, None)
        assert state.forgive(HOME) is False

    def test_who_was_blocked_starts_without_suspicion_and_its_challenges_are_kept(self):
        state = self.state(WINDOW)
        state.update_score(ScoreUpdate(HOME, START, 1, 1.0, weight=0.5, challenged=True, identity="suspect"))
        state.commit(block(HOME, until=1.0))
        score = state.record_visit(ask(5.0)).score
        assert (score.identity, score.total, score.challenges) == ("person", 0.0, 1)

    def test_standings_and_entries_are_bounded(self):
        state = self.state(WINDOW, memory=1_000_000)
        for n in range(5_000):
            state.update_score(ScoreUpdate(f"192.0.2.{n}", START, 1, 1.0, weight=0.5, entry=f"/{n}"))
        assert 100 < len(state.scores()) < 1_000
        assert state.record_visit(ask(visitor="192.0.2.4999")).score is not None
        assert state.record_visit(ask(visitor="192.0.2.0")).entries == ()

    # ---- Requests of a day

    def test_requests_of_a_day_are_counted_where_a_day_is_given(self):
        state = self.state(WINDOW)

        def on(day: int, visitor: str = HOME, kind: str = "page") -> StateQuery:
            return msgspec.structs.replace(ask(visitor=visitor), day=day, kind=kind)

        assert [state.record_visit(on(7)).today for _ in range(3)] == [1, 2, 3]
        assert state.record_visit(ask()).today == 0
        read = msgspec.structs.replace(on(7, visitor=HOME + "/read", kind="asset"), daily=HOME)
        assert [state.record_visit(read).today for _ in range(2)] == [3, 3], "asked for without another page"
        assert state.record_visit(on(7, ANN)).today == 1
        assert state.record_visit(on(7, kind="asset")).today == 3
        assert state.record_visit(on(7), "asset").today == 4
        assert state.record_visit(on(7, kind="asset"), "page").today == 3
        assert state.record_visit(on(8)).today == 1
        assert state.record_visit(on(7)).today == 1

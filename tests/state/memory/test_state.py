"""The state of one process: what every state must do, and the bounds that the settings name."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hedgerow.core.rate_limit import RateLimit
from hedgerow.core.state import prefix_key
from hedgerow.state.memory import state as module
from hedgerow.state.memory.state import MemoryState
from property_tests import examples
from state.state_conformance import NETWORK, StateConformance, ask, block
from state.state_machine import compared


class TestMemoryState(StateConformance):
    def state(self, windows, **options):
        return MemoryState(windows, **options)


TestMemoryMachine = compared(MemoryState).TestCase


def true_cost(state: MemoryState) -> int:
    """What `bytes_used` should be, from what is really there."""
    total = 0
    for key, trail in state._hits.items():
        total += module._SINGLE_BYTES + sys.getsizeof(key)
        if not isinstance(trail, float):
            series = [hits for hits in trail.series if hits is not None]
            total += module._SERIES_LIST_BYTES + module._SERIES_BYTES * len(series)
            total += module._TIME_BYTES * sum(map(len, series))
    return total


def test_many_addresses_stay_within_the_budget_and_the_oldest_are_forgotten_first():
    budget = 1_000_000
    state = MemoryState((RateLimit(count=40, seconds=1e6),), memory=budget)
    highest = 0
    for n in range(20_000):
        state.record_visit(ask(n, f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"))
        highest = max(highest, state.bytes_used)
    assert highest <= budget
    assert state.bytes_used == true_cost(state)
    assert 3_500 < len(state) < 5_000
    assert state.forgotten == 20_000 - len(state)
    assert list(state._hits) == [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in range(20_000 - len(state), 20_000)]


def test_who_comes_again_is_remembered_longer():
    state = MemoryState((RateLimit(count=40, seconds=1e6),), memory=50_000)
    for n in range(5_000):
        state.record_visit(ask(n, f"10.0.{n // 250}.{n % 250}"))
        if n % 50 == 0:
            counts = state.record_visit(ask(n, "192.0.2.1")).counts
    assert counts == (41,)


def test_an_address_takes_less_than_300_bytes():
    for address in ("255.255.255.255", "2001:db8:ffff:ffff::/64", prefix_key("2001:db8:ffff:ffff::/64")):
        assert module._single_bytes(address) <= 300


def test_long_names_of_accounts_are_paid_for():
    state = MemoryState((RateLimit(count=40, seconds=1e6),), memory=1_000_000)
    for n in range(10_000):
        state.record_visit(ask(n, f"account:{n:0>100}"))
    assert sum(map(sys.getsizeof, state._hits)) < state.bytes_used <= 1_000_000


def test_who_has_left_every_window_is_swept_out_as_others_come():
    state = MemoryState((RateLimit(count=40, seconds=3.0),))
    for n in range(1000):
        state.record_visit(ask(0.0, f"10.0.{n // 250}.{n % 250}"))
    assert len(state) == 1000
    for n in range(501):
        state.record_visit(ask(3.0 + n / 1000, f"10.1.{n // 250}.{n % 250}"))
    assert len(state) == 501
    assert state.forgotten == 0


def test_a_window_too_short_for_the_clock_breaks_nothing():
    state = MemoryState((RateLimit(count=1, seconds=1e-9),))
    for n in range(10):
        state.record_visit(ask(0.0, "192.0.2.1"))
        state.record_visit(ask(0.0, f"10.0.0.{n}"))
    assert state.bytes_used == true_cost(state)


class Costs(RuleBasedStateMachine):
    """`spent` never drifts, whatever is done in whatever order."""

    keys = st.sampled_from([f"10.0.0.{n}" for n in range(6)] + [f"account:{'x' * 30 * n}" for n in range(1, 4)])
    kinds = st.sampled_from(["page", "call", "asset", "prefetch"])
    times = st.integers(0, 200).map(lambda n: n / 8)
    windows = st.lists(
        st.builds(
            RateLimit,
            count=st.integers(1, 5),
            seconds=st.sampled_from([0.5, 2.0, 8.0]),
            by=st.sampled_from(["visitor", "prefix", "network"]),
            of=st.sampled_from(["pages", "requests", "everything", "prefetches"]),
        ),
        max_size=3,
    )

    @initialize(windows=windows, memory=st.sampled_from([3_000, 1_000_000]))
    def begin(self, windows, memory):
        self.state = MemoryState(windows, memory=memory, most_blocks=3)

    @rule(at=times, key=keys, kind=kinds, network=st.sampled_from(["", NETWORK]))
    def record_visit(self, at, key, kind, network):
        self.state.record_visit(ask(at, key, kind=kind, network=network))

    @rule(at=times, key=keys, kind=kinds, network=st.sampled_from(["", NETWORK]))
    def reclassify(self, at, key, kind, network):
        self.state.record_visit(ask(at, key, network=network), kind)

    @rule(at=times, key=keys, everyone=st.booleans())
    def commit(self, at, key, everyone):
        self.state.commit(block(prefix_key(key) if everyone else key, key, until=at))

    @rule(key=keys)
    def forgive(self, key):
        self.state.forgive(key)

    @rule(windows=windows)
    def use(self, windows):
        self.state.use_limits(windows)

    @invariant()
    def the_books_are_right(self):
        state = self.state
        assert state.bytes_used == true_cost(state)
        assert state.bytes_used <= state._memory or len(state) == 1
        assert len(state._blocks) <= 3
        accounts = {key for key in state._blocks if key.startswith("account:") and not key.endswith("/*")}
        assert set().union(*state._strikes.values()) >= accounts
        assert all(keys and keys <= set(state._blocks) for keys in state._strikes.values())


Costs.TestCase.settings = examples(60, stateful_step_count=40)
TestCosts = Costs.TestCase


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=80))
def test_a_single_visitor_costs_what_it_has(visits):
    state = MemoryState((RateLimit(count=10, seconds=2.0, of="requests"),))
    for at, call in visits:
        state.record_visit(ask(at / 8, "192.0.2.1", kind="call" if call else "page"))
        assert state.bytes_used == true_cost(state)

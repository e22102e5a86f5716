"""
A state beside plain dictionaries: whatever is done in whatever order, both answer the same.

    TestMemoryMachine = compared(lambda windows, **options: MemoryState(windows, **options)).TestCase

Time only goes on here, and nothing comes near a limit: what a state does with late-comers and when it is full is up to
it, within what `state_conformance` asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hedgerow.core.decision import Block, ScoreUpdate, VisitorScore
from hedgerow.core.rate_limit import RateLimit
from hedgerow.core.state import StateQuery, StateReply, prefix_key
from hedgerow.policy.score import updated_score
from property_tests import examples

from .state_conformance import _COUNTS, EVIDENCE, START

REMEMBER = 20.0
_PEOPLE = [
    ("192.0.2.1", "192.0.2.1", "192.0.2.0/24"),
    ("account:ann", "192.0.2.1", "192.0.2.0/24"),
    ("account:" + "é" * 300, "192.0.2.1", "192.0.2.0/24"),
    ("clearance:0011", "2001:db8::/64", "2001:db8::/48"),
    ("2001:db8::/64", "2001:db8::/64", "2001:db8::/48"),
]
_KEYS = sorted({key for visitor, prefix, network in _PEOPLE for key in (visitor, prefix_key(prefix), network)})
_WINDOWS = st.lists(
    st.builds(
        RateLimit,
        count=st.integers(1, 6),
        seconds=st.sampled_from([0.5, 3.0, 10.0]),
        by=st.sampled_from(["visitor", "prefix", "network"]),
        of=st.sampled_from(["pages", "requests", "everything", "prefetches"]),
    ),
    max_size=4,
)


class Model:
    """The state in plain dictionaries and lists, with nothing ever thrown away that is not over."""

    def __init__(self, windows: list[RateLimit]) -> None:
        self.windows = windows
        self.visits: list[tuple[float, str, dict[str, str]]] = []
        self.barred: dict[str, Block] = {}
        self.offences: dict[str, tuple[int, float]] = {}
        self.scores: dict[str, VisitorScore] = {}
        self.entries: dict[str, tuple[str, ...]] = {}
        self.days: dict[tuple[int, str], int] = {}

    def record_visit(self, question: StateQuery, claimed: str = "") -> StateReply:
        at, visitor = question.at, question.visitor
        whose = {"visitor": visitor, "prefix": prefix_key(question.prefix), "network": question.network}
        keys = (visitor, prefix_key(question.prefix), question.network)
        of_a_day = {"page", "prefetch"}
        if question.day and question.count:
            more = (question.kind in of_a_day) - (claimed in of_a_day)
            self.days[question.day, visitor] = self.days.get((question.day, visitor), 0) + more
        if claimed and (at, claimed, whose) in self.visits:
            self.visits.remove((at, claimed, whose))
        for key in keys:
            if key in self.barred and self.barred[key].until > at:
                return StateReply(self.barred[key], ())
        counts: tuple[int, ...] = ()
        if question.count and any(question.kind in _COUNTS[window.of] for window in self.windows):
            self.visits.append((at, question.kind, whose))
            counts = tuple(
                sum(
                    at - window.seconds < when <= at
                    and kind in _COUNTS[window.of]
                    and who[window.by] == whose[window.by]
                    for when, kind, who in self.visits
                )
                for window in self.windows
            )
        strikes = sum(
            block.prefix == question.prefix and block.until > at and key.startswith(("account:", "clearance:"))
            for key, block in self.barred.items()
        )
        return StateReply(
            None, counts, strikes if visitor != question.prefix else 0, self.scores.get(visitor),
            self.days.get((question.day, visitor), 0) if question.count and question.day else 0,
            self.entries.get(visitor, ()),
            tuple((key, self.offences[key][0]) for key in keys if key in self.offences and self.offences[key][1] > at),
        )  # fmt: skip

    def commit(self, block: Block) -> None:
        key = block.key
        self.barred.pop(key, None)
        self.barred[key] = block
        self.offences[key] = (block.offence, block.until + REMEMBER)
        if key in self.scores:
            before = self.scores[key]
            self.scores[key] = VisitorScore(at=before.at, day=before.day, challenges=before.challenges)
        self._start_anew(key, block.prefix)

    def _start_anew(self, key: str, prefix: str) -> None:
        """
        The visits of *key* count no longer for itself.

        A block of everyone at an address takes the visits of the visitor without an account along, and one of that
        visitor takes them from the address: it is there that they are counted.
        """
        gone = {key, prefix} if key == prefix_key(prefix) else {key}
        for _, _, who in self.visits:
            address = who["prefix"].removesuffix("/*")
            plain = who["visitor"] == address
            if (plain and address in gone) or (not plain and who["prefix"] in gone):
                who["prefix"] = "nobody"
            if who["visitor"] in gone:
                who["visitor"] = "nobody"
            if who["network"] in gone:
                who["network"] = "nobody"

    def update_score(self, change: ScoreUpdate) -> None:
        if change.entry:
            self.entries[change.key] = (*self.entries.get(change.key, ()), change.entry)[-8:]
        if change.weight or change.identity or change.cleared or change.codes:
            self.scores[change.key] = updated_score(self.scores.get(change.key), change)

    def forgive(self, key: str, at: float) -> bool:
        self.offences.pop(key, None)
        self.days = {(day, who): n for (day, who), n in self.days.items() if who != key}
        known = self.scores.pop(key, None) is not None
        block = self.barred.pop(key, None)
        return known or (block is not None and block.until > at)


def compared(make: Callable[..., Any]) -> type[RuleBasedStateMachine]:
    """A machine that compares what *make* makes with the model."""

    class Compared(RuleBasedStateMachine):
        @initialize(windows=_WINDOWS)
        def begin(self, windows):
            self.windows, self.now, self.day = windows, START, 7
            self.state, self.model = make(windows, remember=REMEMBER), Model(windows)

        def teardown(self):
            if hasattr(self, "state"):
                self.state.close()

        def agree(self, found: StateReply, right: StateReply) -> None:
            assert len(found.counts) == len(right.counts)
            for window, answered, counted in zip(self.windows, found.counts, right.counts, strict=False):
                assert answered == counted or (answered > window.count and counted > window.count)
            assert msgspec.structs.replace(found, counts=()) == msgspec.structs.replace(right, counts=())

        @rule(step=st.integers(0, 24).map(lambda n: n / 8))
        def time_goes_on(self, step):
            self.now += step

        @rule()
        def midnight(self):
            self.day += 1

        @rule(hours=st.sampled_from([5, 7]))
        def night(self, hours):
            self.now += hours * 3600

        @rule(
            who=st.sampled_from(_PEOPLE), kind=st.sampled_from(["page", "call", "asset", "prefetch"]),
            count=st.booleans(), by_day=st.booleans(), times=st.integers(1, 4), networks=st.booleans(),
        )  # fmt: skip
        def visit(self, who, kind, count, by_day, times, networks):
            visitor, prefix, network = who
            question = StateQuery(
                self.now, kind, visitor, prefix, network if networks else "",
                count=count or kind == "page", day=self.day if by_day else 0,
            )  # fmt: skip
            if not networks and any(window.by == "network" for window in self.windows):
                return
            for _ in range(times):
                self.agree(self.state.record_visit(question), self.model.record_visit(question))
            if kind in {"asset", "call"} and question.count:
                page = msgspec.structs.replace(question, kind="page")
                self.agree(self.state.record_visit(page, kind), self.model.record_visit(page, kind))

        @rule(
            key=st.sampled_from(_KEYS), seconds=st.integers(1, 60), offence=st.integers(1, 3),
            prefix=st.sampled_from(["192.0.2.1", "2001:db8::/64"]),
        )  # fmt: skip
        def block(self, key, seconds, offence, prefix):
            prefix = key.removesuffix("/*") if key.endswith("/*") else prefix
            block = Block(key, prefix, self.now, self.now + seconds, "refuse", EVIDENCE, offence)
            self.state.commit(block)
            self.model.commit(block)

        @rule(
            key=st.sampled_from([visitor for visitor, _, _ in _PEOPLE]),
            weight=st.sampled_from([0.0, 0.125, 0.3]), codes=st.lists(st.sampled_from("abcdefghijkl"), max_size=3),
            suspicious=st.booleans(), challenged=st.booleans(), cleared=st.booleans(),
            identity=st.sampled_from(["", "suspect", "depth-first", "person"]), entry=st.sampled_from(["", "/1", "/ö"]),
            late=st.sampled_from([0.0, 5.0]),
        )  # fmt: skip
        def update_score(self, late, **fields):
            change = ScoreUpdate(
                at=self.now - late, day=self.day, half_life=7.0, **{**fields, "codes": tuple(fields["codes"])}
            )
            self.state.update_score(change)
            self.model.update_score(change)

        @rule(key=st.sampled_from([*_KEYS, "nobody"]))
        def forgive(self, key):
            # Of a block that is over it may or may not be known that there was one.
            over = key in self.model.barred and self.model.barred[key].until <= self.now
            found, right = self.state.forgive(key), self.model.forgive(key, self.now)
            assert found == right or over

        @invariant()
        def the_lists_are_the_same(self):
            if hasattr(self, "state"):
                blocks = [block for block in self.model.barred.values() if block.until > self.now]
                assert list(self.state.blocks(self.now)) == blocks
                assert dict(self.state.scores()) == self.model.scores

    Compared.TestCase.settings = examples(60, stateful_step_count=30, deadline=None)
    return Compared

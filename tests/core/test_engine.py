"""The engine: the order of the access check, and whom it leaves alone."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.core.decision import PASS, Block, Evidence, PolicyRule
from hedgerow.core.engine import Engine
from hedgerow.core.gate import run_now
from hedgerow.core.ledger import NoLedger
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Marker, Visit
from hedgerow.detectors.spec import VISIT_TRAITS
from hedgerow.lists.model import Listing, Lists
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.policy.decision_policy import DecisionPolicy
from hedgerow.settings import read_settings
from hedgerow.state.memory.state import MemoryState
from hedgerow.web.gate import build_gate

VISIT = Visit(100.0, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", "/")
EVIDENCE = Evidence("density", "density-visitor", 1.0, "Why.")
BLOCK = Block("192.0.2.1", "192.0.2.1", 95.0, 105.0, "refuse", EVIDENCE)


def engine(*detectors, **options) -> Engine:
    rules = {"density": PolicyRule("refuse", 10.0), "trap": PolicyRule("refuse", 10.0)}
    return Engine(detectors, DecisionPolicy(rules), **options)


def never(_visit, _reply):
    raise AssertionError("no detector may be asked")


HIDDEN = Marker("trap", bytes(6), bytes(6), "")
LINK = Marker("page", bytes(6), bytes(6), "/t")


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({}, []),
        ({"marker": LINK}, []),
        ({"marker": HIDDEN}, ["hidden-link"]),
        ({"claim": "Googlebot"}, ["claim"]),
        ({"anomalies": ("no-accept",)}, ["anomalies"]),
        ({"anomalies": ("by-program",)}, ["anomalies", "program"]),
        ({"visitor": "clearance:1"}, ["one-browser"]),
        ({"visitor": "account:ann", "claim": "Googlebot"}, ["claim", "one-browser"]),
    ],
)
def test_a_detector_is_asked_about_the_visits_that_it_names_and_no_others(fields, asked):
    called = []
    detectors = [lambda _visit, _reply, name=name: called.append(name) or () for name in (*VISIT_TRAITS, "all")]
    judging = engine(*detectors, only=(*VISIT_TRAITS, None))
    visit = msgspec.structs.replace(VISIT, **fields)
    judging.judge(visit, StateReply(None, ()))
    assert called == [*asked, "all"]
    judging.judge(visit, StateReply(None, ()))
    assert called == [*asked, "all"] * 2


@pytest.mark.parametrize("codes", [(), ("elsewhere",), ("by-script",), ("read-by:192.0.2.1",)])
def test_what_a_listed_visitor_reads_counts_under_a_name_of_its_own(codes):
    visit = msgspec.structs.replace(VISIT, visitor="account:ann", account="ann", anomalies=codes)
    query = engine(needs={"day"}).question(visit, listed=True)
    assert (query.visitor, query.prefix) == ("account:ann/listed",) * 2
    assert (query.daily, query.apart) == ("", "")


def test_the_lists_come_before_everything_else():
    lists = Lists([Listing("black", "192.0.2.0/24", "spam", "ann", 1.0, 105.0), Listing("white", "192.0.2.7")])
    judging = Engine((), DecisionPolicy({}), lists=lists)
    decision = judging.listed(VISIT)
    assert decision is not None
    assert (decision.action, decision.until, decision.code) == ("refuse", 105.0, "list-black")
    (evidence,) = decision.evidence
    assert evidence.text == "This network is on the black list."
    assert (evidence.key, evidence.details) == ("192.0.2.0/24", "reason: spam; by: ann")
    bot = msgspec.structs.replace(VISIT, bot="search")
    assert judging.listed(bot) == decision
    white = judging.listed(msgspec.structs.replace(VISIT, address="192.0.2.7"))
    assert white is not None
    assert (white.action, white.code) == ("pass", "list-white")
    assert judging.listed(msgspec.structs.replace(VISIT, at=105.0)) is None
    assert engine().listed(VISIT) is None


def test_the_query_to_the_state_holds_only_what_detectors_need():
    question = engine().question(VISIT)
    assert (question.at, question.kind, question.visitor, question.prefix, question.network, question.count) == (
        100.0, "page", "192.0.2.1", "192.0.2.1", "", True,
    )  # fmt: skip
    assert (question.day, question.site_rate) == (0, False)
    assert engine(needs={"network"}).question(VISIT).network == "192.0.2.0/24"
    assert engine(needs={"day"}).question(msgspec.structs.replace(VISIT, at=3 * 86_400.0 + 1)).day == 3
    assert engine(needs={"site_rate"}).question(VISIT).site_rate is True


def test_the_black_list_comes_first():
    """Before the state, which counts, and before every detector; and only as long as the entry is in force."""
    lists = Lists([Listing("black", "192.0.2.1", "spam", "ann", 1.0, 105.0)])
    asked = []

    class State(MemoryState):
        def record_visit(self, question, counted_as=None):
            asked.append(question)
            return super().record_visit(question, counted_as)

    gate = build_gate(
        read_settings("[marker]\nmode = 'off'\n", environment={}),
        tokens=TokenCodecs([Key(1, bytes(64), 0.0)]),
        ledger=NoLedger(),
        state=State(()),
    )
    gate.engine = engine(never, lists=lists)
    decision = run_now(gate.decide(VISIT))
    assert (decision.action, decision.code, asked) == ("refuse", "list-black", [])
    with pytest.raises(AssertionError, match="no detector may be asked"):
        run_now(gate.decide(msgspec.structs.replace(VISIT, at=106.0)))
    assert len(asked) == 1


def test_a_block_comes_before_all_detectors():
    decision, block = engine(never).judge(VISIT, StateReply(BLOCK, ()))
    assert decision.action == "refuse"
    assert block is not None
    assert block.until == 110.0


def test_evidence_of_an_undeclared_group_is_refused_and_nobody_is_blocked():
    """The registry refuses such a detector at the start; a request must not fail in any case."""
    stray = Evidence("stray", "stray", 1.0, "From nowhere.")
    decision, block = engine(lambda *_: [stray]).judge(VISIT, StateReply(None, ()))
    assert (decision.action, decision.code, block) == ("refuse", "stray", None)


def test_evidence_comes_in_the_order_of_the_detectors():
    trap = Evidence("trap", "trap", 1.0, "Trap.")
    decision, _ = engine(lambda *_: [trap], lambda *_: [EVIDENCE]).judge(VISIT, StateReply(None, ()))
    assert decision.evidence == (trap, EVIDENCE)
    assert decision.code == "trap"


def test_a_verified_bot_is_neither_counted_nor_judged():
    bot = msgspec.structs.replace(VISIT, bot="search")
    assert engine().question(bot).count is False
    assert engine(never).judge(bot, StateReply(BLOCK, ())) == (PASS, None)


def test_a_visitor_without_a_name_is_neither_counted_nor_judged():
    """All clients of a Unix socket have the same empty address: to block one would be to block all."""
    nobody = msgspec.structs.replace(VISIT, address="", visitor="", prefix="")
    assert engine().question(nobody).count is False
    assert engine(never).judge(nobody, StateReply(None, (999,))) == (PASS, None)

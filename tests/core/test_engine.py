"""The engine: the order of the access check, and whom it leaves alone."""

from __future__ import annotations

import msgspec

from hedgerow.core.decision import PASS, Block, Evidence
from hedgerow.core.engine import Engine
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.lists.model import Listing, Lists
from hedgerow.policy.decision_policy import DecisionPolicy, PolicyRule

VISIT = Visit(100.0, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", "/")
EVIDENCE = Evidence("density", "density-visitor", 1.0, "Why.")
BLOCK = Block("192.0.2.1", "192.0.2.1", 95.0, 105.0, "refuse", EVIDENCE)


def engine(*detectors, by_network: bool = False) -> Engine:
    return Engine(
        detectors,
        DecisionPolicy({"density": PolicyRule("refuse", 10.0), "trap": PolicyRule("refuse", 10.0)}),
        by_network=by_network,
    )


def never(_visit, _memory):
    raise AssertionError("the black list comes first")


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


def test_the_question():
    question = engine().question(VISIT)
    assert (question.at, question.kind, question.visitor, question.prefix, question.network, question.count) == (
        100.0, "page", "192.0.2.1", "192.0.2.1", "", True,
    )  # fmt: skip
    assert engine(by_network=True).question(VISIT).network == "192.0.2.0/24"


def test_the_black_list_comes_first():
    decision, block = engine(never).judge(VISIT, StateReply(BLOCK, ()))
    assert decision.action == "refuse"
    assert block is not None
    assert block.until == 110.0


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

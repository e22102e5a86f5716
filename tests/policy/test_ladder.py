"""From evidence to decision."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.policy.ladder import Ladder, Rule
from hedgerow.recall import Memory
from hedgerow.verdict import PASS, Block, Decision, Evidence
from hedgerow.visit import Visit

ADDRESS = "192.0.2.1"
VISIT = Visit(100.0, ADDRESS, ADDRESS, ADDRESS, "GET", "/")
ANN = Visit(100.0, ADDRESS, "account:ann", ADDRESS, "GET", "/", account="ann")
RULES = {"trap": Rule("detain", 60.0), "density": Rule("refuse", 10.0)}
NOTHING = Memory(None, ())


def evidence(weight: float = 1.0, detector: str = "density", key: str = "") -> Evidence:
    return Evidence(detector, f"{detector}-x", weight, "Why.", key)


def test_no_evidence_passes():
    assert Ladder(RULES).decide(VISIT, NOTHING, []) == (PASS, None)


def test_light_evidence_passes_and_is_kept():
    found = [evidence(0.4), evidence(0.5, "trap")]
    assert Ladder(RULES).decide(VISIT, NOTHING, found) == (Decision("pass", tuple(found)), None)


@pytest.mark.parametrize(("weights", "action"), [([0.4, 0.6], "detain"), ([0.6, 0.4], "refuse"), ([1.0], "refuse")])
def test_weights_add_up_and_the_weightiest_detector_rules(weights, action):
    found = [evidence(weight, detector) for weight, detector in zip(weights, ("density", "trap"), strict=False)]
    decision, block = Ladder(RULES).decide(VISIT, NOTHING, found)
    assert decision.action == action
    assert decision.until == 100.0 + (60.0 if action == "detain" else 10.0)
    assert block == Block(ADDRESS, ADDRESS, 100.0, decision.until, action, max(found, key=lambda e: e.weight))
    assert decision.code == block.evidence.code


def test_the_block_is_of_whom_the_evidence_speaks_about():
    _, block = Ladder(RULES).decide(ANN, NOTHING, [evidence(key="192.0.2.0/24")])
    assert block is not None
    assert block.key == "192.0.2.0/24"


@pytest.mark.parametrize(
    ("strikes", "key"), [(0, "account:ann"), (1, "account:ann"), (2, "192.0.2.1/*"), (9, "192.0.2.1/*")]
)
def test_the_third_account_of_one_address_blocks_everyone_there(strikes, key):
    _, block = Ladder(RULES, strikes=3).decide(ANN, Memory(None, (), strikes), [evidence()])
    assert block is not None
    assert block.key == key


def test_a_visitor_without_an_account_never_strikes():
    _, block = Ladder(RULES, strikes=1).decide(VISIT, Memory(None, (), 5), [evidence()])
    assert block is not None
    assert block.key == ADDRESS


def test_a_rule_without_a_time_declines_one_visit_and_blocks_nobody():
    decision, block = Ladder({"prefetch": Rule("refuse", 0.0)}).decide(VISIT, NOTHING, [evidence(detector="prefetch")])
    assert (decision.action, decision.until, block) == ("refuse", 100.0, None)


def test_a_visit_during_a_block_starts_it_again():
    block = Block(ADDRESS, ADDRESS, 95.0, 105.0, "refuse", evidence())
    decision, renewed = Ladder(RULES).uphold(VISIT, block)
    assert decision == Decision("refuse", (block.evidence,), 110.0)
    assert renewed == Block(ADDRESS, ADDRESS, 95.0, 110.0, "refuse", block.evidence)


def test_a_renewed_block_never_ends_earlier():
    block = Block(ADDRESS, ADDRESS, 95.0, 500.0, "refuse", evidence())
    decision, renewed = Ladder(RULES).uphold(VISIT, block)
    assert decision.until == 500.0
    assert renewed == block


def test_without_renewal_a_block_ends_when_it_ends():
    block = Block(ADDRESS, ADDRESS, 95.0, 105.0, "detain", evidence(detector="trap"))
    assert Ladder(RULES, renew=False).uphold(VISIT, block) == (Decision("detain", (block.evidence,), 105.0), None)


@pytest.mark.parametrize(("before", "seconds"), [(0, 10.0), (1, 20.0), (2, 40.0), (3, 50.0), (5000, 50.0)])
def test_who_is_blocked_again_is_blocked_for_longer_up_to_a_limit(before, seconds):
    ladder = Ladder(RULES, lengthen=2.0, longest=50.0)
    memory = Memory(None, (), 0, ((ADDRESS, before), ("192.0.2.0/24", 9)) if before else ())
    decision, block = ladder.decide(VISIT, memory, [evidence()])
    assert block is not None
    assert (block.offence, block.until, decision.until) == (before + 1, 100.0 + seconds, 100.0 + seconds)
    _, renewed = ladder.uphold(msgspec.structs.replace(VISIT, at=105.0), block)
    assert renewed == msgspec.structs.replace(block, until=105.0 + seconds)


def test_a_rule_longer_than_the_limit_stays_as_it_is():
    _, block = Ladder(RULES, lengthen=2.0, longest=5.0).decide(
        VISIT, Memory(None, (), 0, ((ADDRESS, 3),)), [evidence()]
    )
    assert block is not None
    assert block.until == 110.0

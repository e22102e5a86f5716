"""Clearance: signs against the cookie count once each, and a shared one leads to a challenge."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.core.decision import VisitorScore
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.clearance import detect_clearance
from hedgerow.settings import Settings
from hedgerow.web.gate import build_policy


def visit(*anomalies: str) -> Visit:
    return Visit(1.0, "192.0.2.1", "clearance:abc", "192.0.2.1", "GET", "/", anomalies=anomalies)


def judged(*anomalies: str, known: tuple[str, ...] = ()) -> list[tuple[str, str, float]]:
    score = VisitorScore(reasons=tuple((code, 1) for code in known)) if known else None
    found = detect_clearance(visit(*anomalies), StateReply(None, (), score=score))
    return [(e.detector, e.code, e.weight) for e in found]


@pytest.mark.parametrize(
    ("sign", "weight"),
    [
        ("clearance-address", 0.1),
        ("clearance-language", 0.2),
        ("clearance-network", 0.0),
        ("clearance-user-agent", 0.4),
        ("clearance-shared", 1.0),
    ],
)
def test_each_sign_has_its_weight_and_counts_once(sign, weight):
    assert judged(sign) == [("clearance", sign, weight)]
    assert judged(sign, known=("other",)) == [("clearance", sign, weight)]
    assert judged(sign, known=(sign,)) == []


def test_other_signs_are_left_to_other_detectors():
    assert judged() == []
    assert judged("no-agent", "robots", "clearance-unknown") == []
    assert [code for _, code, _ in judged("no-agent", "clearance-address", "clearance-language")] == [
        "clearance-address",
        "clearance-language",
    ]


def test_a_shared_clearance_is_challenged_and_nobody_is_blocked():
    # A shared clearance does not count: the visitor is its address again.
    shared = msgspec.structs.replace(visit("clearance-shared"), visitor="192.0.2.1")
    reply = StateReply(None, ())
    decision, block = build_policy(Settings()).decide(shared, reply, detect_clearance(shared, reply))
    assert (decision.action, decision.code, block) == ("challenge", "clearance-shared", None)


def test_a_browser_update_and_a_new_address_together_do_not_challenge():
    moved = visit("clearance-address", "clearance-language", "clearance-user-agent")
    reply = StateReply(None, ())
    assert build_policy(Settings()).decide(moved, reply, detect_clearance(moved, reply)).decision.action == "pass"

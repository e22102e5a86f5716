"""Pages that need a clearance: during an attack, or by a rule for the path; and who is not asked."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.core.attack import AttackSwitch
from hedgerow.core.state import StateReply
from hedgerow.core.visit import READ_BY, Visit
from hedgerow.detectors.required_clearance import RequiredClearanceDetector
from hedgerow.request.path_rules import PathRule, PathRules

ME = "192.0.2.1"
VISIT = Visit(1000.0, ME, ME, ME, "GET", "/archive/1")
NOTHING = StateReply(None, ())


def codes(detector: RequiredClearanceDetector, **changes: object) -> list[str]:
    return [found.code for found in detector(msgspec.structs.replace(VISIT, **changes), NOTHING)]


@pytest.fixture
def attacked() -> RequiredClearanceDetector:
    switch = AttackSwitch()
    switch.until = 2000.0
    return RequiredClearanceDetector(switch)


def test_an_attack_concerns_every_page_until_it_ends(attacked):
    assert codes(attacked) == ["under-attack"]
    assert codes(attacked, kind="prefetch") == ["under-attack"]
    assert codes(attacked, anomalies=("by-program",)) == ["under-attack"]
    assert codes(attacked, at=2000.0) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"visitor": "clearance:abc"},
        {"visitor": "account:ann", "account": "ann"},
        {"kind": "asset"},
        {"kind": "call"},
        {"proof": "pending"},
    ],
)
def test_nobody_else_is_asked(attacked, changes):
    assert codes(attacked, **changes) == []


def test_an_invented_account_does_not_replace_a_clearance(attacked):
    assert codes(attacked, visitor="account:x", account="x", anomalies=(READ_BY + ME,)) == ["under-attack"]


def test_a_rule_concerns_its_paths_only():
    detector = RequiredClearanceDetector(AttackSwitch(), PathRules([PathRule("/archive/*", clearance=True)]))
    assert codes(detector) == ["clearance-required"]
    assert codes(detector, target="/other") == []

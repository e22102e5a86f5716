"""The "under attack" switch among the blocks of a state."""

from __future__ import annotations

from hedgerow.core.attack import ATTACK_KEY, attack_of, visitors_of
from hedgerow.core.decision import Block, Evidence

WHY = Evidence("administrator", "under-attack", 1.0, "Said so.")
SWITCH = Block(ATTACK_KEY, "", 0.0, 100.0, "challenge", WHY)
OTHER = Block("192.0.2.1", "192.0.2.1", 0.0, 100.0, "refuse", WHY)


def test_the_switch_is_found_until_it_ends():
    assert attack_of([OTHER, SWITCH], 50.0) is SWITCH
    assert attack_of([OTHER, SWITCH], 100.0) is None
    assert attack_of([OTHER], 50.0) is None


def test_the_switch_is_no_visitor():
    assert visitors_of([OTHER, SWITCH]) == [OTHER]

"""
The "under attack" switch: while it is on, every visitor without a clearance needs one before the page.

It is stored as a block with a key of its own. So it is shared by all gates of a site, survives a restart, and ends by
itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from hedgerow.core.decision import Block, Evidence

ATTACK_KEY = "site:under-attack"
"""The key of the block that stands for the switch. No visitor has it."""
CHECK_EVERY = 1.0
"""Seconds after which a gate asks its state for the switch again."""


class AttackSwitch:
    """What one process knows about the switch."""

    def __init__(self) -> None:
        self.until = 0.0
        """When it ends; 0 if it is off."""
        self.check_at = 0.0
        """When the state is to be asked again."""


def attack_block(at: float, seconds: float) -> Block:
    """Return the block that switches it on for so many seconds from *at*."""
    evidence = Evidence("administrator", "under-attack", 1.0, "The operator says that the site is under attack.")
    return Block(ATTACK_KEY, "", at, at + seconds, "challenge", evidence)


def attack_of(blocks: Iterable[Block], at: float) -> Block | None:
    """Return what stands for the switch if it is on at *at*."""
    return next((block for block in blocks if block.key == ATTACK_KEY and block.until > at), None)


def visitors_of(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks of visitors."""
    return [block for block in blocks if block.key != ATTACK_KEY]

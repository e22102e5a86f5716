"""
Evidence and decisions: what a detector found, and what is done about it. Nouns; no behaviour.

Detectors give evidence, policy turns evidence into a decision, adapters act on it. Never two of these in one place.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Action = Literal["pass", "challenge", "detain", "refuse"]


class Evidence(msgspec.Struct, frozen=True):
    """
    What a detector found about a visit.

    *code* is stable and for machines, *text* a sentence that a person understands. *weight* is how much it speaks for
    a crawler: weights add up, and at 1.0 the visitor is held to be one.
    """

    detector: str
    code: str
    weight: float
    text: str
    key: str = ""
    """Whom it speaks about: a visitor, a prefix or a network. Empty: the visitor."""
    details: str = ""
    """What else a machine may want to know, such as the digest of the visitor that a link was minted for."""


class Block(msgspec.Struct, frozen=True):
    """
    What keeps a visitor out by a detector's word: whom, since when, until when, why, and what it gets.

    *prefix* is the address prefix at which the visitor was last seen; it tells how many accounts of one address are
    blocked.
    """

    key: str
    prefix: str
    since: float
    until: float
    action: Action
    evidence: Evidence
    offence: int = 1
    """The how manieth block of this key it is, of those that are remembered."""


class Decision(msgspec.Struct, frozen=True):
    """What to do with a visit, and the evidence it rests on. *until* is when the visitor is let in again, or 0."""

    action: Action
    evidence: tuple[Evidence, ...] = ()
    until: float = 0.0

    @property
    def code(self) -> str:
        """The code of the weightiest evidence, or "" where there is none."""
        return max(self.evidence, key=lambda e: e.weight).code if self.evidence else ""


PASS = Decision("pass")

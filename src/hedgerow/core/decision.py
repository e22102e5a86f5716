"""
Evidence and decisions: what a detector found, and what is done about it. Nouns; no behaviour.

Detectors give evidence, policy turns evidence into a decision, adapters act on it. Never two of these in one place.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Action = Literal["pass", "challenge", "detain", "refuse"]


class Evidence(msgspec.Struct, frozen=True, gc=False):
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


Identity = Literal["person", "suspect", "depth-first", "width-first", "random-like"]
"""What a visitor is held to be. The last three are crawlers, by the order in which they follow links."""


class VisitorScore(msgspec.Struct, frozen=True, gc=False, rename={"total": "suspicion", "suspicious_visits": "wrong"}):
    """
    What a visitor is held to be, and what that rests on (PathMarker's user information).

    *total* is the sum of all evidence weights as it was at *at*; it halves every half-life. *suspicious_visits* counts
    the visits of *day* that spoke against the visitor, *challenges* how often it was challenged that day. *reasons* are
    evidence codes and how often each was found, the latest last. Stored files keep the earlier field names.
    """

    identity: Identity = "person"
    total: float = 0.0
    at: float = 0.0
    day: int = 0
    suspicious_visits: int = 0
    challenges: int = 0
    reasons: tuple[tuple[str, int], ...] = ()


class ScoreUpdate(msgspec.Struct, frozen=True, gc=False, rename={"suspicious": "wrong"}):
    """
    How the score of the visitor *key* changes.

    *weight* and *codes* are added; *suspicious* and *challenged* each count one more of *day*. *identity* is set where
    it is not empty. *cleared* says that the visitor solved a challenge: total and suspicious visits start again from
    zero. *entry* is an address that the visitor asked for without a marker; an entry alone does not create a score.
    """

    key: str
    at: float
    day: int
    half_life: float
    weight: float = 0.0
    codes: tuple[str, ...] = ()
    suspicious: bool = False
    challenged: bool = False
    cleared: bool = False
    identity: Identity | Literal[""] = ""
    entry: str = ""


class Campaign(msgspec.Struct, frozen=True):
    """
    Visitors that belong together, and a sentence why: *since* when, when last *seen*, and who its *members* are.

    *kind* "sharing": they use links that were minted for one another.
    """

    id: str
    kind: Literal["sharing"]
    since: float
    seen: float
    members: tuple[str, ...]
    text: str
    links: float = 0.0
    pages: float = 0.0
    """Links of one another that they used, and pages that they asked for by any link."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """
    What to do with a visit, and the evidence it rests on. *until* is when the visitor is let in again, or 0. *change*
    is what becomes of the visitor's standing once the visit is answered.
    """

    action: Action
    evidence: tuple[Evidence, ...] = ()
    until: float = 0.0
    change: ScoreUpdate | None = None

    @property
    def code(self) -> str:
        """The code of the weightiest evidence, or "" where there is none."""
        return max(self.evidence, key=lambda e: e.weight).code if self.evidence else ""


PASS = Decision("pass")

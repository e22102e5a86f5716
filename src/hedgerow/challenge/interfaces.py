"""Interfaces that other packages implement for challenges, and the names of challenge kinds and failures."""

from __future__ import annotations

from typing import Literal, Protocol

from hedgerow.challenge.prices import ClearancePrice
from hedgerow.core.decision import Decision
from hedgerow.core.visit import Visit

ChallengeKind = Literal["work", "image", "audio", "external"]
"""work: a calculation by the browser. image: letters to read. audio: digits to hear. external: another provider."""

CAPTCHAS: frozenset[ChallengeKind] = frozenset({"image", "audio"})

ChallengeFailure = Literal["tampered", "visitor", "spliced", "expired", "spent", "wrong", "outage"]
"""
Why an answer does not count. tampered: not a challenge of this site. visitor: issued to another visitor. spliced: parts
of two challenges. spent: already answered. outage: the external provider could not be reached.
"""

TOO_MANY = "too-many-challenges"
"""Evidence code of a visitor that was challenged too often. Its refusal has a page of its own."""


class ChallengeHooks(Protocol):
    """
    Receives what happens to each challenge. The gate implements it.

    *again* is true if the challenge replaces one for the same request: another kind, a wrong or a late answer. No new
    evidence led to it. *key* is the visitor key of the solver from now on; *asked* is false if the visitor was not
    challenged and solved a calculation in advance.
    """

    def needs_clearance(self, visit: Visit, decision: Decision) -> bool:
        """Return whether a clearance would be of use to the visitor."""

    def issued(self, visit: Visit, kind: ChallengeKind, at: float, *, again: bool) -> None: ...

    async def price(self, visit: Visit) -> ClearancePrice:
        """Return what the next clearance costs the visitor."""

    async def solved(self, visit: Visit, key: str, kind: ChallengeKind, at: float, *, asked: bool = True) -> None: ...

    def failed(self, visit: Visit, failure: ChallengeFailure, kind: ChallengeKind | None, at: float) -> None: ...


class UsedChallenges(Protocol):
    """
    A bounded set of the challenges that have been answered, kept until they expire. `state` has the stores.

    `mark_used` returns true on the first call for *challenge* and false ever after, in all processes. *until* is when
    the challenge expires, *at* is now. A full store forgets the challenges that expire soonest. From then on, every
    challenge that expires no later counts as used. So a flood makes slow visitors answer again, but no challenge counts
    twice.
    """

    def mark_used(self, challenge: bytes, until: float, at: float) -> bool: ...

    def close(self) -> None: ...

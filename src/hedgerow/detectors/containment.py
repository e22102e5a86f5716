"""
Containment (PubCrawl): who is unknown has so many requests a day; for more it must show to be a person.

Up to k1 requests a day are free. Behind them a visitor without an account is challenged; who has solved a challenge, or
has an account, goes on to k2, and is challenged again there. Where a rate is set all this holds only while the site is
busy.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.core.decision import Evidence
from hedgerow.core.state import ACCOUNT, StateReply
from hedgerow.core.visit import Visit

_SECONDS = 10.0


class Rate:
    """How many visits a second the site has had of late: an average in which older visits fade."""

    def __init__(self) -> None:
        self._rate = 0.0
        self._at = 0.0

    def add(self, at: float) -> float:
        """One more visit at *at*; returns the rate."""
        passed = max(0.0, at - self._at)
        self._rate = self._rate * 0.5 ** (passed / _SECONDS) + _PER_VISIT
        self._at = max(self._at, at)
        return self._rate


# Visits at a steady rate then add up to that rate.
_PER_VISIT = 0.6931471805599453 / _SECONDS


class ContainmentDetector:
    """Evidence from how much a visitor without an account has asked for today; *above_rate* 0: always."""

    def __init__(self, free: int, most: int, *, above_rate: float = 0.0) -> None:
        self._free = free
        self._most = most
        self._above_rate = above_rate
        self._rate = Rate()

    def __call__(self, visit: Visit, memory: StateReply) -> Sequence[Evidence]:
        busy = self._rate.add(visit.at) >= self._above_rate if self._above_rate else True
        if not busy or visit.kind not in {"page", "call"} or visit.visitor.startswith(ACCOUNT):
            return ()
        known = visit.visitor != visit.prefix
        if memory.today <= (self._most if known else self._free):
            return ()
        code, limit = ("k2", self._most) if known else ("k1", self._free)
        return (Evidence("containment", code, 1.0, f"More than {limit} requests today."),)

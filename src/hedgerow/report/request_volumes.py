"""
Request volumes: what containment would affect in a log (PubCrawl, table 9).

A source is an address prefix on one day. For each k1 and k2, sources with more than k1 and at most k2 requests are
counted, and their requests: the paper's "impacted" share. Beside it is what Hedgerow's containment would stop: every
request of a source after its k1-th, until it solves a challenge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from hedgerow.core.visit import Visit

K1 = (10, 15, 20, 25, 50, 100)
K2 = (100, 500, 1000, 2000, 5000, 10_000)


class RequestVolumes:
    """Requests of each source on each day. *day_of* gives the day of a time."""

    def __init__(self, day_of: Callable[[float], int], *, pages_only: bool = False) -> None:
        self._day_of = day_of
        self._pages_only = pages_only
        self._counts: Counter[tuple[str, int]] = Counter()

    def add(self, visit: Visit) -> None:
        if visit.kind != "asset" or not self._pages_only:
            self._counts[visit.prefix, self._day_of(visit.at)] += 1

    @property
    def sources(self) -> int:
        """Sources, counted once for each day."""
        return len(self._counts)

    @property
    def requests(self) -> int:
        return self._counts.total()

    def touched(self, k1: int, k2: int) -> tuple[int, int]:
        """Return sources with more than *k1* and at most *k2* requests in a day, and their requests (table 9)."""
        found = [count for count in self._counts.values() if k1 < count <= k2]
        return len(found), sum(found)

    def behind(self, k1: int) -> tuple[int, int]:
        """Return sources with more than *k1* requests in a day, and their requests after the *k1*-th."""
        found = [count - k1 for count in self._counts.values() if count > k1]
        return len(found), sum(found)

    def to_json(self, first: Sequence[int] = K1, second: Sequence[int] = K2) -> dict[str, Any]:
        grid = []
        for k1 in first:
            for k2 in second:
                sources, requests = self.touched(k1, k2)
                grid.append({"k1": k1, "k2": k2, "sources": sources, "requests": requests})
        behind = {str(k1): dict(zip(("sources", "requests"), self.behind(k1), strict=True)) for k1 in first}
        return {"sources": self.sources, "requests": self.requests, "touched": grid, "behind_k1": behind}

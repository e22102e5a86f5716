"""
Used challenges of one process, in memory.
"""

from __future__ import annotations

import heapq
import math
import threading


class MemoryUsedChallenges:
    """At most *most* challenges, in this process."""

    def __init__(self, most: int = 100_000) -> None:
        self._most = most
        self._spent: set[bytes] = set()
        self._ends: list[tuple[float, bytes]] = []
        self._floor = -math.inf
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._spent)

    def mark_used(self, challenge: bytes, until: float, at: float) -> bool:
        with self._lock:
            while self._ends and self._ends[0][0] <= at:
                self._spent.discard(heapq.heappop(self._ends)[1])
            if until <= at or until <= self._floor or challenge in self._spent:
                return False
            self._spent.add(challenge)
            heapq.heappush(self._ends, (until, challenge))
            while len(self._spent) > self._most:
                self._floor, soonest = heapq.heappop(self._ends)
                self._spent.discard(soonest)
            return True

    def close(self) -> None:
        pass

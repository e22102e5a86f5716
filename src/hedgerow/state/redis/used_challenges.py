"""
Used challenges, shared by all gates through Redis.
"""

from __future__ import annotations

import math

from hedgerow.state.memory.used_challenges import MemoryUsedChallenges
from hedgerow.state.redis.address import RedisUnavailable
from hedgerow.state.redis.state import RedisState


class RedisUsedChallenges:
    """
    Challenges that have been answered, at whatever gate.

    While Redis is away each gate remembers its own, at most *most*; or none counts, where *closed*.
    """

    def __init__(self, state: RedisState, *, most: int = 100_000, closed: bool = False) -> None:
        self._state = state
        self._closed = closed
        self._local = MemoryUsedChallenges(most)

    def mark_used(self, challenge: bytes, until: float, at: float) -> bool:
        if until <= at:
            return False
        key = self._state.key("spent:" + challenge.hex())
        try:
            first = self._state.ask(("SET", key, "1", "NX", "PX", math.ceil((until - at) * 1000)))
        except RedisUnavailable:
            return not self._closed and self._local.mark_used(challenge, until, at)
        return first is not None and self._local.mark_used(challenge, until, at)

    def close(self) -> None:
        self._local.close()

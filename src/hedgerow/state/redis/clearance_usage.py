"""
Clearance usage shared through Redis.

A request never waits: local knowledge answers, shared knowledge follows a moment later.
"""

from __future__ import annotations

import math
from typing import Any

from hedgerow.challenge.clearance import ClearanceUsage
from hedgerow.state.redis.scripts import Script
from hedgerow.state.redis.state import RedisState

_SIGHT = Script(
    "redis.call('HSET', ARGV[1], ARGV[2], ARGV[3]) redis.call('PEXPIRE', ARGV[1], ARGV[4]) "
    "return redis.call('HGETALL', ARGV[1])"
)


class RedisClearanceUsage(ClearanceUsage):
    """From which networks each clearance has been seen lately, at whatever gate."""

    def __init__(
        self, state: RedisState, *, networks: int = 3, window: float = 600.0, max_entries: int = 100_000
    ) -> None:
        super().__init__(networks=networks, window=window, max_entries=max_entries)
        self._state = state
        state.load(_SIGHT)

    def record_use(self, clearance: bytes, network: bytes, at: float) -> int:
        def learn(reply: Any) -> None:
            for other, when in zip(reply[::2], reply[1::2], strict=True):
                if other != network:
                    super(RedisClearanceUsage, self).record_use(clearance, other, float(when))
            # The one that was asked about came last.
            super(RedisClearanceUsage, self).record_use(clearance, network, at)

        count = super().record_use(clearance, network, at)
        key = self._state.key("seen:" + clearance.hex())
        self._state.ask_soon(_SIGHT.call(key, network, repr(at), math.ceil(self._window * 1000)), learn)
        return max(count, len(self._seen.get(clearance, ())))

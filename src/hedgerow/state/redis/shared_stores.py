"""
Small stores that all servers of a site share through Redis.

Requests do not wait for clearance usage and revoked bots: the server's own knowledge answers, and that of others is
used from the next request on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from hedgerow.challenge.clearance import ClearanceUsage
from hedgerow.state.redis.address import RedisUnavailable
from hedgerow.state.redis.scripts import Script
from hedgerow.state.redis.state import RedisState
from hedgerow.state.used_challenges import MemoryUsedChallenges

_ASK_EVERY = 2.0
_RECORD_USE = Script(
    "redis.call('HSET', ARGV[1], ARGV[2], ARGV[3]) redis.call('PEXPIRE', ARGV[1], ARGV[4]) "
    "return redis.call('HGETALL', ARGV[1])"
)


class RedisUsedChallenges:
    """Those of all servers. While Redis is unavailable, each has at most *most* of its own, or none if *closed*."""

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


class RedisClearanceUsage(ClearanceUsage):
    """The networks that used each clearance recently, at any server."""

    def __init__(self, state: RedisState) -> None:
        super().__init__()
        self._state = state
        state.load(_RECORD_USE)

    def record_use(self, clearance: bytes, network: bytes, at: float) -> int:
        record = super().record_use

        def learn(reply: Any) -> None:
            for other, when in zip(reply[::2], reply[1::2], strict=True):
                if other != network:
                    record(clearance, other, float(when))
            # This use is the last one.
            record(clearance, network, at)

        count = record(clearance, network, at)
        key = self._state.key("seen:" + clearance.hex())
        self._state.ask_soon(_RECORD_USE.call(key, network, repr(at), math.ceil(self._window * 1000)), learn)
        return max(count, len(self._seen.get(clearance, ())))


class RedisRevokedBots:
    """The bots that lost their good-bot status, and until when. Other servers learn of it within two seconds."""

    def __init__(self, state: RedisState, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._state = state
        self._clock = clock
        self._known: dict[str, float] = {}
        self._asked: dict[str, float] = {}

    def get(self, bot: str, /) -> float | None:
        now = self._clock()
        if now - self._asked.get(bot, -math.inf) >= _ASK_EVERY:
            self._asked[bot] = now
            self._state.ask_soon(("GET", self._state.key("unwelcome:" + bot)), lambda reply: self._learn(bot, reply))
        return self._known.get(bot)

    def __setitem__(self, bot: str, until: float, /) -> None:
        self._known[bot] = until
        seconds = max(1, math.ceil(until - time.time()))
        self._state.ask_soon(("SET", self._state.key("unwelcome:" + bot), repr(until), "EX", seconds), lambda _: None)

    def _learn(self, bot: str, reply: bytes | None) -> None:
        if reply is not None:
            self._known[bot] = max(float(reply), self._known.get(bot, 0.0))

"""
What gates share through Redis besides counters, blocks and standings: spent challenges, sightings, lost welcomes.

Sightings and welcomes are asked about while a request is read, where nobody can wait for a network: the answer is what
this gate knows, and what the others know is learnt a moment later. A challenge is spent in one place for all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from hedgerow.challenge.clearance import Sightings
from hedgerow.stores.redis import RedisState
from hedgerow.stores.redis_link import Away
from hedgerow.stores.redis_scripts import Script
from hedgerow.stores.spent import MemorySpent

_ASK_EVERY = 2.0
_SIGHT = Script(
    "redis.call('HSET', ARGV[1], ARGV[2], ARGV[3]) redis.call('PEXPIRE', ARGV[1], ARGV[4]) "
    "return redis.call('HGETALL', ARGV[1])"
)


class RedisSpent:
    """
    Challenges that have been answered, at whatever gate.

    While Redis is away each gate remembers its own, at most *most*; or none counts, where *closed*.
    """

    def __init__(self, state: RedisState, *, most: int = 100_000, closed: bool = False) -> None:
        self._state = state
        self._closed = closed
        self._local = MemorySpent(most)

    def spend(self, challenge: bytes, until: float, at: float) -> bool:
        if until <= at:
            return False
        key = self._state.key("spent:" + challenge.hex())
        try:
            first = self._state.ask(("SET", key, "1", "NX", "PX", math.ceil((until - at) * 1000)))
        except Away:
            return not self._closed and self._local.spend(challenge, until, at)
        return first is not None and self._local.spend(challenge, until, at)

    def close(self) -> None:
        self._local.close()


class RedisSightings(Sightings):
    """From which networks each clearance has been seen lately, at whatever gate."""

    def __init__(self, state: RedisState, *, networks: int = 3, window: float = 600.0, most: int = 100_000) -> None:
        super().__init__(networks=networks, window=window, most=most)
        self._state = state
        state.load(_SIGHT)

    def see(self, clearance: bytes, network: bytes, at: float) -> int:
        def learn(reply: Any) -> None:
            for other, when in zip(reply[::2], reply[1::2], strict=True):
                if other != network:
                    super(RedisSightings, self).see(clearance, other, float(when))
            # The one that was asked about came last.
            super(RedisSightings, self).see(clearance, network, at)

        count = super().see(clearance, network, at)
        key = self._state.key("seen:" + clearance.hex())
        self._state.ask_soon(_SIGHT.call(key, network, repr(at), math.ceil(self._window * 1000)), learn)
        return max(count, len(self._seen.get(clearance, ())))


class RedisUnwelcome:
    """Which bots have lost their welcome, at whatever gate; the others learn of it within two seconds."""

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

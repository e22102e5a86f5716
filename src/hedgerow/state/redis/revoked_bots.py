"""
Bots whose good-bot status is revoked, shared through Redis.

A request never waits: other gates learn of it within two seconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from hedgerow.state.redis.state import RedisState

_ASK_EVERY = 2.0


class RedisRevokedBots:
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

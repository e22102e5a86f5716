"""The state in Redis as threads without an event loop use it. Imports little: other processes open it, too."""

from __future__ import annotations

from typing import Any

from hedgerow.core.gate import run_now
from hedgerow.core.state import StateQuery, StateReply
from hedgerow.core.visit import Kind
from hedgerow.state.redis.address import parse_redis_address
from hedgerow.state.redis.state import RedisState


async def _directly(function, _):
    return function()


class ThreadRedisState(RedisState):
    """Waits for Redis in the thread that asks, so that it can be used like a store that answers at once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.use_threads(_directly)

    def record_visit(self, query: StateQuery, counted_as: Kind | None = None) -> StateReply:
        return run_now(super().record_visit(query, counted_as))


def _never() -> float:
    """The time of tests is their own: what they forgive is forgiven before all of their blocks."""
    return 0.0


def open_redis(url: str, windows: Any, prefix: str, **options: Any) -> ThreadRedisState:
    # A machine that is busy with other tests must not be taken for a Redis that is away.
    options = {"timeout": 20.0, "clock": _never, **options}
    return ThreadRedisState(parse_redis_address(url), windows, prefix=prefix, **options)

"""
How the middleware waits: on an event loop, or in the thread of a server that has none.

The middleware and its challenges are coroutines. Under ASGI an event loop runs them, under WSGI `sync_driver` with a
`ThreadWaiter`. Whatever waits must use the waiter of its middleware.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from hedgerow.web.asgi_types import Receive

T = TypeVar("T")
Wait = Callable[[float], Awaitable[bool]]
"""Waits for so many seconds and returns whether the client is known to have left."""


class Waiter:
    """Waits on an event loop."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)

    async def run_coroutine(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine that needs an event loop."""
        return await make()

    @asynccontextmanager
    async def watch_disconnect(self, receive: Receive) -> AsyncIterator[Wait]:
        """Watch, while the context is open, whether the client leaves."""

        async def leave() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        async def wait(seconds: float) -> bool:
            if seconds:
                await asyncio.wait({left}, timeout=seconds)
            return left.done()

        left = asyncio.ensure_future(leave())
        try:
            yield wait
        finally:
            left.cancel()
            await asyncio.gather(left, return_exceptions=True)


ON_LOOP = Waiter()

"""
How the middleware waits: on an event loop, or in the thread of a server that has none.

The middleware and its challenges are coroutines. Under ASGI an event loop runs them; under WSGI they are driven by hand
(`wsgi`), and whatever would wait asks for that here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from hedgerow.web.asgi_types import Receive

T = TypeVar("T")


class DisconnectWatcher(Protocol):
    """Looks out for a client that leaves, while it is open."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, kind: type[BaseException] | None, fault: BaseException | None, where: object) -> None: ...

    async def wait(self, seconds: float) -> bool:
        """Wait; true where the client is known to have left."""


class Waiter(Protocol):
    async def sleep(self, seconds: float) -> None: ...

    async def run(self, do: Callable[[], T], seconds: float) -> T:
        """What *do* returns, which may block; TimeoutError where that takes longer than *seconds*."""

    def watch_disconnect(self, receive: Receive) -> DisconnectWatcher: ...


class EventLoopWaiter:
    """On an event loop."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def run(self, do: Callable[[], T], seconds: float) -> T:
        return await asyncio.wait_for(asyncio.to_thread(do), seconds)

    def watch_disconnect(self, receive: Receive) -> DisconnectWatcher:
        return _LoopDisconnectWatcher(receive)


class _LoopDisconnectWatcher:
    def __init__(self, receive: Receive) -> None:
        self._receive = receive

    async def __aenter__(self) -> Self:
        self._left = asyncio.ensure_future(self._leave())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, fault: BaseException | None, where: object) -> None:
        self._left.cancel()
        await asyncio.gather(self._left, return_exceptions=True)

    async def _leave(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def wait(self, seconds: float) -> bool:
        if seconds:
            await asyncio.wait({self._left}, timeout=seconds)
        return self._left.done()


ON_LOOP = EventLoopWaiter()

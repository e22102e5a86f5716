"""
Coroutines without an event loop: driven by hand, in the thread of whoever asks.

What the middleware does between two waits never blocks. So a thread takes it forward step by step: each step runs under
one lock, as it would alone on an event loop, and whatever blocks (the application, a pause, the client's body) is done
between the steps, where other threads have their turn. Nothing is queued and no thread is handed anything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Self, TypeVar

from hedgerow.web.asgi_types import Message, Receive
from hedgerow.web.waiter import DisconnectWatcher

T = TypeVar("T")


class Do:
    """Await it to have the driver do something that may block, between two steps."""

    __slots__ = ("do",)

    def __init__(self, do: Callable[[], Any]) -> None:
        self.do = do

    def __await__(self) -> Generator[Do, Any, Any]:
        return (yield self)


class Say:
    """Await it to have the driver hand out a message."""

    __slots__ = ("message",)

    def __init__(self, message: Message) -> None:
        self.message = message

    def __await__(self) -> Generator[Say, None, None]:
        yield self


async def say(message: Message) -> None:
    """What stands for the server's `send`."""
    await Say(message)


def drive(coroutine: Coroutine[Any, Any, None], lock: threading.Lock) -> Generator[Message]:
    """The messages that *coroutine* says, one by one, each as soon as it is said."""
    value: Any = None
    fault: Exception | None = None
    try:
        while True:
            with lock:
                try:
                    step = coroutine.send(value) if fault is None else coroutine.throw(fault)
                except StopIteration:
                    return
            value = fault = None
            if isinstance(step, Do):
                try:
                    value = step.do()
                except Exception as error:  # noqa: BLE001 - it belongs to who awaits
                    fault = error
            else:
                yield step.message
    finally:
        with lock:
            coroutine.close()


class Driven:
    """Waiting, for what is driven by hand."""

    async def sleep(self, seconds: float) -> None:
        await Do(partial(time.sleep, seconds))

    async def run(self, do: Callable[[], T], seconds: float) -> T:  # noqa: ARG002 - *do* has its own time-out
        done: T = await Do(do)
        return done

    def lookout(self, receive: Receive) -> DisconnectWatcher:  # noqa: ARG002 - nobody tells when a client has left
        return _NoLookout(self)


class _NoLookout:
    """Such a server notices that a client has left when it writes: then the coroutine is closed."""

    def __init__(self, driven: Driven) -> None:
        self._driven = driven

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, fault: BaseException | None, where: object) -> None:
        pass

    async def wait(self, seconds: float) -> bool:
        if seconds:
            await self._driven.sleep(seconds)
        return False


DRIVEN = Driven()

"""
Runs the middleware's coroutines without an event loop, in the thread of the WSGI server.

The middleware never blocks between two awaits. A thread runs it in steps, each under one lock, as it would run alone on
an event loop. Whatever blocks (the application, a pause, the client's body) runs between the steps and without the
lock, so that other threads can continue.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from types import coroutine
from typing import Any, TypeVar

from hedgerow.web.asgi_types import Message, Receive
from hedgerow.web.waiter import Wait, Waiter

log = logging.getLogger(__name__)

T = TypeVar("T")


@coroutine
def blocking(function: Callable[[], T]) -> Generator[Callable[[], T], T, T]:
    """Await it to run a function that may block, between two steps."""
    return (yield function)


@coroutine
def send(message: Message) -> Generator[Message, None, None]:
    """Hand a message to the server: the `send` of an ASGI application that is run by `drive`."""
    yield message


class StepLock:
    """
    The lock under which steps run, and the coroutines that have not ended.

    Closing a coroutine never waits. The garbage collector may close one at any moment and in any thread: also in one
    that holds this lock, or a lock of a store, and that would then wait for itself. So a coroutine is closed at once
    only if this lock is free and the thread is one that runs steps: such a thread holds locks of stores during a step
    alone. All others are closed at the end of the current step or, if there is none, of the next.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = threading.local()
        # Referenced here, so that the garbage collector never finalizes a coroutine itself, in the middle of a step.
        self._running: set[Coroutine[Any, Any, None]] = set()
        self._to_close: deque[Coroutine[Any, Any, None]] = deque()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if self._to_close:
            self.close_ended()

    def begin(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Register a coroutine that this thread runs."""
        self._thread.runs_steps = True
        self._running.add(coroutine)

    def end(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Forget a coroutine. One that has not run to its end is closed first."""
        self._to_close.append(coroutine)
        if getattr(self._thread, "runs_steps", False):
            self.close_ended()

    def close_ended(self) -> None:
        """Close the coroutines that were ended. If another thread holds the lock, that thread does it."""
        # Checked again after each release: another one may have been ended since the check under the lock.
        while self._to_close and self._lock.acquire(blocking=False):
            try:
                while self._to_close:
                    coroutine = self._to_close.popleft()
                    try:
                        coroutine.close()
                    except Exception:
                        # It belongs to another request than the one whose thread runs here.
                        log.exception("a request that was given up could not be closed")
                    self._running.discard(coroutine)
            finally:
                self._lock.release()


def drive(coroutine: Coroutine[Any, Any, None], lock: StepLock) -> Generator[Message]:
    """Run *coroutine* and yield each message that it sends, as soon as it is sent."""
    value: Any = None
    fault: Exception | None = None
    lock.begin(coroutine)
    try:
        while True:
            try:
                with lock:
                    step = coroutine.send(value) if fault is None else coroutine.throw(fault)
            except StopIteration:
                return
            value = fault = None
            if callable(step):
                try:
                    value = step()
                except Exception as error:  # noqa: BLE001 - the coroutine that awaits it handles it
                    fault = error
            else:
                yield step
    finally:
        lock.end(coroutine)


class ThreadWaiter(Waiter):
    """Waits in the thread of a coroutine that is run by `drive`."""

    async def sleep(self, seconds: float) -> None:
        await blocking(partial(time.sleep, seconds))

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:  # noqa: ARG002 - a thread has no timeout
        return nullcontext()

    async def run_blocking(self, function: Callable[[], T], seconds: float) -> T:  # noqa: ARG002 - it has its own
        return await blocking(function)

    async def run_coroutine(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in an event loop of its own, and in a thread of its own: this one may have a loop."""

        def run() -> T:
            with ThreadPoolExecutor(1) as thread:
                return thread.submit(lambda: asyncio.run(make())).result()

        return await blocking(run)

    @asynccontextmanager
    async def watch_disconnect(self, receive: Receive) -> AsyncIterator[Wait]:  # noqa: ARG002 - WSGI reports no disconnect
        """Only wait. A WSGI server notices that a client has left when it writes; it then closes the response."""

        async def wait(seconds: float) -> bool:
            if seconds:
                await self.sleep(seconds)
            return False

        yield wait


IN_THREAD = ThreadWaiter()

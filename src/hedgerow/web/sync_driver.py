"""
Runs the middleware's coroutines without an event loop, in the thread of the WSGI server.

The middleware never blocks between two awaits. A thread runs it step by step: each step under one lock, as it would run
alone on an event loop. What blocks (the application, a pause, the client's body) runs between the steps, without the
lock, so that other threads can go on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Self, TypeVar

from hedgerow.web.asgi_types import Message, Receive
from hedgerow.web.waiter import DisconnectWatcher

log = logging.getLogger(__name__)

T = TypeVar("T")


class Blocking:
    """Await it to run a function that may block, between two steps."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def __await__(self) -> Generator[Blocking, Any, Any]:
        return (yield self)


class _Sent:
    """Await it to hand a message to the server."""

    __slots__ = ("message",)

    def __init__(self, message: Message) -> None:
        self.message = message

    def __await__(self) -> Generator[_Sent, None, None]:
        yield self


async def send(message: Message) -> None:
    """The `send` of an ASGI application that is run by `drive`."""
    await _Sent(message)


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
            self.close_given_up()

    def begin(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Expect the steps of a coroutine, in this thread."""
        self._thread.runs_steps = True
        self._running.add(coroutine)

    def end(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Forget a coroutine that has run to its end."""
        self._running.discard(coroutine)

    def give_up(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Close a coroutine that has not run to its end."""
        self._to_close.append(coroutine)
        if getattr(self._thread, "runs_steps", False):
            self.close_given_up()

    def close_given_up(self) -> None:
        """Close what was given up, unless another thread holds the lock: that one closes it when it releases it."""
        # Looked at again after each release: something may have been given up since the last look under the lock.
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
    ended = False
    lock.begin(coroutine)
    try:
        while True:
            with lock:
                try:
                    step = coroutine.send(value) if fault is None else coroutine.throw(fault)
                except BaseException as end:
                    ended = True
                    if isinstance(end, StopIteration):
                        return
                    raise
            value = fault = None
            if isinstance(step, Blocking):
                try:
                    value = step.function()
                except Exception as error:  # noqa: BLE001 - the coroutine that awaits it handles it
                    fault = error
            else:
                yield step.message
    finally:
        if ended:
            lock.end(coroutine)
        else:
            lock.give_up(coroutine)


class ThreadWaiter:
    """Waits in the thread of a coroutine that is run by `drive`."""

    async def sleep(self, seconds: float) -> None:
        await Blocking(partial(time.sleep, seconds))

    async def run(self, do: Callable[[], T], seconds: float) -> T:  # noqa: ARG002 - *do* has its own time-out
        done: T = await Blocking(do)
        return done

    def watch_disconnect(self, receive: Receive) -> DisconnectWatcher:  # noqa: ARG002 - WSGI does not tell
        return _NoDisconnectWatcher(self)


class _NoDisconnectWatcher:
    """A WSGI server notices that a client has left when it writes; it then closes the response."""

    def __init__(self, waiter: ThreadWaiter) -> None:
        self._waiter = waiter

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, fault: BaseException | None, where: object) -> None:
        pass

    async def wait(self, seconds: float) -> bool:
        if seconds:
            await self._waiter.sleep(seconds)
        return False


IN_THREAD = ThreadWaiter()

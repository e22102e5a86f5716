"""
A connection to Redis for an event loop.

What is asked within one turn of the loop goes out together at its end: 27 µs a query at 32 at once, where one at a time
takes 96 or more. An answer comes within *patience* seconds, or `RedisUnavailable` is raised; from then on it is raised
at once, until a task has connected again. A connection begins with the commands of *greet*. Commands that were sent,
and perhaps not carried out, go back to *owe*.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any

import hiredis

from hedgerow.state.redis.address import (
    CONNECT_TIMEOUT,
    PATIENCE,
    RETRY_AFTER,
    Greet,
    Owe,
    RedisAddress,
    RedisUnavailable,
    packed,
)
from hedgerow.state.redis.scripts import Command

log = logging.getLogger(__name__)

_TICK = 0.005


class _Wire(asyncio.Protocol):
    """One socket of a `LoopConnection`; data of one that was given up is ignored."""

    transport: asyncio.Transport

    def __init__(self, link: LoopConnection) -> None:
        self._link = link
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._link.receive(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.end(self, str(exc or "closed by Redis"))
        self.ended.set()


class LoopConnection:
    """A connection of one event loop; `ask` and `tell` are called in it."""

    def __init__(
        self, address: RedisAddress, greet: Greet, *, patience: float = PATIENCE, owe: Owe | None = None
    ) -> None:
        self._address = address
        self._greet = greet
        self._owe = owe
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._wire: _Wire | None = None
        self._reader = hiredis.Reader()
        self._out: list[bytes] = []
        self._pending: deque[tuple[float, asyncio.Future[Any] | Command]] = deque()
        self._ticking = False
        self._closed = False
        self._coming_back: asyncio.Task[None] | None = None
        self.away = True
        """Whether nobody answers."""

    async def open(self) -> None:
        """Connect, or begin to try."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await self._connect()
        except (OSError, RedisUnavailable) as error:
            log.warning("Redis cannot be reached (%s); tried again", error or "no answer")
            self._try_again()

    def ask(self, command: Command) -> asyncio.Future[Any]:
        """What will hold the reply to *command*, or raise Away. Goes out at the end of this turn."""
        future = self._loop.create_future()
        if self.away:
            future.set_exception(RedisUnavailable())
        else:
            self._put(command, future)
        return future

    def tell(self, command: Command) -> bool:
        """Send *command* and mind no reply; false where nobody is there."""
        if self.away:
            return False
        self._put(command, command)
        return True

    def _put(self, command: Command, future: asyncio.Future[Any] | Command) -> None:
        """Have *command* sent; its reply goes to *future*, or to nobody where that is the command itself."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(packed(command))
        now = self._loop.time()
        self._pending.append((now, future))
        if not self._ticking:
            self._ticking = True
            self._loop.call_later(_TICK, self._tick, now + _TICK)

    def _flush(self) -> None:
        if self._out and self._wire is not None:
            self._wire.transport.write(b"".join(self._out))
        self._out.clear()

    def _tick(self, due: float) -> None:
        """Look whether the oldest query has waited too long."""
        now = self._loop.time()
        if not self._pending:
            self._ticking = False
            return
        # A loop that was held up itself has not read what is there: that is nobody's silence.
        if now - self._pending[0][0] > self._patience and now - due < self._patience / 2:
            self._ticking = False
            self._lose("no answer in time")
            return
        self._loop.call_later(_TICK, self._tick, now + _TICK)

    async def close(self) -> None:
        self._closed = True
        if self._coming_back is not None:
            self._coming_back.cancel()
            await asyncio.wait([self._coming_back])
        self._flush()
        wire, self._wire = self._wire, None
        if wire is not None:
            # What was told last still goes out.
            wire.transport.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await wire.ended.wait()
            wire.transport.abort()
        self._lose("")
        # A transport lets go of its socket in the next turn of the loop, which may be the last.
        await asyncio.sleep(0)

    # ---- The wire's side

    def end(self, wire: _Wire, why: str) -> None:
        """A connection has ended."""
        if wire is self._wire:
            self._lose(why)

    def receive(self, wire: _Wire, data: bytes) -> None:
        """Replies, or parts of some."""
        if wire is not self._wire:
            return
        reader, pending = self._reader, self._pending
        reader.feed(data)
        lost = ""
        while pending:
            reply = reader.gets()
            if reply is False:
                break
            _, future = pending.popleft()
            if isinstance(reply, hiredis.ReplyError):
                if str(reply).startswith(("NOSCRIPT", "LOADING", "READONLY", "NOAUTH")):
                    lost = str(reply)
                    reply = RedisUnavailable()
                if not isinstance(future, asyncio.Future):
                    log.error("Redis refused a command: %s", reply)
                elif not future.done():
                    future.set_exception(reply)
            elif isinstance(future, asyncio.Future) and not future.done():
                future.set_result(reply)
        if lost:
            self._lose(lost)

    # ---- Away and back

    async def _connect(self) -> None:
        address, wire = self._address, _Wire(self)
        if address.path:
            await self._loop.create_unix_connection(lambda: wire, address.path)
        else:
            await self._loop.create_connection(
                lambda: wire, address.host, address.port,
                ssl=address.context(), server_hostname=address.host if address.tls else None,
            )  # fmt: skip
        self._wire, self._reader = wire, hiredis.Reader()
        greeting = self._greet()
        commands = [*address.first_words(), *greeting]
        futures = [self._loop.create_future() for _ in commands]
        self._pending.extend((self._loop.time(), future) for future in futures)
        try:
            wire.transport.write(b"".join(packed(command) for command in commands))
            await asyncio.gather(*futures)
        except BaseException as error:
            if self._owe is not None:
                self._owe(greeting)
            self._give_up(futures)
            if isinstance(error, hiredis.ReplyError):
                raise ConnectionError(str(error)) from None
            raise
        self.away = False

    def _give_up(self, futures: Sequence[asyncio.Future[Any]]) -> None:
        """What was begun comes to nothing."""
        for future in futures:
            if future.done() and not future.cancelled():
                # Looked at, so that nobody is told that it was not.
                future.exception()
            future.cancel()
        wire, self._wire = self._wire, None
        self._pending.clear()
        if wire is not None:
            wire.transport.abort()

    def _lose(self, why: str) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.transport.abort()
            if not self._closed and not self.away:
                log.warning("Redis does not answer (%s); tried again", why)
        self.away = True
        self._out.clear()
        pending, self._pending = self._pending, deque()
        told = []
        for _, future in pending:
            if not isinstance(future, asyncio.Future):
                told.append(future)
            elif not future.done():
                future.set_exception(RedisUnavailable())
        if told and self._owe is not None and not self._closed:
            self._owe(told)
        self._try_again()

    def _try_again(self) -> None:
        if not self._closed and (self._coming_back is None or self._coming_back.done()):
            self._coming_back = self._loop.create_task(self._come_back())

    async def _come_back(self) -> None:
        while not self._closed:
            await asyncio.sleep(RETRY_AFTER)
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await self._connect()
            except (OSError, RedisUnavailable):
                continue
            log.info("Redis answers again")
            return

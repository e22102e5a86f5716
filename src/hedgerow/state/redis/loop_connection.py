"""
A connection to Redis for an event loop.

The commands of one iteration of the loop are sent together: 27 µs each with 32 at a time, 96 µs or more one by one. If
no reply comes within the timeout, the connection is given up. From then on commands fail at once, until a task has
connected again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import Any

import hiredis

from hedgerow.state.redis.address import (
    CONNECT_TIMEOUT,
    RETRY_AFTER,
    OnConnect,
    RedisAddress,
    RedisConnection,
    RedisUnavailable,
    packed,
)
from hedgerow.state.redis.scripts import Command

log = logging.getLogger(__name__)

_TICK = 0.005
_NOT_READY = ("NOSCRIPT", "LOADING", "READONLY", "NOAUTH")
"""The start of an error of a server that was just started or replaced."""


class _Socket(asyncio.Protocol):
    """One socket of a `LoopConnection`. Data of a socket that was given up is ignored."""

    transport: asyncio.Transport

    def __init__(self, connection: LoopConnection) -> None:
        self._connection = connection
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._connection.receive(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.end(self, str(exc or "closed by Redis"))
        self.ended.set()


class LoopConnection(RedisConnection):
    """A connection of one event loop. `ask` and `send` must be called in it."""

    def __init__(self, address: RedisAddress, on_connect: OnConnect, **options: Any) -> None:
        super().__init__(address, on_connect, **options)
        self._loop = asyncio.get_running_loop()
        self._socket: _Socket | None = None
        self._reader = hiredis.Reader()
        self._out: list[bytes] = []
        # When each command was sent, and the future for its reply, or the command itself if nobody waits.
        self._pending: deque[tuple[float, asyncio.Future[Any] | Command]] = deque()
        self._ticking = False
        self._closed = False
        self._reconnecting: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect. If that fails, try again in a task."""
        try:
            await self._connect()
        except (OSError, RedisUnavailable) as error:
            log.warning("cannot reach Redis (%s); trying again", error or "no answer")
            self._reconnect_later()

    def ask(self, command: Command) -> asyncio.Future[Any]:
        """Send *command*, and return the future of its reply, which may raise `RedisUnavailable`."""
        future = self._loop.create_future()
        if self.unavailable:
            future.set_exception(RedisUnavailable())
        else:
            self._enqueue(command, future)
        return future

    def send(self, command: Command) -> bool:
        """Send *command* without waiting for its reply. Return False if Redis is unavailable."""
        if not self.unavailable:
            self._enqueue(command, command)
        return not self.unavailable

    def _enqueue(self, command: Command, reply_to: asyncio.Future[Any] | Command) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(packed(command))
        now = self._loop.time()
        self._pending.append((now, reply_to))
        if not self._ticking:
            self._ticking = True
            self._loop.call_later(_TICK, self._tick, now + _TICK)

    def _flush(self) -> None:
        if self._out and self._socket is not None:
            self._socket.transport.write(b"".join(self._out))
        self._out.clear()

    def _tick(self, due: float) -> None:
        """Check whether the oldest command has waited too long."""
        now = self._loop.time()
        self._ticking = bool(self._pending)
        # If the loop itself was late, the reply may be there and just not be read.
        if self._pending and now - self._pending[0][0] > self._timeout and now - due < self._timeout / 2:
            self._ticking = False
            self._give_up("no answer in time")
        elif self._pending:
            self._loop.call_later(_TICK, self._tick, now + _TICK)

    async def close(self) -> None:
        self._closed = True
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            await asyncio.wait([self._reconnecting])
        self._flush()
        old, self._socket = self._socket, None
        if old is not None:
            # The last commands are still sent.
            old.transport.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timeout):
                    await old.ended.wait()
            old.transport.abort()
        self._give_up("")
        # A transport releases its socket in the next iteration of the loop, which may be the last.
        await asyncio.sleep(0)

    def end(self, ended: _Socket, reason: str) -> None:
        if ended is self._socket:
            self._give_up(reason)

    def receive(self, source: _Socket, data: bytes) -> None:
        """Read the replies in *data*, the last of which may be incomplete."""
        if source is not self._socket:
            return
        reader, pending = self._reader, self._pending
        reader.feed(data)
        not_ready = ""
        while pending:
            reply = reader.gets()
            if reply is False:
                break
            _, reply_to = pending.popleft()
            if isinstance(reply, hiredis.ReplyError):
                if str(reply).startswith(_NOT_READY):
                    not_ready = str(reply)
                    reply = RedisUnavailable()
                if not isinstance(reply_to, asyncio.Future):
                    log.error("Redis refused a command: %s", reply)
                elif not reply_to.done():
                    reply_to.set_exception(reply)
            elif isinstance(reply_to, asyncio.Future) and not reply_to.done():
                reply_to.set_result(reply)
        if not_ready:
            self._give_up(not_ready)

    async def _connect(self) -> None:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            address, new = self._address, _Socket(self)
            if address.path:
                await self._loop.create_unix_connection(lambda: new, address.path)
            else:
                await self._loop.create_connection(
                    lambda: new, address.host, address.port,
                    ssl=address.context(), server_hostname=address.host if address.tls else None,
                )  # fmt: skip
            self._socket, self._reader = new, hiredis.Reader()
            first = self._on_connect()
            commands = [*address.handshake(), *first]
            futures = [self._loop.create_future() for _ in commands]
            self._pending.extend((self._loop.time(), future) for future in futures)
            try:
                new.transport.write(b"".join(packed(command) for command in commands))
                await asyncio.gather(*futures)
            except BaseException as error:
                self._on_undelivered(first)
                for future in futures:
                    if future.done() and not future.cancelled():
                        # Retrieved, so that asyncio does not warn about it.
                        future.exception()
                    future.cancel()
                self._socket = None
                self._pending.clear()
                new.transport.abort()
                if isinstance(error, hiredis.ReplyError):
                    raise ConnectionError(str(error)) from None
                raise
        self.unavailable = False
        self._on_connected(self.send)

    def _give_up(self, reason: str) -> None:
        """Close the socket, let all pending commands fail, and connect again later."""
        old, self._socket = self._socket, None
        if old is not None:
            old.transport.abort()
            if not self._closed and not self.unavailable:
                log.warning("Redis does not answer (%s); trying again", reason)
                self.failures += 1
        self.unavailable = True
        self._out.clear()
        pending, self._pending = self._pending, deque()
        undelivered = []
        for _, reply_to in pending:
            if not isinstance(reply_to, asyncio.Future):
                undelivered.append(reply_to)
            elif not reply_to.done():
                reply_to.set_exception(RedisUnavailable())
        if undelivered and not self._closed:
            self._on_undelivered(undelivered)
        self._reconnect_later()

    def _reconnect_later(self) -> None:
        if not self._closed and (self._reconnecting is None or self._reconnecting.done()):
            self._reconnecting = self._loop.create_task(self._reconnect())

    async def _reconnect(self) -> None:
        while not self._closed:
            await asyncio.sleep(RETRY_AFTER)
            try:
                await self._connect()
            except (OSError, RedisUnavailable):
                continue
            log.info("Redis answers again")
            return

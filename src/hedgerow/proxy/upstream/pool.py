"""The connections to one upstream."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from functools import partial

from hedgerow.errors import UpstreamError
from hedgerow.proxy.upstream.connection import Connection
from hedgerow.proxy.upstream.message import Headers, RequestBody, UpstreamResponse, request_head
from hedgerow.proxy.upstream.origin import parse_origin

_IDEMPOTENT = frozenset({b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE"})
_MAX_SWEEP_INTERVAL = 1.0


class Upstream:
    """
    The connections to one upstream.

    Times are in seconds, limits in bytes. *url* is an origin (see `parse_origin`). At most *max_connections* are open;
    *max_waiting* further requests wait for one, each for at most *wait_timeout*.

    *connect_timeout* is for opening a connection, *head_timeout* for the head of the response once the request is sent.
    *read_timeout* and *write_timeout* are for a stalled body. A connection idle for *idle_timeout* is closed. That is
    less than the five seconds after which common servers close it: a request sent at that very moment would be lost. A
    sweep checks the deadlines, so they may be exceeded by up to a second.

    *head_limit* is for the head of a response, *buffer_limit* for the part of its body that waits for the client. *tls*
    is the context for https, by default the system's.
    """

    def __init__(
        self,
        url: str,
        *,
        max_connections: int = 512,
        max_waiting: int = 1024,
        wait_timeout: float = 5.0,
        connect_timeout: float = 5.0,
        head_timeout: float = 60.0,
        read_timeout: float = 60.0,
        write_timeout: float = 60.0,
        idle_timeout: float = 4.0,
        head_limit: int = 262_144,
        buffer_limit: int = 131_072,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.origin = parse_origin(url)
        self.connect_timeout = connect_timeout
        self.head_timeout = head_timeout
        self.read_timeout = read_timeout
        self.write_timeout = write_timeout
        self.idle_timeout = idle_timeout
        self.head_limit = head_limit
        self.buffer_limit = buffer_limit
        self.tls = (tls or ssl.create_default_context()) if self.origin.secure else None
        self._max_connections = max_connections
        self._max_waiting = max_waiting
        self._wait_timeout = wait_timeout
        shortest = min(wait_timeout, head_timeout, read_timeout, write_timeout, idle_timeout)
        self._sweep_interval = min(_MAX_SWEEP_INTERVAL, shortest / 4)
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._open = 0
        self._all: set[Connection] = set()
        self._idle: list[Connection] = []
        self._waiting: deque[tuple[float, asyncio.Future[Connection | None]]] = deque()
        self._closed = False

    def __str__(self) -> str:
        return f"upstream {self.origin}"

    @property
    def open(self) -> int:
        """Connections that are open or being opened."""
        return self._open

    @property
    def idle(self) -> int:
        return len(self._idle)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def request(
        self, method: bytes, target: bytes, headers: Headers, body: RequestBody | None = None
    ) -> UpstreamResponse:
        """
        Send a request and return its response as soon as the head has arrived. Raises `UpstreamError`.

        *headers* must not frame the body: that is done here. An idempotent request is sent again if the upstream closed
        an idle connection just before it arrived.
        """
        if body is not None:
            length = body.length
            chunked = (b"transfer-encoding", b"chunked")
            headers = [*headers, chunked if length is None else (b"content-length", b"%d" % length)]
            if length == 0:
                body = None
        head = request_head(method, target, headers)
        expects_body = method != b"HEAD"
        connection = self._idle.pop() if self._idle else await self._acquire()
        response = await connection.exchange(head, expects_body=expects_body, body=body)
        if response.stale and method in _IDEMPOTENT and (body is None or not body.started):
            connection = await self._acquire(fresh=True)
            response = await connection.exchange(head, expects_body=expects_body, body=body)
        if response.error is not None and not response.started:
            raise response.error
        return response

    async def close(self) -> None:
        """Drop every connection. Requests in progress and later ones fail."""
        self._closed = True
        while self._waiting:
            self._reject(self._waiting.popleft()[1], "is shutting down")
        for connection in list(self._all):
            connection.abort(UpstreamError("broken", f"{self} is shutting down"))
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    def give_back(self, connection: Connection) -> None:
        """Pass a reusable connection to the first waiting request, or keep it idle."""
        while self._waiting:
            _, turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        self._idle.append(connection)

    def forget(self, connection: Connection) -> None:
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._free_slot()

    async def _acquire(self, *, fresh: bool = False) -> Connection:
        """
        Return a connection for one request: idle, new, or after a wait.

        A *fresh* one is needed after an idle connection turned out to be dead: other idle ones may be dead as well.
        """
        if self._closed:
            raise UpstreamError("connect", f"{self} is shutting down")
        if self._idle and not fresh:
            return self._idle.pop()
        if fresh and self._idle and self._open >= self._max_connections:
            self._idle[0].abort()
        if self._open < self._max_connections:
            self._open += 1
            return await self._connect()
        while True:
            connection = await self._wait_turn()
            if connection is None:
                return await self._connect()
            if connection.closed:
                continue
            if not fresh:
                return connection
            self._all.discard(connection)
            connection.retire()
            return await self._connect()

    async def _connect(self) -> Connection:
        """Open a connection in a slot that is already counted."""
        loop = asyncio.get_running_loop()
        origin = self.origin
        factory = partial(Connection, self, loop)
        try:
            async with asyncio.timeout(self.connect_timeout):
                if origin.path:
                    _, connection = await loop.create_unix_connection(factory, origin.path)
                else:
                    _, connection = await loop.create_connection(factory, origin.host, origin.port, ssl=self.tls)
        except TimeoutError as error:
            self._free_slot()
            raise UpstreamError("timeout", f"{self}: no connection in time") from error
        except OSError as error:
            self._free_slot()
            raise UpstreamError("connect", f"{self}: {error}") from error
        except BaseException:
            self._free_slot()
            raise
        self._all.add(connection)
        self._schedule_sweep(loop)
        return connection

    def _free_slot(self) -> None:
        """Free the slot of a connection. The request that waits longest may open one instead."""
        self._open -= 1
        while self._waiting:
            _, turn = self._waiting.popleft()
            if not turn.done():
                self._open += 1
                turn.set_result(None)
                return

    async def _wait_turn(self) -> Connection | None:
        """Wait for a connection that is given back, or for permission (None) to open one."""
        if len(self._waiting) >= self._max_waiting:
            raise UpstreamError("busy", f"{self}: all connections are in use and too many requests wait")
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Connection | None] = loop.create_future()
        self._waiting.append((loop.time() + self._wait_timeout, turn))
        self._schedule_sweep(loop)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on(turn.result())
            raise

    def _pass_on(self, connection: Connection | None) -> None:
        """Pass a turn to the next request, because its owner was cancelled at the same moment."""
        if connection is None:
            self._free_slot()
        elif not connection.closed:
            self.give_back(connection)

    def _reject(self, turn: asyncio.Future[Connection | None], reason: str) -> None:
        if not turn.done():
            turn.set_exception(UpstreamError("busy", f"{self} {reason}"))

    def _schedule_sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._sweep_timer is None:
            self._sweep_timer = loop.call_later(self._sweep_interval, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Check every deadline, and schedule the next sweep while there are any."""
        self._sweep_timer = None
        now = loop.time()
        for connection in list(self._all):
            connection.check(now)
        while self._waiting and self._waiting[0][0] <= now:
            self._reject(self._waiting.popleft()[1], "had no free connection in time")
        if self._all or self._waiting:
            self._schedule_sweep(loop)

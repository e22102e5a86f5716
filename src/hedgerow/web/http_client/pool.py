"""The connections to one upstream, and its address."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from hedgerow.errors import SettingsError, UpstreamError
from hedgerow.web.http_client.connection import Connection, UpstreamResponse

Headers = Sequence[tuple[bytes, bytes]]

_IDEMPOTENT = frozenset({b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE"})
_MAX_SWEEP_INTERVAL = 1.0
_OK = 200
PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """The address of the upstream: *host* and *port*, or the *path* of a unix socket."""

    secure: bool
    host: str
    port: int
    path: str = ""

    @property
    def authority(self) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        default_port = PORTS["https" if self.secure else "http"]
        return (host if self.port == default_port else f"{host}:{self.port}").encode("ascii")

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"{'https' if self.secure else 'http'}://{self.authority.decode('ascii')}"


def parse_origin(url: str) -> Origin:
    """
    Return the origin of `http://host:port`, `https://host`, `http://[::1]:8080` or `unix:/run/site.sock`.

    A path is refused rather than ignored: its author would expect it to prefix the path of every request.
    """
    if url.startswith("unix:/"):
        return Origin(secure=False, host="localhost", port=80, path=url.removeprefix("unix:"))
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").encode("idna").decode("ascii"), parts.port
    except ValueError as error:
        raise SettingsError([f"upstream {url!r}: {error}"]) from error
    if parts.scheme not in PORTS or not host:
        raise SettingsError([f"upstream {url!r}: write http://host:port, https://host:port or unix:/path"])
    if parts.path not in {"", "/"} or parts.query or parts.fragment or parts.username is not None:
        raise SettingsError([f"upstream {url!r}: give scheme, host and port only"])
    return Origin(parts.scheme == "https", host, port or PORTS[parts.scheme])


def request_head(method: bytes, target: bytes, headers: Headers) -> bytes:
    """Return the request line and the headers in wire format."""
    head = b"\r\n".join([b"%b %b HTTP/1.1" % (method, target), *map(b": ".join, headers), b"", b""])
    # Counting is the cheapest way to ensure that nothing contains a line break and so starts a second request.
    lines = len(headers) + 2
    if head.count(b"\n") != lines or head.count(b"\r") != lines or b" " in target:
        raise ValueError("target and headers of a request must not contain line breaks")
    return head


@dataclass(slots=True)
class RequestBody:
    """A request body as an iterator of *chunks*. Without a known *length* it is sent with chunked encoding."""

    chunks: AsyncIterator[bytes]
    length: int | None = None
    started: bool = False
    """Whether a chunk was read. Until then the request can be sent again."""


@dataclass(eq=False, repr=False)
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

    url: InitVar[str | Origin]
    _: KW_ONLY
    max_connections: int = 512
    max_waiting: int = 1024
    wait_timeout: float = 5.0
    connect_timeout: float = 5.0
    head_timeout: float = 60.0
    read_timeout: float = 60.0
    write_timeout: float = 60.0
    idle_timeout: float = 4.0
    head_limit: int = 262_144
    buffer_limit: int = 131_072
    tls: ssl.SSLContext | None = None
    server_name: str | None = None

    def __post_init__(self, url: str | Origin) -> None:
        self.origin = parse_origin(url) if isinstance(url, str) else url
        self.tls = (self.tls or ssl.create_default_context()) if self.origin.secure else None
        shortest = min(self.wait_timeout, self.head_timeout, self.read_timeout, self.write_timeout, self.idle_timeout)
        self._sweep_interval = min(_MAX_SWEEP_INTERVAL, shortest / 4)
        self._sweep_timer: asyncio.TimerHandle | None = None
        self.open = 0
        """Connections that are open or being opened."""
        self._all: set[Connection] = set()
        self._idle: list[Connection] = []
        self._waiting: deque[tuple[float, asyncio.Future[Connection | None]]] = deque()
        self._closed = False

    def __str__(self) -> str:
        return f"upstream {self.origin}"

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
            self._reject_first("is shutting down")
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
        """Return a connection. It must be *fresh* after an idle one was dead: other idle ones may be dead, too."""
        if self._closed:
            raise UpstreamError("connect", f"{self} is shutting down")
        if self._idle and not fresh:
            return self._idle.pop()
        if fresh and self._idle and self.open >= self.max_connections:
            self._idle[0].abort()
        if self.open < self.max_connections:
            self.open += 1
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
                    _, connection = await loop.create_connection(
                        factory,
                        origin.host,
                        origin.port,
                        ssl=self.tls,
                        server_hostname=self.server_name if self.tls else None,
                    )
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
        self.open -= 1
        while self._waiting:
            _, turn = self._waiting.popleft()
            if not turn.done():
                self.open += 1
                turn.set_result(None)
                return

    async def _wait_turn(self) -> Connection | None:
        """Wait for a connection that is given back, or for permission (None) to open one."""
        if len(self._waiting) >= self.max_waiting:
            raise UpstreamError("busy", f"{self}: all connections are in use and too many requests wait")
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Connection | None] = loop.create_future()
        self._waiting.append((loop.time() + self.wait_timeout, turn))
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

    def _reject_first(self, reason: str) -> None:
        _, turn = self._waiting.popleft()
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
            self._reject_first("had no free connection in time")
        if self._all or self._waiting:
            self._schedule_sweep(loop)


async def request_once(
    origin: Origin, method: bytes, target: bytes, headers: Headers, body: bytes = b"", *, seconds: float, limit: int,
    **options: Any,
) -> tuple[UpstreamResponse, bytes]:  # fmt: skip
    """
    Make one request with a connection of its own and return the response and its body.

    The body is read only if the status is 200, up to *limit* bytes and one chunk. *seconds* is for each step.
    """
    server = Upstream(origin, connect_timeout=seconds, head_timeout=seconds, read_timeout=seconds, **options)

    async def chunks() -> AsyncIterator[bytes]:
        yield body

    try:
        response = await server.request(method, target, headers, RequestBody(chunks(), len(body)) if body else None)
        received = b""
        while response.status == _OK and len(received) <= limit and (piece := await response.read()):
            received += piece
        return response, received
    finally:
        await server.close()

"""
The client side of the proxy: HTTP/1.1 connections to one upstream, kept and reused.

    Upstream            the pool: finds a connection for each request, within limits
    └── _Connection     one connection: an asyncio protocol around llhttp's response parser
        └── Answer      one response, filled as bytes arrive and read by the proxy

A page of 40 KB must cost little, so what can be done once is not done per request: no timer is set (one sweep
looks at the deadlines of all connections), a parser lives as long as its connection, and an answer that
arrived whole is read without another turn of the event loop.

It is the client who may be malicious, not the upstream; still an upstream's mistakes are contained: its head
is limited, its body is read no faster than the client takes it, and bytes that nobody asked for end the
connection, lest they be taken for the answer to another visitor's request.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Sequence
from functools import partial
from math import inf
from typing import Literal, NamedTuple, cast
from urllib.parse import urlsplit

import httptools

from hedgerow.errors import HedgerowError, SettingsError

Kind = Literal["connect", "timeout", "broken", "busy"]
Headers = Sequence[tuple[bytes, bytes]]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Headers that concern one connection only and are never passed on."""

_IDEMPOTENT = frozenset({b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE"})
_PLAIN_CONNECTION = frozenset({b"keep-alive", b"close"})
_PORTS = {"http": 80, "https": 443}
_LAST_INFORMATIONAL = 199
_FIRST_REFUSAL = 400
_LONGEST_SWEEP = 1.0


class UpstreamError(HedgerowError):
    """
    The upstream gave no usable answer.

    *kind* says how: `connect` (nobody listens there), `timeout` (too slow to connect, to read, to answer or
    to go on), `broken` (closed early or spoke nonsense), `busy` (every connection is taken, and the queue is
    full or too slow).
    """

    def __init__(self, kind: Kind, message: str) -> None:
        self.kind: Kind = kind
        super().__init__(message)


class Origin(NamedTuple):
    """Where the upstream is: *host* and *port*, or the *path* of a unix socket."""

    secure: bool
    host: str
    port: int
    path: str = ""

    @property
    def authority(self) -> bytes:
        """What a `Host` header calls it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = _PORTS["https" if self.secure else "http"]
        return (host if self.port == usual else f"{host}:{self.port}").encode("ascii")

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"{'https' if self.secure else 'http'}://{self.authority.decode('ascii')}"


def parse_origin(url: str) -> Origin:
    """
    The origin that *url* names: `http://host:port`, `https://host`, `http://[::1]:8080` or
    `unix:/run/site.sock`.

    A path is refused rather than ignored: whoever writes one expects it to be put before every request's
    path.
    """
    if url.startswith("unix:/"):
        return Origin(secure=False, host="localhost", port=80, path=url.removeprefix("unix:"))
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").encode("idna").decode("ascii"), parts.port
    except ValueError as error:
        raise SettingsError([f"upstream {url!r}: {error}"]) from error
    if parts.scheme not in _PORTS or not host:
        raise SettingsError([f"upstream {url!r}: write http://host:port, https://host:port or unix:/path"])
    if parts.path not in {"", "/"} or parts.query or parts.fragment or parts.username is not None:
        raise SettingsError([f"upstream {url!r}: give scheme, host and port only"])
    return Origin(parts.scheme == "https", host, port or _PORTS[parts.scheme])


def request_head(method: bytes, target: bytes, headers: Headers) -> bytes:
    """
    The request line and the headers, as they go on the wire.

    Counting the line ends of the whole is the cheapest way to see that no name, value or target brings one of
    its own and so starts a second request.
    """
    head = b"\r\n".join([b"%b %b HTTP/1.1" % (method, target), *map(b": ".join, headers), b"", b""])
    lines = len(headers) + 2
    if head.count(b"\n") != lines or head.count(b"\r") != lines or b" " in target:
        raise ValueError("a request's target and headers must not hold line ends")
    return head


def named_by_connection(value: bytes) -> frozenset[bytes]:
    """The headers that a `Connection` header takes for itself; for the usual values, none."""
    value = value.lower()
    if value in _PLAIN_CONNECTION:
        return frozenset()
    return frozenset(name.strip() for name in value.split(b","))


class RequestBody:
    """A request's body: *chunks* as they come, *length* in bytes where it is known; without it, sent as chunks."""

    __slots__ = ("chunks", "length", "started")

    def __init__(self, chunks: AsyncIterator[bytes], length: int | None = None) -> None:
        self.chunks = chunks
        self.length = length
        self.started = False
        """Whether any of it was taken; until then a request can be sent once more."""


class Answer:
    """
    One response: its head, and its body as it arrives.

    *headers* are in the upstream's order, names in lower case, without the hop-by-hop ones. *ended* means
    that the whole body has arrived; `take` then gives the rest of it. Whoever holds an answer must `close`
    it: that is free once it has ended, and otherwise costs the connection, on which the rest would still
    come.
    """

    __slots__ = (
        "arrived",
        "begun",
        "connection",
        "ended",
        "error",
        "headers",
        "size",
        "stale",
        "status",
        "waiter",
    )

    def __init__(self, connection: _Connection, waiter: asyncio.Future[None]) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.begun = False
        self.ended = False
        self.stale = False
        self.error: Exception | None = None
        self.arrived: list[bytes] = []
        self.size = 0
        self.connection: _Connection | None = connection
        self.waiter: asyncio.Future[None] | None = waiter

    async def read(self) -> bytes:
        """All of the body that has arrived and was not yet taken; waits for some. Empty at the end."""
        while not self.arrived and not self.ended:
            if self.connection is None:
                raise self.error or RuntimeError("an answer was read after it was closed")
            await self.connection.more(self)
        return self.take()

    async def settle(self, seconds: float) -> None:
        """Give the first of the body a moment to arrive: many an upstream sends its head by itself."""
        if not self.arrived and not self.ended and self.connection is not None:
            await self.connection.more(self, seconds)

    def take(self) -> bytes:
        """What has arrived and was not yet taken, without waiting."""
        arrived = self.arrived
        if not arrived:
            return b""
        self.arrived = []
        self.size = 0
        if self.connection is not None:
            self.connection.go_on_reading()
        return arrived[0] if len(arrived) == 1 else b"".join(arrived)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.abort()

    def wake(self) -> None:
        waiter = self.waiter
        if waiter is not None:
            self.waiter = None
            if not waiter.done():
                waiter.set_result(None)


class _Connection(asyncio.Protocol):
    """
    One connection, with at most one answer under way.

    *read_deadline* and *write_deadline* are in the loop's time and looked at by the pool's sweep; they are
    infinite while nothing is expected of the upstream. An idle connection's read deadline is the end of its
    keep-alive.
    """

    __slots__ = (
        "_answer",
        "_clean",
        "_drained",
        "_expects_body",
        "_heard",
        "_hops",
        "_keep",
        "_loop",
        "_parser",
        "_pool",
        "_read_paused",
        "_sender",
        "_silent",
        "_transport",
        "_unsent",
        "_used",
        "_write_paused",
        "closed",
        "read_deadline",
        "write_deadline",
    )

    def __init__(self, pool: Upstream, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool
        self._loop = loop
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._answer: Answer | None = None
        self._expects_body = True
        self._hops: list[tuple[bytes, bytes]] = []
        self._sender: asyncio.Task[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._heard = False
        self._used = False
        self._keep = False
        self._clean = True
        self._silent = 0
        self._unsent = 0
        self._read_paused = False
        self._write_paused = False
        self.closed = False
        self.read_deadline = inf
        self.write_deadline = inf

    # What the pool and the answer ask for

    async def exchange(self, head: bytes, *, expects_body: bool, body: RequestBody | None) -> Answer:
        """Send a request and wait for the head of its answer. A failure is in the answer's *error*."""
        waiter = self._loop.create_future()
        answer = self._answer = Answer(self, waiter)
        self._expects_body = expects_body
        self._heard = False
        self._transport.write(head)
        if body is None:
            self.read_deadline = self._loop.time() + self._pool.head_timeout
        else:
            self.read_deadline = inf
            self._sender = self._loop.create_task(self._send(answer, body))
        try:
            await waiter
        except BaseException:
            answer.close()
            raise
        return answer

    async def more(self, answer: Answer, seconds: float | None = None) -> None:
        """Wait, at most *seconds*, until *answer* has more of its body, its end or an error."""
        waiter = answer.waiter = self._loop.create_future()
        self.read_deadline = self._loop.time() + self._pool.read_timeout
        alarm = None if seconds is None else self._loop.call_later(seconds, answer.wake)
        try:
            await waiter
        finally:
            if alarm is not None:
                alarm.cancel()
            answer.waiter = None
            if self._answer is answer:
                self.read_deadline = inf

    def go_on_reading(self) -> None:
        if self._read_paused:
            self._read_paused = False
            self._transport.resume_reading()

    def abort(self, error: Exception | None = None) -> None:
        """Drop the connection at once; an answer under way gets *error*."""
        self._lose(error)
        self._transport.abort()

    def retire(self) -> None:
        """Close an idle connection whose place in the pool is taken over at once."""
        self.closed = True
        self._transport.abort()

    def check(self, now: float) -> None:
        """Called by every sweep: give up what is overdue at *now*."""
        if now >= self.write_deadline:
            # The deadline is for standing still: who takes a little of a big body has not failed.
            unsent = self._transport.get_write_buffer_size()
            if unsent == self._unsent:
                self.abort(UpstreamError("timeout", f"{self._pool} does not take the request's body"))
                return
            self._unsent = unsent
            self.write_deadline = now + self._pool.write_timeout
        if now >= self.read_deadline:
            if self._sender is not None and not self._sender.done():
                # It may be waiting for the rest of the request before it goes on with its answer.
                self.read_deadline = now + self._pool.read_timeout
                return
            begun = self._answer is not None and self._answer.begun
            what = "its answer has stopped coming" if begun else "no answer in time"
            self.abort(UpstreamError("timeout", f"{self._pool}: {what}"))

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self.abort()
            return
        self._heard = True
        self._silent += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._clean = False
            if not answer.ended:
                why = error.__context__ or error
                self.abort(UpstreamError("broken", f"{self._pool}: its answer is not HTTP: {why}"))
                return
        except httptools.HttpParserUpgrade:
            self.abort(UpstreamError("broken", f"{self._pool} changed to another protocol unasked"))
            return
        if answer.ended:
            self._finish(answer)
        elif self._silent > self._pool.head_limit:
            self.abort(UpstreamError("broken", f"{self._pool}: the head of its answer is too long"))
        elif answer.size > self._pool.buffer_limit and not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._wake_sender()

    # llhttp's side: called while data_received feeds it

    def on_message_begin(self) -> None:
        answer = self._answer
        if answer is None or answer.ended:
            self._clean = False
        elif not answer.begun:
            answer.headers = []
            self._hops = []

    def on_header(self, name: bytes, value: bytes) -> None:
        answer = self._answer
        # After the head these are trailers. They are dropped: we asked for none, and none may pass for a header.
        if answer is None or answer.begun:
            return
        name = name.lower()
        if name in HOP_BY_HOP:
            if value != b"keep-alive":
                self._hops.append((name, value))
        else:
            answer.headers.append((name, value))

    def on_headers_complete(self) -> None:
        answer = self._answer
        status = self._parser.get_status_code()
        if answer is None or answer.begun or status <= _LAST_INFORMATIONAL:
            return
        if self._hops:
            self._heed_hops(answer)
        self._silent = 0
        self.read_deadline = inf
        answer.status = status
        answer.begun = True
        if not self._expects_body:
            self._end_without_body(answer)
        elif self._sender is not None and status >= _FIRST_REFUSAL:
            # Whoever refuses a body does not want the rest of it, and some close if they get it.
            self._sender.cancel()
        answer.wake()

    def on_body(self, body: bytes) -> None:
        answer = self._answer
        if answer is None or answer.ended:
            self._clean = False
            return
        self._silent = 0
        answer.arrived.append(body)
        answer.size += len(body)
        if answer.waiter is not None:
            answer.wake()

    def on_message_complete(self) -> None:
        answer = self._answer
        if answer is not None and answer.begun and not answer.ended:
            answer.ended = True
            self._keep = self._parser.should_keep_alive()
            if answer.waiter is not None:
                answer.wake()

    # The rest

    def _heed_hops(self, answer: Answer) -> None:
        for name, value in self._hops:
            if name == b"connection":
                named = named_by_connection(value)
                if named:
                    answer.headers = [pair for pair in answer.headers if pair[0] not in named]
            elif name == b"transfer-encoding" and value.lower() != b"chunked":
                raise ValueError(f"transfer encoding {value!r} is not supported")

    def _end_without_body(self, answer: Answer) -> None:
        """The answer to a HEAD ends with its head, whatever length that announces."""
        answer.ended = True
        closing = any(name == b"connection" and b"close" in value.lower() for name, value in self._hops)
        self._keep = self._parser.get_http_version() == "1.1" and not closing
        # The old parser would wait for the body.
        self._parser = httptools.HttpResponseParser(self)

    def _finish(self, answer: Answer) -> None:
        """The whole answer is here; the proxy may still be reading it while the next request goes out."""
        self._answer = answer.connection = None
        self._used = True
        if self._sender is None and self._keep and self._clean:
            self.go_on_reading()
            self.read_deadline = self._loop.time() + self._pool.idle_timeout
            self._pool.give_back(self)
        else:
            self.abort()

    def _end(self, exc: Exception | None) -> None:
        """The upstream has closed. Well, if that is how it ends its bodies and the head has come; else too early."""
        answer = self._answer
        if answer is not None:
            answer.ended = exc is None and answer.begun and self._ends_by_closing(answer)
            answer.stale = self._used and not self._heard
            self._lose(UpstreamError("broken", f"{self._pool} closed the connection before it had answered"))
        else:
            self._lose(None)

    def _ends_by_closing(self, answer: Answer) -> bool:
        chunked = any(name == b"transfer-encoding" for name, _ in self._hops)
        return not chunked and not any(name == b"content-length" for name, _ in answer.headers)

    def _lose(self, error: Exception | None) -> None:
        if self.closed:
            return
        self.closed = True
        self._pool.forget(self)
        if self._sender is not None:
            self._sender.cancel()
        answer = self._answer
        if answer is not None:
            self._answer = answer.connection = None
            if not answer.ended:
                answer.error = error
            answer.wake()

    async def _send(self, answer: Answer, body: RequestBody) -> None:
        """Send *body*, no faster than the upstream takes it. Cancelled when the answer makes it pointless."""
        try:
            await self._send_chunks(body)
        except Exception as error:  # noqa: BLE001 - whatever broke the body breaks the exchange
            if self._answer is answer:
                self.abort(error)
            return
        self._sender = None
        if not answer.begun:
            self.read_deadline = self._loop.time() + self._pool.head_timeout

    async def _send_chunks(self, body: RequestBody) -> None:
        left = body.length
        async for chunk in body.chunks:
            body.started = True
            if left is None:
                if chunk:
                    self._transport.writelines([b"%x\r\n" % len(chunk), chunk, b"\r\n"])
            else:
                left -= len(chunk)
                if left < 0:
                    break
                self._transport.write(chunk)
            if self._write_paused:
                await self._drain()
            if left == 0:
                break
        if left is None:
            self._transport.write(b"0\r\n\r\n")
        elif left:
            # Sent as it is, the upstream would take a part of the next request for the rest of this one.
            raise UpstreamError("broken", "the request's body is not as long as it said")

    async def _drain(self) -> None:
        self._drained = self._loop.create_future()
        self._unsent = self._transport.get_write_buffer_size()
        self.write_deadline = self._loop.time() + self._pool.write_timeout
        try:
            await self._drained
        finally:
            self._drained = None
            self.write_deadline = inf

    def _wake_sender(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)


class Upstream:
    """
    The connections to one upstream.

    Times are in seconds, limits in bytes. *url* is an origin (see `parse_origin`). At most *most_connections*
    are open; *most_waiting* further requests wait for one, each for at most *wait_timeout*. *connect_timeout*
    is for opening a connection, *head_timeout* for the head of the answer once the request is sent,
    *read_timeout* and *write_timeout* for standing still in the midst of a body. A connection idle for
    *idle_timeout* is closed: less than the five seconds after which common servers close it themselves, for a
    request sent at that very moment is lost. Deadlines are looked at by a sweep and may be overrun by up to a
    second.

    *head_limit* is for the head of an answer; *buffer_limit* for as much of its body as may wait here for the
    client. *tls* is the context for https, by default the system's.
    """

    def __init__(
        self,
        url: str,
        *,
        most_connections: int = 512,
        most_waiting: int = 1024,
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
        self._most_connections = most_connections
        self._most_waiting = most_waiting
        self._wait_timeout = wait_timeout
        shortest = min(wait_timeout, head_timeout, read_timeout, write_timeout, idle_timeout)
        self._sweep_interval = min(_LONGEST_SWEEP, shortest / 4)
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._open = 0
        self._all: set[_Connection] = set()
        self._idle: list[_Connection] = []
        self._waiting: deque[tuple[float, asyncio.Future[_Connection | None]]] = deque()
        self._closed = False

    def __str__(self) -> str:
        return f"upstream {self.origin}"

    @property
    def open(self) -> int:
        """Connections that are open or being opened."""
        return self._open

    @property
    def idle(self) -> int:
        """Connections that wait for a request."""
        return len(self._idle)

    @property
    def waiting(self) -> int:
        """Requests that wait for a connection."""
        return len(self._waiting)

    async def request(self, method: bytes, target: bytes, headers: Headers, body: RequestBody | None = None) -> Answer:
        """
        Send a request and give its answer as soon as the head is here. Raises `UpstreamError`.

        *headers* must not frame the body: that is done here. The request is sent once more if the upstream
        closed a kept connection just before it came, and sending it twice can do no harm.
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
        answer = await connection.exchange(head, expects_body=expects_body, body=body)
        if answer.stale and method in _IDEMPOTENT and (body is None or not body.started):
            connection = await self._acquire(fresh=True)
            answer = await connection.exchange(head, expects_body=expects_body, body=body)
        if answer.error is not None and not answer.begun:
            raise answer.error
        return answer

    async def close(self) -> None:
        """Drop every connection; requests under way and later ones fail."""
        self._closed = True
        while self._waiting:
            self._turn_away(self._waiting.popleft()[1], "is being left")
        for connection in list(self._all):
            connection.abort(UpstreamError("broken", f"{self} is being left"))
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    def give_back(self, connection: _Connection) -> None:
        """Take back a connection that can serve another request: for the first who waits, or to keep."""
        while self._waiting:
            _, turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        self._idle.append(connection)

    def forget(self, connection: _Connection) -> None:
        """A connection is gone."""
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._free_place()

    async def _acquire(self, *, fresh: bool = False) -> _Connection:
        """
        A connection for one request: kept, new, or after a wait.

        A *fresh* one is asked for where a kept one has just turned out to be dead: its fellows may be dead as
        well.
        """
        if self._closed:
            raise UpstreamError("connect", f"{self} is being left")
        if self._idle and not fresh:
            return self._idle.pop()
        if fresh and self._idle and self._open >= self._most_connections:
            self._idle[0].abort()
        if self._open < self._most_connections:
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

    async def _connect(self) -> _Connection:
        """Open a connection in the place already counted for it."""
        loop = asyncio.get_running_loop()
        origin = self.origin
        make = partial(_Connection, self, loop)
        try:
            async with asyncio.timeout(self.connect_timeout):
                if origin.path:
                    _, connection = await loop.create_unix_connection(make, origin.path)
                else:
                    _, connection = await loop.create_connection(make, origin.host, origin.port, ssl=self.tls)
        except TimeoutError as error:
            self._free_place()
            raise UpstreamError("timeout", f"{self}: no connection in time") from error
        except OSError as error:
            self._free_place()
            raise UpstreamError("connect", f"{self}: {error}") from error
        except BaseException:
            self._free_place()
            raise
        self._all.add(connection)
        self._watch_time(loop)
        return connection

    def _free_place(self) -> None:
        """A connection less: whoever waits longest may open one instead."""
        self._open -= 1
        while self._waiting:
            _, turn = self._waiting.popleft()
            if not turn.done():
                self._open += 1
                turn.set_result(None)
                return

    async def _wait_turn(self) -> _Connection | None:
        """Wait for a connection that is given back, or for leave (None) to open one."""
        if len(self._waiting) >= self._most_waiting:
            raise UpstreamError("busy", f"{self}: all connections are taken and too many requests wait")
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[_Connection | None] = loop.create_future()
        self._waiting.append((loop.time() + self._wait_timeout, turn))
        self._watch_time(loop)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on(turn.result())
            raise

    def _pass_on(self, connection: _Connection | None) -> None:
        """Whoever got this turn has left in the same moment: it is the next one's."""
        if connection is None:
            self._free_place()
        elif not connection.closed:
            self.give_back(connection)

    def _turn_away(self, turn: asyncio.Future[_Connection | None], why: str) -> None:
        if not turn.done():
            turn.set_exception(UpstreamError("busy", f"{self} {why}"))

    def _watch_time(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._sweep_timer is None:
            self._sweep_timer = loop.call_later(self._sweep_interval, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at every deadline, and come again for as long as there are any."""
        self._sweep_timer = None
        now = loop.time()
        for connection in list(self._all):
            connection.check(now)
        while self._waiting and self._waiting[0][0] <= now:
            self._turn_away(self._waiting.popleft()[1], "has no connection free in time")
        if self._all or self._waiting:
            self._watch_time(loop)

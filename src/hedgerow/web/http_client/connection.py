"""One connection to a server: sends requests and parses responses."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, cast

import httptools

from hedgerow.errors import UpstreamError

if TYPE_CHECKING:
    from hedgerow.web.http_client.pool import RequestBody, Upstream

_FIRST_STATUS = 100
_LAST_INFORMATIONAL = 199
_FIRST_REFUSAL = 400


HOP_BY_HOP = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-connection", b"te", b"trailer", b"transfer-encoding",
    b"upgrade",
})  # fmt: skip
"""Headers that apply to one connection only and are never forwarded."""

_PLAIN_CONNECTION = frozenset({b"keep-alive", b"close"})


def named_by_connection(value: bytes) -> frozenset[bytes]:
    """Return the headers that a `Connection` header declares as hop-by-hop; none for usual values."""
    value = value.lower()
    if value in _PLAIN_CONNECTION:
        return frozenset()
    return frozenset(name.strip() for name in value.split(b","))


@dataclass(slots=True, eq=False)
class UpstreamResponse:
    """
    One response: its head, and its body as it arrives.

    *headers* are in the upstream's order, with lower-case names and without hop-by-hop headers. *ended* means that the
    whole body has arrived; `take` then returns the rest. Every response must be closed. That is free once it has ended;
    before, it costs the connection.
    """

    connection: Connection | None
    waiter: asyncio.Future[None] | None
    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    started: bool = False
    ended: bool = False
    stale: bool = False
    error: Exception | None = None
    received: list[bytes] = field(default_factory=list)
    size: int = 0

    async def read(self) -> bytes:
        """Return all received bytes of the body; wait for some. Empty at the end."""
        while not self.received and not self.ended:
            if self.connection is None:
                raise self.error or RuntimeError("a response was read after it was closed")
            await self.connection.wait_for_body(self)
        return self.take()

    async def wait_briefly(self, seconds: float) -> None:
        """Wait a moment for the first part of the body: many upstreams send the head separately."""
        if not self.received and not self.ended and self.connection is not None:
            await self.connection.wait_for_body(self, seconds)

    def take(self) -> bytes:
        """Return the bytes received since the last call, without waiting."""
        received = self.received
        if not received:
            return b""
        self.received = []
        self.size = 0
        if self.connection is not None:
            self.connection.resume_reading()
        return received[0] if len(received) == 1 else b"".join(received)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.abort()

    def wake(self) -> None:
        waiter = self.waiter
        if waiter is not None:
            self.waiter = None
            if not waiter.done():
                waiter.set_result(None)


class Connection(asyncio.Protocol):
    """
    One connection, with at most one response in progress.

    *read_deadline* and *write_deadline* are in the loop's time and checked by the pool's sweep. They are infinite while
    nothing is expected of the upstream. The read deadline of an idle connection is the end of its keep-alive.
    """

    def __init__(self, pool: Upstream, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool
        self._loop = loop
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._response: UpstreamResponse | None = None
        self._expects_body = True
        self._hop_headers: list[tuple[bytes, bytes]] = []
        self._sender: asyncio.Task[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._received_any = False
        self._used = False
        self._keep_alive = False
        self._clean = True
        self._head_bytes = 0
        self._unsent = 0
        self._read_paused = False
        self._write_paused = False
        self.closed = False
        self.read_deadline = inf
        self.write_deadline = inf

    # Called by the pool and the response

    async def exchange(self, head: bytes, *, expects_body: bool, body: RequestBody | None) -> UpstreamResponse:
        """Send a request and wait for the head of its response. A failure is in the response's *error*."""
        waiter = self._loop.create_future()
        response = self._response = UpstreamResponse(self, waiter)
        self._expects_body = expects_body
        self._received_any = False
        self._transport.write(head)
        if body is None:
            self.read_deadline = self._loop.time() + self._pool.head_timeout
        else:
            self.read_deadline = inf
            self._sender = self._loop.create_task(self._send(response, body))
        try:
            await waiter
        except BaseException:
            response.close()
            raise
        return response

    async def wait_for_body(self, response: UpstreamResponse, seconds: float | None = None) -> None:
        waiter = response.waiter = self._loop.create_future()
        self.read_deadline = self._loop.time() + self._pool.read_timeout
        alarm = None if seconds is None else self._loop.call_later(seconds, response.wake)
        try:
            await waiter
        finally:
            if alarm is not None:
                alarm.cancel()
            response.waiter = None
            if self._response is response:
                self.read_deadline = inf

    def resume_reading(self) -> None:
        if self._read_paused:
            self._read_paused = False
            self._transport.resume_reading()

    def abort(self, error: Exception | None = None) -> None:
        """Drop the connection at once. A response in progress gets *error*."""
        self._lose(error)
        self._transport.abort()

    def retire(self) -> None:
        """Close an idle connection whose slot in the pool is reused at once."""
        self.closed = True
        self._transport.abort()

    def check(self, now: float) -> None:
        """Abort what is overdue at *now*. Called by every sweep."""
        if now >= self.write_deadline:
            # The deadline is for a stalled upload: an upstream that reads a large body slowly has not failed.
            unsent = self._transport.get_write_buffer_size()
            if unsent == self._unsent:
                self.abort(UpstreamError("timeout", f"{self._pool} does not read the request's body"))
                return
            self._unsent = unsent
            self.write_deadline = now + self._pool.write_timeout
        if now >= self.read_deadline:
            if self._sender is not None and not self._sender.done():
                # The upstream may be waiting for the rest of the request body.
                self.read_deadline = now + self._pool.read_timeout
                return
            started = self._response is not None and self._response.started
            problem = "its response has stalled" if started else "no response in time"
            self.abort(UpstreamError("timeout", f"{self._pool}: {problem}"))

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None:
            self.abort()
            return
        self._received_any = True
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._clean = False
            if not response.ended:
                problem = f"its response is not HTTP: {error.__context__ or error}"
                self.abort(UpstreamError("broken", f"{self._pool}: {problem}"))
                return
        except httptools.HttpParserUpgrade:
            self.abort(UpstreamError("broken", f"{self._pool} switched to another protocol without a request"))
            return
        if response.ended:
            self._finish(response)
        elif self._head_bytes > self._pool.head_limit:
            self.abort(UpstreamError("broken", f"{self._pool}: the head of its response is too long"))
        elif response.size > self._pool.buffer_limit and not self._read_paused:
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
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # Called by llhttp, from data_received

    def on_message_begin(self) -> None:
        response = self._response
        if response is None or response.ended:
            self._clean = False
        elif not response.started:
            response.headers = []
            self._hop_headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        response = self._response
        # Headers after the head are trailers. They are dropped, so that none is taken for a header.
        if response is None or response.started:
            return
        name = name.lower()
        if name in HOP_BY_HOP:
            if value != b"keep-alive":
                self._hop_headers.append((name, value))
        else:
            response.headers.append((name, value))

    def on_headers_complete(self) -> None:
        response = self._response
        status = self._parser.get_status_code()
        if response is None or response.started:
            return
        if status < _FIRST_STATUS:
            raise ValueError(f"status {status}")
        if status <= _LAST_INFORMATIONAL:
            return
        if self._hop_headers:
            self._apply_hop_headers(response)
        self._head_bytes = 0
        self.read_deadline = inf
        response.status = status
        response.started = True
        if not self._expects_body:
            self._end_without_body(response)
        elif self._sender is not None and status >= _FIRST_REFUSAL:
            # An upstream that refuses a body does not want the rest of it, and some close if they get it.
            self._sender.cancel()
        response.wake()

    def on_body(self, body: bytes) -> None:
        response = self._response
        if response is None or response.ended:
            self._clean = False
            return
        self._head_bytes = 0
        response.received.append(body)
        response.size += len(body)
        if response.waiter is not None:
            response.wake()

    def on_message_complete(self) -> None:
        response = self._response
        if response is not None and response.started and not response.ended:
            response.ended = True
            self._keep_alive = self._parser.should_keep_alive()
            if response.waiter is not None:
                response.wake()

    def _apply_hop_headers(self, response: UpstreamResponse) -> None:
        for name, value in self._hop_headers:
            if name == b"connection":
                named = named_by_connection(value)
                if named:
                    response.headers = [pair for pair in response.headers if pair[0] not in named]
            elif name == b"transfer-encoding" and value.lower() != b"chunked":
                raise ValueError(f"transfer encoding {value!r} is not supported")

    def _end_without_body(self, response: UpstreamResponse) -> None:
        """End the response to a HEAD request with its head, whatever length that announces."""
        response.ended = True
        closing = any(name == b"connection" and b"close" in value.lower() for name, value in self._hop_headers)
        self._keep_alive = self._parser.get_http_version() == "1.1" and not closing
        # The old parser would wait for the body.
        self._parser = httptools.HttpResponseParser(self)

    def _finish(self, response: UpstreamResponse) -> None:
        """Release the connection after a complete response, which the proxy may still be reading."""
        self._response = response.connection = None
        self._used = True
        if self._sender is None and self._keep_alive and self._clean:
            self.resume_reading()
            self.read_deadline = self._loop.time() + self._pool.idle_timeout
            self._pool.give_back(self)
        else:
            self.abort()

    def _end(self, exc: Exception | None) -> None:
        """Handle the upstream's close: it ends the body if the response has no other framing, else it is an error."""
        response = self._response
        if response is not None:
            chunked = any(name == b"transfer-encoding" for name, _ in self._hop_headers)
            framed = chunked or any(name == b"content-length" for name, _ in response.headers)
            response.ended = exc is None and response.started and not framed
            response.stale = self._used and not self._received_any
        self._lose(UpstreamError("broken", f"{self._pool} closed the connection before its response was complete"))

    def _lose(self, error: Exception | None) -> None:
        if self.closed:
            return
        self.closed = True
        self._pool.forget(self)
        if self._sender is not None:
            self._sender.cancel()
        response = self._response
        if response is not None:
            self._response = response.connection = None
            if not response.ended:
                response.error = error
            response.wake()

    async def _send(self, response: UpstreamResponse, body: RequestBody) -> None:
        """Send *body*, no faster than the upstream reads it. Cancelled when the response makes it pointless."""
        try:
            await self._send_chunks(body)
        except Exception as error:  # noqa: BLE001 - whatever broke the body breaks the exchange
            if self._response is response:
                self.abort(error)
            return
        self._sender = None
        if not response.started:
            self.read_deadline = self._loop.time() + self._pool.head_timeout

    async def _send_chunks(self, body: RequestBody) -> None:
        remaining = body.length
        async for chunk in body.chunks:
            body.started = True
            if remaining is None:
                if chunk:
                    self._transport.writelines([b"%x\r\n" % len(chunk), chunk, b"\r\n"])
            else:
                remaining -= len(chunk)
                if remaining < 0:
                    break
                self._transport.write(chunk)
            if self._write_paused:
                await self._drain()
            if remaining == 0:
                break
        if remaining is None:
            self._transport.write(b"0\r\n\r\n")
        elif remaining:
            # The upstream would take the beginning of the next request for the rest of this body.
            raise UpstreamError("broken", "the request's body is not as long as its Content-Length")

    async def _drain(self) -> None:
        self._drained = self._loop.create_future()
        self._unsent = self._transport.get_write_buffer_size()
        self.write_deadline = self._loop.time() + self._pool.write_timeout
        try:
            await self._drained
        finally:
            self._drained = None
            self.write_deadline = inf

"""One connection to an upstream: what is sent on it, and what comes back."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Protocol, cast

import httptools

from hedgerow.errors import UpstreamError
from hedgerow.proxy.upstream.message import HOP_BY_HOP, RequestBody, UpstreamResponse, named_by_connection

_LAST_INFORMATIONAL = 199
_FIRST_REFUSAL = 400


class ConnectionPool(Protocol):
    """What a connection belongs to. Its name is in errors; its limits are in seconds and bytes (see `Upstream`)."""

    head_timeout: float
    read_timeout: float
    write_timeout: float
    idle_timeout: float
    head_limit: int
    buffer_limit: int

    def give_back(self, connection: Connection) -> None:
        """Take back a connection that can serve another request."""

    def forget(self, connection: Connection) -> None:
        """A connection is gone."""


class Connection(asyncio.Protocol):
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

    def __init__(self, pool: ConnectionPool, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool
        self._loop = loop
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._answer: UpstreamResponse | None = None
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

    async def exchange(self, head: bytes, *, expects_body: bool, body: RequestBody | None) -> UpstreamResponse:
        """Send a request and wait for the head of its answer. A failure is in the answer's *error*."""
        waiter = self._loop.create_future()
        answer = self._answer = UpstreamResponse(self, waiter)
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

    async def more(self, answer: UpstreamResponse, seconds: float | None = None) -> None:
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

    def _heed_hops(self, answer: UpstreamResponse) -> None:
        for name, value in self._hops:
            if name == b"connection":
                named = named_by_connection(value)
                if named:
                    answer.headers = [pair for pair in answer.headers if pair[0] not in named]
            elif name == b"transfer-encoding" and value.lower() != b"chunked":
                raise ValueError(f"transfer encoding {value!r} is not supported")

    def _end_without_body(self, answer: UpstreamResponse) -> None:
        """The answer to a HEAD ends with its head, whatever length that announces."""
        answer.ended = True
        closing = any(name == b"connection" and b"close" in value.lower() for name, value in self._hops)
        self._keep = self._parser.get_http_version() == "1.1" and not closing
        # The old parser would wait for the body.
        self._parser = httptools.HttpResponseParser(self)

    def _finish(self, answer: UpstreamResponse) -> None:
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

    def _ends_by_closing(self, answer: UpstreamResponse) -> bool:
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

    async def _send(self, answer: UpstreamResponse, body: RequestBody) -> None:
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

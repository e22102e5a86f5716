"""The upstream request in wire format, and the response as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

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
"""Headers that apply to one connection only and are never forwarded."""

_PLAIN_CONNECTION = frozenset({b"keep-alive", b"close"})


def request_head(method: bytes, target: bytes, headers: Headers) -> bytes:
    """
    Return the request line and the headers in wire format.

    Counting line breaks is the cheapest way to ensure that no name, value or target contains one and so starts a second
    request.
    """
    head = b"\r\n".join([b"%b %b HTTP/1.1" % (method, target), *map(b": ".join, headers), b"", b""])
    lines = len(headers) + 2
    if head.count(b"\n") != lines or head.count(b"\r") != lines or b" " in target:
        raise ValueError("target and headers of a request must not contain line breaks")
    return head


def named_by_connection(value: bytes) -> frozenset[bytes]:
    """Return the headers that a `Connection` header declares as hop-by-hop; none for usual values."""
    value = value.lower()
    if value in _PLAIN_CONNECTION:
        return frozenset()
    return frozenset(name.strip() for name in value.split(b","))


class RequestBody:
    """A request body as an iterator of *chunks*. Without a known *length* it is sent with chunked encoding."""

    __slots__ = ("chunks", "length", "started")

    def __init__(self, chunks: AsyncIterator[bytes], length: int | None = None) -> None:
        self.chunks = chunks
        self.length = length
        self.started = False
        """Whether a chunk was read. Until then the request can be sent again."""


class BodySource(Protocol):
    """The connection that a response comes from."""

    async def wait_for_body(self, response: UpstreamResponse, seconds: float | None = None) -> None:
        """Wait, at most *seconds*, until *response* has more of its body, its end or an error."""

    def resume_reading(self) -> None:
        """Continue to read after buffered bytes were taken."""

    def abort(self) -> None:
        """Drop the connection, because the rest of the response is not wanted."""


class UpstreamResponse:
    """
    One response: its head, and its body as it arrives.

    *headers* are in the upstream's order, with lower-case names and without hop-by-hop headers. *ended* means that the
    whole body has arrived; `take` then returns the rest. Every response must be closed. That is free once it has ended;
    before, it costs the connection.
    """

    __slots__ = ("connection", "ended", "error", "headers", "received", "size", "stale", "started", "status", "waiter")

    def __init__(self, connection: BodySource, waiter: asyncio.Future[None]) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.started = False
        self.ended = False
        self.stale = False
        self.error: Exception | None = None
        self.received: list[bytes] = []
        self.size = 0
        self.connection: BodySource | None = connection
        self.waiter: asyncio.Future[None] | None = waiter

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

"""A request as it goes on the wire, and the answer to it as it arrives."""

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
"""Headers that concern one connection only and are never passed on."""

_PLAIN_CONNECTION = frozenset({b"keep-alive", b"close"})


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


class BodySource(Protocol):
    """What an answer comes from: a connection."""

    async def more(self, answer: UpstreamResponse, seconds: float | None = None) -> None:
        """Wait, at most *seconds*, until *answer* has more of its body, its end or an error."""

    def go_on_reading(self) -> None:
        """Some of what had arrived was taken: more may come."""

    def abort(self) -> None:
        """Nobody wants the rest."""


class UpstreamResponse:
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

    def __init__(self, connection: BodySource, waiter: asyncio.Future[None]) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.begun = False
        self.ended = False
        self.stale = False
        self.error: Exception | None = None
        self.arrived: list[bytes] = []
        self.size = 0
        self.connection: BodySource | None = connection
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

"""
HAProxy asks: its Stream Processing Offload Protocol (SPOP 2.0), as far as one question needs it.

HAProxy sends method, address and headers of a request in a NOTIFY and gets an ACK that sets a variable: `ref`, where
the visit is not let in; its answer is then at /answer of the service (`forward_auth`), as it is for nginx. Frames come
one after the other on a connection; HAProxy opens as many as it needs.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from hedgerow.web.asgi_types import Scope

log = logging.getLogger(__name__)

Value = bytes | int | bool | str | None
Question = Callable[[Scope], Awaitable[str]]
"""The name under which the answer to a visit waits, or "" where it is let in."""

_HELLO, _BYE, _NOTIFY, _AGENT_HELLO, _AGENT_BYE, _ACK = 1, 2, 3, 101, 102, 103
_FIN = b"\x00\x00\x00\x01"
_LARGEST: Final = 65_536
_SHORTEST_FRAME = 7
_ONE_BYTE = 240
_SET_VAR, _THREE_ARGUMENTS, _OF_THE_TRANSACTION = 1, 3, 2
_VERSION, _SIZE, _ABILITIES = b"version", b"max-frame-size", b"capabilities"
_NOT_OF_THE_VISITOR = frozenset({b"x-hedgerow-ref"})


class FrameError(Exception):
    """What came is no frame, or none that we know."""


class FrameReader:
    """Reads what a frame holds, from the left."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if len(piece) < count:
            raise FrameError("a frame breaks off")
        self._at += count
        return piece

    def number(self) -> int:
        """
        A number as SPOP writes it: one byte up to 239, else 4 bits in the first and 7 in each of the next.

        >>> [FrameReader(bytes(data)).number() for data in ([239], [240, 0], [255, 128, 0])]
        [239, 240, 2303]
        """
        value = self.take(1)[0]
        if value < _ONE_BYTE:
            return value
        shift = 4
        while True:
            byte = self.take(1)[0]
            value += byte << shift
            shift += 7
            if byte < 128:  # noqa: PLR2004 - the highest bit says that more follows
                return value
            if shift > 64:  # noqa: PLR2004 - no number is longer
                raise FrameError("a number has no end")

    def text(self) -> bytes:
        return self.take(self.number())

    def value(self) -> Value:
        kind = self.take(1)[0]
        match kind & 0x0F:
            case 0:
                return None
            case 1:
                return bool(kind & 0x10)
            case 2 | 3 | 4 | 5:
                return self.number()
            case 6:
                return str(ipaddress.IPv4Address(self.take(4)))
            case 7:
                return str(ipaddress.IPv6Address(self.take(16)))
            case 8 | 9:
                return self.text()
            case _:
                raise FrameError("a value of an unknown kind")


def number(value: int) -> bytes:
    """
    The other way.

    >>> [list(number(n)) for n in (239, 240, 2303)]
    [[239], [240, 0], [255, 128, 0]]
    """
    if value < _ONE_BYTE:
        return bytes([value])
    out = [value & 0xFF | _ONE_BYTE]
    value = (value - _ONE_BYTE) >> 4
    while value >= 128:  # noqa: PLR2004 - see above
        out.append(value & 0x7F | 128)
        value = (value - 128) >> 7
    return bytes([*out, value])


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def frame(kind: int, stream: int, place: int, payload: bytes) -> bytes:
    body = bytes([kind]) + _FIN + number(stream) + number(place) + payload
    return len(body).to_bytes(4, "big") + body


class Spoe:
    """Answers HAProxy's questions on a listening socket; *trusts* says whose."""

    def __init__(self, question: Question, trusts: Callable[[str], bool]) -> None:
        self._question = question
        self._trusts = trusts
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()

    async def start(self, bound: socket.socket) -> None:
        self._server = await asyncio.start_server(self._talk, sock=bound, limit=2 * _LARGEST)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            for talk in self._talks:
                talk.cancel()
            await asyncio.gather(*self._talks, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        peer = (writer.get_extra_info("peername") or ("",))[0]
        try:
            if not self._trusts(peer):
                log.warning("%s asks by SPOE, and trusted_proxies does not name it: hung up", ascii(peer))
                return
            while True:
                writer.write(await self._answer(await _frame_from(reader)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except FrameError as broken:
            log.warning("HAProxy at %s is not understood: %s", ascii(peer), broken)
        finally:
            self._talks.discard(task)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, data: bytes) -> bytes:
        """What is said to a frame."""
        read = FrameReader(data)
        kind = read.take(1)[0]
        flags = int.from_bytes(read.take(4), "big")
        stream, place = read.number(), read.number()
        if kind == _HELLO:
            return _hello(read)
        if kind == _BYE:
            return frame(_AGENT_BYE, 0, 0, text(b"status-code") + b"\x03\x00" + text(b"message") + b"\x08\x00")
        if kind != _NOTIFY or not flags & 1:
            raise FrameError(f"a frame of kind {kind}, or in pieces")
        reference = ""
        while read:
            read.text()
            arguments = {read.text(): read.value() for _ in range(read.take(1)[0])}
            reference = await self._question(_asked(arguments)) or reference
        return frame(_ACK, stream, place, _set(b"ref", reference.encode()) if reference else b"")


async def _frame_from(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    if not _SHORTEST_FRAME <= size <= _LARGEST:
        raise FrameError("a frame of a wrong size")
    return await reader.readexactly(size)


def _hello(read: FrameReader) -> bytes:
    said: dict[bytes, Value] = {}
    while read:
        name = read.text()
        said[name] = read.value()
    theirs = said.get(_SIZE)
    size = min(theirs, _LARGEST) if isinstance(theirs, int) else _LARGEST
    told = text(_VERSION) + b"\x08" + text(b"2.0") + text(_SIZE) + b"\x03" + number(size)
    return frame(_AGENT_HELLO, 0, 0, told + text(_ABILITIES) + b"\x08" + text(b""))


def _set(name: bytes, value: bytes) -> bytes:
    """The action that sets a variable of the transaction."""
    return bytes([_SET_VAR, _THREE_ARGUMENTS, _OF_THE_TRANSACTION]) + text(name) + b"\x08" + text(value)


def _asked(arguments: dict[bytes, Value]) -> Scope:
    """The visitor's request. HAProxy's peer is the peer: who it is behind other proxies is told apart as ever."""
    source, method, uri, block = (arguments.get(name) for name in (b"src", b"method", b"uri", b"headers"))
    if not (isinstance(source, str) and isinstance(method, bytes) and isinstance(uri, bytes)):
        raise FrameError("the message needs src, method and uri")
    raw, _, query = uri.partition(b"?")
    return {
        "type": "http",
        "method": method.decode("latin-1"),
        "path": raw.decode("latin-1"),
        "raw_path": raw,
        "query_string": query,
        "headers": _headers(block) if isinstance(block, bytes) else [],
        "client": (source, 0),
        "scheme": "https" if arguments.get(b"ssl") else "http",
    }


def _headers(block: bytes) -> list[tuple[bytes, bytes]]:
    """What `req.hdrs_bin` gives: names and values in turn, then two that are empty."""
    read, headers = FrameReader(block), []
    while read:
        name, value = read.text().lower(), read.text()
        if name and name not in _NOT_OF_THE_VISITOR:
            headers.append((name, value))
    return headers

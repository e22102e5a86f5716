"""
Questions of HAProxy by its Stream Processing Offload Protocol (SPOP 2.0), as far as one question needs it.

HAProxy sends method, address and headers of a request in a NOTIFY frame. If the visit is not let in, the ACK sets the
variable `ref`, with which HAProxy fetches the response from /answer (`forward_auth`), as nginx does. Frames come one
after the other on a connection, and HAProxy opens as many connections as it needs.
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
"""Returns the reference of the response to a request, or "" if it is let in."""

_HELLO, _BYE, _NOTIFY, _AGENT_HELLO, _AGENT_BYE, _ACK = 1, 2, 3, 101, 102, 103
_FIN = b"\x00\x00\x00\x01"
_MAX_FRAME: Final = 65_536
_MIN_FRAME = 7
_MIN_LONG = 240
_MORE = 128
"""The highest bit of a byte says that another one follows."""
_MAX_SHIFT = 64
_SET_VAR, _THREE_ARGUMENTS, _TRANSACTION_SCOPE = 1, 3, 2


class FrameError(Exception):
    """The data is not a frame, or one of an unknown kind."""


class FrameReader:
    """Reads the content of a frame from the left."""

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
        Read a number as in SPOP: one byte up to 239, else 4 bits in the first byte and 7 in each of the next.

        >>> [FrameReader(bytes(data)).number() for data in ([239], [240, 0], [255, 128, 0])]
        [239, 240, 2303]
        """
        value = self.take(1)[0]
        if value < _MIN_LONG:
            return value
        for shift in range(4, _MAX_SHIFT + 1, 7):
            byte = self.take(1)[0]
            value += byte << shift
            if byte < _MORE:
                return value
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
            case 6 | 7 as version:
                return str(ipaddress.ip_address(self.take(4 if version == 6 else 16)))  # noqa: PLR2004 - SPOP
            case 8 | 9:
                return self.text()
            case _:
                raise FrameError("a value of an unknown kind")

    def pairs(self) -> dict[bytes, Value]:
        """Read names and values until the end."""
        pairs = {}
        while self:
            name = self.text()
            pairs[name] = self.value()
        return pairs


def number(value: int) -> bytes:
    """
    Encode a number; see `FrameReader.number`.

    >>> [list(number(n)) for n in (239, 240, 2303)]
    [[239], [240, 0], [255, 128, 0]]
    """
    if value < _MIN_LONG:
        return bytes([value])
    out = [value & 0xFF | _MIN_LONG]
    value = (value - _MIN_LONG) >> 4
    while value >= _MORE:
        out.append(value & 0x7F | _MORE)
        value = (value - _MORE) >> 7
    return bytes([*out, value])


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def frame(kind: int, stream: int, number_in_stream: int, payload: bytes) -> bytes:
    body = bytes([kind]) + _FIN + number(stream) + number(number_in_stream) + payload
    return len(body).to_bytes(4, "big") + body


class Spoe:
    """Answers the questions of HAProxy on a listening socket. *trusts* tells whether a peer may ask."""

    def __init__(self, question: Question, trusts: Callable[[str], bool]) -> None:
        self._question = question
        self._trusts = trusts
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, bound: socket.socket) -> None:
        self._server = await asyncio.start_server(self._serve, sock=bound, limit=2 * _MAX_FRAME)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        peer = (writer.get_extra_info("peername") or ("",))[0]
        try:
            if not self._trusts(peer):
                log.warning("refused %s at SPOE, which trusted_proxies does not name", ascii(peer))
                return
            while True:
                writer.write(await self._reply(await _read_frame(reader)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            # Only `close` cancels. asyncio would log the cancellation of a connection's task as a failure.
            pass
        except FrameError as broken:
            log.warning("invalid data from HAProxy at %s: %s", ascii(peer), broken)
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _reply(self, data: bytes) -> bytes:
        read = FrameReader(data)
        kind = read.take(1)[0]
        flags = int.from_bytes(read.take(4), "big")
        stream, number_in_stream = read.number(), read.number()
        if kind == _HELLO:
            theirs = read.pairs().get(b"max-frame-size")
            size = min(theirs, _MAX_FRAME) if isinstance(theirs, int) else _MAX_FRAME
            version = text(b"version") + b"\x08" + text(b"2.0") + text(b"max-frame-size") + b"\x03" + number(size)
            return frame(_AGENT_HELLO, 0, 0, version + text(b"capabilities") + b"\x08" + text(b""))
        if kind == _BYE:
            return frame(_AGENT_BYE, 0, 0, text(b"status-code") + b"\x03\x00" + text(b"message") + b"\x08\x00")
        if kind != _NOTIFY or not flags & 1:
            raise FrameError(f"a frame of kind {kind}, or in pieces")
        reference = ""
        while read:
            read.text()
            arguments = {read.text(): read.value() for _ in range(read.take(1)[0])}
            reference = await self._question(_request(arguments)) or reference
        set_ref = bytes([_SET_VAR, _THREE_ARGUMENTS, _TRANSACTION_SCOPE]) + text(b"ref") + b"\x08"
        return frame(_ACK, stream, number_in_stream, set_ref + text(reference.encode()) if reference else b"")


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    if not _MIN_FRAME <= size <= _MAX_FRAME:
        raise FrameError("a frame of a wrong size")
    return await reader.readexactly(size)


def _request(arguments: dict[bytes, Value]) -> Scope:
    """Return the visitor's request. Its peer is the peer of HAProxy, which may itself be a trusted proxy."""
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
    """Parse the result of `req.hdrs_bin`: names and values in turn, then two empty ones."""
    read, headers = FrameReader(block), []
    while read:
        name, value = read.text().lower(), read.text()
        if name and name != b"x-hedgerow-ref":
            headers.append((name, value))
    return headers

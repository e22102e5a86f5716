"""One request of a client and its response."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from hedgerow.errors import HedgerowError

_log = logging.getLogger("hedgerow.server")

_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"connection"})
_WITHOUT_BODY = frozenset({204, 304})
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_STATUS_LINES = {n: f"HTTP/1.1 {n} {_PHRASES.get(n, '')}".encode("ascii") for n in range(200, 600)}


def plain_response(status: int) -> bytes:
    """Return a complete response that contains only its status."""
    phrase = _PHRASES[status]
    body = f"{status} {phrase}\n"
    return (
        f"HTTP/1.1 {status} {phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
        f"content-length: {len(body)}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n{body}"
    ).encode("ascii")


class RequestCycle(RequestResponseCycle):
    """
    One request and its response.

    The head waits for the first part of the body and is sent with it. That saves a system call and a packet, and until
    then the response can still become an error.
    """

    task: asyncio.Task[None]
    tasks: set[asyncio.Task[None]]
    ends_by_closing = False
    head_sent = False
    _head = b""

    async def run_asgi(self, app: Any) -> None:
        """Run the application. A failure of the upstream is logged without a traceback."""
        try:
            await app(self.scope, self.receive, self.send)
        except HedgerowError as error:
            _log.warning("%s %s: %s", self.scope["method"], self.scope["raw_path"].decode("ascii"), error)
            self._fail()
        except asyncio.CancelledError:
            self._fail()
        except Exception:  # noqa: BLE001 - the server must survive any application error
            _log.exception("the application failed")
            self._fail()
        else:
            if not self.response_complete and not self.disconnected:
                _log.error("the application did not complete its response")
                self._fail()
        finally:
            self.on_response = _do_nothing
            self.tasks.discard(self.task)

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        kind = message["type"]
        if kind == "http.response.start" and not self.response_started:
            self._start(message["status"], message.get("headers", ()))
        elif kind == "http.response.body" and self.response_started and not self.response_complete:
            self._send_body(message.get("body", b""), more=message.get("more_body", False))
        else:
            raise RuntimeError(f"the application sent {kind!r} out of turn")

    def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        if self.waiting_for_100_continue and self.more_body:
            # The client does not send its body after this response, so the next request would be read as that body.
            self.keep_alive = False
        lines = [_STATUS_LINES[status], *map(b": ".join, headers)]
        if self.default_headers:
            lines += map(b": ".join, self.default_headers)
        has_close = False
        for pair in headers:
            name = pair[0].lower()
            if name in _FRAMING:
                has_close |= self._read_framing(name, pair[1])
        if not self.keep_alive and not has_close:
            lines.append(b"connection: close")
        if status in _WITHOUT_BODY or self.scope["method"] == "HEAD":
            self.chunked_encoding = False
            self.expected_content_length = 0
        elif self.chunked_encoding is None:
            # HTTP/1.0 has no chunks: the end of the connection is the end of the body.
            self.ends_by_closing = self.scope["http_version"] == "1.0"
            self.chunked_encoding = not self.ends_by_closing
            if self.chunked_encoding:
                lines.append(b"transfer-encoding: chunked")
        line_ends = len(lines) + 1
        lines += (b"", b"")
        head = b"\r\n".join(lines)
        if head.count(b"\n") != line_ends or head.count(b"\r") != line_ends or b"\0" in head:
            raise RuntimeError("response headers must not contain line breaks")
        self.response_started = True
        self.waiting_for_100_continue = False
        self._head = head

    def _read_framing(self, name: bytes, value: bytes) -> bool:
        """Apply a framing header of the response. Return whether it closes the connection."""
        if name == b"content-length":
            self.expected_content_length = int(value)
            self.chunked_encoding = False
        elif name == b"transfer-encoding":
            self.expected_content_length = 0
            self.chunked_encoding = True
        elif b"close" in value.lower():
            self.keep_alive = False
            return True
        return False

    def _send_body(self, body: bytes, *, more: bool) -> None:
        pieces = self._framed(body, more=more)
        if not self.head_sent:
            self.head_sent = True
            pieces.insert(0, self._head)
        if len(pieces) == 1:
            self.transport.write(pieces[0])
        elif pieces:
            self.transport.writelines(pieces)
        if more:
            return
        if self.expected_content_length:
            raise RuntimeError("the response is shorter than its Content-Length")
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _framed(self, body: bytes, *, more: bool) -> list[bytes]:
        if self.chunked_encoding:
            if body:
                return [b"%x\r\n" % len(body), body, b"\r\n" if more else b"\r\n0\r\n\r\n"]
            return [] if more else [b"0\r\n\r\n"]
        if self.scope["method"] == "HEAD":
            return []
        if not self.ends_by_closing:
            self.expected_content_length -= len(body)
            if self.expected_content_length < 0:
                raise RuntimeError("the response is longer than its Content-Length")
        return [body] if body else []

    def _fail(self) -> None:
        """Respond with an error if the head is not sent yet; otherwise end the connection early."""
        if self.disconnected or self.response_complete:
            return
        if not self.head_sent:
            self.head_sent = self.response_started = True
            self.transport.write(plain_response(500))
        elif self.ends_by_closing:
            # Only a reset distinguishes an incomplete body from a complete one here.
            connected = self.transport.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.transport.abort()
            return
        self.transport.close()


def _do_nothing() -> None:
    """Replaces the callback of a finished cycle, so that the cycle does not keep its connection alive."""

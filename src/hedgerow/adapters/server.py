"""
How uvicorn is run for a site that strangers attack: with limits, deadlines, and short answers to nonsense.

    make_server(app, host, port)    a `uvicorn.Server`, ready to run
    └── _Server                     looks at the deadlines of all connections once a second
        └── _Protocol               uvicorn's HTTP protocol, with limits on what clients send and how slowly
            └── _Cycle              uvicorn's request and response: cheaper, and quiet if the upstream fails

Limits are kept while bytes arrive, so no client takes more memory than they allow. Deadlines are numbers that
a sweep looks at: a timer for each would cost more than the rest of what is done around a short request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from math import inf
from typing import Any, cast
from urllib.parse import unquote

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import MAX_LINE_LENGTH, MAX_NUM_HEADERS

from hedgerow.errors import HedgerowError

_log = logging.getLogger("hedgerow.server")

_TICKS_A_SECOND = 10
_MOST_PIPELINED = 32
_LINGER_SECONDS = 2.0
_LINGER_BYTES = 1_048_576
_VERSIONS = frozenset({"1.0", "1.1"})
_NOTED = frozenset({b"expect", b"host", b"transfer-encoding"})
_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"connection"})
_WITHOUT_BODY = frozenset({204, 304})
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    What a client may send, in bytes, and how long it may take, in seconds.

    *head_timeout* is for a whole request head, *body_timeout* and *write_timeout* for standing still while a
    body is sent to us or an answer taken from us, *keep_alive* for the time between two requests. *message*
    is for one websocket message.
    """

    request_line: int = 16_384
    header_bytes: int = 65_536
    header_count: int = 100
    head_timeout: float = 10.0
    body_timeout: float = 30.0
    write_timeout: float = 60.0
    keep_alive: float = 65.0
    message: int = 16_777_216


def make_server(
    app: Any, host: str, port: int, *, limits: Limits | None = None, graceful: int = 10, lifespan: bool = True
) -> uvicorn.Server:
    """
    A server for *app*; `run()` it, with a list of sockets if there are several workers.

    When `should_exit` is set, requests under way have *graceful* seconds to finish. Logging is left to the program:
    refusals and failures go to `hedgerow.server`, the rest to uvicorn's own loggers. Forwarded headers are
    not read here, for whether to believe them is decided where visitors are identified.
    """
    limits = limits or Limits()
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="uvloop",
        http=cast("type[asyncio.Protocol]", partial(_Protocol, limits=limits)),
        ws=_Websocket,
        ws_max_size=limits.message,
        interface="asgi3",
        lifespan="on" if lifespan else "off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=graceful,
    )
    return _Server(config)


class _Server(uvicorn.Server):
    """
    uvicorn's server, which also looks for connections that are overdue.

    Signals are left to the program: uvicorn would raise them once more after a graceful end, and the process would die
    of what it was asked for politely.
    """

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_A_SECOND == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, _Protocol):
                    connection.check(now)
        return await super().on_tick(counter)


class _Websocket(WebSocketsSansIOProtocol):
    """uvicorn's websocket, which takes an HTTP answer to a handshake for the end of it and not for an omission."""

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True


class _Refusal(Exception):  # noqa: N818 - the client's error, not ours
    """A request that is answered here, with *status*, and never reaches the application."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


def _plain_answer(status: int) -> bytes:
    phrase = HTTPStatus(status).phrase
    body = f"{status} {phrase}\n"
    return (
        f"HTTP/1.1 {status} {phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
        f"content-length: {len(body)}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n{body}"
    ).encode("ascii")


def _status_lines() -> Iterator[tuple[int, bytes]]:
    for status in range(200, 600):
        phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
        yield status, f"HTTP/1.1 {status} {phrase}".encode("ascii")


_STATUS_LINES = dict(_status_lines())


class _Cycle(RequestResponseCycle):
    """
    One request and its response.

    The head waits for the first of the body and goes out with it: one system call and one packet less, and until
    then an error can still be told.
    """

    task: asyncio.Task[None]
    tasks: set[asyncio.Task[None]]
    ends_by_closing = False
    told = False
    _head = b""

    async def run_asgi(self, app: Any) -> None:
        """
        Run the application.

        A failure of the upstream after the response has begun is no fault of the program and gets no
        traceback; the connection is closed before the promised end, so the client knows that something is
        missing.
        """
        try:
            await app(self.scope, self.receive, self.send)
        except HedgerowError as error:
            _log.warning("%s %s: %s", self.scope["method"], self.scope["raw_path"].decode("ascii"), error)
            self._fail()
        except asyncio.CancelledError:
            self._fail()
        except Exception:  # noqa: BLE001 - the server must outlive any application
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
        lines = [_STATUS_LINES[status], *map(b": ".join, headers)]
        if self.default_headers:
            lines += map(b": ".join, self.default_headers)
        says_close = False
        for pair in headers:
            name = pair[0].lower()
            if name in _FRAMING:
                says_close |= self._heed(name, pair[1])
        if not self.keep_alive and not says_close:
            lines.append(b"connection: close")
        if status in _WITHOUT_BODY or self.scope["method"] == "HEAD":
            self.chunked_encoding = False
            self.expected_content_length = 0
        elif self.chunked_encoding is None:
            # HTTP/1.0 knows no chunks: there the end of the connection is the end of the body.
            self.ends_by_closing = self.scope["http_version"] == "1.0"
            self.chunked_encoding = not self.ends_by_closing
            if self.chunked_encoding:
                lines.append(b"transfer-encoding: chunked")
        ends = len(lines) + 1
        lines += (b"", b"")
        head = b"\r\n".join(lines)
        if head.count(b"\n") != ends or head.count(b"\r") != ends or b"\0" in head:
            raise RuntimeError("a response's headers must not hold line ends")
        self.response_started = True
        self.waiting_for_100_continue = False
        self._head = head

    def _heed(self, name: bytes, value: bytes) -> bool:
        """Note what a header says of the body's end; the answer is whether it says that the connection ends."""
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
        if not self.told:
            self.told = True
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
        """What goes on the wire for a piece of the body."""
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
        """Answer with an error while that is possible; else end before the promised end."""
        if self.disconnected or self.response_complete:
            return
        if not self.told:
            self.told = self.response_started = True
            self.transport.write(_plain_answer(500))
        elif self.ends_by_closing:
            # Here only a reset tells a broken body from a whole one.
            connected = self.transport.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.transport.abort()
            return
        self.transport.close()


def _do_nothing() -> None:
    """What a finished cycle calls; it must not hold on to its connection."""


class _Protocol(HttpToolsProtocol):
    """
    One connection of a client.

    *deadline* is in the loop's time and infinite while the client owes us nothing. A request that breaks a
    rule is answered here, in a few words, and is the connection's last: where one message ends and the next
    begins is no longer certain.
    """

    cycle: _Cycle

    def __init__(self, *args: Any, limits: Limits, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._running: _Cycle | None = None
        self._asgi = {"version": self.asgi_version, "spec_version": "2.3"}
        self._in_head = False
        self._whole = True
        self._timed = False
        self._upgrading = False
        self._over = False
        self._hosts = 0
        self._coding = b""
        self._fed = 0
        self._unsent = -1
        self._stuck_since = 0.0
        self.deadline = inf

    # asyncio's side

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.deadline = self.loop.time() + self._limits.head_timeout

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.connections.discard(self)
        self.deadline = inf
        for cycle in self._unfinished():
            cycle.disconnected = True
            cycle.message_event.set()
        self.flow.resume_writing()
        # The parser holds on to us.
        self.parser = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._fed += len(data)
        if self._over:
            if self._fed > _LINGER_BYTES:
                self.transport.abort()
            return
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause if isinstance(cause, _Refusal) else _Refusal(400, str(error)))
            return
        if not self._whole or self._fed:
            self._limit_the_rest()
        elif self.cycle.response_complete:
            self.deadline = self.loop.time() + self._limits.keep_alive
        else:
            self.deadline = inf

    def shutdown(self) -> None:
        if next(self._unfinished(), None) is None:
            self.transport.close()
        else:
            self.cycle.keep_alive = False

    def resume_writing(self) -> None:
        self._unsent = -1
        super().resume_writing()

    # llhttp's side: called while data_received feeds it

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= _MOST_PIPELINED:
            raise _Refusal(400, "too many requests at once")
        self._whole = False
        self._in_head = True
        self._timed = False
        self._hosts = 0
        self._coding = b""
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self.scope = {  # type: ignore[typeddict-item]
            "type": "http",
            "asgi": self._asgi,  # type: ignore[typeddict-item]
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,  # type: ignore[typeddict-item]
            "root_path": "",
            "headers": self.headers,
            "state": self.app_state.copy(),
        }

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > self._limits.request_line:
            raise _Refusal(414, "the request line is too long")

    def on_header(self, name: bytes, value: bytes) -> None:
        # After the head these are trailers: the application has its headers already, and is not to get others.
        if not self._in_head:
            return
        name = name.lower()
        self.headers.append((name, value))
        if name in _NOTED:
            self._note(name, value)

    def on_headers_complete(self) -> None:
        version = self.parser.get_http_version()
        method = self.parser.get_method().decode("ascii")
        if self._hosts != 1 or version != "1.1" or self._coding or method == "CONNECT":
            self._check_head(version, method)
        self._check_size()
        scope = self.scope
        scope["method"] = method
        scope["http_version"] = version
        if self.parser.should_upgrade():
            self._upgrading = True
            return
        scope["raw_path"], scope["query_string"] = raw_path, _ = _split_target(self.url)
        path = raw_path.decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        self._in_head = False
        self._fed = 0
        self._begin(keep_alive=version == "1.1" and self.parser.should_keep_alive())

    def on_body(self, body: bytes) -> None:
        self._fed = 0
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.message_event.set()

    def on_message_complete(self) -> None:
        if self._upgrading:
            return
        self._fed = 0
        self._whole = True
        cycle = self.cycle
        cycle.more_body = False
        cycle.message_event.set()

    # The server's and the cycle's side

    def check(self, now: float) -> None:
        """Called once a second: end what is overdue at *now*."""
        if now >= self.deadline:
            self._overdue(now)
        if self.flow.write_paused:
            unsent = self.transport.get_write_buffer_size()
            if unsent != self._unsent:
                self._unsent = unsent
                self._stuck_since = now
            elif now - self._stuck_since >= self._limits.write_timeout:
                _log.info("%s takes nothing of its answer", self._client_name())
                self.transport.abort()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._run(self.pipeline.pop()[0])
        elif self._whole:
            self.deadline = self.loop.time() + self._limits.keep_alive
        elif not self._in_head:
            self.deadline = self.loop.time() + self._limits.body_timeout

    # The rest

    def _note(self, name: bytes, value: bytes) -> None:
        if name == b"host":
            self._hosts += 1
        elif name == b"transfer-encoding":
            self._coding += value
        elif value.lower() == b"100-continue":
            self.expect_100_continue = True

    def _check_size(self) -> None:
        limits = self._limits
        if len(self.headers) > limits.header_count:
            raise _Refusal(431, "too many headers")
        # No more was fed than this, so usually there is nothing to add up.
        if self._fed > limits.header_bytes:
            size = sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > limits.header_bytes:
                raise _Refusal(431, "the headers are too long")

    def _check_head(self, version: str, method: str) -> None:
        if version not in _VERSIONS:
            raise _Refusal(505, f"HTTP version {version}")
        if self._hosts != 1 and (self._hosts or version == "1.1"):
            raise _Refusal(400, f"{self._hosts} Host headers")
        if self._coding:
            if version == "1.0":
                raise _Refusal(400, "chunks in HTTP/1.0")
            if self._coding.lower() != b"chunked":
                raise _Refusal(501, f"transfer encoding {self._coding!r}")
        if method == "CONNECT":
            raise _Refusal(501, "CONNECT")

    def _begin(self, *, keep_alive: bool) -> None:
        """The head of a request is here: run the application, or queue it behind the requests before."""
        previous = cast("_Cycle | None", self.cycle)
        cycle = self.cycle = _Cycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )
        cycle.tasks = self.tasks
        if previous is None or previous.response_complete:
            self._run(cycle)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def _run(self, cycle: RequestResponseCycle) -> None:
        running = self._running = cast("_Cycle", cycle)
        # The cycle takes itself off the set; a done-callback would cost another turn of the event loop.
        task = running.task = self.loop.create_task(running.run_asgi(self.app))
        self.tasks.add(task)

    def _limit_the_rest(self) -> None:
        """
        A message is incomplete: limit what may come before it makes progress, and for how long.

        Blank lines before a request are no progress, and leave the deadline as it is.
        """
        limits = self._limits
        if self._in_head and len(self.headers) > limits.header_count:
            self._refuse(_Refusal(431, "too many headers"))
        elif self._fed > limits.request_line + limits.header_bytes:
            self._refuse(_Refusal(431, "the headers are too long"))
        elif self._in_head and not self._timed:
            self._timed = True
            self.deadline = self.loop.time() + limits.head_timeout
        elif not self._whole and not self._in_head:
            self.deadline = self.loop.time() + limits.body_timeout

    def _overdue(self, now: float) -> None:
        if self._over:
            self.transport.abort()
        elif self._whole:
            self.transport.close()
        elif self._in_head:
            self._refuse(_Refusal(408, "the request took too long"))
        elif self.flow.read_paused or self.cycle.waiting_for_100_continue:
            # It is the application that does not take the body.
            self.deadline = now + self._limits.body_timeout
        else:
            self._refuse(_Refusal(408, "the request's body took too long"))

    def _refuse(self, refusal: _Refusal) -> None:
        """
        End the connection because of what the client sent.

        What it is owed for requests before this one it still gets, and then no answer to this one: an error
        must not land in the middle of another response.
        """
        _log.info("%s: refused with %d: %s", self._client_name(), refusal.status, refusal)
        self._over = True
        self._fed = 0
        self.deadline = inf
        if not self._whole and not self._in_head and not self._give_up_body():
            return
        earlier = list(self._unfinished())
        if earlier:
            earlier[-1].keep_alive = False
            return
        self.transport.write(_plain_answer(refusal.status))
        # To close with bytes unread resets the connection, and the client may then never see the answer.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self.deadline = self.loop.time() + _LINGER_SECONDS

    def _give_up_body(self) -> bool:
        """The body of the newest request is broken. Whether its client can still be told."""
        cycle = self.cycle
        if self.pipeline and self.pipeline[0][0] is cycle:
            self.pipeline.popleft()
            return True
        if cycle.told:
            self.transport.close()
        cycle.disconnected = cycle.response_complete = True
        cycle.message_event.set()
        return not cycle.told

    def _unfinished(self) -> Iterator[_Cycle]:
        """The requests without a complete response, oldest first."""
        if self._running is not None and not self._running.response_complete:
            yield self._running
        for cycle, _ in reversed(self.pipeline):
            yield cast("_Cycle", cycle)

    def _upgrade(self, rest: bytes) -> None:
        """The client asks for another protocol; *rest* is what it sent after the head."""
        self._upgrading = self._in_head = False
        self._whole = True
        self._fed = 0
        scope = self.scope
        if self._get_upgrade() != b"websocket" or scope["method"] != "GET" or scope["http_version"] != "1.1":
            self._decline_upgrade(rest)
        elif next(self._unfinished(), None) is not None:
            self._refuse(_Refusal(400, "an upgrade behind another request"))
        elif not self._fits_websockets():
            self._refuse(_Refusal(431, "the headers are too long for a websocket"))
        else:
            self.deadline = inf
            self.handle_websocket_upgrade()

    def _fits_websockets(self) -> bool:
        """Whether the `websockets` library takes this head: it has limits of its own, and then says nothing."""
        longest = MAX_LINE_LENGTH - len(b"GET  HTTP/1.1\r\n")
        return (
            len(self.url) <= longest
            and len(self.headers) <= MAX_NUM_HEADERS
            and all(len(name) + len(value) <= longest for name, value in self.headers)
        )

    def _decline_upgrade(self, rest: bytes) -> None:
        """
        Read the request once more, without its wish.

        The parser takes the head for the whole request, though a body may follow (Java's client offers `h2c`
        with any request): what the client means as a body must never be read as another request.
        """
        method, version = self.scope["method"].encode("ascii"), self.scope["http_version"].encode("ascii")
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b": ".join(pair) for pair in self.headers if pair[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.data_received(b"\r\n".join([*lines, b"", rest]))

    def _client_name(self) -> str:
        return self.client[0] if self.client else "a client"


def _split_target(target: bytes) -> tuple[bytes, bytes]:
    """Path and query as they were sent. Of an absolute address (`GET http://...`) the host is dropped."""
    if not target.isascii():
        raise _Refusal(400, "the target is not ASCII")
    if target.startswith(b"/") and b"#" not in target:
        path, _, query = target.partition(b"?")
        return path, query
    if target == b"*":
        return target, b""
    parts = httptools.parse_url(target)
    return parts.path or b"/", parts.query or b""

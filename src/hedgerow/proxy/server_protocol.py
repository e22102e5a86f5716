"""One client connection: limits on what it may send and how slowly, and refusal of malformed requests."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, cast
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from websockets.http11 import MAX_LINE_LENGTH, MAX_NUM_HEADERS

from hedgerow.proxy.connections import Connections
from hedgerow.proxy.server_cycle import RequestCycle, plain_response

_log = logging.getLogger("hedgerow.server")

_MAX_PIPELINED = 32
_LINGER_SECONDS = 2.0
_LINGER_BYTES = 1_048_576
_VERSIONS = frozenset({"1.0", "1.1"})
_CHECKED_HEADERS = frozenset({b"expect", b"host", b"transfer-encoding"})
# A name of at most 253 characters, or an address, with a port. An empty one is allowed.
_HOST = re.compile(rb"(?:[A-Za-z0-9._~-]{0,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{0,5})?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """
    What a client may send, in bytes, and how long it may take, in seconds.

    *head_timeout* is for a complete request head. *body_timeout* and *write_timeout* are for a stalled request body and
    a stalled response. After that time a client must have sent or read *min_rate* bytes per second on average: one that
    moves a few bytes a minute would occupy the upstream for hours. *keep_alive* is the time between two requests.
    *message* is for one websocket message.
    *connections* is the number of all connections, *connections_per_address* that of one IPv4 address or IPv6 /64.
    """

    request_line: int = 16_384
    header_bytes: int = 65_536
    header_count: int = 100
    head_timeout: float = 10.0
    body_timeout: float = 30.0
    write_timeout: float = 60.0
    min_rate: float = 500.0
    keep_alive: float = 65.0
    message: int = 16_777_216
    connections: int = 10_000
    connections_per_address: int = 500


class StallCheck:
    """
    Tells whether a client reads what is sent to it.

    It is stalled after `write_timeout` without progress. While the application waits for it, it must also take what is
    buffered at `min_rate`.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self._timeout = limits.write_timeout
        self._min_rate = limits.min_rate
        self._unsent = 0
        self._progress_at = 0.0
        self._paused_until: float | None = None

    def is_stalled(self, unsent: int, now: float, *, paused: bool) -> bool:
        """Return whether the connection must end; *unsent* bytes are in its buffer. Called once a second."""
        if not paused:
            self._paused_until = None
        elif self._paused_until is None:
            self._paused_until = now + self._timeout + unsent / self._min_rate
        elif now >= self._paused_until:
            return True
        if unsent != self._unsent:
            self._unsent, self._progress_at = unsent, now
        return unsent > 0 and now - self._progress_at >= self._timeout

    def resume(self) -> None:
        """The buffer has become small enough, and the application goes on."""
        self._paused_until = None


class _Refusal(Exception):  # noqa: N818 - the client's error, not ours
    """A request that the server answers itself with *status*; it never reaches the application."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        super().__init__(reason)


_TOO_MANY = plain_response(503)


class ServerProtocol(HttpToolsProtocol):
    """
    One client connection.

    *deadline* is in the loop's time and infinite while nothing is expected of the client. A request that breaks a rule
    gets a short response and is the last of its connection: where the next message would begin is uncertain.
    """

    cycle: RequestCycle

    def __init__(self, *args: Any, limits: ServerLimits, admission: Connections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._admission = admission
        self._running: RequestCycle | None = None
        self._asgi_info = {"version": self.asgi_version, "spec_version": "2.3"}
        self._in_head = False
        self._complete = True
        self._deadline_set = False
        self._upgrading = False
        self._closing = False
        self._hosts = 0
        self._transfer_encoding = b""
        self._unparsed = 0
        self._stall = StallCheck(limits)
        # When the body began, or the client could go on with it, and its bytes since.
        self._body_since = 0.0
        self._body_bytes = 0
        self.deadline = inf
        self.idle_since = inf

    # Called by asyncio

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        now = self.loop.time()
        if self._admission.admit(self, self.client[0] if self.client else "", now):
            self.idle_since = now
            self.deadline = now + self._limits.head_timeout
        else:
            self._closing = True
            self.deadline = now + _LINGER_SECONDS
            transport.write(_TOO_MANY)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.connections.discard(self)
        self._admission.release(self)
        self.deadline = inf
        for cycle in self._unfinished():
            cycle.disconnected = True
            cycle.message_event.set()
        self.flow.resume_writing()
        # Break the reference cycle with the parser.
        self.parser = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._unparsed += len(data)
        if self._closing:
            if self._unparsed > _LINGER_BYTES:
                self.transport.abort()
            return
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError as error:
            cause = error.__context__
            # With a traceback it would hold this frame, which holds it and the connection until the next collection.
            refusal = cause.with_traceback(None) if isinstance(cause, _Refusal) else _Refusal(400, str(error))
            self._refuse(refusal)
            return
        if not self._complete or self._unparsed:
            self._limit_incomplete()
        elif self.cycle.response_complete:
            self._await_request()
        else:
            self.deadline = inf

    def shutdown(self) -> None:
        if next(self._unfinished(), None) is None:
            self.transport.close()
        else:
            self.cycle.keep_alive = False

    def resume_writing(self) -> None:
        self._stall.resume()
        super().resume_writing()

    # Called by llhttp, from data_received

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= _MAX_PIPELINED:
            raise _Refusal(400, "too many requests at once")
        self._complete = False
        self._in_head = True
        self._deadline_set = False
        if next(self._unfinished(), None) is None:
            self.idle_since = self.loop.time()
        self._body_since = 0.0
        self._hosts = 0
        self._transfer_encoding = b""
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self.scope = {  # type: ignore[typeddict-item]
            "type": "http",
            "asgi": self._asgi_info,  # type: ignore[typeddict-item]
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
        # Headers after the head are trailers. They are dropped: the application already has its headers.
        if not self._in_head:
            return
        name = name.lower()
        self.headers.append((name, value))
        if name in _CHECKED_HEADERS:
            self._check_header(name, value)

    def on_headers_complete(self) -> None:
        self.idle_since = inf
        version = self.parser.get_http_version()
        method = self.parser.get_method().decode("ascii")
        if self._hosts != 1 or version != "1.1" or self._transfer_encoding or method == "CONNECT":
            self._check_head(version, method)
        self._check_size()
        scope = self.scope
        scope["method"] = method
        scope["http_version"] = version
        scope["raw_path"], scope["query_string"] = raw_path, query = _split_target(self.url)
        if self.parser.should_upgrade():
            self._upgrading = True
            # Of an absolute target (`GET http://...`) only path and query go on, as for other requests.
            self.url = b"%b?%b" % (raw_path, query) if query else raw_path
            return
        path = raw_path.decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        self._in_head = False
        self._unparsed = 0
        self._start_cycle(keep_alive=version == "1.1" and self.parser.should_keep_alive())

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        self._body_bytes += len(body)
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.message_event.set()

    def on_message_complete(self) -> None:
        if self._upgrading:
            return
        self._unparsed = 0
        self._complete = True
        cycle = self.cycle
        cycle.more_body = False
        cycle.message_event.set()

    # Called by the server and the request cycle

    def check(self, now: float) -> None:
        """Close or refuse what is overdue at *now*. Called once a second."""
        if now >= self.deadline:
            self._overdue(now)
        unsent = self.transport.get_write_buffer_size()
        if self._stall.is_stalled(unsent, now, paused=self.flow.write_paused):
            _log.info("%s: does not read its response; connection closed", self._client_name())
            self.transport.abort()

    def close_idle(self) -> None:
        """Close the connection, which waits for a request or the rest of its head, to make room for another."""
        self.transport.close()

    def _await_request(self) -> None:
        self.idle_since = self.loop.time()
        self.deadline = self.idle_since + self._limits.keep_alive

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._run(self.pipeline.pop()[0])
        elif self._complete:
            self._await_request()
        elif not self._in_head:
            self.deadline = self.loop.time() + self._limits.body_timeout

    def _check_header(self, name: bytes, value: bytes) -> None:
        if name == b"host":
            self._hosts += 1
            if not _HOST.match(value):
                raise _Refusal(400, "the Host header is no host")
        elif name == b"transfer-encoding":
            self._transfer_encoding += b"," + value if self._transfer_encoding else value
        elif value.lower() == b"100-continue":
            self.expect_100_continue = True

    def _check_size(self) -> None:
        limits = self._limits
        if len(self.headers) > limits.header_count:
            raise _Refusal(431, "too many headers")
        # The head is not longer than the bytes received for it, so usually no sum is needed.
        if self._unparsed > limits.header_bytes:
            size = sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > limits.header_bytes:
                raise _Refusal(431, "the headers are too long")

    def _check_head(self, version: str, method: str) -> None:
        if version not in _VERSIONS:
            raise _Refusal(505, f"HTTP version {version}")
        if self._hosts != 1 and (self._hosts or version == "1.1"):
            raise _Refusal(400, f"{self._hosts} Host headers")
        if self._transfer_encoding:
            if version == "1.0":
                raise _Refusal(400, "chunks in HTTP/1.0")
            if self._transfer_encoding.lower() != b"chunked":
                raise _Refusal(501, f"transfer encoding {self._transfer_encoding!r}")
        if method == "CONNECT":
            raise _Refusal(501, "CONNECT")

    def _start_cycle(self, *, keep_alive: bool) -> None:
        """Run the application for a complete head, or queue the request behind earlier ones."""
        previous = cast("RequestCycle | None", self.cycle)
        cycle = self.cycle = RequestCycle(
            scope=self.scope, transport=self.transport, flow=self.flow, logger=self.logger,
            access_logger=self.access_logger, access_log=False, default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(), expect_100_continue=self.expect_100_continue, keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )  # fmt: skip
        cycle.tasks = self.tasks
        if previous is None or previous.response_complete:
            self._run(cycle)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def _run(self, cycle: RequestResponseCycle) -> None:
        running = self._running = cast("RequestCycle", cycle)
        # The cycle removes its task from the set. A done-callback would cost another iteration of the event loop.
        task = running.task = self.loop.create_task(running.run_asgi(self.app))
        self.tasks.add(task)

    def _limit_incomplete(self) -> None:
        """Limit size and time of an incomplete message. Blank lines before a request do not move the deadline."""
        limits = self._limits
        if self._in_head and len(self.headers) > limits.header_count:
            self._refuse(_Refusal(431, "too many headers"))
        elif self._unparsed > limits.request_line + limits.header_bytes:
            self._refuse(_Refusal(431, "the headers are too long"))
        elif self._in_head and not self._deadline_set:
            self._deadline_set = True
            self.deadline = self.loop.time() + limits.head_timeout
        elif not self._complete and not self._in_head:
            now = self.loop.time()
            if not self._body_since:
                self._body_since, self._body_bytes = now, 0
            slowest = self._body_since + self._body_bytes / limits.min_rate
            self.deadline = min(now, slowest) + limits.body_timeout

    def _overdue(self, now: float) -> None:
        if self._closing:
            self.transport.abort()
        elif self._complete:
            self.transport.close()
        elif self._in_head:
            self._refuse(_Refusal(408, "the request took too long"))
        elif self.flow.read_paused or self.cycle.waiting_for_100_continue:
            # The application does not read the body; the client is not to blame.
            self.deadline = now + self._limits.body_timeout
            self._body_since = 0.0
        else:
            self._refuse(_Refusal(408, "the request's body took too long"))

    def _refuse(self, refusal: _Refusal) -> None:
        """End the connection. Responses to earlier requests are still sent, but then the refusal is not."""
        _log.info("%s: refused with %d: %s", self._client_name(), refusal.status, refusal)
        self._closing = True
        self._unparsed = 0
        self.deadline = inf
        if not self._complete and not self._in_head and not self._abandon_body():
            return
        earlier = list(self._unfinished())
        if earlier:
            earlier[-1].keep_alive = False
            return
        self.transport.write(plain_response(refusal.status))
        # Closing with unread bytes resets the connection, and the client might never see the response.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self.deadline = self.loop.time() + _LINGER_SECONDS

    def _abandon_body(self) -> bool:
        """Abandon the broken body of the newest request. Return whether a response is still possible."""
        cycle = self.cycle
        if self.pipeline and self.pipeline[0][0] is cycle:
            self.pipeline.popleft()
            return True
        if cycle.head_sent:
            self.transport.close()
        cycle.disconnected = cycle.response_complete = True
        cycle.message_event.set()
        return not cycle.head_sent

    def _unfinished(self) -> Iterator[RequestCycle]:
        """Yield the requests without a complete response, oldest first."""
        if self._running is not None and not self._running.response_complete:
            yield self._running
        for cycle, _ in reversed(self.pipeline):
            yield cast("RequestCycle", cycle)

    def _upgrade(self, rest: bytes) -> None:
        """Handle a request for another protocol; *rest* is what the client sent after the head."""
        self._upgrading = self._in_head = False
        self._complete = True
        self._unparsed = 0
        scope = self.scope
        if self._get_upgrade() != b"websocket" or scope["method"] != "GET" or scope["http_version"] != "1.1":
            self._decline_upgrade(rest)
        elif next(self._unfinished(), None) is not None:
            self._refuse(_Refusal(400, "an upgrade behind another request"))
        elif self._announces_body():
            self._refuse(_Refusal(400, "a websocket handshake with a body"))
        elif not self._fits_websockets():
            self._refuse(_Refusal(431, "the headers are too long for a websocket"))
        else:
            self.deadline = inf
            self.handle_websocket_upgrade()
            self._admission.replace(self, self.transport.get_protocol())  # type: ignore[arg-type]
            # Break the reference cycle with the parser, as `connection_lost` does, which the websocket now hears.
            self.parser = None  # type: ignore[assignment]

    def _announces_body(self) -> bool:
        """Return whether the head says that a body follows, for which `websockets` would wait without a deadline."""
        lengths = (value for name, value in self.headers if name == b"content-length")
        return bool(self._transfer_encoding) or any(value.strip(b"0") for value in lengths)

    def _fits_websockets(self) -> bool:
        """Return whether the head is within the limits of `websockets`, which refuses without a response."""
        longest = MAX_LINE_LENGTH - len(b"GET  HTTP/1.1\r\n")
        return (
            len(self.url) <= longest
            and len(self.headers) <= MAX_NUM_HEADERS
            and all(len(name) + len(value) <= longest for name, value in self.headers)
        )

    def _decline_upgrade(self, rest: bytes) -> None:
        """
        Parse the request again without its `Upgrade` header.

        The parser takes the head for the whole request, though a body may follow: Java's client offers `h2c` with any
        request. The body must never be parsed as another request.
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
    """Return path and query as they were sent. The host of an absolute target (`GET http://...`) is dropped."""
    if not target.isascii():
        raise _Refusal(400, "the target is not ASCII")
    if target.startswith(b"/") and b"#" not in target:
        path, _, query = target.partition(b"?")
        return path, query
    if target == b"*":
        return target, b""
    parts = httptools.parse_url(target)
    return parts.path or b"/", parts.query or b""

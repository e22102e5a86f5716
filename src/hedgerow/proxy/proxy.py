"""
A faithful reverse proxy as a plain ASGI application: `Hedgerow(Proxy(Upstream("http://127.0.0.1:8080")))`.

It forwards http and websocket requests to one upstream and changes nothing but what a proxy must: headers
that concern one connection are dropped, those that say who is asking are set. Bodies are streamed both ways,
no faster than the other side takes them, and nothing is kept.

Until an answer has begun, a failure is an `UpstreamError`, which the application around makes a page of.
After that it is raised as well, and the server must cut the connection: to end it well would pass half a page
off as a whole one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import quote

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.frames import EXTERNAL_CLOSE_CODES, Close, CloseCode
from websockets.uri import WebSocketURI

from hedgerow.errors import UpstreamError
from hedgerow.proxy.upstream.message import HOP_BY_HOP, RequestBody, UpstreamResponse, named_by_connection
from hedgerow.proxy.upstream.pool import Upstream
from hedgerow.web.asgi_types import Message, Receive, Scope, Send

Pair = tuple[bytes, bytes]

_LOOK_EVERY = 0.25
_SETTLE = 0.01
_LAST_STATUS = 599
_WITHOUT_LENGTH = frozenset({204, 304})
_NO_BODY: Final = -1

# What becomes of a request's header.
_KEEP: Final = 0
_DROP: Final = 1
_FORWARDED: Final = 2  # says who is asking; believed only of a trusted peer
_HOST: Final = 3
_CONNECTION: Final = 4
_LENGTH: Final = 5
_CODING: Final = 6

_OWN_ROLES = {
    b"host": _HOST,
    b"connection": _CONNECTION,
    b"content-length": _LENGTH,
    b"transfer-encoding": _CODING,
    b"expect": _DROP,
    b"http2-settings": _DROP,
    b"forwarded": _FORWARDED,
    b"x-real-ip": _FORWARDED,
}


class _Roles(dict[bytes, int]):
    """
    What becomes of each header, worked out once for each name.

    Underscores count as dashes where a header says who is asking: CGI, and so WSGI, cannot tell them apart,
    and `X_Forwarded_For` would slip through. Clients can make up names without end, so only so many are
    remembered.
    """

    MOST = 2000
    LONGEST = 64

    def __missing__(self, name: bytes) -> int:
        role = _role_of(name)
        if len(self) < self.MOST and len(name) <= self.LONGEST:
            self[name] = role
        return role


def _role_of(name: bytes) -> int:
    dashed = name.replace(b"_", b"-")
    if dashed.startswith(b"x-forwarded-") or _OWN_ROLES.get(dashed) == _FORWARDED:
        return _FORWARDED
    if name in _OWN_ROLES:
        return _OWN_ROLES[name]
    if name in HOP_BY_HOP or dashed == b"proxy" or dashed.startswith(b"proxy-"):
        return _DROP
    return _KEEP


class _ClientGone(Exception):  # noqa: N818 - not an error: somebody closed a tab
    """The client has left, and nobody is there to be told anything."""


class _Flight:
    """
    A request under way, and how to see that its client has left.

    To look out for that takes a task of its own, so a request is watched only once it has lasted a while.
    While its body is being received it is not watched either: the body's end says the same.
    """

    __slots__ = ("gone", "receive", "receiving", "seen", "task", "watcher")

    def __init__(self, receive: Receive) -> None:
        self.receive = receive
        self.receiving = False
        self.task = cast("asyncio.Task[Any]", asyncio.current_task())
        self.watcher: asyncio.Task[None] | None = None
        self.seen = False
        self.gone = False

    def look(self) -> None:
        """Called every so often; from the second time on the client is watched."""
        if self.seen and not self.receiving and self.watcher is None:
            self.watcher = asyncio.create_task(self._watch())
        self.seen = True

    async def _watch(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self.task.cancel()

    def land(self) -> None:
        if self.watcher is not None:
            self.watcher.cancel()


class _Incoming(AsyncIterator[bytes]):
    """A request's body, straight from the server that receives it; *length* is None where it is not known."""

    __slots__ = ("_flight", "_left")

    def __init__(self, flight: _Flight, length: int | None) -> None:
        self._flight = flight
        self._left = length
        flight.receiving = length != 0

    async def __anext__(self) -> bytes:
        if not self._flight.receiving:
            raise StopAsyncIteration
        message = await self._flight.receive()
        if message["type"] == "http.disconnect":
            raise _ClientGone
        body = cast("bytes", message.get("body", b""))
        if self._left is not None:
            self._left -= len(body)
        self._flight.receiving = message.get("more_body", False) and self._left != 0
        return body


class Proxy:
    """
    Forwards whatever it is asked to *upstream*.

    With *preserve_host* the upstream sees the `Host` that the client sent, else its own. A websocket message
    may have *message_limit* bytes; *open_timeout* and *close_timeout* are seconds for a websocket's
    handshakes, and an upstream that leaves a ping unanswered for *ping_interval* seconds is given up.
    """

    def __init__(
        self,
        upstream: Upstream,
        *,
        preserve_host: bool = True,
        message_limit: int = 16_777_216,
        open_timeout: float = 10.0,
        close_timeout: float = 10.0,
        ping_interval: float | None = 20.0,
    ) -> None:
        self.upstream = upstream
        self._authority = upstream.origin.authority
        self._preserve_host = preserve_host
        self._message_limit = message_limit
        self._open_timeout = open_timeout
        self._close_timeout = close_timeout
        self._ping_interval = ping_interval
        self._roles = _Roles()
        self._flights: set[_Flight] = set()
        self._lookout: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            await self._http(scope, receive, send)
        elif kind == "websocket":
            await self._websocket(scope, receive, send)
        elif kind == "lifespan":
            await self._lifespan(receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.upstream.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, length = self._request_headers(scope)
        flight = _Flight(receive)
        body = None if length == _NO_BODY else RequestBody(_Incoming(flight, length), length)
        self._flights.add(flight)
        if self._lookout is None:
            self._look_out()
        try:
            method = scope["method"].encode("ascii")
            answer = await self.upstream.request(method, _target(scope), headers, body)
            try:
                await _relay(answer, send)
            finally:
                answer.close()
        except _ClientGone:
            pass
        except asyncio.CancelledError:
            if not flight.gone:
                raise
            flight.task.uncancel()
        finally:
            self._flights.discard(flight)
            flight.land()

    def _look_out(self) -> None:
        """See who has been under way for long, and come again while anybody is."""
        self._lookout = None
        for flight in self._flights:
            flight.look()
        if self._flights:
            self._lookout = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look_out)

    def _request_headers(self, scope: Scope) -> tuple[list[Pair], int | None]:
        """
        The headers to send, and the body's length: None where it is not known, `_NO_BODY` where there is none.

        If a request is framed in both ways its chunks count, as they did for the server. It is framed anew on
        the way out, so nothing is left for the upstream to read in another way.
        """
        roles = self._roles
        host, chunked = b"", False
        lengths: set[bytes] = set()
        named: frozenset[bytes] = frozenset()
        kept: list[Pair] = []
        came: list[Pair] = []
        for pair in scope["headers"]:
            role = roles[pair[0]]
            if role == _KEEP:
                kept.append(pair)
            elif role == _HOST:
                host = pair[1]
            elif role == _FORWARDED:
                came.append(pair)
            elif role == _CONNECTION:
                named |= named_by_connection(pair[1])
            elif role == _LENGTH:
                lengths.add(pair[1])
            elif role == _CODING:
                chunked = True
        if named:
            kept = [pair for pair in kept if pair[0] not in named]
        kept.append((b"host", host if host and self._preserve_host else self._authority))
        if not scope.get("hedgerow", {}).get("peer_trusted", False):
            came = []
        kept += _forwarded(scope, host, came)
        return kept, _body_length(lengths, chunked=chunked)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (await receive())["type"] != "websocket.connect":
            return
        try:
            remote = await self._dial(scope)
        except InvalidStatus as refusal:
            response = refusal.response
            headers = _handshake_headers(response.headers.raw_items())
            await _refuse(scope, send, response.status_code, headers, bytes(response.body or b""))
        except TimeoutError:
            await _refuse(scope, send, HTTPStatus.GATEWAY_TIMEOUT)
        except (OSError, InvalidHandshake, ValueError):
            await _refuse(scope, send, HTTPStatus.BAD_GATEWAY)
        else:
            await _Conversation(remote, receive, send).run()

    async def _dial(self, scope: Scope) -> ClientConnection:
        """Ask the upstream for the websocket that the client asks for."""
        origin = self.upstream.origin
        sent, _ = self._request_headers(scope)
        headers = [
            (name.decode("ascii"), value.decode("latin-1"))
            for name, value in sent
            if not name.startswith(b"sec-websocket-")
        ]
        host = next(value for name, value in headers if name == "host")
        where: dict[str, Any] = {"host": origin.host, "port": origin.port}
        if origin.path:
            where = {"unix": True, "path": origin.path}
        elif origin.secure:
            where |= {"ssl": self.upstream.tls, "server_hostname": origin.host}
        dial = _Dial(
            "wss://localhost/" if origin.secure else "ws://localhost/",
            additional_headers=[pair for pair in headers if pair[0] != "host"],
            subprotocols=scope.get("subprotocols") or None,
            user_agent_header=None,
            compression=None,
            proxy=None,
            max_size=self._message_limit,
            open_timeout=self._open_timeout,
            close_timeout=self._close_timeout,
            ping_interval=self._ping_interval,
            ping_timeout=self._ping_interval,
            **where,
        )
        # Set rather than parsed from an address, which would take a path's parameters (`;a=b`) off.
        name, port = _split_host(host, 443 if origin.secure else 80)
        path, query = _path(scope).decode("ascii"), scope["query_string"].decode("ascii")
        dial.ws_uri = WebSocketURI(origin.secure, name, port, path, query)
        return await dial


async def _relay(answer: UpstreamResponse, send: Send) -> None:
    """Pass the answer on; one that has arrived whole, in one piece."""
    status, headers = answer.status, answer.headers
    if status in _WITHOUT_LENGTH:
        # A length here is that of a body which does not follow, and servers stumble over it.
        headers = [pair for pair in headers if pair[0] != b"content-length"]
    elif status > _LAST_STATUS:
        raise UpstreamError("broken", f"the upstream answered with status {status}")
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if not answer.ended:
        await answer.settle(_SETTLE)
    body = answer.take()
    # Sent even if it is empty: a server may keep the head back until the first of the body.
    while not answer.ended:
        await send({"type": "http.response.body", "body": body, "more_body": True})
        body = await answer.read()
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _body_length(lengths: set[bytes], *, chunked: bool) -> int | None:
    """The one length that a request gives, if it gives one in digits; else it goes on in chunks."""
    if not lengths and not chunked:
        return _NO_BODY
    if chunked or len(lengths) > 1:
        return None
    length = lengths.pop()
    return int(length) if length.isdigit() else None


def _target(scope: Scope) -> bytes:
    query = scope["query_string"]
    return b"%b?%b" % (_path(scope), query) if query else _path(scope)


def _path(scope: Scope) -> bytes:
    """The path as it was sent. Not every server tells; then as it would usually be sent."""
    return scope.get("raw_path") or quote(scope["path"]).encode("ascii") or b"/"


def _forwarded(scope: Scope, host: bytes, came: list[Pair]) -> list[Pair]:
    """
    The headers that say who is asking; *came* holds those that a trusted peer sent.

    Such a peer knows better than we do which scheme and host the visitor used, and it is itself the last of
    the addresses that the request came through.
    """
    client = scope.get("client")
    if not came and client and host:
        return [
            (b"x-forwarded-for", client[0].encode("ascii")),
            (b"x-forwarded-proto", _PROTO_OF[scope["scheme"]]),
            (b"x-forwarded-host", host),
        ]
    passed, via, known = [], [], set()
    for pair in came:
        if pair[0] == b"x-forwarded-for":
            via.append(pair[1])
        else:
            passed.append(pair)
            known.add(pair[0])
    if client:
        via.append(client[0].encode("ascii"))
    if via:
        passed.append((b"x-forwarded-for", b", ".join(via)))
    if b"x-forwarded-proto" not in known:
        passed.append((b"x-forwarded-proto", _PROTO_OF[scope["scheme"]]))
    if host and b"x-forwarded-host" not in known:
        passed.append((b"x-forwarded-host", host))
    return passed


_PROTO_OF = {"http": b"http", "https": b"https", "ws": b"http", "wss": b"https"}


class _Dial(connect):
    """A handshake that leaves a redirect to the client: only it knows whether to follow."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class _Conversation:
    """Two websockets, each told what the other one says until either closes."""

    def __init__(self, remote: ClientConnection, receive: Receive, send: Send) -> None:
        self._remote = remote
        self._receive = receive
        self._send = send
        self._client_left = False

    async def run(self) -> None:
        remote = self._remote
        assert remote.response is not None
        headers = _handshake_headers(remote.response.headers.raw_items())
        ways: list[asyncio.Task[None]] = []
        try:
            await self._send({"type": "websocket.accept", "subprotocol": remote.subprotocol, "headers": headers})
            ways = [asyncio.create_task(self._outward()), asyncio.create_task(self._inward())]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if not self._client_left:
                # The upstream has closed, and the client is still to be told so.
                await asyncio.wait(ways[1:])
        except OSError:
            # How the server says that the client left before it was accepted.
            pass
        finally:
            for way in ways:
                way.cancel()
            ends = await asyncio.gather(*ways, return_exceptions=True)
            await remote.close(CloseCode.GOING_AWAY)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _outward(self) -> None:
        """From the client to the upstream."""
        with suppress(ConnectionClosed):
            while True:
                message = await self._receive()
                if message["type"] == "websocket.disconnect":
                    self._client_left = True
                    await self._leave(message)
                    return
                text = message.get("text")
                await self._remote.send(message["bytes"] if text is None else text)

    async def _leave(self, message: Message) -> None:
        code = message.get("code", CloseCode.NO_STATUS_RCVD)
        if "reason" not in message and code == CloseCode.NO_STATUS_RCVD:
            # Not closed but lost.
            code = CloseCode.GOING_AWAY
        await self._remote.close(_sendable(code, CloseCode.GOING_AWAY), message.get("reason") or "")

    async def _inward(self) -> None:
        """From the upstream to the client."""
        with suppress(OSError):
            try:
                while True:
                    data = await self._remote.recv()
                    key = "text" if isinstance(data, str) else "bytes"
                    await self._send({"type": "websocket.send", key: data})
            except ConnectionClosed as closed:
                if not self._client_left:
                    last = closed.rcvd or closed.sent or Close(CloseCode.ABNORMAL_CLOSURE, "")
                    code = _sendable(last.code, CloseCode.INTERNAL_ERROR)
                    await self._send({"type": "websocket.close", "code": code, "reason": last.reason})


def _sendable(code: int, otherwise: int) -> int:
    """*code* as it may stand in a close frame; some exist only to say that there was none."""
    if code == CloseCode.NO_STATUS_RCVD:
        return CloseCode.NORMAL_CLOSURE
    return code if code in EXTERNAL_CLOSE_CODES or 3000 <= code <= 4999 else otherwise  # noqa: PLR2004


def _handshake_headers(headers: Iterable[tuple[str, str]]) -> list[Pair]:
    """What a handshake's answer says to the client and not to us, such as cookies."""
    pairs = ((name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers)
    ours = HOP_BY_HOP | {b"content-length"}
    return [pair for pair in pairs if pair[0] not in ours and not pair[0].startswith(b"sec-websocket-")]


async def _refuse(scope: Scope, send: Send, status: int, headers: list[Pair] | None = None, body: bytes = b"") -> None:
    """Answer a websocket's handshake with *status*, or by closing where the server knows no other way."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": CloseCode.INTERNAL_ERROR})
        return
    if not HTTPStatus.OK <= status <= _LAST_STATUS:
        status = HTTPStatus.BAD_GATEWAY
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers or []})
    await send({"type": "websocket.http.response.body", "body": body, "more_body": False})


def _split_host(host: str, usual_port: int) -> tuple[str, int]:
    """Name and port of a `Host` header; what is no port is a part of the name."""
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdecimal() or not port.isascii():
        name, port = host, ""
    return name.removeprefix("[").removesuffix("]"), int(port or usual_port)

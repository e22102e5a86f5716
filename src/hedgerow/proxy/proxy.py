"""
The reverse proxy as a plain ASGI application: `Hedgerow(Proxy(Upstream("http://127.0.0.1:8080")))`.

It forwards http and websocket requests to one upstream and changes only what a proxy must: it drops hop-by-hop headers
and sets the forwarding headers. Bodies are streamed both ways, no faster than the other side reads them.

Before a response has started, a failure is an `UpstreamError`, which the surrounding application turns into a page.
After that it is raised as well, and the server must cut the connection: a normal end would pass half a page off as
complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote

from hedgerow.errors import UpstreamError
from hedgerow.proxy.own_address import OwnAddresses
from hedgerow.proxy.websocket import WebsocketProxy
from hedgerow.web.asgi_types import Receive, Scope, Send
from hedgerow.web.http_client.connection import HOP_BY_HOP, UpstreamResponse, named_by_connection
from hedgerow.web.http_client.pool import RequestBody, Upstream
from hedgerow.web.response_headers import header

Pair = tuple[bytes, bytes]

_WATCH_INTERVAL = 0.25
_FIRST_BODY_WAIT = 0.01
_OK = 200
_LAST_STATUS = 599
_WITHOUT_LENGTH = frozenset({204, 304})
_NO_BODY: Final = -1

# The role of a request header.
_KEEP: Final = 0
_DROP: Final = 1
_FORWARDED: Final = 2  # describes the client; accepted only from a trusted peer
_FRAMING: Final = 3  # is interpreted here, and sent anew

_OWN_ROLES = {
    b"host": _FRAMING,
    b"connection": _FRAMING,
    b"content-length": _FRAMING,
    b"transfer-encoding": _FRAMING,
    b"expect": _DROP,
    b"http2-settings": _DROP,
    b"forwarded": _FORWARDED,
    b"x-real-ip": _FORWARDED,
}


class _Roles(dict[bytes, int]):
    """
    A cache of header roles by name.

    In forwarding headers, underscores count as dashes: CGI and WSGI cannot tell them apart, and `X_Forwarded_For` would
    pass. The cache is bounded, because clients can invent any number of names.
    """

    MAX_NAMES = 2000
    MAX_LENGTH = 64

    def __missing__(self, name: bytes) -> int:
        dashed = name.replace(b"_", b"-")
        is_dropped = name in HOP_BY_HOP or dashed == b"proxy" or dashed.startswith(b"proxy-")
        role = _OWN_ROLES.get(name, _DROP if is_dropped else _KEEP)
        if dashed.startswith(b"x-forwarded-") or _OWN_ROLES.get(dashed) == _FORWARDED:
            role = _FORWARDED
        if len(self) < self.MAX_NAMES and len(name) <= self.MAX_LENGTH:
            self[name] = role
        return role


class _ClientGone(Exception):  # noqa: N818 - not an error: somebody closed a tab
    """The client has disconnected, and no response is needed."""


@dataclass(slots=True, eq=False)
class _ActiveRequest:
    """
    A request in progress, which notices that its client has disconnected.

    Watching for that needs a task, so only long requests are watched. A request is not watched while its body is
    received: that shows a disconnect as well.
    """

    receive: Receive
    task: asyncio.Task[Any]
    receiving: bool = False
    watcher: asyncio.Task[None] | None = None
    checked: bool = False
    gone: bool = False

    def check(self) -> None:
        """Start to watch the client from the second call on. Called at intervals."""
        if self.checked and not self.receiving and self.watcher is None:
            self.watcher = asyncio.create_task(self._watch())
        self.checked = True

    async def _watch(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self.task.cancel()

    def finish(self) -> None:
        if self.watcher is not None:
            self.watcher.cancel()


class _RequestChunks(AsyncIterator[bytes]):
    """The chunks of a request body, as the server receives them; *length* is None if unknown."""

    __slots__ = ("_remaining", "_request")

    def __init__(self, request: _ActiveRequest, length: int | None) -> None:
        self._request = request
        self._remaining = length
        request.receiving = length != 0

    async def __anext__(self) -> bytes:
        if not self._request.receiving:
            raise StopAsyncIteration
        message = await self._request.receive()
        if message["type"] == "http.disconnect":
            raise _ClientGone
        body = cast("bytes", message.get("body", b""))
        if self._remaining is not None:
            self._remaining -= len(body)
        self._request.receiving = message.get("more_body", False) and self._remaining != 0
        return body


class Proxy:
    """
    Forwards all requests to *upstream*. With *preserve_host* it gets the `Host` of the client, otherwise its own.

    *own_addresses* are replaced by their paths in headers of responses; None: they stay.
    """

    def __init__(
        self,
        upstream: Upstream,
        *,
        preserve_host: bool = True,
        own_addresses: OwnAddresses | None = None,
        **websocket_options: Any,
    ) -> None:
        self.upstream = upstream
        self._own_addresses = own_addresses
        self._authority = upstream.origin.authority
        self._preserve_host = preserve_host
        self._websockets = WebsocketProxy(upstream, **websocket_options)
        self._roles = _Roles()
        self._active: set[_ActiveRequest] = set()
        self._watch_timer: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            await self._http(scope, receive, send)
        elif kind == "websocket":
            headers, _ = self._request_headers(scope)
            await self._websockets.forward(scope, _path(scope), headers, receive, send)
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
        request = _ActiveRequest(receive, cast("asyncio.Task[Any]", asyncio.current_task()))
        body = None if length == _NO_BODY else RequestBody(_RequestChunks(request, length), length)
        self._active.add(request)
        if self._watch_timer is None:
            self._watch_clients()
        try:
            method = scope["method"].encode("ascii")
            response = await self.upstream.request(method, _target(scope), headers, body)
            try:
                if self._own_addresses is not None:
                    host = header(scope["headers"], b"host")
                    response.headers = self._own_addresses.rewritten(response.headers, host)
                await _relay(response, send)
            finally:
                response.close()
        except _ClientGone:
            pass
        except asyncio.CancelledError:
            if not request.gone:
                raise
            request.task.uncancel()
        finally:
            self._active.discard(request)
            request.finish()

    def _watch_clients(self) -> None:
        """Check long requests for disconnected clients, and schedule the next check while there are any."""
        self._watch_timer = None
        for request in self._active:
            request.check()
        if self._active:
            self._watch_timer = asyncio.get_running_loop().call_later(_WATCH_INTERVAL, self._watch_clients)

    def _request_headers(self, scope: Scope) -> tuple[list[Pair], int | None]:
        """
        Return the headers to send, and the body's length: None if unknown, `_NO_BODY` without a body.

        If a request has both a length and chunks, the chunks count, as they did for the server. The body is framed
        again for the upstream, so the upstream cannot interpret it differently.
        """
        roles = self._roles
        headers: list[Pair] = []
        forwarded: list[Pair] = []
        framing: dict[bytes, list[bytes]] = {}
        for pair in scope["headers"]:
            role = roles[pair[0]]
            if role == _KEEP:
                headers.append(pair)
            elif role == _FRAMING:
                framing.setdefault(pair[0], []).append(pair[1])
            elif role == _FORWARDED:
                forwarded.append(pair)
        for value in framing.get(b"connection", ()):
            if named := named_by_connection(value):
                headers = [pair for pair in headers if pair[0] not in named]
        host = framing[b"host"][-1] if b"host" in framing else b""
        headers.append((b"host", host if host and self._preserve_host else self._authority))
        if not scope.get("hedgerow", {}).get("peer_trusted", False):
            forwarded = []
        headers += _forwarded(scope, host, forwarded)
        return headers, _body_length(framing)


async def _relay(response: UpstreamResponse, send: Send) -> None:
    """Send the response to the client; a response that arrived completely in one piece."""
    status, headers = response.status, response.headers
    if status in _WITHOUT_LENGTH:
        # The length describes a body that does not follow, and confuses servers.
        headers = [pair for pair in headers if pair[0] != b"content-length"]
    elif not _OK <= status <= _LAST_STATUS:
        raise UpstreamError("broken", f"the upstream responded with status {status}")
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if not response.ended:
        await response.wait_briefly(_FIRST_BODY_WAIT)
    body = response.take()
    # Send even an empty part: a server may hold the head back until the first part of the body.
    while not response.ended:
        await send({"type": "http.response.body", "body": body, "more_body": True})
        body = await response.read()
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _body_length(framing: Mapping[bytes, Sequence[bytes]]) -> int | None:
    """Return the request's length if it has exactly one, in digits; None means chunked encoding."""
    if b"transfer-encoding" in framing:
        return None
    if b"content-length" not in framing:
        return _NO_BODY
    length, *others = set(framing[b"content-length"])
    return int(length) if not others and length.isdigit() else None


def _target(scope: Scope) -> bytes:
    query = scope["query_string"]
    return b"%b?%b" % (_path(scope), query) if query else _path(scope)


def _path(scope: Scope) -> bytes:
    """Return the path as it was sent, or its usual encoding if the server does not provide it."""
    return scope.get("raw_path") or quote(scope["path"]).encode("ascii") or b"/"


def _forwarded(scope: Scope, host: bytes, received: list[Pair]) -> list[Pair]:
    """Return the forwarding headers. *received* are those of a trusted peer, which knows the visitor's address."""
    client, scheme = scope.get("client"), (b"x-forwarded-proto", _PROTO_OF[scope["scheme"]])
    if not received and client and host:
        # Nearly every request.
        return [(b"x-forwarded-for", client[0].encode("ascii")), scheme, (b"x-forwarded-host", host)]
    via = [value for name, value in received if name == b"x-forwarded-for"]
    passed = [pair for pair in received if pair[0] != b"x-forwarded-for"]
    known = {name for name, _ in passed}
    if client:
        via.append(client[0].encode("ascii"))
    if via:
        passed.append((b"x-forwarded-for", b", ".join(via)))
    if b"x-forwarded-proto" not in known:
        passed.append(scheme)
    if host and b"x-forwarded-host" not in known:
        passed.append((b"x-forwarded-host", host))
    return passed


_PROTO_OF = {"http": b"http", "https": b"https", "ws": b"http", "wss": b"https"}

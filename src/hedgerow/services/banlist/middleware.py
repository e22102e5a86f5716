"""
The ban-list client as middleware of an application, and as a sidecar of a server that is not written in Python.

    app = AsgiClient(app, Client("https://hedgerow.example:8090", token))
    app = WsgiClient(app, Client("https://hedgerow.example:8090", token))

Listed and blocked visitors are refused here, and all others reach the application. Pages are not changed: there are no
markers, traps or challenges.

The sidecar answers /auth like `hedgerow serve` (`forward_auth`), from the local lists. A front server may also only
mirror its requests here and use a file (`list_files`). Either way each request is a visit for the server.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from hedgerow.services.banlist.client import Client, ClientRequest
from hedgerow.services.forward_auth import forwarded_request, request_fault, send_response, send_text
from hedgerow.web.asgi_types import AsgiApp, Message, Receive, Scope, Send
from hedgerow.web.response_headers import header
from hedgerow.web.wsgi import Environ, StartResponse, Write, WsgiApp, scope_of

_POLICY_VIOLATION = 1008
_INTERNAL_ERROR = 500


class AsgiClient:
    """The client around an ASGI application."""

    def __init__(self, app: AsgiApp, client: Client) -> None:
        self.app = app
        self.client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._lifespan(scope, receive, send)
            return
        asked = request_of(self.client, scope)
        if not self.client.lets_in(asked):
            await self._refuse(asked, scope, receive, send)
            return
        if scope["type"] == "websocket":
            self.client.answered(asked, HTTPStatus.SWITCHING_PROTOCOLS)
            await self.app(scope, receive, send)
            return
        status, content = _INTERNAL_ERROR, ""

        async def observed_send(message: Message) -> None:
            nonlocal status, content
            if message["type"] == "http.response.start":
                status = message["status"]
                content = header(message.get("headers", ()), b"content-type").decode("latin-1")
            await send(message)

        try:
            await self.app(scope, receive, observed_send)
        finally:
            self.client.answered(asked, status, content)

    async def _refuse(self, asked: ClientRequest, scope: Scope, receive: Receive, send: Send) -> None:
        page = self.client.refusal(asked)
        kind = "http.response"
        if scope["type"] == "websocket":
            await receive()
            if "websocket.http.response" not in (scope.get("extensions") or {}):
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
                return
            kind = "websocket.http.response"
        await send_response(send, page.status, page.headers, page.body, kind)

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def closing_send(message: Message) -> None:
            if message["type"].startswith("lifespan.shutdown."):
                self.client.close()
            await send(message)

        await self.app(scope, receive, closing_send)


def request_of(client: Client, scope: Scope) -> ClientRequest:
    """Check an ASGI request against the lists of *client*."""
    path: bytes = scope.get("raw_path") or quote(scope["path"], errors="replace").encode()
    query: bytes = scope.get("query_string", b"")
    target = path.partition(b"?")[0] + (b"?" + query if query else b"")
    method, scheme = scope.get("method", "GET"), scope.get("scheme", "http")
    return client.asked(_peer_of(scope), method, target.decode("latin-1"), scope["headers"], scheme)


def _peer_of(scope: Scope) -> str:
    peer = scope.get("client")
    return peer[0] if peer else ""


class WsgiClient:
    """The client around a WSGI application."""

    def __init__(self, app: WsgiApp, client: Client) -> None:
        self.app = app
        self.client = client

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        asked = request_of(self.client, scope_of(environ))
        if not self.client.lets_in(asked):
            page = self.client.refusal(asked)
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in page.headers]
            start_response(f"{page.status} {HTTPStatus(page.status).phrase}", headers)
            return [page.body]
        begun = False

        def observed_start(status: str, headers: list[tuple[str, str]], *fault: Any) -> Write:
            nonlocal begun
            if not begun:
                begun = True
                content = next((value for name, value in headers if name.lower() == "content-type"), "")
                self.client.answered(asked, int(status[:3]), content)
            return start_response(status, headers, *fault)

        try:
            return self.app(environ, observed_start)
        except BaseException:
            if not begun:
                self.client.answered(asked, _INTERNAL_ERROR)
            raise


class Sidecar:
    """Answers /auth for front servers that the *client* trusts."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            self._client.start()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self._client.close()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            await self._http(scope, send)

    async def _http(self, scope: Scope, send: Send) -> None:
        if not self._client.trusts(_peer_of(scope)):
            await send_text(send, 403, b"Only for servers that --trust names.\n")
            return
        # There are no challenge endpoints here, so no other path counts.
        request = forwarded_request(scope, "/auth")
        if request is None or scope["path"] != "/auth":
            await send_text(send, 404, b"There is /auth.\n")
        elif fault := request_fault(request):
            await send_text(send, 400, fault.encode() + b"\n")
        elif self._client.lets_in(asked := request_of(self._client, request)):
            self._client.answered(asked, 0)
            await send_text(send, 200, b"", [(b"hedgerow-decision", b"pass")])
        else:
            page = self._client.refusal(asked)
            await send_response(send, page.status, page.headers, page.body)

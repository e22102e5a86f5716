"""
The ban-list client around an application.

    app = AsgiClient(app, Client("https://hedgerow.example:8090", token))
    app = WsgiClient(app, Client("https://hedgerow.example:8090", token))

Who is on a local list is answered here, the rest goes in untouched. Pages are not changed: there is no marker and no
trap, and no challenge.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from hedgerow.services.banlist.client import Client, ClientRequest
from hedgerow.web.asgi_types import AsgiApp, Message, Receive, Scope, Send
from hedgerow.web.response_headers import header
from hedgerow.web.wsgi import Environ, StartResponse, Write, WsgiApp, scope_of

_POLICY_VIOLATION = 1008
_INTERNAL_ERROR = 500


class AsgiClient:
    """Stands around an ASGI application."""

    def __init__(self, app: AsgiApp, client: Client) -> None:
        self.app = app
        self.client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._lifespan(scope, receive, send)
            return
        asked = asked_by(self.client, scope)
        if not self.client.lets_in(asked):
            await self._refuse(asked, scope, receive, send)
            return
        if scope["type"] == "websocket":
            self.client.answered(asked, HTTPStatus.SWITCHING_PROTOCOLS)
            await self.app(scope, receive, send)
            return
        status, content = _INTERNAL_ERROR, ""

        async def noting(message: Message) -> None:
            nonlocal status, content
            if message["type"] == "http.response.start":
                status = message["status"]
                content = header(message.get("headers", ()), b"content-type").decode("latin-1")
            await send(message)

        try:
            await self.app(scope, receive, noting)
        finally:
            self.client.answered(asked, status, content)

    async def _refuse(self, asked: ClientRequest, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self.client.refusal(asked)
        kind = "http.response"
        if scope["type"] == "websocket":
            await receive()
            if "websocket.http.response" not in (scope.get("extensions") or {}):
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
                return
            kind = "websocket.http.response"
        await send({"type": f"{kind}.start", "status": answer.status, "headers": answer.headers})
        await send({"type": f"{kind}.body", "body": answer.body})

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def closing(message: Message) -> None:
            if message["type"].startswith("lifespan.shutdown."):
                self.client.close()
            await send(message)

        await self.app(scope, receive, closing)


def asked_by(client: Client, scope: Scope) -> ClientRequest:
    """A request of ASGI as the client knows it."""
    path: bytes = scope.get("raw_path") or quote(scope["path"], errors="replace").encode()
    query: bytes = scope.get("query_string", b"")
    target = path.partition(b"?")[0] + (b"?" + query if query else b"")
    peer = scope.get("client")
    return client.asked(
        peer[0] if peer else "",
        scope.get("method", "GET"),
        target.decode("latin-1"),
        scope["headers"],
        scope.get("scheme", "http"),
    )


class WsgiClient:
    """Stands around a WSGI application."""

    def __init__(self, app: WsgiApp, client: Client) -> None:
        self.app = app
        self.client = client

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        asked = asked_by(self.client, scope_of(environ))
        if not self.client.lets_in(asked):
            answer = self.client.refusal(asked)
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers]
            start_response(f"{answer.status} {HTTPStatus(answer.status).phrase}", headers)
            return [answer.body]
        begun = False

        def noting(status: str, headers: list[tuple[str, str]], *fault: Any) -> Write:
            nonlocal begun
            if not begun:
                begun = True
                content = next((value for name, value in headers if name.lower() == "content-type"), "")
                self.client.answered(asked, int(status[:3]), content)
            return start_response(status, headers, *fault)

        try:
            return self.app(environ, noting)
        except BaseException:
            if not begun:
                self.client.answered(asked, _INTERNAL_ERROR)
            raise

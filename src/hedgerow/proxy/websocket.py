"""The websocket part of the reverse proxy: a handshake with the upstream, then messages in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.frames import EXTERNAL_CLOSE_CODES, Close, CloseCode
from websockets.uri import WebSocketURI

from hedgerow.errors import UpstreamError, UpstreamFault
from hedgerow.web.asgi import refuse_websocket
from hedgerow.web.asgi_types import Message, Receive, Scope, Send
from hedgerow.web.http_client.connection import HOP_BY_HOP
from hedgerow.web.http_client.pool import Upstream
from hedgerow.web.response_pages import ResponsePage

Pair = tuple[bytes, bytes]

_STATUSES = range(200, 600)


@dataclass(frozen=True)
class WebsocketProxy:
    """
    Forwards websockets to *upstream*. A message may have *message_limit* bytes.

    Timeouts are in seconds. A connection without an answer to a ping within *ping_interval* is closed.
    """

    upstream: Upstream
    message_limit: int = 16_777_216
    open_timeout: float = 10.0
    close_timeout: float = 10.0
    ping_interval: float | None = 20.0

    async def forward(self, scope: Scope, path: bytes, headers: list[Pair], receive: Receive, send: Send) -> None:
        """Connect to the upstream with *headers* and relay messages, or refuse the client's handshake."""
        if (await receive())["type"] != "websocket.connect":
            return
        try:
            remote = await self._connect(scope, path, headers)
        except InvalidStatus as refusal:
            # The connection keeps the exception, and the frames of its traceback keep the connection.
            refusal.with_traceback(None)
            response = refusal.response
            status = response.status_code if response.status_code in _STATUSES else HTTPStatus.BAD_GATEWAY
            headers = _client_headers(response.headers.raw_items())
            page = ResponsePage(status, headers, bytes(response.body or b""))
        except TimeoutError:
            page = ResponsePage(HTTPStatus.GATEWAY_TIMEOUT, [], b"")
            _report(scope, UpstreamError("timeout", "the websocket was not opened in time"), page.status)
        except (OSError, InvalidHandshake, ValueError) as error:
            page = ResponsePage(HTTPStatus.BAD_GATEWAY, [], b"")
            kind: UpstreamFault = "connect" if isinstance(error, OSError) else "broken"
            _report(scope, UpstreamError(kind, f"the websocket was not opened: {error}"), page.status)
        else:
            await _MessageRelay(remote, receive, send).run()
            return
        await refuse_websocket(scope, send, page, CloseCode.INTERNAL_ERROR)

    async def _connect(self, scope: Scope, path: bytes, headers: list[Pair]) -> ClientConnection:
        origin = self.upstream.origin
        texts = [(name.decode("ascii"), value.decode("latin-1")) for name, value in headers]
        host = next(value for name, value in texts if name == "host")
        forwarded = [pair for pair in texts if pair[0] != "host" and not pair[0].startswith("sec-websocket-")]
        address: dict[str, Any] = {"host": origin.host, "port": origin.port}
        if origin.path:
            address = {"unix": True, "path": origin.path}
        elif origin.secure:
            address |= {"ssl": self.upstream.tls, "server_hostname": origin.host}
        handshake = _Handshake(
            "wss://localhost/" if origin.secure else "ws://localhost/",
            additional_headers=forwarded, subprotocols=scope.get("subprotocols") or None,
            user_agent_header=None, compression=None, proxy=None,
            max_size=self.message_limit, open_timeout=self.open_timeout, close_timeout=self.close_timeout,
            ping_interval=self.ping_interval, ping_timeout=self.ping_interval, **address,
        )  # fmt: skip
        # Set rather than parsed from an address: parsing would remove the parameters of a path (`;a=b`).
        name, port = _split_host(host, 443 if origin.secure else 80)
        query = scope["query_string"].decode("ascii")
        handshake.ws_uri = WebSocketURI(origin.secure, name, port, path.decode("ascii"), query)
        return await handshake


def _report(scope: Scope, error: UpstreamError, status: int) -> None:
    """Tell the middleware around the proxy, if there is one, of a failure that it cannot see."""
    if (on_failure := scope.get("hedgerow", {}).get("on_failure")) is not None:
        on_failure(error, status)


class _Handshake(connect):
    """A handshake that passes a redirect on to the client, which decides whether to follow it."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


@dataclass
class _MessageRelay:
    """Relays the messages of two websockets to each other until one of them closes."""

    _remote: ClientConnection
    _receive: Receive
    _send: Send
    _client_left: bool = False

    async def run(self) -> None:
        remote = self._remote
        assert remote.response is not None
        headers = _client_headers(remote.response.headers.raw_items())
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._send({"type": "websocket.accept", "subprotocol": remote.subprotocol, "headers": headers})
            tasks = [asyncio.create_task(self._to_upstream()), asyncio.create_task(self._to_client())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not self._client_left:
                # The upstream has closed; the close must still be sent to the client.
                await asyncio.wait(tasks[1:])
        except OSError:
            # The server reports that the client left before it was accepted.
            pass
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            await remote.close(CloseCode.GOING_AWAY)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _to_upstream(self) -> None:
        with suppress(ConnectionClosed):
            while True:
                message = await self._receive()
                if message["type"] == "websocket.disconnect":
                    self._client_left = True
                    await self._close_upstream(message)
                    return
                text = message.get("text")
                await self._remote.send(message["bytes"] if text is None else text)

    async def _close_upstream(self, message: Message) -> None:
        code = message.get("code", CloseCode.NO_STATUS_RCVD)
        if "reason" not in message and code == CloseCode.NO_STATUS_RCVD:
            # The connection was lost rather than closed.
            code = CloseCode.GOING_AWAY
        await self._remote.close(_sendable(code, CloseCode.GOING_AWAY), message.get("reason") or "")

    async def _to_client(self) -> None:
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
    """Return *code* if it may be sent in a close frame; some codes only report that there was none."""
    if code == CloseCode.NO_STATUS_RCVD:
        return CloseCode.NORMAL_CLOSURE
    return code if code in EXTERNAL_CLOSE_CODES or 3000 <= code <= 4999 else otherwise  # noqa: PLR2004


def _client_headers(headers: Iterable[tuple[str, str]]) -> list[Pair]:
    """Return the headers of the upstream's handshake that are meant for the client, such as cookies."""
    pairs = ((name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers)
    dropped = HOP_BY_HOP | {b"content-length"}
    return [pair for pair in pairs if pair[0] not in dropped and not pair[0].startswith(b"sec-websocket-")]


def _split_host(host: str, default_port: int) -> tuple[str, int]:
    """Return name and port of a `Host` header. An invalid port is part of the name."""
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdecimal() or not port.isascii():
        name, port = host, ""
    return name.removeprefix("[").removesuffix("]"), int(port or default_port)

"""
Forward-auth: another server, the front server, asks for each request whether to let it in.

    /auth        decides at once: 200 lets in; anything else is the response for the visitor (Caddy, Traefik)
    /auth/later  200 lets in; 401 with `Hedgerow-Ref` sends the front server to /answer (nginx, Apache; HAProxy by SPOE)
    /answer      the response for a visit that was not let in, by `X-Hedgerow-Ref`
    /envoy/...   like /auth; the rest of the path, and the method, are the visitor's own (Envoy)
    /.hedgerow/  the challenge endpoints; the front server routes them here

The request is described by `X-Forwarded-Uri`, `-Method`, `-Host`, `-Proto` and `-For`. Only peers that the settings
trust may ask. A visit that is not let in never gets a 2xx from /auth, not even in the maze. The responses of the front
server are not seen here. So nothing is rewritten, and a visit counts as the kind that it claims to be.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from hedgerow.core.decision import Decision
from hedgerow.core.visit import Visit
from hedgerow.state.held_visits import HeldVisit
from hedgerow.web.app import App
from hedgerow.web.asgi import Exchange, Hedgerow, lets_in
from hedgerow.web.asgi_types import Message, Receive, Scope, Send
from hedgerow.web.request_log import is_request_id
from hedgerow.web.response_headers import Headers, header
from hedgerow.web.response_pages import header_word
from hedgerow.web.sites import BY_NAME

log = logging.getLogger(__name__)

_AUTH, _LATER, _ANSWER, _ENVOY = "/auth", "/auth/later", "/answer", "/envoy/"
_UNKNOWN_STATUS = 0
_REFUSED = 403
_GOOD = range(200, 300)
_MAX_LOGGED_PEERS = 100
# Headers that describe the visitor's request and do not belong to it.
_FRONT_HEADERS = frozenset({b"x-forwarded-uri", b"x-forwarded-method", b"x-forwarded-host", b"x-hedgerow-ref", b"host"})
_METHOD_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ-")


class ForwardAuth(Hedgerow):
    """Decides for other servers. There is no application: a visit that is let in gets a plain 200."""

    def __init__(self, **options: Any) -> None:
        super().__init__(_no_application, **options)
        self._untrusted: set[str] = set()

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - overrides
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._record_dropped(self.site.stores.held_visits.leave())
        await self.site.disconnect()
        self.site.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.site.app
        client = scope.get("client")
        peer = client[0] if client else ""
        if not app.gate.identifier.trusts(peer):
            self._log_untrusted(peer)
            await send_text(send, _REFUSED, b"Only for servers that trusted_proxies names.\n")
            return
        path: str = scope["path"]
        if path == _ANSWER:
            await self._respond_to_held(scope, receive, send)
            return
        request = forwarded_request(scope, app.settings.challenge.path)
        if request is None or (app.is_neutral and path.startswith(app.settings.challenge.path)):
            await send_text(send, 404, b"There are /auth, /auth/later, /answer and /envoy/.\n")
            return
        if fault := request_fault(request):
            log.warning("invalid request of a front server: %s", fault)
            await send_text(send, 400, fault.encode() + b"\n")
            return
        visit, decision = await self._decide(app, request, request["method"])
        if path == _LATER and not lets_in(app, visit, decision):
            headers = [
                (b"hedgerow-ref", self._hold(app, request, visit, decision).encode()),
                (b"hedgerow-decision", f"{decision.action}; code={header_word(decision.code)}".encode()),
            ]
            await send_text(send, 401, b"", headers)
            return
        if path.startswith((_AUTH, _ENVOY)):
            send = _GuardedSend(send)
        await self._respond(Exchange(app, visit, decision, request, request["headers"], receive, send))

    async def _pass_on(self, exchange: Exchange) -> None:
        """Let a visit in. Its status is unknown, because the front server responds."""
        visit, send = exchange.visit, exchange.send
        exchange.app.gate.record(visit, exchange.decision, _UNKNOWN_STATUS, request_id=exchange.request_id)
        headers = [(b"hedgerow-decision", b"pass")]
        if visit.raw_target:
            headers.append((b"hedgerow-target", visit.target.encode("latin-1")))
        if isinstance(send, _GuardedSend):
            send.lets_in = True
        await send_text(send, 200, b"", headers)

    async def _turn_away(self, exchange: Exchange) -> None:
        if exchange.decision.action == "detain" and isinstance(exchange.send, _GuardedSend):
            # A page of the maze has status 200, which would let the visit in.
            await self._refuse(exchange)
        else:
            await super()._turn_away(exchange)

    async def question(self, request: Scope) -> str:
        """Decide on a request, and return the reference of its held response, or "" if it is let in."""
        app = self.site.app
        visit, decision = await self._decide(app, request, request["method"])
        if lets_in(app, visit, decision):
            app.gate.record(visit, decision, _UNKNOWN_STATUS, request_id=request["hedgerow"].get("request_id", ""))
            return ""
        return self._hold(app, request, visit, decision)

    def _hold(self, app: App, request: Scope, visit: Visit, decision: Decision) -> str:
        """Hold a visit until the front server sends the whole request. Only then is there a form to answer."""
        held = HeldVisit(
            request["method"], request["path"], request["raw_path"], request["query_string"], list(request["headers"]),
            tuple(request.get("client") or ("", 0)), request["scheme"], visit, decision,
        )  # fmt: skip
        reference, dropped = self.site.stores.held_visits.hold(held, app.settings.serve.pending)
        self._record_dropped(dropped)
        # The request that fetches the response may come with another host.
        return f"{self.site.name}.{reference}" if self.site.name else reference

    def _record_dropped(self, dropped: Sequence[HeldVisit]) -> None:
        """Record visits whose response was not fetched. The front server has refused them itself."""
        for held in dropped:
            self.site.app.gate.record(held.visit, held.decision, _REFUSED)

    async def _respond_to_held(self, scope: Scope, receive: Receive, send: Send) -> None:
        reference = header(scope["headers"], b"x-hedgerow-ref").decode("latin-1").rpartition(".")[2]
        held = self.site.stores.held_visits.take(reference)
        if held is None:
            await send_text(send, _REFUSED, b"This request was not let through.\n")
            return
        request: Scope = {
            "type": "http", "method": held.method, "path": held.path, "raw_path": held.raw_path,
            "query_string": held.query, "headers": held.headers, "client": held.peer, "scheme": held.scheme,
        }  # fmt: skip
        app = self.site.app
        # The front server gives the request that fetches the response the id of the visitor's own.
        given = header(scope["headers"], app.request_id) if app.request_id else b""
        request_id = given.decode() if is_request_id(given) else ""
        request["hedgerow"] = {"request_id": request_id, "scheme": held.scheme}
        await self._respond(Exchange(app, held.visit, held.decision, request, held.headers, receive, send))

    def _log_untrusted(self, peer: str) -> None:
        if peer not in self._untrusted and len(self._untrusted) < _MAX_LOGGED_PEERS:
            self._untrusted.add(peer)
            log.warning("refused %s, which trusted_proxies does not name", ascii(peer))


class _GuardedSend:
    """A server's `send` that sends 2xx only for a visit that is let in."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.lets_in = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] in _GOOD and not self.lets_in:
            message = {**message, "status": _REFUSED}
        await self._send(message)


async def _no_application(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise RuntimeError("a request was passed on by a service that only decides")


def forwarded_request(scope: Scope, challenge_path: str) -> Scope | None:
    """Return the visitor's own request, as the front server describes it, or None for an unknown path."""
    path: str = scope["path"]
    headers = scope["headers"]
    request = {**scope, "scheme": header(headers, b"x-forwarded-proto").decode("latin-1").strip().lower() or "http"}
    if path in {_AUTH, _LATER}:
        target = header(headers, b"x-forwarded-uri")
        request["method"] = header(headers, b"x-forwarded-method").decode("latin-1")
    elif path.startswith((_ENVOY, challenge_path)):
        query = scope["query_string"]
        target = scope["raw_path"].partition(b"?")[0] + (b"?" + query if query else b"")
        if path.startswith(_ENVOY):
            target = target[len(_ENVOY) - 1 :]
    else:
        return None
    # Envoy asks with the visitor's own Host, and passes on an X-Forwarded-Host that anybody may have sent.
    forwarded_host = b"" if path.startswith(_ENVOY) else header(headers, b"x-forwarded-host")
    raw, _, query = target.partition(b"?")
    return request | {
        "hedgerow.forwarded": headers,
        "raw_path": raw,
        "path": unquote(raw.decode("latin-1")),
        "query_string": query,
        "headers": [
            (b"host", forwarded_host or header(headers, b"host")),
            *(pair for pair in headers if pair[0] not in _FRONT_HEADERS),
        ],
    }


def forwarded_host(scope: Scope) -> bytes | None:
    """Return the host that a visitor asked for; None for a request that is not about one. See `Sites`."""
    path = scope["path"]
    if path == _ANSWER:
        # The name of the site that holds the response, which is among the hosts: see `Sites`.
        site, dot, _ = header(scope["headers"], b"x-hedgerow-ref").rpartition(b".")
        return BY_NAME + site if dot else None
    forwarded = b"" if path.startswith(_ENVOY) else header(scope["headers"], b"x-forwarded-host")
    return forwarded or header(scope["headers"], b"host")


def request_fault(request: Scope) -> str:
    """Return what is missing in the description of a request or is there twice, or ""."""
    names = [name for name, _ in request["hedgerow.forwarded"]]
    twice = next((name for name in _FRONT_HEADERS if names.count(name) > 1), None)
    if twice is not None:
        return f"{twice.decode()} is there twice: the front must set it, not add it."
    method = request["method"]
    if not method or not _METHOD_LETTERS.issuperset(method):
        return "X-Forwarded-Method is missing, or is none."
    if not request["raw_path"].startswith(b"/"):
        return "X-Forwarded-Uri is missing, or does not start with a slash."
    return ""


async def send_response(send: Send, status: int, headers: Headers, body: bytes, kind: str = "http.response") -> None:
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})


async def send_text(send: Send, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
    own = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body)),
           (b"cache-control", b"no-store")]  # fmt: skip
    await send_response(send, status, [*own, *headers], body)

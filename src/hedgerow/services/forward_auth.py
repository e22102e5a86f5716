"""
Forward-auth: another server asks, for each request, whether to let it in.

    /auth        decided at once: 200 lets in; anything else is the visitor's answer (Caddy, Traefik)
    /auth/later  200 lets in; 401 with `Hedgerow-Ref` sends the front to /answer (nginx, Apache; HAProxy by `spoe`)
    /answer      the answer to a visit that was not let in, by `X-Hedgerow-Ref`
    /envoy/...   like /auth; the path behind it, and the method, are the visitor's own (Envoy)
    /.hedgerow/  what challenged visitors need: the front routes it here

What was asked for comes in `X-Forwarded-Uri`, `-Method`, `-Host`, `-Proto` and `-For`, and only from a peer that the
settings trust: anybody else is refused. A visit that is not let in never gets a 2xx from /auth, not even in the maze.
The front's answers are never seen here: nothing is rewritten, and a visit counts as what it claims to be.
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
from hedgerow.web.response_headers import header
from hedgerow.web.response_pages import header_word

log = logging.getLogger(__name__)

_AUTH, _LATER, _ANSWER, _ENVOY = "/auth", "/auth/later", "/answer", "/envoy/"
_UNKNOWN_STATUS = 0
_REFUSED = 403
_GOOD = range(200, 300)
_MOST_PEERS = 100
# What speaks of the visitor's request, and is not a header of it.
_OF_THE_FRONT = frozenset({b"x-forwarded-uri", b"x-forwarded-method", b"x-forwarded-host", b"x-hedgerow-ref", b"host"})
_METHOD_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ-")


class ForwardAuth(Hedgerow):
    """Decides for other servers. The application around which it stands is nobody: what is let in is told so."""

    def __init__(self, **options: Any) -> None:
        super().__init__(_nobody, **options)
        self._strangers: set[str] = set()

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - one shape
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._give_up(self.site.stores.held_visits.leave())
        await self.site.stores.state.disconnect()
        self.site.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.site.app
        client = scope.get("client")
        peer = client[0] if client else ""
        if not app.gate.identifier.trusts(peer):
            self._note_stranger(peer)
            await say_plainly(send, _REFUSED, b"Only for servers that trusted_proxies names.\n")
            return
        path: str = scope["path"]
        if path == _ANSWER:
            await self._answer_later(scope, receive, send)
            return
        asked = asked_in(scope, app.settings.challenge.path)
        if asked is None:
            await say_plainly(send, 404, b"There are /auth, /auth/later, /answer and /envoy/.\n")
            return
        fault = fault_in(asked)
        if fault:
            log.warning("a question that cannot be answered: %s", fault)
            await say_plainly(send, 400, fault.encode() + b"\n")
            return
        visit = self._identify(app, asked, asked["method"])
        decision = await app.gate.decide(visit)
        if path == _LATER and not lets_in(app, visit, decision):
            headers = [
                (b"hedgerow-ref", self._hold(app, asked, visit, decision).encode()),
                (b"hedgerow-decision", f"{decision.action}; code={header_word(decision.code)}".encode()),
            ]
            await say_plainly(send, 401, b"", headers)
            return
        if path.startswith((_AUTH, _ENVOY)):
            send = _Guarded(send)
        await self._respond(Exchange(app, visit, decision, asked, asked["headers"], receive, send))

    async def _pass_on(self, exchange: Exchange) -> None:
        """Let a visit in. Its status is not known here: the front server gets the response."""
        visit, send = exchange.visit, exchange.send
        exchange.app.gate.record(visit, exchange.decision, _UNKNOWN_STATUS)
        headers = [(b"hedgerow-decision", b"pass")]
        if visit.raw_target:
            headers.append((b"hedgerow-target", visit.target.encode("latin-1")))
        if isinstance(send, _Guarded):
            send.lets_in = True
        await say_plainly(send, 200, b"", headers)

    async def _turn_away(self, exchange: Exchange) -> None:
        if exchange.decision.action == "detain" and isinstance(exchange.send, _Guarded):
            # A page of the maze has status 200, which would let the visit in.
            await self._refuse(exchange)
        else:
            await super()._turn_away(exchange)

    async def question(self, asked: Scope) -> str:
        """Return the name under which the response to a request waits, or "" if it is let in."""
        app = self.site.app
        visit = self._identify(app, asked, asked["method"])
        decision = await app.gate.decide(visit)
        if lets_in(app, visit, decision):
            app.gate.record(visit, decision, _UNKNOWN_STATUS)
            return ""
        return self._hold(app, asked, visit, decision)

    def _hold(self, app: App, asked: Scope, visit: Visit, decision: Decision) -> str:
        """Wait for the front server to come back with the whole request: only then is there a form to answer."""
        held = HeldVisit(
            asked["method"], asked["path"], asked["raw_path"], asked["query_string"], list(asked["headers"]),
            tuple(asked.get("client") or ("", 0)), asked["scheme"], visit, decision,
        )  # fmt: skip
        reference, given_up = self.site.stores.held_visits.hold(held, app.settings.serve.pending)
        self._give_up(given_up)
        return reference

    def _give_up(self, given_up: Sequence[HeldVisit]) -> None:
        """Record visits whose response was not asked for: the front server has turned them away itself."""
        for held in given_up:
            self.site.app.gate.record(held.visit, held.decision, _REFUSED)

    async def _answer_later(self, scope: Scope, receive: Receive, send: Send) -> None:
        reference = header(scope["headers"], b"x-hedgerow-ref").decode("latin-1")
        held = self.site.stores.held_visits.take(reference)
        if held is None:
            await say_plainly(send, _REFUSED, b"This request was not let through.\n")
            return
        exchange = Exchange(self.site.app, held.visit, held.decision, _scope_of(held), held.headers, receive, send)
        await self._respond(exchange)

    def _note_stranger(self, peer: str) -> None:
        if peer not in self._strangers and len(self._strangers) < _MOST_PEERS:
            self._strangers.add(peer)
            log.warning("%s asks, and trusted_proxies does not name it: refused", ascii(peer))


class _Guarded:
    """A server's `send` that says 2xx only of who is let in."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.lets_in = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] in _GOOD and not self.lets_in:
            message = {**message, "status": _REFUSED}
        await self._send(message)


def _scope_of(held: HeldVisit) -> Scope:
    return {
        "type": "http",
        "method": held.method,
        "path": held.path,
        "raw_path": held.raw_path,
        "query_string": held.query,
        "headers": held.headers,
        "client": held.peer,
        "scheme": held.scheme,
    }


async def _nobody(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """The application of a service that lets in and never passes on: nothing may come here."""
    raise RuntimeError("a request was passed on by a service that only decides")


def asked_in(scope: Scope, own: str) -> Scope | None:
    """The visitor's own request, as the front tells it; None where nobody asks for one."""
    path: str = scope["path"]
    headers = scope["headers"]
    asked = {**scope, "scheme": header(headers, b"x-forwarded-proto").decode("latin-1").strip().lower() or "http"}
    if path in {_AUTH, _LATER}:
        target = header(headers, b"x-forwarded-uri")
        asked["method"] = header(headers, b"x-forwarded-method").decode("latin-1")
    elif path.startswith(_ENVOY):
        target = _raw(scope)[len(_ENVOY) - 1 :]
    elif path.startswith(own):
        target = _raw(scope)
    else:
        return None
    # Envoy asks under the visitor's own Host, and passes an X-Forwarded-Host on that anybody may have sent.
    told = b"" if path.startswith(_ENVOY) else header(headers, b"x-forwarded-host")
    host = told or header(headers, b"host")
    raw, _, query = target.partition(b"?")
    asked |= {
        "hedgerow.told": headers,
        "raw_path": raw,
        "path": unquote(raw.decode("latin-1")),
        "query_string": query,
        "headers": [(b"host", host), *(pair for pair in headers if pair[0] not in _OF_THE_FRONT)],
    }
    return asked


def _raw(scope: Scope) -> bytes:
    query: bytes = scope["query_string"]
    path: bytes = scope["raw_path"].partition(b"?")[0]
    return path + b"?" + query if query else path


def fault_in(asked: Scope) -> str:
    """What is missing of the visitor's request, or stands there twice so that nobody knows which to believe."""
    names = [name for name, _ in asked["hedgerow.told"]]
    twice = next((name for name in _OF_THE_FRONT if names.count(name) > 1), None)
    if twice is not None:
        return f"{twice.decode()} is there twice: the front must set it, not add it."
    method = asked["method"]
    if not method or not _METHOD_LETTERS.issuperset(method):
        return "X-Forwarded-Method is missing, or is none."
    if not asked["raw_path"].startswith(b"/"):
        return "X-Forwarded-Uri is missing, or does not start with a slash."
    return ""


async def say_plainly(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    said = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        *(headers or []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": said})
    await send({"type": "http.response.body", "body": body})

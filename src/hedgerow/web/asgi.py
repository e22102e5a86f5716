"""
The ASGI middleware: Hedgerow around any ASGI application, the reverse proxy among them.

    app = Hedgerow(app)                                  # defaults
    app = Hedgerow(app, config="hedgerow.toml")          # settings from a file
    app = Hedgerow(app, account_of=lambda headers: ...)  # the site's own idea of an account

Each request takes four steps: identify the visitor, decide on the visit, respond, and rewrite the page on its way out.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from hedgerow.challenge.clearance import COOKIE as CLEARANCE_COOKIE
from hedgerow.challenge.interfaces import TOO_MANY
from hedgerow.core.decision import Decision
from hedgerow.core.visit import Visit
from hedgerow.errors import UpstreamError
from hedgerow.markers.html.content_coding import known_codings
from hedgerow.request.account import AccountOf
from hedgerow.request.identify import VISITOR_COOKIE
from hedgerow.settings import Settings, load_settings
from hedgerow.web import response_pages as pages
from hedgerow.web.app import App, Site
from hedgerow.web.asgi_types import AsgiApp, Message, Receive, Scope, Send
from hedgerow.web.response import ResponseRewriter
from hedgerow.web.response_headers import header, restored_etags
from hedgerow.web.robots_fetch import read_robots
from hedgerow.web.robots_response import RobotsResponseRewriter
from hedgerow.web.waiter import ON_LOOP, Waiter

RawHeaders = Sequence[tuple[bytes, bytes]]

_CLIENT_LEFT = 499
_INTERNAL_ERROR = 500
_POLICY_VIOLATION = 1008
_ROBOTS = "/robots.txt"
# A robots.txt is always asked for as a whole and uncompressed.
_PARTIAL = frozenset({b"range", b"if-range", b"if-none-match", b"if-modified-since", b"accept-encoding"})
_RANGE = frozenset({b"range", b"if-range"})
_NOWHERE = frozenset({"trap", "maze"})
# Extensions by which an application sends a body past the middleware: they are not offered to it.
_UNSEEN_BODIES = frozenset({"http.response.pathsend", "http.response.zerocopysend"})
_DRIP_HEADERS = [
    (b"content-type", b"text/html; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-robots-tag", b"noindex, nofollow"),
]


@dataclass(slots=True)
class Exchange:
    """One request, the decision on it, and where its response goes."""

    app: App
    visit: Visit
    decision: Decision
    scope: Scope
    headers: RawHeaders
    """As the client sent them; those in *scope* change on their way to the application."""
    receive: Receive
    send: Send

    @property
    def preferences(self) -> dict[str, Any]:
        """What decides in which form this client is answered."""
        return {
            "accept": header(self.headers, b"accept").decode("latin-1"),
            "kind": self.visit.kind,
            "method": self.visit.method,
        }


class Hedgerow:
    """
    Stands around an ASGI application.

    *settings* or the file *config* configure it; without either the defaults and the environment do. *clock* gives the
    time of a visit in seconds since 1970.
    """

    waiter: Waiter = ON_LOOP
    """How it waits; without an event loop in another way."""
    in_order = True
    """Whether the server passes headers on in the order in which the client sent them."""

    def __init__(
        self,
        app: AsgiApp,
        *,
        settings: Settings | None = None,
        config: str | Path | None = None,
        account_of: AccountOf | None = None,
        site: Site | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.app = app
        if site is None:
            if settings is None:
                settings = load_settings(Path(config) if config is not None else None)
            site = Site(settings, account_of=account_of)
        self.site = site
        site.set_waiter(self.waiter)
        self._clock = clock
        self._tasks: set[asyncio.Future[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            await self._http(scope, receive, send)
        elif kind == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._lifespan(scope, receive, send)

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def closing(message: Message) -> None:
            if message["type"].startswith("lifespan.shutdown."):
                await self.site.stores.state.disconnect()
                self.site.close()
            await send(message)

        await self.app(scope, receive, closing)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.site.app
        visit = self._identify(app, scope, scope["method"])
        decision = await app.gate.decide(visit)
        await self._respond(Exchange(app, visit, decision, scope, scope["headers"], receive, send))

    # ---- Identify

    def _identify(self, app: App, scope: Scope, method: str) -> Visit:
        path: bytes = scope.get("raw_path") or quote(scope["path"], errors="replace").encode()
        # Some servers leave the query in the raw path.
        target = path.partition(b"?")[0].decode("latin-1")
        query: bytes = scope.get("query_string", b"")
        if query:
            target += "?" + query.decode("latin-1")
        client = scope.get("client")
        visit, trusted = app.gate.identifier.identify(
            self._clock(), client[0] if client else "", method, target, scope["headers"],
            scheme=scope.get("scheme", ""), version=scope.get("http_version", ""),
            in_order=self.in_order,
        )  # fmt: skip
        scope["hedgerow"] = {"visit": visit, "peer_trusted": trusted}
        if visit.raw_target:
            # The application sees the page that is meant, without its marker.
            path, _, query = visit.target.encode("latin-1").partition(b"?")
            scope["raw_path"], scope["query_string"] = path, query
            scope["path"] = unquote_to_bytes(path).decode("utf-8", "replace")
        return visit

    # ---- Respond

    async def _respond(self, exchange: Exchange) -> None:
        """Carry out a decision. Observed only, every visit passes."""
        app, visit, decision = exchange.app, exchange.visit, exchange.decision
        action = "pass" if app.settings.observe else decision.action
        if visit.target.startswith(app.settings.challenge.path) and action in {"pass", "challenge"}:
            # What a challenged visitor needs to answer.
            await self._serve_challenge(exchange)
        elif lets_in(app, visit, decision):
            await self._pass_on(exchange)
        elif action != "pass":
            await self._turn_away(exchange)
        elif _leads_nowhere(visit):
            await self._send_page(exchange, pages.not_found(**exchange.preferences))
        else:
            # A good bot has been shown a marked link: it is sent to the page's own address.
            await self._send_page(exchange, pages.moved(visit.target))

    async def _turn_away(self, exchange: Exchange) -> None:
        """Challenge, or detain where that was decided and there is room; else refuse."""
        app, visit, action = exchange.app, exchange.visit, exchange.decision.action
        if action == "challenge":
            reference = new_reference()
            page = await app.challenges.challenge(
                visit, exchange.decision, exchange.headers, exchange.receive, reference
            )
            await self._send_page(exchange, page, reference)
            return
        if action == "detain" and visit.method == "GET" and app.maze is not None:
            body = app.maze.page(app.tokens.of(visit.host), visit.visitor, visit.target)
            stay = app.tarpit.admit(len(body))
            if stay is not None:
                with stay:
                    app.gate.record(visit, exchange.decision, 200)
                    await self._drip(stay.pieces(body), exchange.receive, exchange.send)
                return
        await self._refuse(exchange)

    async def _drip(self, pieces: Iterator[tuple[float, bytes]], receive: Receive, send: Send) -> None:
        """Send a page slowly, and stop as soon as the client has left or the site is about to close."""
        async with self.waiter.watch_disconnect(receive) as watcher:
            await send({"type": "http.response.start", "status": 200, "headers": _DRIP_HEADERS})
            for pause, piece in pieces:
                if await watcher.wait(pause) or self.site.closing:
                    return
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    async def _refuse(self, exchange: Exchange) -> None:
        reference = new_reference()
        page = None
        if exchange.decision.code == TOO_MANY:
            page = exchange.app.challenges.blocked(exchange.visit, exchange.decision, exchange.headers, reference)
        await self._send_page(exchange, page or _refusal(exchange, reference), reference)

    async def _serve_challenge(self, exchange: Exchange) -> None:
        reference = new_reference()
        page = await exchange.app.challenges.serve(
            exchange.visit, exchange.decision, exchange.headers, exchange.receive, reference,
            secure=exchange.scope.get("scheme") == "https",
        )  # fmt: skip
        await self._send_page(exchange, page, reference)

    async def _send_page(self, exchange: Exchange, page: pages.ResponsePage, reference: str = "") -> None:
        exchange.app.gate.record(exchange.visit, exchange.decision, page.status, reference)
        await exchange.send({"type": "http.response.start", "status": page.status, "headers": page.headers})
        await exchange.send({"type": "http.response.body", "body": page.body})

    # ---- Rewrite

    async def _pass_on(self, exchange: Exchange) -> None:
        """Have the application answer; its page is rewritten on its way out."""
        app, visit, decision, scope = exchange.app, exchange.visit, exchange.decision, exchange.scope
        headers, receive, send = exchange.headers, exchange.receive, exchange.send
        scheme = scope.get("scheme", "http")
        if "extensions" in scope:
            scope["extensions"] = {k: v for k, v in (scope["extensions"] or {}).items() if k not in _UNSEEN_BODIES}
        if visit.claim:
            self._fetch_robots(app, visit, scope)
        if visit.target == _ROBOTS and visit.method in {"GET", "HEAD"} and app.changes_robots:
            rewriter: ResponseRewriter = RobotsResponseRewriter(app, visit, decision, send)
            inner: Scope = {**scope, "method": "GET", "headers": _application_headers(headers, visit, drop=_PARTIAL)}
        else:
            rewriter = ResponseRewriter(app, visit, decision, send, scheme=scheme, request_headers=headers)
            scope["headers"] = _application_headers(headers, visit)
            inner = scope
        unchanged = dict(inner)
        answered = False
        try:
            await self.app(inner, receive, rewriter)
            if rewriter.is_range:
                # Part of a page cannot be rewritten, and a crawler could ask for parts alone: it gets the whole page.
                rewriter = ResponseRewriter(app, visit, decision, send, scheme=scheme)
                whole = {**unchanged, "headers": _application_headers(headers, visit, drop=_RANGE)}
                await self.app(whole, _without_body(receive), rewriter)
            if rewriter.is_stopped:
                answered = True
                await self._turn_away(replace(exchange, visit=rewriter.visit, decision=rewriter.decision))
        except UpstreamError as error:
            app.counters.upstream_errors[error.kind] += 1
            if rewriter.started or answered:
                raise
            answered = True
            reference = new_reference()
            page = pages.unavailable(
                error.kind, reference=reference, contact=app.settings.responses.contact, **exchange.preferences
            )
            await self._send_page(replace(exchange, visit=rewriter.visit, decision=rewriter.decision), page, reference)
        except Exception:
            rewriter.status = rewriter.status if rewriter.started else _INTERNAL_ERROR
            raise
        finally:
            if not answered:
                app.gate.record(rewriter.visit, rewriter.decision, rewriter.status or _CLIENT_LEFT)

    def _fetch_robots(self, app: App, visit: Visit, scope: Scope) -> None:
        """A bot is here: read its host's robots.txt in the background, if it is not known."""
        robots_compliance = app.gate.identifier.bot_verifier.robots_compliance
        if robots_compliance is None or not robots_compliance.due(visit.host, visit.at):
            return
        task = asyncio.ensure_future(read_robots(self.app, scope, robots_compliance, visit))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- Websockets

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.site.app
        visit = self._identify(app, scope, "GET")
        decision = await app.gate.decide(visit)
        if decision.action == "pass" or app.settings.observe:
            app.gate.record(visit, decision, 101)
            await self.app(scope, receive, send)
            return
        await receive()
        reference = new_reference()
        page = _refusal(Exchange(app, visit, decision, scope, scope["headers"], receive, send), reference)
        app.gate.record(visit, decision, page.status, reference)
        if "websocket.http.response" in (scope.get("extensions") or {}):
            start = {"type": "websocket.http.response.start", "status": page.status, "headers": page.headers}
            await send(start)
            await send({"type": "websocket.http.response.body", "body": page.body})
        else:
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})


def new_reference() -> str:
    """Return a short name for one refusal, such as `7F3A-91C2`, by which a visitor can ask about it."""
    text = secrets.token_hex(4).upper()
    return f"{text[:4]}-{text[4:]}"


def lets_in(app: App, visit: Visit, decision: Decision) -> bool:
    """Return whether a visit goes on to the application, unless it is to a reserved path."""
    return (
        (decision.action == "pass" or app.settings.observe)
        and not _leads_nowhere(visit)
        and not (visit.bot and visit.raw_target)
    )


def _leads_nowhere(visit: Visit) -> bool:
    """Return whether a visit asks for a link of ours without a page: a changed one, or a trap that was forgiven."""
    return visit.tampered or (visit.marker is not None and visit.marker.kind in _NOWHERE)


def _refusal(exchange: Exchange, reference: str) -> pages.ResponsePage:
    responses = exchange.app.settings.responses
    return pages.refusal(
        exchange.decision,
        at=exchange.visit.at,
        reference=reference,
        contact=responses.contact,
        site=responses.site or exchange.visit.host,
        **exchange.preferences,
    )


def _application_headers(headers: RawHeaders, visit: Visit, *, drop: frozenset[bytes] = frozenset()) -> RawHeaders:
    """
    Return the headers as the application is to see them.

    They have its own ETags, its own addresses as referrers, no cookie of ours, and no coding that cannot be undone.
    """
    changed = []
    for pair in headers:
        name, value = pair
        if name in drop:
            continue
        if name == b"accept-encoding":
            changed.append((name, known_codings(value)))
        elif name in {b"if-none-match", b"if-match"}:
            changed.append((name, restored_etags(value)))
        elif name == b"referer":
            changed.append((name, visit.referrer.encode("latin-1")))
        elif name == b"cookie" and VISITOR_COOKIE in value:
            # The name of one cookie is the beginning of the other's.
            cookies = _without_cookie(_without_cookie(value, CLEARANCE_COOKIE), VISITOR_COOKIE)
            if cookies:
                changed.append((name, cookies))
        else:
            changed.append(pair)
    return changed


def _without_cookie(value: bytes, name: bytes) -> bytes:
    return b";".join(pair for pair in value.split(b";") if pair.partition(b"=")[0].strip() != name).strip()


def _without_body(receive: Receive) -> Receive:
    """Return a `receive` for an application that is asked a second time: the first time took the empty body."""
    messages: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def received() -> Message:
        return messages.pop() if messages else await receive()

    return received

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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes

from hedgerow.challenge.clearance import COOKIE as CLEARANCE_COOKIE
from hedgerow.challenge.clearance import own_cookie
from hedgerow.challenge.interfaces import TOO_MANY
from hedgerow.core.decision import Decision
from hedgerow.core.visit import BY_PROGRAM, HIDDEN_KINDS, Visit
from hedgerow.errors import UpstreamError
from hedgerow.markers.html.content_coding import known_codings
from hedgerow.request.account import AccountOf
from hedgerow.request.identify import VISITOR_COOKIE
from hedgerow.request.path_cookies import restored_cookies
from hedgerow.request.robots_compliance import RobotsCompliance
from hedgerow.settings import Settings, load_settings
from hedgerow.settings.load import SiteEntry
from hedgerow.settings.sites import DEFAULT
from hedgerow.web import response_pages as pages
from hedgerow.web.app import App, Site
from hedgerow.web.asgi_types import AsgiApp, Message, Receive, Scope, Send
from hedgerow.web.cookie_test import cookie_test
from hedgerow.web.program_response import ProgramResponseRewriter
from hedgerow.web.request_log import is_request_id, new_request_id
from hedgerow.web.response import ResponseRewriter
from hedgerow.web.response_headers import header, restored_etags
from hedgerow.web.response_pages import PageRequest, ResponsePage
from hedgerow.web.robots import RobotsResponseRewriter, read_robots, without_body
from hedgerow.web.run_file import write_run_file
from hedgerow.web.sites import HostTable, host_of, new_site, refuse_host, settings_of_site, share_blocks
from hedgerow.web.waiter import ON_LOOP, Waiter

if TYPE_CHECKING:
    from hedgerow.web.traces import Trace

RawHeaders = Sequence[tuple[bytes, bytes]]

_SWITCHING = 101
_CLIENT_LEFT = 499
_OK = 200
_REDIRECTION = 300
_INTERNAL_ERROR = 500
_BAD_GATEWAY = 502
_POLICY_VIOLATION = 1008
_ROBOTS = "/robots.txt"
# A robots.txt is always asked for as a whole and uncompressed.
_PARTIAL = frozenset({b"range", b"if-range", b"if-none-match", b"if-modified-since", b"accept-encoding"})
_RANGE = frozenset({b"range", b"if-range"})
_OWN_COOKIES = frozenset(
    own_cookie(name, secure=secure) for name in (CLEARANCE_COOKIE, VISITOR_COOKIE) for secure in (False, True)
)
# Extensions by which an application could send a body past the middleware.
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
    trace: Trace | None = None
    """Where the steps of the request are recorded, if they are."""

    @property
    def request_id(self) -> str:
        """The id of the request in logs, or "" if the settings want none."""
        found: str = self.scope["hedgerow"].get("request_id", "")
        return found

    def page_request(self, reference: str = "") -> PageRequest:
        """Return what the form of a page for this client depends on."""
        accept, contact = header(self.headers, b"accept").decode("latin-1"), self.app.settings.responses.contact
        return PageRequest(accept, self.visit.kind, self.visit.method, reference, contact)


class Hedgerow:
    """
    Protects an ASGI application.

    *settings* or the file *config* configure it, otherwise the defaults and the environment. *clock* returns the time
    of a visit in seconds since 1970.
    """

    waiter: Waiter = ON_LOOP
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
        entries: Sequence[SiteEntry] = ()
        has_admin = False
        if site is None:
            if settings is None:
                settings = load_settings(Path(config) if config is not None else None)
            site = Site(settings, account_of=account_of)
            site.config = Path(config) if config is not None else None
            site.run_file = write_run_file(settings, Path(config) if config is not None else None)
            entries, has_admin = settings.site, bool(settings.admin.listen)
        self.site = site
        self._clock = clock
        self.others = [self._for_other(entry) for entry in entries]
        """The same middleware for each of the other sites, if the settings have several."""
        self._by_host: HostTable[AsgiApp | None] | None = None
        if entries:
            self._by_host = HostTable(
                {host: one for entry, one in zip(entries, self.others, strict=True) for host in entry.hosts},
                refuse_host if site.app.settings.unknown_hosts == "refuse" else None,
            )
            share_blocks([(entry, one.site) for entry, one in zip(entries, self.others, strict=True)])
        if has_admin:
            from hedgerow.web.admin.listener import start_admin

            site.admin = start_admin(self.all_sites())
        site.set_waiter(self.waiter)
        self._tasks: set[asyncio.Future[None]] = set()

    def _for_other(self, entry: SiteEntry) -> Hedgerow:
        settings = settings_of_site(self.site.app.settings, entry.name)
        return type(self)(self.app, site=new_site(settings, entry.name, self.site), clock=self._clock)

    def all_sites(self) -> dict[str, Site]:
        """Return all sites of this middleware by name, first the one at the top level of the settings."""
        return {DEFAULT: self.site} | {one.site.name: one.site for one in self.others}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if (
            self._by_host is not None
            and kind != "lifespan"
            and (other := self._by_host.find(host_of(scope))) is not None
        ):
            await other(scope, receive, send)
        elif kind == "http":
            await self._http(scope, receive, send)
        elif kind == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._lifespan(scope, receive, send)

    def close(self) -> None:
        """Close all sites of this middleware."""
        for one in (*self.others, self):
            one.site.close()

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def closing(message: Message) -> None:
            if message["type"].startswith("lifespan.shutdown."):
                for one in (*self.others, self):
                    await one.site.disconnect()
                self.close()
            await send(message)

        await self.app(scope, receive, closing)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        app, tracer = self.site.app, self.site.tracer
        began = time.perf_counter()
        visit, decision = await self._decide(app, scope, scope["method"])
        exchange = Exchange(app, visit, decision, scope, scope["headers"], receive, send)
        if tracer is not None:
            ended, trusted = time.perf_counter(), scope["hedgerow"]["peer_trusted"]
            exchange.trace = tracer.begin(exchange.headers, began, trusted=trusted)
            if exchange.trace is not None:
                exchange.trace.decided(began, ended)
        try:
            await self._respond(exchange)
        finally:
            if exchange.trace is not None:
                exchange.trace.end()

    async def _decide(self, app: App, scope: Scope, method: str) -> tuple[Visit, Decision]:
        """Identify the visitor and decide on the visit."""
        began = time.perf_counter()
        visit = self._identify(app, scope, method)
        decision = await app.gate.decide(visit)
        app.counters.latency.gate.add(time.perf_counter() - began)
        return visit, decision

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
        scheme = scope.get("scheme", "http")
        if trusted:
            # In front of a proxy that speaks TLS the browser uses https. If the proxy does not say, nobody knows.
            forwarded = header(scope["headers"], b"x-forwarded-proto").decode("latin-1").strip().lower()
            scheme = forwarded if forwarded in {"http", "https"} else ""
        scope["hedgerow"] = {"visit": visit, "peer_trusted": trusted, "scheme": scheme}
        if app.request_id:
            given = header(scope["headers"], app.request_id) if trusted else b""
            scope["hedgerow"]["request_id"] = given.decode() if given and is_request_id(given) else new_request_id()
        if visit.raw_target and not _signs_mark(visit, scope["headers"]):
            # The application gets the address without its marker.
            path, _, query = visit.target.encode("latin-1").partition(b"?")
            scope["raw_path"], scope["query_string"] = path, query
            scope["path"] = unquote_to_bytes(path).decode("utf-8", "replace")
        return visit

    # ---- Respond

    async def _respond(self, exchange: Exchange) -> None:
        """
        Carry out a decision. If the site only observes, every visit passes.

        If it also changes nothing, even Hedgerow's own paths and links without a page are the application's.
        """
        app, visit, decision = exchange.app, exchange.visit, exchange.decision
        action = "pass" if decision.observed else decision.action
        if app.is_neutral:
            await self._pass_on(exchange)
        elif visit.target.startswith(app.settings.challenge.path) and action in {"pass", "challenge"}:
            # A challenged visitor needs these paths for the answer.
            await self._serve_challenge(exchange)
        elif lets_in(app, visit, decision):
            await self._pass_on(exchange)
        elif action != "pass":
            await self._turn_away(exchange)
        elif _leads_nowhere(visit):
            await self._send_page(exchange, pages.not_found(exchange.page_request()))
        else:
            # A good bot has been shown a marked link: it is sent to the page's own address.
            await self._send_page(exchange, pages.redirect(301, visit.target))

    async def _turn_away(self, exchange: Exchange) -> None:
        """Challenge or detain a visitor as decided; refuse if there is no room to detain."""
        app, visit, action = exchange.app, exchange.visit, exchange.decision.action
        tested = cookie_test(app, visit, exchange.decision)
        if tested is not None:
            await self._send_page(exchange, tested)
            return
        if action == "challenge":
            reference = new_reference()
            page = await app.challenges.challenge(
                visit, exchange.decision, exchange.headers, exchange.receive, reference
            )  # fmt: skip
            await self._send_page(exchange, page, reference)
            return
        if action == "detain" and visit.method == "GET" and app.maze is not None:
            body = app.maze.page(app.tokens.of(visit.host), visit.visitor, visit.target)
            stay = app.tarpit.admit(len(body))
            if stay is not None:
                with stay:
                    _record(exchange, _OK)
                    await self._drip(stay.pieces(body), exchange.receive, exchange.send)
                return
        await self._refuse(exchange)

    async def _drip(self, pieces: Iterator[tuple[float, bytes]], receive: Receive, send: Send) -> None:
        """Send a page slowly, and stop as soon as the client has left or the site is about to close."""
        async with self.waiter.watch_disconnect(receive) as wait:
            await send({"type": "http.response.start", "status": 200, "headers": _DRIP_HEADERS})
            for pause, piece in pieces:
                if await wait(pause) or self.site.closing:
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
            secure=exchange.scope["hedgerow"]["scheme"] == "https",
        )  # fmt: skip
        await self._send_page(exchange, page, reference)

    async def _send_page(self, exchange: Exchange, page: ResponsePage, reference: str = "") -> None:
        _record(exchange, page.status, reference)
        await exchange.send({"type": "http.response.start", "status": page.status, "headers": page.headers})
        await exchange.send({"type": "http.response.body", "body": page.body})

    # ---- Rewrite

    async def _pass_on(self, exchange: Exchange) -> None:
        """Let the application respond, and rewrite its page on its way out."""
        app, visit, decision, scope = exchange.app, exchange.visit, exchange.decision, exchange.scope
        headers, receive, send = exchange.headers, exchange.receive, exchange.send
        scheme = scope["hedgerow"]["scheme"]
        if "extensions" in scope:
            scope["extensions"] = {k: v for k, v in (scope["extensions"] or {}).items() if k not in _UNSEEN_BODIES}
        compliance = app.gate.identifier.bot_verifier.robots_compliance if visit.claim else None
        if compliance is not None and compliance.due(visit.host, visit.at):
            self._read_robots(compliance, visit, scope)
        if visit.target == _ROBOTS and visit.method in {"GET", "HEAD"} and app.changes_robots:
            rewriter: ResponseRewriter = RobotsResponseRewriter(app, visit, decision, send, scheme=scheme)
            inner: Scope = {**scope, "method": "GET", "headers": _application_headers(exchange, drop=_PARTIAL)}
        else:
            rewrite = ProgramResponseRewriter if BY_PROGRAM in visit.anomalies else ResponseRewriter
            rewriter = rewrite(app, visit, decision, send, scheme=scheme, request_headers=headers)
            scope["headers"] = _application_headers(exchange, is_rewritten=app.changes_pages)
            inner = scope
        unchanged = dict(inner)
        answered = False
        asked_at = time.perf_counter()
        try:
            await rewriter.request(self.app, inner, receive)
            if rewriter.is_range:
                # Part of a page cannot be rewritten, and a crawler could ask for parts alone: it gets the whole page.
                rewriter = type(rewriter)(app, rewriter.visit, rewriter.decision, send, scheme=scheme)
                whole = {**unchanged, "headers": _application_headers(exchange, drop=_RANGE)}
                await self.app(whole, without_body(receive), rewriter)
            if rewriter.is_stopped:
                answered = True
                await self._turn_away(replace(exchange, visit=rewriter.visit, decision=rewriter.decision))
        except UpstreamError as error:
            if rewriter.started or answered:
                self._note_failure(exchange, error, rewriter.status)
                raise
            answered = True
            await self._send_failure(replace(exchange, visit=rewriter.visit, decision=rewriter.decision), error)
        except Exception:
            rewriter.status = rewriter.status if rewriter.started else _INTERNAL_ERROR
            raise
        finally:
            self._note_times(exchange, rewriter, asked_at)
            if not answered:
                rewriter.finish()
                exchange.visit, exchange.decision = rewriter.visit, rewriter.decision
                _record(exchange, rewriter.status or _CLIENT_LEFT)

    @staticmethod
    def _note_times(exchange: Exchange, rewriter: ResponseRewriter, asked_at: float) -> None:
        app = exchange.app
        if exchange.trace is not None:
            exchange.trace.answered(rewriter.answered_at, rewriter.status, rewriter.rewrite_seconds)
        if rewriter.answered_at:
            took = rewriter.answered_at - asked_at
            app.counters.latency.upstream.add(took)
            if rewriter.visit.kind == "page" and rewriter.status == _OK:
                app.page_times.add(took)
        if rewriter.rewrite_seconds:
            app.counters.latency.rewrite.add(rewriter.rewrite_seconds)

    async def _send_failure(self, exchange: Exchange, error: UpstreamError) -> None:
        reference = new_reference()
        page = pages.unavailable(error.kind, exchange.page_request(reference))
        self._note_failure(exchange, error, page.status, reference)
        await self._send_page(exchange, page, reference)

    @staticmethod
    def _note_failure(exchange: Exchange, error: UpstreamError, status: int, reference: str = "") -> None:
        """Count and log a failure of the site."""
        exchange.app.counters.upstream_errors[error.kind] += 1
        if exchange.trace is not None:
            exchange.trace.fail(error.kind)
        exchange.app.log.failed(error, exchange.visit, status, reference, exchange.request_id)

    def _read_robots(self, compliance: RobotsCompliance, visit: Visit, scope: Scope) -> None:
        """Read the robots.txt of a host in the background."""
        task = asyncio.ensure_future(read_robots(self.app, scope, compliance, visit, self.waiter))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- Websockets

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.site.app
        visit, decision = await self._decide(app, scope, "GET")
        exchange = Exchange(app, visit, decision, scope, scope["headers"], receive, send)
        if decision.lets_in:
            _record(exchange, _SWITCHING)
            if app.request_id:
                others = [pair for pair in exchange.headers if pair[0] != app.request_id]
                scope["headers"] = [*others, (app.request_id, exchange.request_id.encode())]
            scope["hedgerow"]["on_failure"] = partial(self._note_failure, exchange)
            await self.app(scope, receive, _without_pages(send))
            return
        await receive()
        reference = new_reference()
        page = _refusal(exchange, reference)
        _record(exchange, page.status, reference)
        await refuse_websocket(scope, send, page, _POLICY_VIOLATION)


def _record(exchange: Exchange, status: int, reference: str = "") -> None:
    """Count an answered request, write it to the ledger, and say in its trace what was decided."""
    visit, decision = exchange.visit, exchange.decision
    # Only lines about other decisions name the request.
    request_id = exchange.request_id if decision.action != "pass" or exchange.trace is not None else ""
    exchange.app.gate.record(visit, decision, status, reference, request_id)
    if exchange.trace is not None:
        exchange.trace.note(visit, decision, status, reference, request_id)


async def refuse_websocket(scope: Scope, send: Send, page: ResponsePage, code: int) -> None:
    """Respond to a handshake with *page*, or close it with *code* if the server supports no response."""
    if "websocket.http.response" in (scope.get("extensions") or {}):
        await send({"type": "websocket.http.response.start", "status": page.status, "headers": page.headers})
        await send({"type": "websocket.http.response.body", "body": page.body})
    else:
        await send({"type": "websocket.close", "code": code})


def _without_pages(send: Send) -> Send:
    """
    Return a `send` for a websocket that turns a successful response without a websocket into an empty 502.

    Browsers show no such response to anybody. To a crawler it would be a page that was neither counted nor marked.
    """
    is_page = False

    async def sent(message: Message) -> None:
        nonlocal is_page
        if message["type"] == "websocket.http.response.start" and message["status"] < _REDIRECTION:
            is_page = True
            message = {**message, "status": _BAD_GATEWAY, "headers": []}
        elif message["type"] == "websocket.http.response.body" and is_page:
            message = {**message, "body": b""}
        await send(message)

    return sent


def new_reference() -> str:
    """Return a short name for one refusal, such as `7F3A-91C2`, by which a visitor can ask about it."""
    text = secrets.token_hex(4).upper()
    return f"{text[:4]}-{text[4:]}"


def lets_in(app: App, visit: Visit, decision: Decision) -> bool:
    """Return whether a visit goes on to the application, unless it is to a reserved path."""
    return app.is_neutral or (decision.lets_in and not _leads_nowhere(visit) and not (visit.bot and visit.raw_target))


def _leads_nowhere(visit: Visit) -> bool:
    """Return whether a visit uses a marked link without a page: a changed one, or a trap that was forgiven."""
    return visit.is_page_unknown or (visit.marker is not None and visit.marker.kind in HIDDEN_KINDS)


def _signs_mark(visit: Visit, headers: RawHeaders) -> bool:
    """
    Return whether the client's Digest authentication signs the address with its mark.

    Then the application must get that address, with one parameter more, or the signature would not fit.
    """
    authorization = header(headers, b"authorization")
    if authorization[:7].lower() != b"digest ":
        return False
    signed = visit.raw_target.encode("latin-1")
    is_same_path = visit.raw_target.partition("?")[0] == visit.target.partition("?")[0]
    return is_same_path and b'uri="%b"' % signed in authorization


def _refusal(exchange: Exchange, reference: str) -> ResponsePage:
    visit, settings = exchange.visit, exchange.app.settings
    return pages.refusal(
        exchange.decision, exchange.page_request(reference), at=visit.at, site=settings.responses.site or visit.host,
        start=next((entry for entry in settings.marker.entries if "*" not in entry), ""),
        license_url=settings.bots.license,
    )  # fmt: skip


def _application_headers(
    exchange: Exchange, *, drop: frozenset[bytes] = frozenset(), is_rewritten: bool = True
) -> RawHeaders:
    """
    Return headers for the application: its own ETags and addresses, no cookie of ours, no unknown codings.

    The id of the request is that of Hedgerow, or of a proxy that it trusts. A page that is not rewritten may have any
    coding. A copy with links that were marked earlier is not confirmed.
    """
    headers, visit, own_id = exchange.headers, exchange.visit, exchange.app.request_id
    changed = []
    if own_id:
        drop = drop | exchange.app.dropped if drop else exchange.app.dropped
    if header(headers, b"service-worker"):
        # Something is added to a service worker, which must not be compressed for that.
        drop |= {b"accept-encoding"}
    for pair in headers:
        name, value = pair
        if name in drop:
            continue
        if name == b"accept-encoding" and is_rewritten:
            changed.append((name, known_codings(value)))
        elif name == b"if-match" or (name == b"if-none-match" and is_rewritten):
            changed.append((name, restored_etags(value)))
        elif name == b"referer":
            changed.append((name, visit.referrer.encode("latin-1")))
        elif name == b"cookie" and VISITOR_COOKIE in value:
            # One cookie's name is part of the others'.
            others = [one for one in value.split(b";") if one.partition(b"=")[0].strip() not in _OWN_COOKIES]
            path, cookies = visit.path.encode("latin-1"), b";".join(others).strip()
            if cookies := restored_cookies(cookies, path, hidden=visit.is_path_hidden):
                changed.append((name, cookies))
        else:
            changed.append(pair)
    if own_id:
        changed.append((own_id, exchange.request_id.encode()))
    return changed if exchange.trace is None else exchange.trace.ask(changed)

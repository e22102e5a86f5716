"""
The ASGI middleware: Hedgerow around any ASGI application, the reverse proxy among them.

    app = Hedgerow(app)                                  # defaults
    app = Hedgerow(app, config="hedgerow.toml")          # settings from a file
    app = Hedgerow(app, account_of=lambda headers: ...)  # the site's own idea of an account

A request becomes a visit and is decided on before the application sees it. What passes goes in, and its page gets bait
on its way out (`answering`); what does not is answered here.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
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
from hedgerow.web.asgi_types import App, Message, Receive, Scope, Send
from hedgerow.web.html_response import has_our_etag, header, restored_etags
from hedgerow.web.response import ResponseRewriter, RobotsResponseRewriter
from hedgerow.web.robots_fetch import read_robots
from hedgerow.web.site import Site
from hedgerow.web.waiter import ON_LOOP, Waiter

RawHeaders = Sequence[tuple[bytes, bytes]]

_CLIENT_LEFT = 499
_INTERNAL_ERROR = 500
_POLICY_VIOLATION = 1008
_ROBOTS = "/robots.txt"
# What a robots.txt must be asked for without, because all of it is needed as it is.
_PARTIAL = frozenset({b"range", b"if-range", b"if-none-match", b"if-modified-since", b"accept-encoding"})
_RANGE = frozenset({b"range", b"if-range"})
_NOWHERE = frozenset({"trap", "maze"})
# Ways to send a body past us: a server that has them is not to offer them to the application.
_PAST_US = frozenset({"http.response.pathsend", "http.response.zerocopysend"})


def new_reference() -> str:
    """A short name for one refusal, such as `7F3A-91C2`: a visitor reads it out, the ledger knows it."""
    text = secrets.token_hex(4).upper()
    return f"{text[:4]}-{text[4:]}"


class Hedgerow:
    """
    Stands around an ASGI application.

    *settings* or the file *config* say how; without either the defaults and the environment do. *clock* gives the time
    of a visit in seconds since 1970.
    """

    waiting: Waiter = ON_LOOP
    """How it waits; another in the form for servers without an event loop."""
    in_order = True
    """Whether the server gives headers in the order in which the client has sent them."""

    def __init__(
        self,
        app: App,
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
        site.wait_by(self.waiting)
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
                if self.site.gate.afar is not None:
                    await self.site.gate.afar.close_async()
                self.site.close()
            await send(message)

        await self.app(scope, receive, closing)

    def _visit(self, scope: Scope, method: str) -> Visit:
        path: bytes = scope.get("raw_path") or quote(scope["path"], errors="replace").encode()
        # Some servers leave the query in the raw path.
        target = path.partition(b"?")[0].decode("latin-1")
        query: bytes = scope.get("query_string", b"")
        if query:
            target += "?" + query.decode("latin-1")
        client = scope.get("client")
        peer = client[0] if client else ""
        identifier = self.site.gate.identifier
        visit = identifier.visit(
            self._clock(), peer, method, target, scope["headers"],
            scheme=scope.get("scheme", ""), version=scope.get("http_version", ""),
            in_order=self.in_order,
        )  # fmt: skip
        scope["hedgerow"] = {"visit": visit, "peer_trusted": identifier.trusts(peer)}
        if visit.raw_target:
            # The application sees the page that is meant, and nothing of the marker.
            path, _, query = visit.target.encode("latin-1").partition(b"?")
            scope["raw_path"], scope["query_string"] = path, query
            scope["path"] = unquote_to_bytes(path).decode("utf-8", "replace")
        return visit

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit = self._visit(scope, scope["method"])
        await self._act(visit, await self._decide(visit), scope, receive, send)

    async def _decide(self, visit: Visit) -> Decision:
        gate = self.site.gate
        return gate.decide(visit) if gate.afar is None else await gate.decide_async(visit)

    def _lets_in(self, visit: Visit, decision: Decision) -> bool:
        """Whether a visit that is not to a path of ours goes on to the application."""
        return (
            (decision.action == "pass" or self.site.settings.observe)
            and not _leads_nowhere(visit)
            and not (visit.bot and visit.raw_target)
        )

    async def _act(self, visit: Visit, decision: Decision, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a visit as was decided."""
        site = self.site
        if site.challenging.owns(visit) and (decision.action in {"pass", "challenge"} or site.settings.observe):
            # What a challenged visitor needs to answer.
            reference = new_reference()
            secure = scope.get("scheme") == "https"
            served = await site.challenging.serve(visit, decision, scope["headers"], receive, reference, secure=secure)
            await self._answer(visit, decision, served, send, reference)
            return
        if self._lets_in(visit, decision):
            await self._pass(visit, decision, scope, receive, send)
        elif decision.action != "pass" and not site.settings.observe:
            await self._turn_away(visit, decision, scope["headers"], receive, send)
        elif _leads_nowhere(visit):
            await self._answer(visit, decision, pages.not_found(**_manner(visit, scope["headers"])), send)
        else:
            # Somebody has shown a good bot a marked link: it is told the page's own address.
            await self._answer(visit, decision, pages.moved(visit.target), send)

    async def _pass(self, visit: Visit, decision: Decision, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope["headers"]
        if "extensions" in scope:
            scope["extensions"] = {k: v for k, v in (scope["extensions"] or {}).items() if k not in _PAST_US}
        if visit.claim:
            self._mind_robots(visit, scope)
        if visit.target == _ROBOTS and visit.method in {"GET", "HEAD"} and self.site.changes_robots:
            answering: ResponseRewriter = RobotsResponseRewriter(self.site, visit, decision, send)
            inner: Scope = {**scope, "method": "GET", "headers": _inward(headers, visit, drop=_PARTIAL)}
        else:
            known = has_our_etag(header(headers, b"if-none-match"))
            answering = ResponseRewriter(
                self.site, visit, decision, send, scheme=scope.get("scheme", "http"), known=known
            )
            scope["headers"] = _inward(headers, visit)
            inner = scope
        before = dict(inner)
        answered = False
        try:
            await self.app(inner, receive, answering)
            if answering.is_range:
                # A part of a page cannot be baited, and a crawler could ask for nothing but parts: it gets the whole.
                answering = ResponseRewriter(self.site, visit, decision, send, scheme=scope.get("scheme", "http"))
                again = {**before, "headers": _inward(headers, visit, drop=_RANGE)}
                await self.app(again, _received(receive), answering)
            if answering.is_stopped:
                answered = True
                await self._turn_away(answering.visit, answering.decision, headers, receive, send)
        except UpstreamError as error:
            self.site.upstream_errors[error.kind] += 1
            if answering.started or answered:
                raise
            answered = True
            reference = new_reference()
            answer = pages.unavailable(
                error.kind,
                reference=reference,
                contact=self.site.settings.responses.contact,
                **_manner(visit, headers),
            )
            await self._answer(answering.visit, answering.decision, answer, send, reference)
        except Exception:
            answering.status = answering.status if answering.started else _INTERNAL_ERROR
            raise
        finally:
            if not answered:
                self.site.record(answering.visit, answering.decision, answering.status or _CLIENT_LEFT)

    def _mind_robots(self, visit: Visit, scope: Scope) -> None:
        """A bot is here: see to it that its host's robots.txt is known, beside its request."""
        robots_compliance = self.site.gate.identifier.bot_verifier.robots_compliance
        if robots_compliance is None or not robots_compliance.due(visit.host, visit.at):
            return
        task = asyncio.ensure_future(read_robots(self.app, scope, robots_compliance, visit))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _turn_away(
        self, visit: Visit, decision: Decision, headers: RawHeaders, receive: Receive, send: Send
    ) -> None:
        """Challenge, or detain where that was decided and there is room; else refuse."""
        if decision.action == "challenge":
            reference = new_reference()
            asked = await self.site.challenging.challenge(visit, decision, headers, receive, reference)
            await self._answer(visit, decision, asked, send, reference)
            return
        body = self.site.decoy(visit) if decision.action == "detain" and visit.method == "GET" else None
        if body is not None:
            stay = self.site.tarpit.admit(len(body))
            if stay is not None:
                with stay:
                    self.site.record(visit, decision, 200)
                    await self._drip(stay.pieces(body), receive, send)
                return
        await self._refuse(visit, decision, headers, send)

    async def _refuse(self, visit: Visit, decision: Decision, headers: RawHeaders, send: Send) -> None:
        reference = new_reference()
        answer = None
        if decision.code == TOO_MANY:
            answer = self.site.challenging.blocked(visit, decision, headers, reference)
        if answer is None:
            answer = self._refusal(visit, decision, headers, reference)
        await self._answer(visit, decision, answer, send, reference)

    async def _drip(self, pieces: Iterator[tuple[float, bytes]], receive: Receive, send: Send) -> None:
        """Send a page slowly, and stop as soon as the client has left or the site is about to."""
        headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-robots-tag", b"noindex, nofollow"),
        ]
        async with self.waiting.lookout(receive) as lookout:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for pause, piece in pieces:
                if await lookout.wait(pause) or self.site.closing:
                    return
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    def _refusal(self, visit: Visit, decision: Decision, headers: RawHeaders, reference: str) -> pages.ResponsePage:
        said = self.site.settings.responses
        return pages.refusal(
            decision,
            at=visit.at,
            reference=reference,
            contact=said.contact,
            site=said.site or visit.host,
            **_manner(visit, headers),
        )

    async def _answer(
        self, visit: Visit, decision: Decision, answer: pages.ResponsePage, send: Send, reference: str = ""
    ) -> None:
        self.site.record(visit, decision, answer.status, reference)
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit = self._visit(scope, "GET")
        decision = await self.site.gate.decide_async(visit)
        if decision.action == "pass" or self.site.settings.observe:
            self.site.record(visit, decision, 101)
            await self.app(scope, receive, send)
            return
        await receive()
        reference = new_reference()
        answer = self._refusal(visit, decision, scope["headers"], reference)
        self.site.record(visit, decision, answer.status, reference)
        if "websocket.http.response" in (scope.get("extensions") or {}):
            start = {
                "type": "websocket.http.response.start",
                "status": answer.status,
                "headers": answer.headers,
            }
            await send(start)
            await send({"type": "websocket.http.response.body", "body": answer.body})
        else:
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})


def _leads_nowhere(visit: Visit) -> bool:
    """Whether it asks for one of our links that leads nowhere: changed, or a trap that is held against nobody."""
    return visit.tampered or (visit.marker is not None and visit.marker.kind in _NOWHERE)


def _manner(visit: Visit, headers: RawHeaders) -> dict[str, Any]:
    """How this client wants to be spoken to."""
    return {
        "accept": header(headers, b"accept").decode("latin-1"),
        "kind": visit.kind,
        "method": visit.method,
    }


def _inward(headers: RawHeaders, visit: Visit, *, drop: frozenset[bytes] = frozenset()) -> RawHeaders:
    """
    The headers as the application is to see them.

    Its own ETags, its own addresses as referrers, no cookie of ours, and no coding that we could not undo.
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
            # The name of the one begins that of the other.
            kept = _without_cookie(_without_cookie(value, CLEARANCE_COOKIE), VISITOR_COOKIE)
            if kept:
                changed.append((name, kept))
        else:
            changed.append(pair)
    return changed


def _without_cookie(value: bytes, name: bytes) -> bytes:
    return b";".join(pair for pair in value.split(b";") if pair.partition(b"=")[0].strip() != name).strip()


def _received(receive: Receive) -> Receive:
    """For an application that is asked a second time: the request's body, which a GET has none, came the first time."""
    waiting: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received

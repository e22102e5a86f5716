"""
The admin listener: dashboard, API, health, metrics and lists, at an address of its own for operators.

`access` decides who may ask. The pages of the dashboard and the API are in `web.dashboard`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import IO

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hedgerow.core.attack import visitors_of
from hedgerow.watch.models.panel import MIN_SESSIONS, Panel
from hedgerow.watch.watch import WatchThread
from hedgerow.web.admin.access import LOG_IN, Access, Refused, User, check_form, read_form
from hedgerow.web.admin.lists import JSON, Answer, ListsApi
from hedgerow.web.admin.operation_metrics import OperationCollector
from hedgerow.web.app import Site
from hedgerow.web.asgi_types import Message, Receive, Scope, Send
from hedgerow.web.audit import AuditLog
from hedgerow.web.dashboard.app import Dashboard
from hedgerow.web.dashboard.openapi import API
from hedgerow.web.health import PATHS, Health
from hedgerow.web.response_headers import Headers, header
from hedgerow.web.siblings import open_orders, read_all

_ACTIONS = ("pass", "challenge", "detain", "refuse")
_PATHS = (
    b"/, /api/v1/openapi.json, /live, /ready, /health, /metrics, /blocks, /would-have-blocked, /state, /campaigns, "
    b"/models and /lists"
)
_SEE_OTHER = 303
_TO_START = [(b"location", b"/")]
_CHUNK = 1 << 16
_TEXT = b"text/plain; charset=utf-8"
_HTML = b"text/html; charset=utf-8"
_METRICS = b"text/plain; version=0.0.4; charset=utf-8"
_CSP = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# Not "no-referrer": browsers then send forms with the origin "null", as those of other sites.
_HEADERS = [
    (b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", _CSP), (b"referrer-policy", b"same-origin"), (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"), (b"cross-origin-resource-policy", b"same-origin"),
]  # fmt: skip


class _SiteCollector(Collector):
    """The counts of a site as Prometheus metrics, read at each request."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def collect(self) -> Iterable[Metric]:
        site, state, metrics = self._site, self._site.stores.state, self._site.metrics()
        actions = {action: metrics.decided.get(action, 0) for action in _ACTIONS}
        codes = {code: n for code, n in metrics.decided.items() if code not in _ACTIONS}
        yield _counter("hedgerow_visits", "Visits by what was decided", "action", actions)
        yield _counter("hedgerow_stopped", "Visits that were not passed, by reason", "code", codes)
        would_have = metrics.would_have
        yield _counter(
            "hedgerow_would_have", "Visits that passed while only observing, by what would have been done", "action",
            {action: would_have.get(action, 0) for action in _ACTIONS},
        )  # fmt: skip
        yield _counter(
            "hedgerow_would_have_stopped", "Visits that would not have passed without observing, by reason", "code",
            {code: n for code, n in would_have.items() if code not in _ACTIONS},
        )  # fmt: skip
        yield CounterMetricFamily(
            "hedgerow_would_have_blocked", "Visitors that would have been blocked", metrics.would_have_blocked
        )
        yield _counter("hedgerow_pages_untouched", "Pages without hidden links, by reason", "reason", metrics.untouched)
        yield _counter("hedgerow_upstream_errors", "Failures of the protected site", "kind", metrics.upstream_errors)
        yield _counter(
            "hedgerow_connections_refused", "Connections for which there was no room", "limit",
            metrics.refused_connections,
        )  # fmt: skip
        yield _counter("hedgerow_challenges", "Challenges by what became of them", "event", metrics.challenges)
        yield CounterMetricFamily("hedgerow_blocked", "Visitors blocked", metrics.blocked)
        yield CounterMetricFamily("hedgerow_ledger_lost", "Visits that the ledger lost", metrics.lost)
        yield CounterMetricFamily("hedgerow_state_alone", "Visits decided while Redis was away", metrics.alone)
        yield CounterMetricFamily("hedgerow_state_forgotten", "Visitors forgotten early", metrics.forgotten)
        yield GaugeMetricFamily("hedgerow_state_bytes", "Bytes that counters take", state.bytes_used)
        yield GaugeMetricFamily("hedgerow_state_visitors", "Visitors with counters", len(state))
        listed = GaugeMetricFamily("hedgerow_listed", "Entries of the lists", labels=["list"])
        for name, size in site.lists.sizes.items():
            listed.add_metric([name], size)
        yield listed
        yield GaugeMetricFamily("hedgerow_detained", "Clients detained now", metrics.inside)
        yield CounterMetricFamily("hedgerow_detentions", "Clients detained in all", metrics.admitted)
        yield CounterMetricFamily("hedgerow_detain_full", "Clients for whom there was no room", metrics.turned_away)
        yield GaugeMetricFamily("hedgerow_campaigns", "Campaigns that are remembered", len(site.campaigns()))
        if site.watch is not None:
            yield from _watch_metrics(site.watch, metrics.left_out)


def _watch_metrics(thread: WatchThread, left_out: int) -> Iterator[Metric]:
    watch = thread.watch
    yield CounterMetricFamily("hedgerow_watch_seen", "Visits that the watch has looked at", watch.seen)
    yield CounterMetricFamily("hedgerow_watch_left_out", "Visits left out, the watch fell behind", left_out)
    yield GaugeMetricFamily("hedgerow_watch_waiting", "Visits that wait for the watch", thread.waiting)
    yield GaugeMetricFamily("hedgerow_watch_sessions", "Visitors with a pending session", watch.pending)
    yield _counter("hedgerow_watch_found", "Sessions and members of campaigns by what they are", "as", watch.found)
    judged = CounterMetricFamily(
        "hedgerow_watch_judged", "Judgements by kind and what they were", labels=["kind", "as"]
    )
    shadowed = CounterMetricFamily(
        "hedgerow_watch_shadow", "Judgements by kind, by the model and by its shadow", labels=["kind", "as", "shadow"]
    )
    drift = GaugeMetricFamily(
        "hedgerow_watch_drift", "How far a feature is from the training: stability index, above 0.25 is far",
        labels=["kind", "visits", "feature"],
    )  # fmt: skip
    for panel in watch.panels:
        # Copies, because the watch changes them meanwhile.
        for identity, count in sorted(dict(panel.record.judged).items()):
            judged.add_metric([panel.kind, identity], count)
        for identity, row in sorted(dict(panel.record.compared).items()):
            for outcome, count in sorted(dict(row).items()):
                shadowed.add_metric([panel.kind, identity, outcome], count)
        for one in panel.drift():
            if one.sessions >= MIN_SESSIONS:
                drift.add_metric([panel.kind, str(one.size), one.feature], round(one.drift, 4))
    yield from (judged, shadowed, drift)


def _counter(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in sorted(dict(counts).items()):
        family.add_metric([value], count)
    return family


def collectors(site: Site) -> tuple[Collector, ...]:
    """Return what reads the metrics of a site."""
    return _SiteCollector(site), OperationCollector(site)


class Admin:
    """
    The ASGI application of the admin listener, for one site.

    Several sites share *access*. *registry* and *health* are those of all sites.
    """

    def __init__(
        self,
        site: Site,
        *,
        upstream: str = "",
        access: Access | None = None,
        registry: CollectorRegistry | None = None,
        health: Health | None = None,
    ) -> None:
        self._site = site
        self._access = access or Access()
        self.health = health or Health(site, upstream)
        self._lists = ListsApi(site)
        self._dashboard = Dashboard(site, self.health)
        self._audit = AuditLog(site.app.settings)
        self._registry = CollectorRegistry() if registry is None else registry
        if registry is None:
            for collector in collectors(site):
                self._registry.register(collector)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        scope.setdefault("query_string", b"")
        own = self._site.app.settings.admin
        try:
            if (scope["method"], scope["path"]) == ("POST", "/login"):
                cookie, page = await self._access.log_in(scope, receive, own)
                more = [(b"location", page), (b"set-cookie", cookie)]
                await _send(scope, send, _SEE_OTHER, _TEXT, b"Logged in.\n", more)
                return
            user = self._access.check(scope, own)
            if user is not None and (scope["method"], scope["path"]) == ("POST", "/logout"):
                cookie = self._access.log_out(user)
                await _send(scope, send, _SEE_OTHER, _TEXT, b"Logged out.\n", [*_TO_START, (b"set-cookie", cookie)])
                return
            if _is_of_dashboard(scope["path"]):
                inner = {**scope, "hedgerow.user": user, "hedgerow.may_see": partial(self._may_see, scope)}
                await self._dashboard.app(inner, receive, _with_headers(send))
                return
            status, kind, body = await self._answer(scope, receive, user)
            await _send(scope, send, status, kind, body, _TO_START if status == _SEE_OTHER else [])
        except Refused as refusal:
            await self._refuse(scope, send, refusal)

    def _may_see(self, scope: Scope) -> bool:
        """Return whether a request that is still being answered would be let in now: its session may have ended."""
        try:
            self._access.check(scope, self._site.app.settings.admin)
        except Refused:
            return False
        return True

    async def _refuse(self, scope: Scope, send: Send, refusal: Refused) -> None:
        more = [(b"www-authenticate", b"Bearer")] if refusal.login else []
        if refusal.retry_after:
            more.append((b"retry-after", b"%d" % refusal.retry_after))
        kind, text = _TEXT, refusal.text.encode() + b"\n"
        if refusal.login and b"text/html" in header(scope["headers"], b"accept"):
            kind, text = _HTML, self._dashboard.login_page(scope, "" if refusal.text == LOG_IN else refusal.text)
        elif scope["path"].startswith(("/lists", API)):
            kind, text = JSON, msgspec.json.encode({"error": refusal.text})
        await _send(scope, send, refusal.status, kind, text, more)

    async def _answer(self, scope: Scope, receive: Receive, user: User | None) -> Answer:
        path, method = scope["path"], scope["method"]
        if method in {"GET", "HEAD"} and path in PATHS:
            status, text = await self.health.answer(path)
            return status, _TEXT, text
        if path == "/lists" or path.startswith("/lists/"):
            answer = await self._lists.answer(scope, receive)
            if user is not None and method not in {"GET", "HEAD"} and answer[0] < _SEE_OTHER:
                self._audit.add(user.name, user.address, f"lists.{method.lower()}", path)
            return answer
        if user is not None and method == "POST" and path == "/forgive":
            return await self._forgive(scope, receive, user)
        if method not in {"GET", "HEAD"}:
            return 405, _TEXT, b"GET, or POST to /forgive and /lists.\n"
        return self._read(path)

    def _read(self, path: str) -> Answer:
        match path:
            case "/metrics":
                return 200, _METRICS, generate_latest(self._registry)
            case "/blocks":
                return 200, JSON, msgspec.json.encode(self._site.blocks(time.time()))
            case "/would-have-blocked":
                found = self._site.stores.state.blocks(time.time()) if self._site.app.settings.observe else ()
                blocks = visitors_of(found)
                return 200, JSON, msgspec.json.encode(blocks)
            case "/state":
                observes, (every, scores) = bool(self._site.app.settings.observe), read_all(self._site, time.time())
                return 200, JSON, msgspec.json.encode({"observing": observes, "blocks": every, "scores": scores})
            case "/campaigns":
                return 200, JSON, msgspec.json.encode(self._site.campaigns())
            case "/models":
                return 200, JSON, msgspec.json.encode([panel.status() for panel in self._panels()])
        return (
            404,
            _TEXT,
            b"There are " + _PATHS + b".\n",
        )

    async def _forgive(self, scope: Scope, receive: Receive, user: User) -> Answer:
        form = await read_form(receive)
        if user.session is not None:
            check_form(user, scope, form.get("form_token", [""])[0])
        key = form.get("key", [""])[0]
        with open_orders(self._site) as order:
            forgiven = order(key, None)
        if forgiven is None:
            return 202, _TEXT, b"Redis does not answer. The visitor will be forgiven as soon as it does.\n"
        if not forgiven:
            return 404, _TEXT, b"Nobody of that name is blocked.\n"
        self._audit.add(user.name, user.address, "visitors.forgive", key)
        return 303, _TEXT, b"Forgiven.\n"

    def _panels(self) -> Sequence[Panel]:
        return self._site.watch.watch.panels if self._site.watch is not None else ()


def _is_of_dashboard(path: str) -> bool:
    return path == "/" or path.startswith(("/dashboard/", "/static/", API + "/"))


def _with_headers(send: Send) -> Send:
    """Return a `send` that adds the headers of all responses, unless a response has its own."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name for name, _ in message["headers"]}
            more = [pair for pair in _HEADERS if pair[0] not in given]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


async def _send(scope: Scope, send: Send, status: int, kind: bytes, body: bytes | IO[bytes], more: Headers) -> None:
    size = len(body) if isinstance(body, bytes) else os.fstat(body.fileno()).st_size
    # Without a body there is nothing to describe.
    about_body = [(b"content-type", kind), (b"content-length", b"%d" % size)] if status != 204 else []  # noqa: PLR2004
    await send({"type": "http.response.start", "status": status, "headers": [*about_body, *_HEADERS, *more]})
    if not isinstance(body, bytes):
        with body:
            while scope["method"] != "HEAD" and (piece := await asyncio.to_thread(body.read, _CHUNK)):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        body = b""
    await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})

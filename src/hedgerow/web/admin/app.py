"""
The admin listener: overview, health, metrics, blocks and lists, at an address of its own for operators.

`access` decides who may ask.
"""

from __future__ import annotations

import asyncio
import html
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import IO

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hedgerow.core.attack import visitors_of
from hedgerow.watch.models.panel import MIN_SESSIONS, Panel
from hedgerow.watch.watch import WatchThread
from hedgerow.web import health
from hedgerow.web.admin.access import Access, Refused, login_page, read_form
from hedgerow.web.admin.lists import JSON, Answer, ListsApi
from hedgerow.web.admin.operation_metrics import OperationCollector
from hedgerow.web.app import Site
from hedgerow.web.asgi_types import Receive, Scope, Send
from hedgerow.web.response_headers import Headers, header

_ACTIONS = ("pass", "challenge", "detain", "refuse")
_PAST = {"challenge": "challenged", "detain": "detained", "refuse": "refused"}
_MODES: dict[bool | str, str] = {
    False: "enforcing",
    True: "observing only: nothing is enforced, and no response is changed",
    "links": "observing only: links are marked, nothing is enforced",
}
_ATTACK = ", under attack: every visitor without a clearance needs one"
_NOBODY = {False: "Nobody is blocked.", True: "Nobody would have been blocked."}
_PATHS = b"/, /live, /ready, /health, /metrics, /blocks, /would-have-blocked, /campaigns, /models and /lists"
_MAX_ROWS = 200
_MAX_MEMBERS = 20
_MARKUP = frozenset({"counts", "rows", "campaigns", "models", "logout"})
_LOG_OUT = '<form method="post" action="/logout"><button>Log out</button></form>'
_SEE_OTHER = 303
_CHUNK = 1 << 16
_TEXT = b"text/plain; charset=utf-8"
_HTML = b"text/html; charset=utf-8"
_METRICS = b"text/plain; version=0.0.4; charset=utf-8"
_CSP = b"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
_HEADERS = [
    (b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", _CSP),
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


def _row(*cells: str) -> str:
    """Return a row of a table; *cells* are HTML."""
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


class Admin:
    """The ASGI application of the admin listener."""

    def __init__(self, site: Site, *, upstream: str = "") -> None:
        self._site = site
        self._access = Access()
        self._health = health.Health(site, upstream)
        self._lists = ListsApi(site)
        self._registry = CollectorRegistry()
        self._registry.register(_SiteCollector(site))
        self._registry.register(OperationCollector(site))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, kind, body, more = await self._permitted_answer(scope, receive)
        size = len(body) if isinstance(body, bytes) else os.fstat(body.fileno()).st_size
        # Without a body there is nothing to describe.
        about_body = [(b"content-type", kind), (b"content-length", b"%d" % size)] if status != 204 else []  # noqa: PLR2004
        location = [(b"location", b"/")] if status == _SEE_OTHER else []
        headers = [*about_body, *_HEADERS, *location, *more]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if not isinstance(body, bytes):
            with body:
                while scope["method"] != "HEAD" and (piece := await asyncio.to_thread(body.read, _CHUNK)):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            body = b""
        await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})

    async def _permitted_answer(self, scope: Scope, receive: Receive) -> tuple[int, bytes, bytes | IO[bytes], Headers]:
        """Return status, content type, body and further headers."""
        own = self._site.app.settings.admin
        try:
            if (scope["method"], scope["path"]) == ("POST", "/login"):
                cookie = await self._access.log_in(scope, receive, own)
                return _SEE_OTHER, _TEXT, b"Logged in.\n", [(b"set-cookie", cookie)]
            self._access.check(scope, own)
            if (scope["method"], scope["path"]) == ("POST", "/logout"):
                return _SEE_OTHER, _TEXT, b"Logged out.\n", [(b"set-cookie", self._access.log_out())]
            return *(await self._answer(scope, receive)), []
        except Refused as refusal:
            more = [(b"www-authenticate", b"Bearer")] if refusal.login else []
            if refusal.login and b"text/html" in header(scope["headers"], b"accept"):
                return refusal.status, _HTML, login_page(refusal.text), more
            if scope["path"] == "/lists" or scope["path"].startswith("/lists/"):
                return refusal.status, JSON, msgspec.json.encode({"error": refusal.text}), more
            return refusal.status, _TEXT, refusal.text.encode() + b"\n", more

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path, method = scope["path"], scope["method"]
        if method in {"GET", "HEAD"} and path in health.PATHS:
            status, text = await self._health.answer(path)
            return status, _TEXT, text
        if path == "/lists" or path.startswith("/lists/"):
            return await self._lists.answer(scope, receive)
        if method == "POST" and path == "/forgive":
            return await self._forgive(receive)
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
            case "/campaigns":
                return 200, JSON, msgspec.json.encode(self._site.campaigns())
            case "/models":
                return 200, JSON, msgspec.json.encode([panel.status() for panel in self._panels()])
            case "/":
                return 200, _HTML, self._overview().encode("utf-8", "replace")
        return (
            404,
            _TEXT,
            b"There are " + _PATHS + b".\n",
        )

    async def _forgive(self, receive: Receive) -> Answer:
        key = (await read_form(receive)).get("key", [""])[0]
        forgiven = self._site.stores.state.forgive(key)
        if forgiven is None:
            return 202, _TEXT, b"Redis does not answer. The visitor will be forgiven as soon as it does.\n"
        if not forgiven:
            return 404, _TEXT, b"Nobody of that name is blocked.\n"
        return 303, _TEXT, b"Forgiven.\n"

    def _overview(self) -> str:
        template = files("hedgerow.data").joinpath("overview.html").read_text("utf-8")
        site, metrics = self._site, self._site.metrics()
        settings, state = site.app.settings, site.stores.state
        numbers = {action: metrics.decided.get(action, 0) for action in _ACTIONS}
        counts = {action: number for action, number in numbers.items() if number or action != "challenge"}
        counts |= {f"would have {_PAST[a]}": n for a, n in metrics.would_have.items() if a in _PAST}
        values = {
            "mode": _MODES[settings.observe] + (_ATTACK if site.attack_until(time.time()) else ""),
            "blocked": "Would have blocked" if settings.observe else "Blocked",
            "upstream": settings.proxy.upstream,
            "counts": "".join(f"<li><b>{n:,}</b> {html.escape(action)}</li>" for action, n in counts.items()),
            "visitors": f"{len(state):,} visitors in {state.bytes_used / 1e6:,.1f} MB",
            "detained": f"{metrics.inside} now, {metrics.admitted:,} in all",
            "rows": "".join(self._blocks()) or f'<tr><td colspan="4">{_NOBODY[bool(settings.observe)]}</td></tr>',
            "campaigns": "".join(self._campaigns()) or '<tr><td colspan="3">None.</td></tr>',
            "logout": _LOG_OUT if settings.admin.token else "",
            "models": "".join(self._models()) or '<tr><td colspan="4">None here.</td></tr>',
        }
        for name, value in values.items():
            template = template.replace(f"{{{name}}}", value if name in _MARKUP else html.escape(value))
        return template

    def _campaigns(self) -> Iterator[str]:
        for campaign in list(reversed(self._site.campaigns()))[:_MAX_ROWS]:
            members = html.escape(", ".join(campaign.members[:_MAX_MEMBERS]))
            more = len(campaign.members) - _MAX_MEMBERS
            others = f" and {more:,} more" if more > 0 else ""
            yield _row(html.escape(campaign.id), html.escape(campaign.text), members + others)

    def _panels(self) -> Sequence[Panel]:
        return self._site.watch.watch.panels if self._site.watch is not None else ()

    def _models(self) -> Iterator[str]:
        for panel in self._panels():
            record = panel.record
            judged = ", ".join(f"{count:,} {name}" for name, count in sorted(dict(record.judged).items()))
            shadow = "none"
            if panel.shadow is not None:
                shadow = f"{panel.shadow.name}: agrees in {record.agreed:,} of {record.sessions:,}"
            cells = (f"{panel.kind}: {panel.bundle.name}", judged or "nobody yet", shadow, panel.warning() or "none")
            yield _row(*map(html.escape, cells))

    def _blocks(self) -> Iterator[str]:
        now = time.time()
        for block in list(reversed(visitors_of(self._site.stores.state.blocks(now))))[:_MAX_ROWS]:
            key = html.escape(block.key)
            forgive = (
                f'<form method="post" action="/forgive"><input type="hidden" name="key" value="{key}">'
                f'<button aria-label="Forgive {key}">Forgive</button></form>'
            )
            yield _row(key, html.escape(block.evidence.text), f"{max(1, round((block.until - now) / 60))} min", forgive)

"""
The admin listener: overview, health, metrics, blocks, lists. Its own address, for operators only.

It answers only when it is spoken to by the name it listens under, or as localhost: a page elsewhere in an operator's
browser must not reach it by a name of its own (DNS rebinding), nor post to it.
"""

from __future__ import annotations

import asyncio
import html
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import IO
from urllib.parse import parse_qs

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hedgerow.settings.checks import split_listen
from hedgerow.watch.models.drift import ENOUGH
from hedgerow.watch.models.panel import Panel
from hedgerow.watch.watch import WatchThread
from hedgerow.web.admin.lists import ListsApi
from hedgerow.web.app import Site
from hedgerow.web.asgi_types import Message, Receive, Scope, Send
from hedgerow.web.response_headers import header

_ACTIONS = ("pass", "challenge", "detain", "refuse")
_PORT = re.compile(r":\d+\Z", re.ASCII)
_SHOWN = 200
_MEMBERS_SHOWN = 20
_MARKUP = frozenset({"counts", "rows", "campaigns", "models"})
_LARGEST_POST = 10_000
_TEXT = b"text/plain; charset=utf-8"
_JSON = b"application/json"
_HTML = b"text/html; charset=utf-8"
_PIECE = 1 << 16

Answer = tuple[int, bytes, bytes | IO[bytes]]


class _SiteCollector(Collector):
    """What a site has counted, as Prometheus metrics, read when somebody asks."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def collect(self) -> Iterable[Metric]:
        site, metrics = self._site, self._site.metrics()
        yield _counter("hedgerow_visits", "Visits by what was decided", "action", metrics.decided, _ACTIONS)
        codes = {code: n for code, n in metrics.decided.items() if code not in _ACTIONS}
        yield _counter("hedgerow_stopped", "Visits that were not passed, by reason", "code", codes)
        yield _counter("hedgerow_pages_untouched", "Pages without hidden links, by reason", "reason", metrics.untouched)
        yield _counter("hedgerow_upstream_errors", "Failures of the protected site", "kind", metrics.upstream_errors)
        yield _counter("hedgerow_challenges", "Challenges by what became of them", "event", metrics.challenges)
        yield CounterMetricFamily("hedgerow_blocked", "Visitors blocked", metrics.blocked)
        yield CounterMetricFamily("hedgerow_ledger_lost", "Visits that the ledger lost", metrics.lost)
        yield CounterMetricFamily("hedgerow_state_alone", "Visits decided while Redis was away", metrics.alone)
        yield CounterMetricFamily("hedgerow_state_forgotten", "Visitors forgotten early", metrics.forgotten)
        yield GaugeMetricFamily("hedgerow_state_bytes", "Bytes that counters take", site.stores.state.spent)
        yield GaugeMetricFamily("hedgerow_state_visitors", "Visitors with counters", len(site.stores.state))
        listed = GaugeMetricFamily("hedgerow_listed", "Entries of the lists", labels=["list"])
        for name, size in site.lists.sizes.items():
            listed.add_metric([name], size)
        yield listed
        yield GaugeMetricFamily("hedgerow_detained", "Clients detained now", metrics.inside)
        yield CounterMetricFamily("hedgerow_detentions", "Clients detained in all", metrics.admitted)
        yield CounterMetricFamily("hedgerow_detain_full", "Clients for whom there was no room", metrics.turned_away)
        yield GaugeMetricFamily("hedgerow_campaigns", "Campaigns that are remembered", len(site.campaigns()))
        if site.watch is not None:
            yield from _watched(site.watch, metrics.left_out)


def _watched(beside: WatchThread, left_out: int) -> Iterator[Metric]:
    """What the watch has counted."""
    watch = beside.watch
    yield CounterMetricFamily("hedgerow_watch_seen", "Visits that the watch has looked at", watch.seen)
    yield CounterMetricFamily("hedgerow_watch_left_out", "Visits left out, the watch fell behind", left_out)
    yield GaugeMetricFamily("hedgerow_watch_waiting", "Visits that wait for the watch", beside.waiting)
    yield GaugeMetricFamily("hedgerow_watch_sessions", "Visitors with a pending session", watch.pending)
    yield _counter("hedgerow_watch_found", "Sessions and members of campaigns by what they are", "as", watch.found)
    judged = CounterMetricFamily(
        "hedgerow_watch_judged", "Judgements by kind and what they were", labels=["kind", "as"]
    )
    shadowed = CounterMetricFamily(
        "hedgerow_watch_shadow", "Judgements by kind, by the model and by its shadow", labels=["kind", "as", "shadow"]
    )
    drift = GaugeMetricFamily(
        "hedgerow_watch_drift",
        "How far a feature is from the training: stability index, above 0.25 is far",
        labels=["kind", "visits", "feature"],
    )
    for panel in watch.panels:
        # Copies: the watch goes on while we look.
        for identity, count in sorted(dict(panel.record.judged).items()):
            judged.add_metric([panel.kind, identity], count)
        for identity, row in sorted(dict(panel.record.compared).items()):
            for said, count in sorted(dict(row).items()):
                shadowed.add_metric([panel.kind, identity, said], count)
        for moved in panel.moved():
            if moved.sessions >= ENOUGH:
                drift.add_metric([panel.kind, str(moved.size), moved.feature], round(moved.off, 4))
    yield from (judged, shadowed, drift)


def _counter(name: str, text: str, label: str, counts: dict[str, int], known: Iterable[str] = ()) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for value in sorted({*known, *(v for v in counts if not known)}):
        family.add_metric([value], counts.get(value, 0))
    return family


def _size(body: bytes | IO[bytes]) -> int:
    return len(body) if isinstance(body, bytes) else os.fstat(body.fileno()).st_size


def _is_from_elsewhere(scope: Scope) -> bool:
    """Whether a page of another site sends this request."""
    origin = header(scope["headers"], b"origin").decode("latin-1")
    site = header(scope["headers"], b"sec-fetch-site")
    elsewhere = origin != "" and origin.partition("://")[2] != header(scope["headers"], b"host").decode("latin-1")
    return elsewhere or site not in {b"", b"same-origin", b"none"}


class Admin:
    """The ASGI application of the admin listener."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lists = ListsApi(site)
        self._registry = CollectorRegistry()
        self._registry.register(_SiteCollector(site))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, kind, body = await self._answer(scope, receive)
        headers = [
            (b"content-type", kind),
            (b"content-length", b"%d" % _size(body)),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
            (
                b"content-security-policy",
                b"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'",
            ),
        ]
        if status == 303:  # noqa: PLR2004
            headers.append((b"location", b"/"))
        if status == 204:  # noqa: PLR2004 - without a body there is nothing to describe
            del headers[:2]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if not isinstance(body, bytes):
            with body:
                while scope["method"] != "HEAD" and (piece := await asyncio.to_thread(body.read, _PIECE)):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            body = b""
        await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        if not self._is_for_us(scope):
            return 421, _TEXT, b"Speak to the admin listener by its own address.\n"
        path, method = scope["path"], scope["method"]
        if method not in {"GET", "HEAD"} and _is_from_elsewhere(scope):
            return 403, _TEXT, b"Not from another site.\n"
        if path == "/lists" or path.startswith("/lists/"):
            return await self._lists.answer(scope, receive)
        if method == "POST" and path == "/forgive":
            return await self._forgive(receive)
        if method not in {"GET", "HEAD"}:
            return 405, _TEXT, b"GET, or POST to /forgive and /lists.\n"
        if path == "/health":
            return 200, _TEXT, b"well\n"
        if path == "/metrics":
            return 200, b"text/plain; version=0.0.4; charset=utf-8", generate_latest(self._registry)
        if path == "/blocks":
            return 200, _JSON, msgspec.json.encode(self._site.stores.state.blocks(time.time()))
        if path == "/campaigns":
            return 200, _JSON, msgspec.json.encode(self._site.campaigns())
        if path == "/models":
            return 200, _JSON, msgspec.json.encode([panel.told() for panel in self._panels()])
        if path == "/":
            return 200, _HTML, self._overview().encode("utf-8", "replace")
        return 404, _TEXT, b"There are /, /health, /metrics, /blocks, /campaigns, /models and /lists.\n"

    def _is_for_us(self, scope: Scope) -> bool:
        host = _PORT.sub("", header(scope["headers"], b"host").decode("latin-1").lower())
        names = {"localhost", "127.0.0.1", "::1"}
        if self._site.app.settings.admin.listen:
            names.add(split_listen(self._site.app.settings.admin.listen)[0].lower())
        if server := scope.get("server"):
            names.add(server[0])
        return host != "" and host.removeprefix("[").removesuffix("]") in names

    async def _forgive(self, receive: Receive) -> Answer:
        body = b""
        message: Message = {"more_body": True}
        while message.get("more_body") and len(body) < _LARGEST_POST:
            message = await receive()
            body += message.get("body", b"")
        key = parse_qs(body.decode("latin-1"), encoding="utf-8", errors="replace").get("key", [""])[0]
        forgiven = self._site.stores.state.forgive(key)
        if forgiven is None:
            return 202, _TEXT, b"Redis does not answer. Who has this name is forgiven as soon as it does.\n"
        if not forgiven:
            return 404, _TEXT, b"Nobody of that name is blocked.\n"
        return 303, _TEXT, b"Forgiven.\n"

    def _overview(self) -> str:
        template = files("hedgerow.data").joinpath("overview.html").read_text("utf-8")
        site, metrics = self._site, self._site.metrics()
        numbers = {action: metrics.decided.get(action, 0) for action in _ACTIONS}
        counts = {action: number for action, number in numbers.items() if number or action != "challenge"}
        values = {
            "mode": "observing only, nothing is enforced" if site.app.settings.observe else "enforcing",
            "upstream": site.app.settings.proxy.upstream,
            "counts": "".join(f"<li><b>{n:,}</b> {html.escape(action)}</li>" for action, n in counts.items()),
            "visitors": f"{len(site.stores.state):,} visitors in {site.stores.state.spent / 1e6:,.1f} MB",
            "detained": f"{metrics.inside} now, {metrics.admitted:,} in all",
            "rows": "".join(self._rows()) or '<tr><td colspan="4">Nobody is blocked.</td></tr>',
            "campaigns": "".join(self._campaigns()) or '<tr><td colspan="3">None.</td></tr>',
            "models": "".join(self._models()) or '<tr><td colspan="4">None here.</td></tr>',
        }
        for name, value in values.items():
            template = template.replace(f"{{{name}}}", value if name in _MARKUP else html.escape(value))
        return template

    def _campaigns(self) -> Iterator[str]:
        for campaign in list(reversed(self._site.campaigns()))[:_SHOWN]:
            members = ", ".join(campaign.members[:_MEMBERS_SHOWN])
            more = len(campaign.members) - _MEMBERS_SHOWN
            yield (
                f"<tr><td>{html.escape(campaign.id)}</td><td>{html.escape(campaign.text)}</td>"
                f"<td>{html.escape(members)}{f' and {more:,} more' if more > 0 else ''}</td></tr>"
            )

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
            yield "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"

    def _rows(self) -> Iterator[str]:
        now = time.time()
        for block in list(reversed(self._site.stores.state.blocks(now)))[:_SHOWN]:
            key = html.escape(block.key)
            yield (
                f"<tr><td>{key}</td><td>{html.escape(block.evidence.text)}</td>"
                f"<td>{max(1, round((block.until - now) / 60))} min</td>"
                f'<td><form method="post" action="/forgive"><input type="hidden" name="key" value="{key}">'
                f'<button aria-label="Forgive {key}">Forgive</button></form></td></tr>'
            )

"""
The composition root: from settings to everything that serves a site.

`build_app` makes an immutable `App` from one set of settings. A `Site` has what outlives it: stores, threads and
counters. To reload, a site builds a second `App` and swaps it with the first; requests in progress keep theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol

import msgspec

from hedgerow.challenge.clearance import Clearances
from hedgerow.challenge.interfaces import ChallengeHooks
from hedgerow.core.attack import AttackSwitch, attack_of, visitors_of
from hedgerow.core.daily_limits import DailyLimits
from hedgerow.core.decision import Block, Campaign, Decision
from hedgerow.core.gate import Gate, OnDecision
from hedgerow.core.ledger import Ledger, NoLedger
from hedgerow.core.page_times import PageTimes
from hedgerow.core.visit import Visit
from hedgerow.detectors.driven_browser import SignsSettings
from hedgerow.errors import SettingsError, StoreError
from hedgerow.lists.model import Lists
from hedgerow.markers.rewrite import SkeletonCache
from hedgerow.markers.rules import Rules
from hedgerow.markers.token import PageDigests, TokenCodecs
from hedgerow.request.account import AccountOf
from hedgerow.request.bot_cache import BotCache
from hedgerow.settings import Settings
from hedgerow.settings.checks import split_listen
from hedgerow.settings.tables import BotsSettings
from hedgerow.state.store import StateStore
from hedgerow.traps.maze import Maze
from hedgerow.traps.tarpit import Tarpit
from hedgerow.watch.relay import Intake
from hedgerow.watch.session_store import WatchSnapshot
from hedgerow.watch.watch import WatchThread
from hedgerow.web.alerts import AlertsThread
from hedgerow.web.audit import COMPLAINTS, AuditLog
from hedgerow.web.bots import refused_bots
from hedgerow.web.challenge.endpoint import ChallengeEndpoint
from hedgerow.web.daily_limits import DailyLimitsThread
from hedgerow.web.gate import (
    build_engine,
    build_identifier,
    build_policy,
    build_rules,
    configure_bot_cache,
    unmarked,
    with_hidden_links,
)
from hedgerow.web.list_review import review_own
from hedgerow.web.lookups.dns import DnsResolver
from hedgerow.web.lookups.thread import LookupThread
from hedgerow.web.metrics import SiteCounters, SiteMetrics, running_metrics, sum_metrics
from hedgerow.web.paths import state_directory
from hedgerow.web.request_log import RequestLog
from hedgerow.web.response_pages import license_link
from hedgerow.web.run_file import RunFile
from hedgerow.web.stores import (
    SiteStores,
    build_list_follower,
    build_state,
    build_stores,
    build_token_codecs,
    rate_limits,
)
from hedgerow.web.subscriptions import SubscriptionThread
from hedgerow.web.sync_driver import ThreadWaiter
from hedgerow.web.waiter import ON_LOOP, Waiter
from hedgerow.web.watch import build_panels, build_sessions, build_watch, configure_watch

if TYPE_CHECKING:
    from hedgerow.web.traces import Tracer


@dataclass(frozen=True)
class App:
    """Everything that answers requests under one set of settings."""

    settings: Settings
    gate: Gate
    tokens: TokenCodecs
    rules: Rules
    challenges: ChallengeEndpoint
    tarpit: Tarpit
    maze: Maze | None
    """None if nobody is detained."""
    skeletons: SkeletonCache
    is_neutral: bool
    """Whether the site only observes, and no response is changed."""
    clears_silently: bool
    """Whether pages get the script by which browsers obtain a clearance."""
    reports_signs: bool
    """Whether that script reports how pages are used."""
    refused_agents: tuple[str, ...]
    """Names, in robots.txt, of the bots that are refused."""
    changes_pages: bool
    """Whether pages get bait or marked links; robots.txt then tells polite bots to keep off these."""
    changes_robots: bool
    license_link: bytes
    """The Link header of pages with the terms of the site, or b""."""
    counters: SiteCounters
    page_times: PageTimes
    """How long the site takes for its pages."""
    waiter: Waiter
    log: RequestLog
    request_id: bytes
    """The header with the id of a request; empty if there is none."""
    dropped: frozenset[bytes]
    """The same as a set: what a client sends under this name is not passed on."""


class SupportsClose(Protocol):
    def close(self) -> None: ...


StoreFactory = Callable[[Settings, Ledger | None], SiteStores]
"""Builds the stores for settings, with the ledger if there is one already."""


@dataclass(frozen=True)
class _Backend:
    """The stores of a site and its watch. A site that observes has others than one that enforces."""

    stores: SiteStores
    watch: WatchThread | None
    shared_watch: Thread | None
    on_decision: OnDecision | None


def build_app(settings: Settings, site: Site, previous: App | None = None) -> App:
    """Build an application. It changes nothing that *previous* uses, so faulty settings do no harm."""
    stores, counters, contains = site.stores, site.counters, settings.containment
    effective = unmarked(settings) if settings.is_neutral else settings
    tokens = build_token_codecs(settings) if site.tokens is None else site.tokens
    rules = build_rules(effective)
    clearances = Clearances(tokens, seconds=settings.challenge.clear_for, clearance_usage=stores.clearance_usage)
    gate = Gate(
        build_engine(
            effective, site.pages, rules, site.lists, page_times=site.page_times, daily_limits=site.daily_limits,
            attack=site.attack,
        ),
        stores.state, stores.ledger,
        build_identifier(
            settings, tokens, site.bot_cache, site.account_of, clearances,
            sets_cookies=settings.clears_silently and contains.enabled is not False and not contains.above_rate,
        ),
        site.pages, counters.decided, counters.would_have,
    )  # fmt: skip
    gate.observes = "neutral" if settings.is_neutral else "links" if settings.observe else ""
    gate.needs_ledger = settings.ledger.on_failure == "closed"
    gate.on_decision = site.on_decision
    gate.on_stopped = site.note_stopped
    gate.on_block = site.on_block
    gate.attack = site.attack
    detain = settings.detain
    if previous is not None:
        gate.blocked, gate.would_have_blocked = previous.gate.blocked, previous.gate.would_have_blocked
    if previous is not None and previous.settings.detain == detain:
        tarpit = previous.tarpit
    else:
        tarpit = Tarpit(detain.connections, detain.memory, detain.seconds)
    refused_agents = tuple(bot.robots for bot in refused_bots(settings) if bot.robots)
    changes_pages = with_hidden_links(effective).traps.enabled or rules.marks
    request_id = settings.logging.request_id.lower().encode()
    return App(
        settings=settings,
        gate=gate,
        tokens=tokens,
        rules=rules,
        challenges=ChallengeEndpoint(
            settings,
            tokens,
            stores.used_challenges,
            site.hooks or gate,
            clearances,
            counters.challenges,
            site.waiter,
            gate.reported,
            gate.engine.paths,
        ),
        tarpit=tarpit,
        # A maze takes 30 ms to generate, so there is one only if somebody may be led into it.
        maze=Maze(settings.marker.prefix, tokens.seed) if gate.engine.policy.detains else None,
        # Its entries depend on the rules and the prefix.
        skeletons=SkeletonCache(),
        is_neutral=settings.is_neutral,
        clears_silently=settings.clears_silently,
        reports_signs=settings.table(SignsSettings).enabled,
        refused_agents=refused_agents,
        changes_pages=changes_pages,
        changes_robots=changes_pages or (bool(refused_agents or settings.bots.license) and not settings.is_neutral),
        license_link=license_link(settings.bots.license) if not settings.is_neutral else b"",
        counters=counters,
        page_times=site.page_times,
        waiter=site.waiter,
        log=site.log,
        request_id=request_id,
        dropped=frozenset({request_id}),
    )


@dataclass(frozen=True)
class PreparedReload:
    """Other settings, ready to be used. Exactly one of both must be called, and neither can fail."""

    apply: Callable[[], None]
    discard: Callable[[], None]


class Site:
    """
    A site that is served: its stores, threads and counters, and the `App` of the current settings.

    Without *tokens* the key file is read, again with each reload. *hooks* receives the outcomes of challenges instead
    of the gate. Without *lists* those of the settings' store are used, as they change; *common_lists* of several sites
    count beside them. A passed *state* is not closed.

    What the site finds while it observes is in stores of its own, and the watch of that time has sessions of its own.
    So none of it has consequences when a reload or a restart ends the observing.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        tokens: TokenCodecs | None = None,
        stores: StoreFactory | None = None,
        state: StateStore | None = None,
        ledger: Ledger | None = None,
        account_of: AccountOf | None = None,
        hooks: ChallengeHooks | None = None,
        lists: Lists | None = None,
        name: str = "",
        common_lists: Lists | None = None,
    ) -> None:
        self.name = name
        """Its name if it is one of several; the site at the top level of the settings has none."""
        self.on_block: Callable[[Block], None] | None = None
        if tokens is None:
            # Before anything is opened: a faulty key file stops the start.
            build_token_codecs(settings)
        self.tracer = _build_tracer(settings, name)
        self.tokens = tokens
        self.account_of = account_of
        self.hooks = hooks
        self.waiter: Waiter = ON_LOOP
        self._passed_state = state
        self._store_factory = self._build_stores if stores is None else stores
        self._stop_watching = Event()
        # By whether the site observes.
        self._backends: dict[bool, _Backend] = {}
        self._backend = self._backend_for(settings, ledger)
        self.run_file: RunFile | None = None
        """By which commands find a site that no other process has written down."""
        self.config: Path | None = None
        """The file of the settings, if there is one."""
        self.request_reload: Callable[[], None] | None = None
        """Makes all processes of the service read the settings again. A middleware has none."""
        self.admin: SupportsClose | None = None
        """The admin listener of a middleware."""
        self.closed = False
        self.closing = False
        """Set when the site is about to stop, so that detained clients are released."""
        self.follower = build_list_follower(settings, common_lists) if lists is None else None
        if self.follower is not None:
            self.follower.start()
            lists = self.follower.lists
        self.lists = Lists() if lists is None else lists
        self.pages = PageDigests()
        self.bot_cache = BotCache()
        self.bot_cache.keys.mark_used = self.stores.used_challenges.mark_used
        self.counters = SiteCounters()
        self.log = RequestLog(settings.logging, name)
        self.page_times = PageTimes()
        self.daily_limits = DailyLimits()
        self.attack = AttackSwitch()
        self._limits_thread = self._start_limits(settings)
        self._subscriptions = self._start_subscriptions(settings)
        self._alerts: AlertsThread | None = None
        self.certificate_problem = ""
        """Why no new certificate can be obtained; the one in use may still be valid."""
        self.lookups = self._start_lookups(settings.bots)
        self.app = build_app(settings, self)
        self._configure(settings)
        self._intake = self._start_intake()
        self._alerts = self._start_alerts(settings)

    @property
    def stores(self) -> SiteStores:
        return self._backend.stores

    @property
    def watch(self) -> WatchThread | None:
        """The watch of this process, if it runs here and is not shared."""
        return self._backend.watch

    @property
    def on_decision(self) -> OnDecision | None:
        return self._backend.on_decision

    def reload(self, settings: Settings) -> None:
        """Apply other settings and read the keys again. After an exception the old settings stay in force."""
        self.prepare(settings).apply()

    def prepare(self, settings: Settings) -> PreparedReload:
        """Do everything that can fail about other settings. Until they are applied, the old ones stay in force."""
        panels = build_panels(settings) if self.watch is not None else None
        previous, backend = self.app, self._backend
        try:
            self._backend = prepared = self._backend_for(settings, self.stores.ledger)
            app = build_app(settings, self, self.app)
        finally:
            self._backend = backend

        def apply() -> None:
            self._backend = prepared
            if settings.bots != previous.settings.bots:
                self.lookups.close()
                self.lookups = self._start_lookups(settings.bots)
            self._configure(settings)
            if self.stores.shared_watch is not None:
                self.stores.shared_watch.reload(settings)
            if self.watch is not None and panels is not None:
                configure_watch(self.watch.watch, settings, app.gate.engine.policy, panels)
            self.app = app
            previous.challenges.close()

        return PreparedReload(apply, app.challenges.close)

    def set_waiter(self, waiter: Waiter) -> None:
        """Use another waiter than that of an event loop."""
        if waiter is self.waiter:
            return
        self.waiter = waiter
        if isinstance(waiter, ThreadWaiter):
            self.stores.state.use_threads(waiter.run_blocking)
        previous, self.app = self.app, build_app(self.app.settings, self, self.app)
        previous.challenges.close()

    def _configure(self, settings: Settings) -> None:
        """Apply the settings to everything that outlives a reload."""
        self.bot_cache.robots_compliance.revoked_bots = self.stores.revoked_bots
        self.stores.state.use_limits(rate_limits(settings))
        self.stores.clearance_usage.configure(
            networks=settings.challenge.networks, window=settings.challenge.share_window
        )  # fmt: skip
        configure_bot_cache(self.bot_cache, settings)
        self.log.configure(settings.logging)

    # ---- Stores

    def _build_stores(self, settings: Settings, ledger: Ledger | None) -> SiteStores:
        if self._passed_state is None:
            return build_stores(settings, ledger=ledger)
        # The passed state is that of the first settings.
        return build_stores(
            settings, state=build_state(settings) if self._backends else self._passed_state, ledger=ledger
        )

    def _backend_for(self, settings: Settings, ledger: Ledger | None) -> _Backend:
        """Return the stores and the watch for these settings, and start them if they are not in use yet."""
        observes = bool(settings.observe)
        if observes not in self._backends:
            stores = self._store_factory(settings, ledger)
            if isinstance(self.waiter, ThreadWaiter):
                stores.state.use_threads(self.waiter.run_blocking)
            watch = _start_watch(settings, stores)
            observer = watch if stores.relay is None else stores.relay
            self._backends[observes] = _Backend(
                stores, watch, self._start_shared_watch(stores), observer.add if observer is not None else None
            )
        return self._backends[observes]

    async def disconnect(self) -> None:
        """Close what belongs to the running event loop."""
        for backend in self._backends.values():
            await backend.stores.state.disconnect()

    # ---- Threads

    def _start_intake(self) -> Intake | None:
        if self.stores.visit_socket is None or self.watch is None:
            return None
        return Intake(self.stores.visit_socket, self._take_in, self._miss)

    def _take_in(self, visit: Visit, decision: Decision) -> None:
        """Pass a visit of another process on to the watch of its kind. Processes do not reload at the same moment."""
        backend = self._backends.get(decision.observed != "")
        if backend is not None and backend.watch is not None:
            backend.watch.add(visit, decision)

    def _miss(self, visitor: str) -> None:
        for backend in self._backends.values():
            if backend.watch is not None:
                backend.watch.miss(visitor)

    def _start_lookups(self, bots: BotsSettings) -> LookupThread:
        """Start the lookups about bots that the settings allow."""
        resolver = DnsResolver(split_listen(bots.resolver) if bots.resolver else None)
        lookups = LookupThread(self.bot_cache, resolver, insecure=bots.insecure_directories)
        if not (bots.enabled and bots.dns):
            self.bot_cache.proofs.ask = None
        if not bots.enabled or bots.signatures == "off":
            self.bot_cache.keys.ask = None
        return lookups

    def _start_limits(self, settings: Settings) -> DailyLimitsThread | None:
        """Derive the limits of the budget: not in workers, but in their background process, which writes no ledger."""
        if self._passed_state is not None or not settings.ledger.enabled:
            return None
        return DailyLimitsThread(settings, self.daily_limits, counts=self._is_main, also=review_own)

    @property
    def _is_main(self) -> bool:
        """Whether this process does what is done once for all: not a worker, but their background process."""
        return self.stores.worker_metrics is None or isinstance(self.stores.ledger, NoLedger)

    def _start_alerts(self, settings: Settings) -> AlertsThread | None:
        if self._passed_state is not None or not settings.alerts.enabled or not self._is_main:
            return None
        return AlertsThread(settings, self, state_directory(settings))

    def _start_subscriptions(self, settings: Settings) -> SubscriptionThread | None:
        """Read block lists of others: not in workers, but in their background process."""
        if self.follower is None or not settings.lists.subscriptions or not self._is_main:
            return None
        thread = SubscriptionThread(settings)
        thread.start()
        return thread

    def _start_shared_watch(self, stores: SiteStores) -> Thread | None:
        shared = stores.shared_watch if stores.runs_watch else None
        if shared is None:
            return None
        thread = Thread(target=shared.run, args=(self._stop_watching,), name="hedgerow-watch", daemon=True)
        thread.start()
        return thread

    # ---- What an operator sees

    def blocks(self, at: float) -> Sequence[Block]:
        """Return the blocks in force: none while the site only observes."""
        limited = self.app.gate.engine.policy.limited
        blocks = () if self.app.settings.observe else visitors_of(self.stores.state.blocks(at))
        return [limited(block, at) for block in blocks]

    def attack_until(self, at: float) -> float:
        """Return when the "under attack" switch ends, or 0 if it is off."""
        found = attack_of(self.stores.state.blocks(at), at)
        return found.until if found is not None else 0.0

    def campaigns(self) -> Sequence[Campaign]:
        """Return the known campaigns of all processes, the oldest first."""
        if self.stores.shared_watch is not None:
            return self.stores.shared_watch.campaigns()
        if self.watch is not None:
            return self.watch.watch.campaigns()
        return self.stores.journal.campaigns(time.time()) if self.stores.journal is not None else ()

    def note_stopped(self, visit: Visit, decision: Decision, status: int, reference: str, request_id: str) -> None:
        """Count and log a visit that was not let in, or would not have been."""
        self.counters.count_stopped(decision)
        self.log.decided(visit, decision, status, reference, request_id)

    def complaints(self, start: float) -> Sequence[float]:
        """Return when operators let visitors in by hand since *start*, as far as the audit log can be read."""
        with suppress(StoreError):
            return AuditLog(self.app.settings).times_of(COMPLAINTS, start)
        return ()

    def problems(self) -> dict[str, str]:
        """Return the parts of this process that do not work, and what is wrong with them."""
        stores, watch, shared = self.stores, self.watch, self._backend.shared_watch
        found = {
            "ledger": "visits are lost, see the log" if stores.ledger.failing else "",
            "lists": "they cannot be read, see the log" if self.follower is not None and self.follower.failing else "",
            "journal": "blocks cannot be stored, see the log" if stores.journal and stores.journal.failing else "",
            "state": "Redis does not answer" if stores.state.unavailable else "",
            "watch": watch.problem if watch is not None else "",
        }
        if shared is not None and not shared.is_alive():
            found["watch"] = "it has ended, see the log"
        return {name: problem for name, problem in found.items() if problem}

    def problems_of_workers(self) -> dict[int, dict[str, str]]:
        """Return the same of the worker processes, by process id."""
        others = self.stores.worker_metrics.all() if self.stores.worker_metrics is not None else {}
        return {process: metrics.problems for process, metrics in running_metrics(others)}

    def own_metrics(self) -> SiteMetrics:
        """Return the metrics of this process."""
        counters, state, tarpit, relay = self.counters, self.stores.state, self.app.tarpit, self.stores.relay
        left_out = relay.left_out if relay is not None else self.watch.left_out if self.watch is not None else 0
        return SiteMetrics(
            decided=dict(counters.decided), untouched=dict(counters.skipped),
            upstream_errors=dict(counters.upstream_errors), challenges=dict(counters.challenges),
            would_have=dict(counters.would_have), would_have_blocked=self.app.gate.would_have_blocked,
            blocked=self.app.gate.blocked, lost=self.stores.ledger.lost, forgotten=state.forgotten,
            left_out=left_out, inside=tarpit.inside, admitted=tarpit.admitted, turned_away=tarpit.turned_away,
            alone=state.alone, refused_connections=dict(counters.refused_connections),
            stopped=dict(counters.stopped), latency=counters.latency.flat(),
            store_errors=self._store_errors(), queues=self._queues(), problems=self.problems(),
            spans=self.tracer.counts if self.tracer is not None else {},
        )  # fmt: skip

    def _store_errors(self) -> dict[str, int]:
        stores = self.stores
        return {
            "journal": stores.journal.errors if stores.journal is not None else 0,
            "ledger": stores.ledger.errors,
            "lists": self.follower.errors if self.follower is not None else 0,
            "state": stores.state.errors,
            "subscriptions": self._subscriptions.failures if self._subscriptions is not None else 0,
        }

    def _queues(self) -> dict[str, int]:
        relay = self.stores.relay if self.stores.relay is not None else self.watch
        return {"ledger": self.stores.ledger.pending, "watch": relay.waiting if relay is not None else 0}

    def metrics(self) -> SiteMetrics:
        """Return the metrics of all processes of this site."""
        others = self.stores.worker_metrics
        return self.own_metrics() if others is None else sum_metrics(self.own_metrics(), others.all())

    def publish_metrics(self) -> None:
        """Store the metrics of this process for the side process."""
        if self.stores.worker_metrics is not None:
            self.stores.worker_metrics.put(msgspec.msgpack.encode(self.own_metrics()))

    def close(self) -> None:
        """Stop all threads and write everything that is pending."""
        if self.closed:
            return
        self.closed = True
        _close(self.run_file, self.admin)
        self._stop_watching.set()
        for backend in self._backends.values():
            if backend.shared_watch is not None:
                backend.shared_watch.join()
        _close(
            self._subscriptions,
            self.log,
            self._alerts,
            self._limits_thread,
            self._intake,
            self.follower,
            self.lookups,
            self.app.challenges,
            self.tracer,
        )
        for backend in self._backends.values():
            stores = backend.stores
            # The watch closes before the journal, which stores its last findings.
            _close(stores.relay, backend.watch, stores.ledger, stores.journal, stores.used_challenges)
        self.publish_metrics()
        for backend in self._backends.values():
            if backend.stores.state is not self._passed_state:
                backend.stores.state.close()


def _build_tracer(settings: Settings, name: str) -> Tracer | None:
    """Return what makes traces, if the settings want any. Nothing of OpenTelemetry is imported otherwise."""
    if not settings.traces.enabled:
        return None
    try:
        from hedgerow.web.traces import Tracer
    except ModuleNotFoundError as error:
        raise SettingsError([f"traces need {error.name}: pip install 'hedgerow[otel]'"]) from None
    return Tracer(settings.traces, name)


def _start_watch(settings: Settings, stores: SiteStores) -> WatchThread | None:
    """Start the watch, with the campaigns and sessions of the last run if this process stores them."""
    if not stores.runs_watch or stores.shared_watch is not None:
        return None
    watch = build_watch(settings, build_policy(settings), stores.state.update_score)
    if stores.journal is None:
        return WatchThread(watch, queue=settings.watch.queue)
    watch.note = stores.journal.note_campaign
    watch.restore(WatchSnapshot(), stores.journal.campaigns(time.time()))
    return WatchThread(watch, queue=settings.watch.queue, sessions=build_sessions(settings))


def _close(*parts: SupportsClose | None) -> None:
    for part in parts:
        if part is not None:
            part.close()

"""
The composition root: from settings to everything that serves a site.

`build_app` makes an `App`, which never changes, from one set of settings. A `Site` is what lives longer: stores,
threads and counters. To reload, it builds a second `App` and swaps it with the first; requests under way keep theirs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Event, Thread

import msgspec

from hedgerow.challenge.clearance import Clearances
from hedgerow.challenge.interfaces import ChallengeHooks
from hedgerow.core.decision import Campaign
from hedgerow.core.gate import Gate, OnDecision
from hedgerow.core.ledger import Ledger
from hedgerow.lists.model import Lists
from hedgerow.markers.rewrite import SkeletonCache
from hedgerow.markers.rules import Rules
from hedgerow.markers.token import PageDigests, TokenCodecs
from hedgerow.request.account import AccountOf
from hedgerow.request.bot_verifier import BotCache
from hedgerow.settings import Settings
from hedgerow.settings.bots import BotsSettings
from hedgerow.settings.checks import split_listen
from hedgerow.state.store import StateStore
from hedgerow.traps.maze import Maze
from hedgerow.traps.tarpit import Tarpit
from hedgerow.watch.relay import Intake
from hedgerow.watch.snapshot import WatchSnapshot
from hedgerow.watch.watch import WatchThread
from hedgerow.web.bots import refused_bots
from hedgerow.web.challenge.endpoint import ChallengeEndpoint
from hedgerow.web.gate import build_engine, build_identifier, build_policy, build_rules, configure_bot_cache
from hedgerow.web.lookups.dns import DnsResolver
from hedgerow.web.lookups.thread import LookupThread
from hedgerow.web.metrics import SiteCounters, SiteMetrics, sum_metrics
from hedgerow.web.stores import SiteStores, build_list_follower, build_stores, build_token_codecs, rate_limits
from hedgerow.web.waiter import ON_LOOP, Waiter
from hedgerow.web.watch import build_panels, build_sessions, build_watch, configure_watch


@dataclass(frozen=True)
class Surroundings:
    """What an `App` is given, and what the next one is given again after a reload."""

    stores: SiteStores
    lists: Lists
    tokens: TokenCodecs | None
    """Those to use, or None if they are read from the key file anew with each reload."""
    account_of: AccountOf | None
    hooks: ChallengeHooks | None
    """What is told of challenges, in place of the gate."""
    on_decision: OnDecision | None
    waiter: Waiter
    bot_cache: BotCache
    pages: PageDigests
    counters: SiteCounters


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
    refused_agents: tuple[str, ...]
    """Names, in robots.txt, of the bots that are refused."""
    changes_pages: bool
    """Whether pages get bait or marked links; robots.txt then tells polite bots to keep off these."""
    changes_robots: bool
    counters: SiteCounters


def build_app(settings: Settings, given: Surroundings, previous: App | None = None) -> App:
    """Build an application. It changes nothing that *previous* uses, so a fault in the settings does no harm."""
    stores = given.stores
    tokens = build_token_codecs(settings) if given.tokens is None else given.tokens
    rules = build_rules(settings)
    clearances = Clearances(tokens, seconds=settings.challenge.clear_for, clearance_usage=stores.clearance_usage)
    gate = Gate(
        build_engine(settings, given.pages, rules, given.lists),
        stores.state,
        stores.ledger,
        build_identifier(settings, tokens, given.bot_cache, given.account_of, clearances),
        given.pages,
        given.counters.decided,
    )
    gate.needs_ledger = settings.ledger.on_failure == "closed"
    gate.on_decision = given.on_decision
    detain = settings.detain
    if previous is not None:
        gate.blocked = previous.gate.blocked
    if previous is not None and previous.settings.detain == detain:
        tarpit = previous.tarpit
    else:
        tarpit = Tarpit(detain.connections, detain.memory, detain.seconds)
    # A maze takes 30 ms to lay out, so there is one only if somebody may be led into it.
    detains = gate.engine.policy.detains
    refused_agents = tuple(bot.robots for bot in refused_bots(settings) if bot.robots)
    changes_pages = settings.traps.enabled or rules.marks
    return App(
        settings=settings,
        gate=gate,
        tokens=tokens,
        rules=rules,
        challenges=ChallengeEndpoint(
            settings, tokens, stores.used_challenges, given.hooks or gate, clearances,
            given.counters.challenges, given.waiter,
        ),
        tarpit=tarpit,
        maze=Maze(settings.marker.prefix, tokens.seed) if detains else None,
        # Its entries depend on the rules and the prefix.
        skeletons=SkeletonCache(),
        refused_agents=refused_agents,
        changes_pages=changes_pages,
        changes_robots=changes_pages or bool(refused_agents),
        counters=given.counters,
    )  # fmt: skip


class Site:
    """
    A site that is served: its stores, threads and counters, and the `App` of the current settings.

    Without *lists* they are those of the settings' store, followed as they change. Whoever passes a *state* closes it.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        seals: TokenCodecs | None = None,
        stores: SiteStores | None = None,
        state: StateStore | None = None,
        ledger: Ledger | None = None,
        account_of: AccountOf | None = None,
        hooks: ChallengeHooks | None = None,
        lists: Lists | None = None,
    ) -> None:
        if seals is None:
            # Before anything is opened: a faulty key file stops the start.
            build_token_codecs(settings)
        self.stores = build_stores(settings, state=state, ledger=ledger) if stores is None else stores
        self._owns_state = state is None
        self.closed = False
        self.closing = False
        """Set when the site is about to stop: nobody is detained any longer."""
        self.follower = build_list_follower(settings) if lists is None else None
        if self.follower is not None:
            self.follower.start()
            lists = self.follower.lists
        self.lists = Lists() if lists is None else lists
        self.bot_cache = BotCache()
        self.bot_cache.robots_compliance.revoked_bots = self.stores.revoked_bots
        self.counters = SiteCounters()
        self.lookups = self._start_lookups(settings.bots)
        self.watch = self._start_watch(settings)
        """The watch of this process, if it runs here and is not shared."""
        self._stop_watching = Event()
        self._shared_watch = self._start_shared_watch()
        self._surroundings = Surroundings(
            stores=self.stores,
            lists=self.lists,
            tokens=seals,
            account_of=account_of,
            hooks=hooks,
            on_decision=self._on_decision(),
            waiter=ON_LOOP,
            bot_cache=self.bot_cache,
            pages=PageDigests(),
            counters=self.counters,
        )
        self.app = build_app(settings, self._surroundings)
        self._configure(settings)
        self._intake: Intake | None = None
        if self.stores.visit_socket is not None and self.watch is not None:
            self._intake = Intake(self.stores.visit_socket, self.watch.add, self.watch.miss)

    def reload(self, settings: Settings) -> None:
        """Go on under other settings, with the keys as they are now. After an exception the old settings hold."""
        panels = build_panels(settings) if self.watch is not None else None
        previous, app = self.app, build_app(settings, self._surroundings, self.app)
        # Nothing fails from here on.
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

    def set_waiter(self, waiter: Waiter) -> None:
        """Wait in this way from now on; the default is that of an event loop."""
        if waiter is self._surroundings.waiter:
            return
        self._surroundings = replace(self._surroundings, waiter=waiter)
        self.stores.state.use_threads(waiter.run)
        previous, self.app = self.app, build_app(self.app.settings, self._surroundings, self.app)
        previous.challenges.close()

    def _configure(self, settings: Settings) -> None:
        """Have what outlives a reload follow these settings."""
        self.stores.state.use(rate_limits(settings))
        self.stores.clearance_usage.configure(
            networks=settings.challenge.networks, window=settings.challenge.share_window
        )  # fmt: skip
        configure_bot_cache(self.bot_cache, settings)

    # ---- Threads

    def _start_lookups(self, bots: BotsSettings) -> LookupThread:
        """Answer questions about bots in the background, those that the settings allow."""
        resolver = DnsResolver(split_listen(bots.resolver) if bots.resolver else None)
        lookups = LookupThread(self.bot_cache, resolver, insecure=bots.insecure_directories)
        if not (bots.enabled and bots.dns):
            self.bot_cache.proofs.ask = None
        if not bots.enabled or bots.signatures == "off":
            self.bot_cache.keys.ask = None
        return lookups

    def _start_watch(self, settings: Settings) -> WatchThread | None:
        """Start the watch with what was known before a restart, if this process keeps that."""
        stores = self.stores
        if not stores.runs_watch or stores.shared_watch is not None:
            return None
        watch = build_watch(settings, build_policy(settings), stores.state.update_score)
        if stores.journal is None:
            return WatchThread(watch, queue=settings.watch.queue)
        watch.note = stores.journal.note_campaign
        watch.restore(WatchSnapshot(), stores.journal.campaigns(time.time()))
        return WatchThread(watch, queue=settings.watch.queue, sessions=build_sessions(settings))

    def _start_shared_watch(self) -> Thread | None:
        shared = self.stores.shared_watch
        if not self.stores.runs_watch or shared is None:
            return None
        thread = Thread(target=partial(shared.run, self._stop_watching), name="hedgerow-watch", daemon=True)
        thread.start()
        return thread

    def _on_decision(self) -> OnDecision | None:
        if self.stores.relay is not None:
            return self.stores.relay.add
        return self.watch.add if self.watch is not None else None

    # ---- What an operator sees

    def campaigns(self) -> Sequence[Campaign]:
        """Return all known campaigns, whichever process found them, the oldest first."""
        if self.stores.shared_watch is not None:
            return self.stores.shared_watch.campaigns()
        if self.watch is not None:
            return self.watch.watch.campaigns()
        return self.stores.journal.campaigns(time.time()) if self.stores.journal is not None else ()

    def own_metrics(self) -> SiteMetrics:
        """Return what this process has counted."""
        counters, state, tarpit, relay = self.counters, self.stores.state, self.app.tarpit, self.stores.relay
        left_out = relay.left_out if relay is not None else self.watch.left_out if self.watch is not None else 0
        return SiteMetrics(
            decided=dict(counters.decided), untouched=dict(counters.skipped),
            upstream_errors=dict(counters.upstream_errors), challenges=dict(counters.challenges),
            blocked=self.app.gate.blocked, lost=self.stores.ledger.lost, forgotten=state.forgotten,
            left_out=left_out, inside=tarpit.inside, admitted=tarpit.admitted, turned_away=tarpit.turned_away,
            alone=state.alone,
        )  # fmt: skip

    def metrics(self) -> SiteMetrics:
        """Return what all processes of this site have counted."""
        others = self.stores.worker_metrics
        return self.own_metrics() if others is None else sum_metrics(self.own_metrics(), others.all())

    def publish_metrics(self) -> None:
        """Tell the process beside the workers what this one has counted."""
        if self.stores.worker_metrics is not None:
            self.stores.worker_metrics.put(msgspec.msgpack.encode(self.own_metrics()))

    def close(self) -> None:
        """Stop all threads and write what waits."""
        if self.closed:
            return
        self.closed = True
        stores = self.stores
        if self._intake is not None:
            self._intake.close()
        self._stop_watching.set()
        if self._shared_watch is not None:
            self._shared_watch.join()
        if stores.relay is not None:
            stores.relay.close()
        if self.watch is not None:
            # Before the journal, which keeps what the watch still finds.
            self.watch.close()
        if self.follower is not None:
            self.follower.close()
        self.lookups.close()
        stores.ledger.close()
        if stores.journal is not None:
            stores.journal.close()
        self.app.challenges.close()
        stores.used_challenges.close()
        if self._owns_state:
            self.publish_metrics()
            stores.state.close()

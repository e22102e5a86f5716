"""
From settings to a gate. The one place that knows which parts make up a Hedgerow; detectors come from their registry.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from zoneinfo import ZoneInfo

from hedgerow.challenge.clearance import Clearances, ClearanceUsage
from hedgerow.challenge.interfaces import UsedChallenges
from hedgerow.core.address import Proxies
from hedgerow.core.decision import Block, ScoreUpdate
from hedgerow.core.engine import Engine
from hedgerow.core.gate import Gate
from hedgerow.core.ledger import Ledger, NoLedger
from hedgerow.core.request_kind import kind_of
from hedgerow.detectors.registry import registry
from hedgerow.detectors.spec import DetectorContext
from hedgerow.errors import ModelError, StoreError
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.lists.asn import AsnFile
from hedgerow.lists.disk_copy import ListsCopy
from hedgerow.lists.follower import Follower
from hedgerow.lists.model import Lists
from hedgerow.lists.sql_store import ListStore
from hedgerow.lists.sqlite_store import SqliteLists
from hedgerow.markers.rules import Patterns, Rules
from hedgerow.markers.token import TokenCodecs
from hedgerow.policy.decision_policy import DecisionPolicy, PolicyThresholds
from hedgerow.request.account import AccountOf, Accounts
from hedgerow.request.bot_signature import PublicKey, Signatures, public_key, thumbprint
from hedgerow.request.bot_verifier import BotCache, BotVerifier
from hedgerow.request.bots import BotPolicy, KnownBot
from hedgerow.request.identify import Identifier
from hedgerow.settings.marker import SCRIPTED_RULES
from hedgerow.settings.schema import Settings
from hedgerow.state.memory.state import MemoryState
from hedgerow.state.memory.used_challenges import MemoryUsedChallenges
from hedgerow.state.sqlite.journal import SqliteJournal
from hedgerow.state.sqlite.used_challenges import SqliteUsedChallenges
from hedgerow.state.store import StateStore
from hedgerow.traps.bait import PageDigests
from hedgerow.watch.link_sharing import LinkSharing, SharingLimits
from hedgerow.watch.models.bundle import Bundle, load, shipped
from hedgerow.watch.models.files import ModelFiles
from hedgerow.watch.models.files import kind_of as kind_of_bundle
from hedgerow.watch.models.panel import ModelKind, Panel
from hedgerow.watch.session_store import SqliteSessions
from hedgerow.watch.watch import Watch
from hedgerow.web.build_bots import all_bots, build_bots, state_directory
from hedgerow.web.key_file import load_keys, read_keys


def key_path(settings: Settings) -> Path:
    """The key file."""
    return state_directory(settings) / "hedgerow.key"


def build_seals(settings: Settings) -> TokenCodecs:
    """The seals under the site's keys: from `HEDGEROW_KEYS`, else from the key file, which is made on first start."""
    if text := os.environ.get("HEDGEROW_KEYS"):
        return TokenCodecs(read_keys(text, "HEDGEROW_KEYS"))
    directory = state_directory(settings)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the directory {directory}: {error.strerror}; set another") from None
    return TokenCodecs(load_keys(key_path(settings), time.time()))


def build_rules(settings: Settings) -> Rules:
    """Which links are marked, and how."""
    marker = settings.marker
    rules = (*marker.rules, *SCRIPTED_RULES) if marker.mode == "opaque" else marker.rules
    return Rules(
        marker.mode, [(rule.path, rule.mode) for rule in rules], lambda target: kind_of("GET", target) == "page"
    )


def build_bot_verifier(settings: Settings, bot_cache: BotCache) -> BotVerifier:
    """How bots are recognised. *bot_cache* is what is remembered about them."""
    bots, keys, robots_compliance = settings.bots, bot_cache.keys, bot_cache.robots_compliance
    known = {bot.signer: bot for bot in all_bots(settings) if bot.signer}
    keys.configured = {
        thumbprint(x.rstrip("=")): (KnownBot(one.name, one.category, signer=one.host), PublicKey(key))
        for one in bots.signers
        for x in one.keys
        if (key := public_key(x)) is not None
    }
    signatures = Signatures(
        keys, known, any_signer=bots.signatures == "any", insecure=bots.insecure_directories
    )  # fmt: skip
    robots_compliance.refresh, robots_compliance.unwelcome_for = bots.robots_refresh, bots.unwelcome_for
    return BotVerifier(
        build_bots(settings, bot_cache.proofs),
        signatures if bots.enabled and bots.signatures != "off" else None,
        robots_compliance if bots.enabled and bots.robots else None,
    )


def ledger_path(settings: Settings) -> Path:
    """The ledger's file."""
    return Path(settings.ledger.path or state_directory(settings) / "ledger.sqlite").expanduser()


def build_ledger(settings: Settings) -> Ledger:
    own = settings.ledger
    if not own.enabled:
        return NoLedger()
    if own.url:
        ledger: Ledger = postgresql_parts().PostgresLedger(
            own.url, state_directory(settings) / "ledger.spool",
            keep_days=own.keep_days, queue=own.queue, spool=own.spool,
        )  # fmt: skip
        return ledger
    return SqliteLedger(ledger_path(settings), keep_days=own.keep_days, queue=own.queue)


def postgresql_parts() -> ModuleType:
    """What needs the extra `postgresql`; one line that says so where it is not installed."""
    try:
        from hedgerow.ledger import postgresql
    except ModuleNotFoundError as error:
        raise StoreError(f"PostgreSQL needs {error.name}: pip install 'hedgerow[postgresql]'") from None
    return postgresql


def build_clearances(settings: Settings, seals: TokenCodecs, clearance_usage: ClearanceUsage) -> Clearances:
    """The cookies of those who have solved a challenge; *clearance_usage* outlive settings that are read again."""
    own = settings.challenge
    clearance_usage.configure(networks=own.networks, window=own.share_window)
    return Clearances(seals, seconds=own.clear_for, clearance_usage=clearance_usage)


def build_used_challenges(settings: Settings) -> UsedChallenges:
    """Where spent challenges are kept: in a file that all processes share, unless it is to be memory."""
    challenge = settings.challenge
    if challenge.store == "memory":
        return MemoryUsedChallenges(challenge.spent)
    return SqliteUsedChallenges(state_directory(settings) / "challenges.sqlite", challenge.spent)


def build_store(settings: Settings) -> ListStore:
    """The store of the lists."""
    if settings.lists.url:
        postgresql_parts()
        from hedgerow.lists.postgresql_store import PostgresLists

        return PostgresLists(settings.lists.url)
    return SqliteLists(Path(settings.lists.path or state_directory(settings) / "lists.sqlite").expanduser())


def build_follower(settings: Settings) -> Follower | None:
    """What keeps lists as their store has them, not yet started; None where the settings switch lists off."""
    lists = settings.lists
    if not lists.enabled:
        return None
    asn = AsnFile(Path(lists.asn_file).expanduser()) if lists.asn_file else None
    copy = ListsCopy(state_directory(settings) / "lists-copy.jsonl", lists.url) if lists.url else None
    return Follower(build_store(settings), Lists(), asn=asn, copy=copy)


def build_state(settings: Settings) -> MemoryState:
    windows = settings.density.windows if settings.density.enabled else ()
    return MemoryState(
        windows,
        memory=settings.state.memory,
        most_blocks=settings.state.blocks,
        remember=settings.policy.remember,
    )


def build_journal(settings: Settings, state: StateStore) -> SqliteJournal | None:
    """What makes *state* outlive a restart, with all that was remembered read back; None where nothing is kept."""
    if not settings.state.durable:
        return None
    journal = obedient_journal(settings, state)
    state.restore(*journal.read(time.time()))
    return journal


def obedient_journal(settings: Settings, state: StateStore) -> SqliteJournal:
    """A journal in which *state* is kept, and whose orders are carried out there."""
    journal = SqliteJournal(state_path(settings))
    state.keep_in(journal)

    def obey(key: str, what: Block | ScoreUpdate | None) -> None:
        if isinstance(what, ScoreUpdate):
            state.update_score(what)
        elif what is not None:
            state.commit(what)
        else:
            state.forgive(key)

    journal.obey = obey
    return journal


def build_watch(settings: Settings, policy: DecisionPolicy, update_score: Callable[[ScoreUpdate], None]) -> Watch:
    """What looks at visits behind the fast path."""
    watch = Watch(policy, update_score, most_sessions=settings.watch.sessions)
    use_watch(watch, settings, policy)
    return watch


def use_watch(watch: Watch, settings: Settings, policy: DecisionPolicy) -> None:
    """Have a watch go on under these settings, with the bundles as they are now; what it knows stays."""
    own = settings.campaigns
    limits = SharingLimits(own.members, own.links, own.share, own.chance, half_life=own.half_life)
    if not own.enabled:
        watch.sharing = None
    elif watch.sharing is None:
        watch.sharing = LinkSharing(limits)
    else:
        watch.sharing.limits = limits
    watch.policy = policy
    watch.on_campaign = own.response
    watch.observe = settings.observe
    known = watch.records()
    paths, windows = settings.watch.paths, settings.watch.windows
    watch.paths = build_panel(settings, "paths") if paths != "off" else None
    watch.windows = build_panel(settings, "windows") if windows != "off" else None
    watch.on_path = paths if paths != "off" else "record"
    watch.on_window = windows if windows != "off" else "record"
    for panel in watch.panels:
        for record in known:
            panel.take(record)


@cache
def _shipped(kind: ModelKind) -> Bundle:
    return load(None) if kind == "paths" else shipped("window")


def shelf(settings: Settings) -> ModelFiles:
    """Where the site's own bundles are."""
    return ModelFiles(state_directory(settings) / "models")


def build_panel(settings: Settings, kind: ModelKind) -> Panel:
    """
    The bundle in use and the one in its shadow.

    In use is the one that the settings name, else the site's own, else the one that comes with Hedgerow.
    """
    own, place = settings.watch, shelf(settings)
    named = own.model if kind == "paths" else own.window_model
    in_use = Path(named).expanduser() if named else place.current(kind)
    bundle = load(in_use) if named or in_use.is_file() else _shipped(kind)
    if (judges := kind_of_bundle(bundle)) != kind:
        raise ModelError(f"{str(in_use)!r} judges {judges}, not {kind}; set it as {_MODEL_OF[judges]}")
    shadow = place.shadow(kind)
    beside = load(shadow) if shadow.is_file() else None
    if own.shadow and kind_of_bundle(named_shadow := load(Path(own.shadow).expanduser())) == kind:
        beside = named_shadow
    return Panel(kind, bundle, beside)


_MODEL_OF: dict[ModelKind, str] = {"paths": "model", "windows": "window_model"}


def build_sessions(settings: Settings) -> SqliteSessions | None:
    """Where pending sessions outlive a restart; None where nothing is kept."""
    return SqliteSessions(state_path(settings)) if settings.state.durable else None


def state_path(settings: Settings) -> Path:
    """The file of blocks, standings, campaigns and pending sessions."""
    return state_directory(settings) / "state.sqlite"


def _policy(settings: Settings, bot: KnownBot) -> BotPolicy:
    found: BotPolicy = getattr(settings.bots, bot.category.replace("-", "_"))
    return found


def refused_agents(settings: Settings) -> tuple[str, ...]:
    """The names, in robots.txt, of the bots that the settings turn away."""
    return tuple(bot.robots for bot in all_bots(settings) if bot.robots and _policy(settings, bot) == "refuse")


def build_engine(
    settings: Settings, pages: PageDigests, rules: Rules, lists: Lists | None = None, *, entries: bool = True
) -> Engine:
    open_to_all = Patterns(settings.marker.entries)
    refused = [bot.name for bot in all_bots(settings) if _policy(settings, bot) == "refuse"]
    context = DetectorContext(
        settings=settings,
        page_name=pages.name,
        marks_links=rules.marks,
        is_marked=lambda target: rules.mode_of(target) != "off",
        is_closed=lambda target: settings.marker.strict and not open_to_all.match(target),
        refused_bots=refused if settings.bots.enabled else None,
        access_log=not entries,
    )
    detectors, needs = registry().build(context)
    contain = settings.containment
    return Engine(
        detectors, build_policy(settings), needs=needs, weights=settings.policy.weights, lists=lists,
        white_volume=contain.white_volume if contain.enabled else 0,
    )  # fmt: skip


def build_policy(settings: Settings) -> DecisionPolicy:
    """From evidence to decision, under these settings."""
    policy = settings.policy
    thresholds = PolicyThresholds(
        refuse_at=policy.refuse_at,
        suspect_at=policy.suspect_at,
        half_life=policy.half_life,
        wrong_from=policy.wrong_from,
        wrong_visits=policy.wrong_visits,
        challenges=policy.challenges,
        block_for=policy.block_for,
        suspects=policy.suspects,
    )
    return DecisionPolicy(
        registry().rules(settings),
        thresholds,
        renew=settings.density.renew,
        strikes=settings.identity.strikes,
        day_of=day_of(ZoneInfo(policy.timezone)),
        lengthen=policy.lengthen,
        longest=policy.longest_block,
    )


def day_of(zone: ZoneInfo) -> Callable[[float], int]:
    """The number of a time's day in *zone*: its counts start anew at midnight there."""
    # A busy site asks for the same second many times, and within one the day is the same wherever that is.
    day_of_second = lru_cache(maxsize=64)(lambda second: datetime.fromtimestamp(second, zone).toordinal())
    return lambda at: day_of_second(at // 1)


def build_gate(
    settings: Settings,
    *,
    seals: TokenCodecs | None = None,
    state: StateStore | None = None,
    ledger: Ledger | None = None,
    pages: PageDigests | None = None,
    account_of: AccountOf | None = None,
    bot_cache: BotCache | None = None,
    entries: bool = True,
    clearances: Clearances | None = None,
    lists: Lists | None = None,
) -> Gate:
    """
    A gate for these settings. *entries* is false where visits without a marker say nothing: in an access log.

    *state*, *ledger*, *pages* and *bot_cache* may be those of the gate before it: settings that are read again keep
    what is remembered. Without *lists* nobody is on one.
    """
    who = settings.identity
    if pages is None:
        pages = PageDigests()
    identifier = Identifier(
        proxies=Proxies(who.trusted_proxies, who.forwarded_header),
        accounts=Accounts(cookie=who.account_cookie, header=who.account_header, callable_=account_of),
        bot_verifier=build_bot_verifier(settings, bot_cache or BotCache()),
        tls_header=who.tls_header,
        seals=seals or build_seals(settings),
        prefix=settings.marker.prefix,
        clearances=clearances,
    )
    if state is None:
        state = build_state(settings)
    else:
        state.use(settings.density.windows if settings.density.enabled else ())
    engine = build_engine(settings, pages, build_rules(settings), lists, entries=entries)
    # Not `ledger or ...`: a ledger that holds nothing yet may be false.
    gate = Gate(engine, state, build_ledger(settings) if ledger is None else ledger, identifier, pages)
    gate.needs_ledger = settings.ledger.on_failure == "closed"
    return gate

"""From settings to a gate: identifier, detectors, policy. Detectors come from their registry."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

import msgspec

from hedgerow.challenge.clearance import Clearances
from hedgerow.core.address import Proxies
from hedgerow.core.attack import AttackSwitch
from hedgerow.core.daily_limits import DailyLimits
from hedgerow.core.engine import Engine
from hedgerow.core.gate import Gate
from hedgerow.core.ledger import Ledger
from hedgerow.core.page_times import PageTimes
from hedgerow.core.state import State
from hedgerow.detectors.registry import registry
from hedgerow.detectors.spec import DetectorContext
from hedgerow.lists.model import Lists
from hedgerow.markers.rules import NeverOpaque, Patterns, Rules
from hedgerow.markers.token import PageDigests, TokenCodecs
from hedgerow.policy.decision_policy import DecisionPolicy, PolicyThresholds
from hedgerow.request.account import AccountOf, Accounts
from hedgerow.request.bot_cache import BotCache
from hedgerow.request.bot_signature import PublicKey, Signatures, public_key, thumbprint
from hedgerow.request.bots import BotVerifier, KnownBot
from hedgerow.request.identify import Identifier
from hedgerow.request.path_rules import PathRules
from hedgerow.settings.load import Settings
from hedgerow.settings.tables import SCRIPTED_RULES, MarkerRule, MarkerSettings
from hedgerow.web.bots import all_bots, build_bots, licensed_bots, refused_bots
from hedgerow.web.stores import build_ledger, build_state, build_token_codecs


def unmarked(settings: Settings) -> Settings:
    """Return settings under which no response is changed: no marks, and nobody is expected to follow marked links."""
    replace = msgspec.structs.replace
    marker = replace(settings.marker, mode="off", rules=(), strict=False, closed=())
    paths = tuple(replace(rule, marks=None, traps=None, closed=None) for rule in settings.path)
    return replace(settings, marker=marker, traps=replace(settings.traps, enabled=False), path=paths)


def with_hidden_links(settings: Settings) -> Settings:
    """Return settings under which hidden links are recognised, if a path has some."""
    if settings.traps.enabled or not any(rule.traps for rule in settings.path):
        return settings
    return msgspec.structs.replace(settings, traps=msgspec.structs.replace(settings.traps, enabled=True))


def build_rules(settings: Settings) -> Rules:
    """Build the rules that say which links are marked, and how."""
    marker = settings.marker
    rules = (*marker.rules, *SCRIPTED_RULES) if marker.mode == "opaque" else marker.rules
    if "opaque" in {marker.mode, *(rule.mode for rule in rules)}:
        rules = (*(MarkerRule(path, "clean") for path in marker.never_opaque), *rules)
    paths = PathRules(settings.path) if settings.path else None
    modes = {"off" if rule.protection == "off" else rule.marks for rule in settings.path}
    return Rules(
        marker.mode, [(rule.path, rule.mode) for rule in rules], _closed(marker, paths),
        mode_for=paths.mode_of if paths is not None else None, modes_for={mode for mode in modes if mode is not None},
    )  # fmt: skip


def _closed(marker: MarkerSettings, paths: PathRules | None) -> Callable[[str], bool] | None:
    """Return what tells whether a target opens only by a marked link; None if all are open."""
    rules = paths.rules if paths is not None else []
    if not (marker.strict or marker.closed or any(one.rule.closed for one in rules)):
        return None
    closed, entries = Patterns(["*"] if marker.strict else marker.closed), Patterns(marker.entries)

    def is_closed(target: str) -> bool:
        said = paths.is_closed(target) if paths is not None else None
        return closed.match(target) and not entries.match(target) if said is None else said

    return is_closed


def build_bot_verifier(settings: Settings, bot_cache: BotCache) -> BotVerifier:
    bots = settings.bots
    known = {bot.signer: bot for bot in all_bots(settings) if bot.signer}
    any_signer, insecure = bots.signatures == "any", bots.insecure_directories
    signatures = Signatures(bot_cache.keys, known, bots.hosts, any_signer=any_signer, insecure=insecure)
    return BotVerifier(
        build_bots(settings, bot_cache.proofs),
        signatures if bots.enabled and bots.signatures != "off" and bots.hosts else None,
        bot_cache.robots_compliance if bots.enabled and bots.robots else None,
    )


def configure_bot_cache(bot_cache: BotCache, settings: Settings) -> None:
    """Apply the settings to the cached facts about bots."""
    bots, robots_compliance = settings.bots, bot_cache.robots_compliance
    bot_cache.keys.configured = {
        thumbprint(x.rstrip("=")): (KnownBot(one.name, one.category, signer=one.host), PublicKey(key))
        for one in bots.signers
        for x in one.keys
        if (key := public_key(x)) is not None
    }
    bot_cache.proofs.true_for, bot_cache.proofs.false_for = bots.true_for, bots.false_for
    robots_compliance.refresh, robots_compliance.unwelcome_for = bots.robots_refresh, bots.unwelcome_for


def build_engine(
    settings: Settings,
    pages: PageDigests,
    rules: Rules,
    lists: Lists | None = None,
    *,
    entries: bool = True,
    page_times: PageTimes | None = None,
    daily_limits: DailyLimits | None = None,
    attack: AttackSwitch | None = None,
) -> Engine:
    refused = [bot.name for bot in refused_bots(settings)]
    settings = with_hidden_links(settings)
    paths = PathRules(settings.path) if settings.path else None
    context = DetectorContext(
        settings=settings,
        page_name=pages.name,
        marks_links=rules.marks,
        hides_marks=rules.modes <= {"clean", "off"} and not rules.closes_pages,
        is_marked=lambda target: rules.mode_of(target) != "off",
        is_closed=rules.is_closed,
        refused_bots=refused if settings.bots.enabled else None,
        access_log=not entries,
        clears_silently=entries and settings.clears_silently,
        page_times=page_times,
        daily_limits=daily_limits,
        paths=paths,
        networks=lists.networks if lists is not None and lists.has_networks else None,
        has_fingerprints=bool(settings.identity.tls_header),
        licensed_bots=[bot.name for bot in licensed_bots(settings)],
        license_url=settings.bots.license,
        attack=AttackSwitch() if attack is None else attack,
    )
    built = registry().build(context)
    contain = settings.containment
    contains = context.clears_silently if contain.enabled == "auto" else contain.enabled
    return Engine(
        built.detectors, build_policy(settings), only=built.only, needs=built.needs,
        weights=settings.policy.weights, lists=lists,
        white_volume=contain.white_volume if contains else 0, browser_signs=context.browser_signs,
        paths=paths,
    )  # fmt: skip


def build_policy(settings: Settings) -> DecisionPolicy:
    policy = settings.policy
    return DecisionPolicy(
        registry().rules(settings), msgspec.convert(policy, PolicyThresholds, from_attributes=True),
        renew=settings.density.renew, strikes=settings.identity.strikes, day_of=day_of(ZoneInfo(policy.timezone)),
        lengthen=policy.lengthen, longest=policy.longest_block,
    )  # fmt: skip


def day_of(zone: ZoneInfo) -> Callable[[float], int]:
    """Return a function from a time to the number of its day in *zone*."""
    # Cached by second: a busy site asks for the same second many times, and no time zone changes the day within one.
    day_of_second = lru_cache(maxsize=64)(lambda second: datetime.fromtimestamp(second, zone).toordinal())
    return lambda at: day_of_second(at // 1)


def build_identifier(
    settings: Settings,
    tokens: TokenCodecs,
    bot_cache: BotCache,
    account_of: AccountOf | None = None,
    clearances: Clearances | None = None,
    *,
    sets_cookies: bool = False,
) -> Identifier:
    identity = settings.identity
    return Identifier(
        proxies=Proxies(identity.trusted_proxies, identity.forwarded_header),
        accounts=Accounts(cookie=identity.account_cookie, header=identity.account_header, callable_=account_of),
        bot_verifier=build_bot_verifier(settings, bot_cache),
        tls_header=identity.tls_header,
        tokens=tokens,
        prefix=settings.marker.prefix,
        clearances=clearances,
        never_opaque=NeverOpaque(settings.marker.never_opaque).match if settings.marker.never_opaque else None,
        sets_cookies=sets_cookies,
    )


def build_gate(
    settings: Settings,
    *,
    tokens: TokenCodecs | None = None,
    state: State | None = None,
    ledger: Ledger | None = None,
    account_of: AccountOf | None = None,
    entries: bool = True,
    lists: Lists | None = None,
) -> Gate:
    """Build a gate without a site. *entries* is false for an access log, in which a missing marker means nothing."""
    bot_cache, pages = BotCache(), PageDigests()
    configure_bot_cache(bot_cache, settings)
    tokens = build_token_codecs(settings) if tokens is None else tokens
    # Not `state or ...`: an empty store may be false.
    gate = Gate(
        build_engine(settings, pages, build_rules(settings), lists, entries=entries),
        build_state(settings) if state is None else state, build_ledger(settings) if ledger is None else ledger,
        build_identifier(settings, tokens, bot_cache, account_of), pages,
    )  # fmt: skip
    gate.needs_ledger = settings.ledger.on_failure == "closed"
    return gate

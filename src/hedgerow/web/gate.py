"""From settings to a gate: identifier, detectors, policy. Detectors come from their registry."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from hedgerow.challenge.clearance import Clearances
from hedgerow.core.address import Proxies
from hedgerow.core.engine import Engine
from hedgerow.core.gate import Gate
from hedgerow.core.ledger import Ledger
from hedgerow.core.state import State
from hedgerow.detectors.registry import registry
from hedgerow.detectors.spec import DetectorContext
from hedgerow.lists.model import Lists
from hedgerow.markers.rules import Patterns, Rules
from hedgerow.markers.token import PageDigests, TokenCodecs
from hedgerow.policy.decision_policy import DecisionPolicy, PolicyThresholds
from hedgerow.request.account import AccountOf, Accounts
from hedgerow.request.bot_signature import PublicKey, Signatures, public_key, thumbprint
from hedgerow.request.bot_verifier import BotCache, BotVerifier
from hedgerow.request.bots import KnownBot
from hedgerow.request.identify import Identifier
from hedgerow.settings.marker import SCRIPTED_RULES
from hedgerow.settings.schema import Settings
from hedgerow.web.bots import all_bots, build_bots, refused_bots
from hedgerow.web.stores import build_ledger, build_state, build_token_codecs


def build_rules(settings: Settings) -> Rules:
    """Build the rules that say which links are marked, and how."""
    marker = settings.marker
    rules = (*marker.rules, *SCRIPTED_RULES) if marker.mode == "opaque" else marker.rules
    return Rules(marker.mode, [(rule.path, rule.mode) for rule in rules])


def build_bot_verifier(settings: Settings, bot_cache: BotCache) -> BotVerifier:
    bots = settings.bots
    known = {bot.signer: bot for bot in all_bots(settings) if bot.signer}
    signatures = Signatures(
        bot_cache.keys, known, any_signer=bots.signatures == "any", insecure=bots.insecure_directories
    )  # fmt: skip
    return BotVerifier(
        build_bots(settings, bot_cache.proofs),
        signatures if bots.enabled and bots.signatures != "off" else None,
        bot_cache.robots_compliance if bots.enabled and bots.robots else None,
    )


def configure_bot_cache(bot_cache: BotCache, settings: Settings) -> None:
    """Have what is remembered about bots follow these settings."""
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
    settings: Settings, pages: PageDigests, rules: Rules, lists: Lists | None = None, *, entries: bool = True
) -> Engine:
    open_to_all = Patterns(settings.marker.entries)
    refused = [bot.name for bot in refused_bots(settings)]
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
    """Return a function from a time to the number of its day in *zone*."""
    # A busy site asks for the same second many times, and within one the day is the same wherever that is.
    day_of_second = lru_cache(maxsize=64)(lambda second: datetime.fromtimestamp(second, zone).toordinal())
    return lambda at: day_of_second(at // 1)


def build_identifier(
    settings: Settings,
    tokens: TokenCodecs,
    bot_cache: BotCache,
    account_of: AccountOf | None = None,
    clearances: Clearances | None = None,
) -> Identifier:
    identity = settings.identity
    return Identifier(
        proxies=Proxies(identity.trusted_proxies, identity.forwarded_header),
        accounts=Accounts(cookie=identity.account_cookie, header=identity.account_header, callable_=account_of),
        bot_verifier=build_bot_verifier(settings, bot_cache),
        tls_header=identity.tls_header,
        seals=tokens,
        prefix=settings.marker.prefix,
        clearances=clearances,
    )


def build_gate(
    settings: Settings,
    *,
    seals: TokenCodecs | None = None,
    state: State | None = None,
    ledger: Ledger | None = None,
    account_of: AccountOf | None = None,
    entries: bool = True,
    lists: Lists | None = None,
) -> Gate:
    """
    Build a gate that stands alone, without a site: for a replay, and for tests.

    *entries* is false for an access log, where a visit without a marker means nothing. Without *lists* none are used.
    """
    bot_cache, pages = BotCache(), PageDigests()
    configure_bot_cache(bot_cache, settings)
    tokens = build_token_codecs(settings) if seals is None else seals
    gate = Gate(
        build_engine(settings, pages, build_rules(settings), lists, entries=entries),
        # Not `state or ...`: stores that hold nothing yet may be false.
        build_state(settings) if state is None else state,
        build_ledger(settings) if ledger is None else ledger,
        build_identifier(settings, tokens, bot_cache, account_of),
        pages,
    )
    gate.needs_ledger = settings.ledger.on_failure == "closed"
    return gate

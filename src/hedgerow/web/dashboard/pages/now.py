"""*Now*: whether the site is being crawled, by whom, and what is done about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import nlargest
from itertools import islice
from typing import Any, Literal

import msgspec

from hedgerow.challenge.prices import PriceLevel
from hedgerow.core.attack import ATTACK_KEY, attack_block
from hedgerow.errors import StoreError
from hedgerow.ledger.minutes import MINUTE, StepCount
from hedgerow.ledger.reader import Row
from hedgerow.lists.times import parse_duration
from hedgerow.web.daily_limits import limits_of
from hedgerow.web.dashboard.page import Action, Context, Done, Duration, Empty, Page, Problem
from hedgerow.web.dashboard.snapshot import Snapshot
from hedgerow.web.siblings import open_orders
from hedgerow.web.visitor_rows import ReasonCount, VisitorRow, describe_reason, row_of

ACTIONS = ("pass", "challenge", "detain", "refuse")
_SPANS = {"1h": (3600, 60), "24h": (86_400, 600), "7d": (604_800, 3600)}
"""Seconds of a chart, and of one point in it."""
_RECENT = 900
_MIN_STOPPED, _MIN_SHARE = 10, 0.05
"""Requests of the last quarter of an hour, and their share, from which the site is said to be crawled."""
_MAX_ROWS = 20
_MAX_STOPPED = 400
"""Visits that did not pass of which the last of each visitor are shown."""
_PRICES: dict[PriceLevel, str] = {
    "work": "more work than usual",
    "captcha": "an image or a recording",
    "none": "none until pages of the last day no longer count",
}
_STOPPED_COLUMNS = ("at", "visitor", "method", "target", "user_agent", "action", "code", "ref", "observed")


class NowParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    span: Literal["1h", "24h", "7d"] = "1h"


class Series(msgspec.Struct, frozen=True):
    """Requests over time: the start of each step in seconds, and one number for it by action."""

    step: int
    times: list[int]
    actions: dict[str, list[int]]


class Component(msgspec.Struct, frozen=True):
    """A part that the site needs. *problem* is empty if it works."""

    name: str
    problem: str


class Budget(msgspec.Struct, frozen=True):
    """How many pages a day are allowed, and why this is the number."""

    name: str
    pages: int
    why: str


class PriceCount(msgspec.Struct, frozen=True):
    """How many addresses get their next clearance only at this price."""

    price: str
    addresses: int


class StartAttack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """*duration* is when it ends by itself."""

    duration: Duration = "2h"


class Stopped(msgspec.Struct, frozen=True):
    """
    The last visit of a visitor that did not pass, or would not have passed, for one reason; *text* says what *code*
    means. *times* is how many of the last visits that did not pass were of this visitor, for this reason.
    """

    at: float
    visitor: str
    method: str
    target: str
    user_agent: str
    action: str
    code: str
    reference: str
    observed: bool
    text: str
    times: int = 1


class Now(msgspec.Struct, frozen=True):
    """
    The state of the site.

    *sentence* answers whether the site is being crawled. *pages_saved* are pages of the span that crawlers did not get.
    While the site only observes, crawlers got them. *challenges* and *detained* count since the start of the service.
    *attack_until* is the end of the "under attack" switch, 0 if it is off. *history* is false without a ledger.
    """

    sentence: str
    is_crawled: bool
    observing: bool
    history: bool
    series: Series
    totals: dict[str, int]
    pages_saved: int
    challenges: dict[str, int]
    suspects: int
    suspects_by_reason: list[ReasonCount]
    blocked: int
    blocked_by_reason: list[ReasonCount]
    latest_blocks: list[VisitorRow]
    latest_stopped: list[Stopped]
    campaigns: int
    detained: int
    visitors: int
    budgets: list[Budget]
    prices: list[PriceCount]
    gateways: int
    components: list[Component]
    attack_until: float


def query(context: Context, parameters: NowParameters) -> Now:
    site, settings, now = context.site, context.settings, context.now
    metrics, known = site.metrics(), context.snapshot
    counts, recent, stopped, problem = _history(context, *_SPANS[parameters.span])
    totals = Counter[str]()
    for one in counts:
        totals[one.action] += one.visits
    saved = sum(one.pages for one in counts if one.action != "pass" and bool(one.observed) == bool(settings.observe))
    sentence, is_crawled = _sentence(context, recent)
    k1, k2 = limits_of(settings)
    return Now(
        sentence=sentence,
        is_crawled=is_crawled,
        observing=bool(settings.observe),
        history=context.has_ledger,
        series=_series(counts, now, *_SPANS[parameters.span]),
        totals={action: totals[action] for action in ACTIONS},
        pages_saved=saved,
        challenges=_challenges(metrics.challenges),
        suspects=known.suspects,
        suspects_by_reason=_by_reason(known.reasons),
        blocked=len(known.blocks),
        blocked_by_reason=_by_reason(Counter(block.evidence.code for block in known.blocks.values())),
        latest_blocks=_latest(context, known),
        latest_stopped=stopped,
        campaigns=len(site.campaigns()),
        detained=metrics.inside,
        visitors=len(site.stores.state),
        budgets=[
            Budget("without a clearance", k1.pages, k1.why),
            Budget("with a clearance", k2.pages, k2.why),
        ],
        prices=[PriceCount(_PRICES[level], known.prices[level]) for level in _PRICES],
        gateways=len(known.gateways),
        components=_components(context, problem),
        attack_until=site.attack_until(now),
    )


def _history(
    context: Context, seconds: int, step: int
) -> tuple[Sequence[StepCount], Sequence[StepCount], list[Stopped], str]:
    """
    Return the counts of the span and of the last quarter of an hour, the last visits that did not pass, and why there
    are none, if there are not.
    """
    if not context.has_ledger:
        return (), (), [], ""
    end = context.now + MINUTE
    try:
        with context.ledger() as ledger:
            counts = ledger.count_steps(context.now - seconds, end, step)
            recent = ledger.count_steps(context.now - _RECENT, end, _RECENT)
            rows = ledger.last_stopped(_MAX_STOPPED, _STOPPED_COLUMNS)
    except StoreError as error:
        return (), (), [], str(error)
    return counts, recent, _stopped(rows), ""


def _stopped(rows: Sequence[Row]) -> list[Stopped]:
    """Return the last of each visitor for each reason: a busy crawler must not hide all others."""
    times = Counter[tuple[object, ...]]()
    last: dict[tuple[object, ...], dict[str, Any]] = {}
    for row in rows:
        found = dict(zip(_STOPPED_COLUMNS, row, strict=True))
        group = tuple(found[name] for name in ("visitor", "action", "code", "observed"))
        times[group] += 1
        last.setdefault(group, found)
    return [
        Stopped(
            **{name: value for name, value in found.items() if name != "ref"} | {"observed": bool(found["observed"])},
            reference=found["ref"], text=describe_reason(found["code"]).text, times=times[group],
        )
        for group, found in islice(last.items(), _MAX_ROWS)
    ]  # fmt: skip


def _sentence(context: Context, recent: Sequence[StepCount]) -> tuple[str, bool]:
    """Say whether the site is being crawled, from the last quarter of an hour."""
    visits = sum(one.visits for one in recent)
    stopped = sum(one.visits for one in recent if one.action != "pass")
    active = [one for one in context.site.campaigns() if one.seen >= context.now - _RECENT]
    done = "would have been stopped" if context.settings.observe else "were stopped"
    if not context.has_ledger:
        return "The ledger is off, so there is no history to answer from.", False
    if not visits:
        return "No: nobody has visited the site in the last 15 minutes.", False
    share = f"{stopped:,} of {visits:,} requests of the last 15 minutes {done}"
    if stopped >= _MIN_STOPPED and stopped >= _MIN_SHARE * visits:
        also = f", and {len(active)} campaign{'s are' if len(active) > 1 else ' is'} active" if active else ""
        return f"Yes, the site is being crawled: {share}{also}.", True
    if active:
        return f"Yes, by {len(active)} campaign{'s' if len(active) > 1 else ''}: {share}.", True
    return f"No: {share}.", False


def _series(counts: Sequence[StepCount], now: float, seconds: int, step: int) -> Series:
    first = int((now - seconds) // step + 1) * step
    times = list(range(first, int(now) + 1, step))
    actions = {action: [0] * len(times) for action in ACTIONS}
    for one in counts:
        at = (one.start - first) // step
        if 0 <= at < len(times) and one.action in actions:
            actions[one.action][at] += one.visits
    return Series(step, times, actions)


def _challenges(counted: dict[str, int]) -> dict[str, int]:
    """Return challenges by what became of them. Those that a page's script solved were never shown."""
    known = {"silent", "solved", "issued", "cleared"}
    return {
        "shown": counted.get("issued", 0),
        "solved silently": counted.get("cleared", 0),
        "solved": counted.get("solved", 0),
        "failed": sum(count for name, count in counted.items() if name not in known),
    }


def _by_reason(counted: Counter[str]) -> list[ReasonCount]:
    return [ReasonCount(code, n, describe_reason(code).text) for code, n in counted.most_common()]


def _latest(context: Context, known: Snapshot) -> list[VisitorRow]:
    latest = nlargest(_MAX_ROWS, known.blocks.values(), key=lambda block: block.since)
    observes = bool(context.settings.observe)
    return [
        row_of(context.settings, block.key, known.scores.get(block.key), block, context.now, observed=observes)
        for block in latest
    ]


def _components(context: Context, ledger_problem: str) -> list[Component]:
    site, settings = context.site, context.settings
    names = ["upstream"] if settings.proxy.upstream else []
    names += ["state"]
    names += ["ledger"] if settings.ledger.enabled else []
    names += ["lists"] if site.follower is not None else []
    names += ["watch"] if settings.watch.enabled else []
    names += ["certificate"] if settings.tls.is_obtained else []
    problems = {**({"ledger": ledger_problem} if ledger_problem else {}), **context.problems}
    if site.certificate_problem:
        problems["certificate"] = site.certificate_problem
    return [Component(name, problems.get(name, "")) for name in dict.fromkeys([*names, *problems])]


def start_attack(context: Context, request: StartAttack) -> Done:
    with open_orders(context.site) as order:
        order(ATTACK_KEY, attack_block(context.now, parse_duration(request.duration)))
    said = f"Every visitor without a clearance needs one, for {request.duration}."
    if context.settings.observe:
        said = f"Recorded for {request.duration}. Nobody is asked, because the site only observes."
    return Done(said, "the site", "/")


def end_attack(context: Context, _: Empty) -> Done:
    with open_orders(context.site) as order:
        ended = order(ATTACK_KEY, None)
    if ended is None:
        raise Problem(503, "Redis does not answer. It ends as soon as Redis does.")
    if not ended:
        raise Problem(409, "It is not on.")
    return Done("Visitors without a clearance are not asked any more.", "the site", "/")


PAGE = Page(
    name="now",
    title="Now",
    summary="Whether the site is being crawled, and what is done about it.",
    query=query,
    result=Now,
    parameters=NowParameters,
    actions=(
        Action("attack", "Ask every visitor without a clearance for one, for some time.", StartAttack, start_attack),
        Action("end-attack", "Stop asking every visitor without a clearance.", Empty, end_attack),
    ),
)

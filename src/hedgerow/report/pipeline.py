"""Pipeline: the stages of a report in order, with the time of each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.core.rate_limit import RateLimit
from hedgerow.report import pubcrawl
from hedgerow.report.activity import OWN, Activity, ActivityOpinion, named_hosts, own_addresses
from hedgerow.report.campaigns.group_links import Requests, RobotsRequests
from hedgerow.report.campaigns.search import find
from hedgerow.report.campaigns.traffic_similarity import SimilarityLimits
from hedgerow.report.heuristics import BrowsingOpinion, HeuristicsOpinion, ReportModel, Votes, load_model
from hedgerow.report.label_rules import CampaignOpinion, grounds_of, inherit, label_by_habits, settle
from hedgerow.report.live_opinions import DeclarationOpinion, DeclaredBots, detector_opinions
from hedgerow.report.model_opinions import PathOpinion, ShapeOpinion, WindowOpinion
from hedgerow.report.rate_limit_proposal import Proposal
from hedgerow.report.request_volumes import K1, K2
from hedgerow.report.result import CampaignResult, Containment, Report
from hedgerow.report.shape.classifiers import load as load_shape
from hedgerow.report.source_labels import (
    CRAWLER,
    GOOD_BOT,
    LEAST_PAGES,
    NOTHING,
    PERSON,
    UNKNOWN,
    Opinion,
    SourceLabels,
    residual_traffic,
)
from hedgerow.report.sweep import find_sweep
from hedgerow.report.tables.line_parser import OTHER_CLIENT
from hedgerow.report.tables.source_tables import Tables
from hedgerow.report.tables.topics import BROWSER, TOPIC_SHIFT
from hedgerow.report.tables.url_features import ROBOTS
from hedgerow.request.bots import BotProofs, Bots, NameLookup
from hedgerow.settings.load import Settings
from hedgerow.watch.models.bundle import load as load_bundle
from hedgerow.watch.models.bundle import load_window

if TYPE_CHECKING:
    from hedgerow.web.lookups.dns import Resolver

OPINIONS = ("heuristics", "manner", "path", "shape", "declared", "window", "activity")
"""Those of the report itself; the opinions of detectors come after the first two. Always added in the same order."""


METHODS = ("hedgerow", "pubcrawl")
"""Our own way to judge sources, and the paper's."""


class Options(msgspec.Struct, frozen=True):
    """
    Options of a report.

    *ignore_agents* hides user agents everywhere. *model* is a file of thresholds and weights; *paths*, *window* and
    *shape* are model bundles; None stands for those of Hedgerow. *resolve* are the known proofs of bots, if bots are to
    be verified by the DNS through *resolver*. *settings* are those of the detectors. *method* is one of `METHODS`.
    """

    ignore_agents: bool = False
    model: Path | None = None
    resolve: BotProofs | None = None
    resolver: Resolver | None = None
    paths: Path | None = None
    window: Path | None = None
    shape: Path | None = None
    settings: Settings = Settings()
    method: str = "hedgerow"


class _Watch:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - began


def make(tables: Tables, bots: Bots, options: Options) -> Report:
    """The report of the log in *tables*."""
    watch = _Watch()
    model = load_model(options.model)
    silent = 0 if options.ignore_agents else _resolved(tables, bots, options)
    if options.method == "pubcrawl":
        return _by_the_paper(tables, bots, model, options, watch, silent)
    # What rests on figures alone is found beside what asks the store, which only one may do at a time.
    with ThreadPoolExecutor(1, thread_name_prefix="hedgerow-opinions") as beside:
        of_figures = beside.submit(_by_figures, tables, bots, model, options, watch)
        with watch("shapes"):
            shapes = ShapeOpinion(tables, load_shape(options.shape))
        votes, declared, opinions = of_figures.result()
        activity = Activity(tables.figures)
    with watch("judging"):
        if declared is not None:
            activity.add_sweep(find_sweep(tables, declared.state))
        opinions["shape"] = shapes
        opinions["activity"] = ActivityOpinion(activity)
        own = [name for name in OPINIONS if name in opinions]
        of_detectors = [name for name in opinions if name not in OPINIONS]
        in_turn = {name: opinions[name] for name in (*own[:2], *of_detectors, *own[2:])}
        shared = in_turn["campaign"] = CampaignOpinion(len(tables.figures.sources))
        state = None if declared is None else declared.state
        judgements = SourceLabels(tables.figures["pages"], in_turn, state, trust=model.trust)
        grounds = grounds_of(tables.figures, in_turn, votes, activity, state)
        settle(judgements, tables.figures, activity, grounds, state, _own(tables, declared))
    with watch("campaigns"):
        found = campaigns(tables, judgements, shapes, declared)
        inherit(
            judgements,
            [(one.id, one.kind, np.array(members)) for one, members in found],
            shared,
            in_turn["manner"].probability,
        )
        label_by_habits(judgements, activity.habits, tables.figures)
    crowd = residual_traffic(judgements, shapes.counts, shapes.plan, shapes.night)
    report = Report(
        tables, judgements, declared=declared, votes=votes, rules=shapes.rules, crowd=crowd, silent=silent,
        resolved=options.resolve is not None,
    )  # fmt: skip
    report.join([one for one, _ in found])
    with watch("containment"):
        report.containment = contain(tables, judgements)
        report.density = rate_limits(tables, judgements, declared)
    report.timing |= watch.seconds
    return report


def _by_the_paper(
    tables: Tables, bots: Bots, model: ReportModel, options: Options, watch: _Watch, silent: int
) -> Report:
    """The report of the paper's pipeline."""
    with watch("shapes"):
        shapes = ShapeOpinion(tables, load_shape(options.shape), paper=True)
    with watch("heuristics"):
        declared = None if options.ignore_agents else DeclaredBots(tables, bots)
        votes = Votes(
            tables.figures, model.thresholds, ignore_agents=options.ignore_agents, referrers=tables.tells_referrers,
            renewed=tables.renewed,
        )  # fmt: skip
    with watch("judging"):
        state = None if declared is None else declared.state
        judgements, summary = pubcrawl.judge(tables, votes, shapes, options.settings.report, state)
    with watch("campaigns"):
        found = pubcrawl.campaigns(tables, judgements, shapes)
    report = Report(
        tables,
        judgements,
        declared=declared,
        votes=votes,
        rules=shapes.rules,
        silent=silent,
        method=summary,
        resolved=options.resolve is not None,
    )
    report.join([one for one, _ in found])
    with watch("containment"):
        report.containment = msgspec.structs.replace(contain(tables, judgements), k1=pubcrawl.K1, k2=pubcrawl.K2)
    report.timing |= watch.seconds
    return report


def _by_figures(
    tables: Tables, bots: Bots, model: ReportModel, options: Options, watch: _Watch
) -> tuple[Votes, DeclaredBots | None, dict[str, Opinion]]:
    """Return the opinions that need only figures, with the votes and what sources declare."""
    figures = tables.figures
    opinions: dict[str, Opinion] = {}
    declared = None
    with watch("heuristics"):
        referrers = tables.tells_referrers
        votes = Votes(
            figures, model.thresholds, ignore_agents=options.ignore_agents, referrers=referrers, renewed=tables.renewed
        )
        opinions["heuristics"] = HeuristicsOpinion(votes)
        opinions["manner"] = BrowsingOpinion(figures, model.manner, referrers=referrers)
    with watch("paths"):
        opinions["path"] = PathOpinion(figures, load_bundle(options.paths))
    if not options.ignore_agents:
        with watch("declared"):
            declared = DeclaredBots(tables, bots)
            opinions["declared"] = DeclarationOpinion(declared)
    with watch("heuristics"):
        opinions |= detector_opinions(figures, declared, options.settings)
    with watch("windows"):
        opinions["window"] = WindowOpinion(tables, load_window(options.window), declared)
    return votes, declared, opinions


def _own(tables: Tables, declared: DeclaredBots | None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which sources are the site itself, by their address and by their user agent, which anybody may send."""
    sources = tables.figures.sources
    others = tables.addresses[int(np.searchsorted(sources, OTHER_CLIENT)) :]
    by_address = own_addresses(sources, others, tables.hosts)
    names = named_hosts(tables.hosts)
    return by_address, np.zeros_like(by_address) if declared is None else declared.naming(names)


def _resolved(tables: Tables, bots: Bots, options: Options) -> int:
    """Verify self-declared bots by the DNS if wanted. Return how many lookups got no answer."""
    proofs = options.resolve
    if proofs is None:
        return 0
    from hedgerow.report.live_opinions import resolve
    from hedgerow.web.lookups.dns import DnsResolver

    questions: list[NameLookup] = []
    proofs.ask = questions.append
    DeclaredBots(tables, bots)
    proofs.ask = None
    return resolve(questions, proofs, options.resolver or DnsResolver())


FREE_TOUCHES = 0.01
"""The share of the days of sources not held to be crawlers that k1 may touch."""

MOST_TOUCHES = 0.001
"""The same for k2."""

_FEWEST_DAYS = 100
_FEWEST_ORDINARY = 20
_ABOVE, _MARGIN, _LEAST = 0.001, 1.5, 10
_SPANS = (1.2, 3.0, 60.0, 600.0)


def contain(tables: Tables, judgements: SourceLabels) -> Containment:
    """
    Count what the limits k1 and k2 would affect, and propose values that fit this log.

    A source on one day counts once. Pages and calls count, assets do not. k1 should leave alone nearly all sources that
    are not crawlers. k2 is for people who solved a challenge and continue: hardly any of them should reach it.
    """
    automatic = np.isin(judgements.label, (CRAWLER, GOOD_BOT))
    days, requests, ordinary = tables.days(automatic)
    grid = []
    for k1 in K1:
        for k2 in K2:
            touched = (requests > k1) & (requests <= k2)
            grid.append(
                {
                    "k1": k1,
                    "k2": k2,
                    "sources": int(days[touched].sum()),
                    "requests": int((days * requests)[touched].sum()),
                }
            )
    volumes = []
    limit = 1
    while len(requests):
        within = requests <= limit
        volumes.append(
            {
                "at_most": limit,
                "sources": int(days[within].sum()),
                "requests": int((days * requests)[within].sum()),
            }
        )
        if within.all():
            break
        limit *= 2
    enough = ordinary.sum() >= _FEWEST_DAYS
    return Containment(
        int(days.sum()),
        int((days * requests).sum()),
        volumes,
        grid,
        _smallest(K1, requests, ordinary, FREE_TOUCHES) if enough else None,
        _smallest(K2, requests, ordinary, MOST_TOUCHES) if enough else None,
    )


def _smallest(limits: tuple[int, ...], requests: NDArray[np.int64], days: NDArray[np.int64], share: float) -> int:
    """Return the smallest of *limits* that at most *share* of the days exceed, or else the largest."""
    total = days.sum()
    return next((limit for limit in limits if days[requests > limit].sum() <= share * total), limits[-1])


def rate_limits(tables: Tables, judgements: SourceLabels, declared: DeclaredBots | None) -> list[Proposal]:
    """
    Return rate limits that fit this log, by the rule of `hedgerow replay --propose`.

    Ordinary sources have at least two page visits, do not declare themselves and are not crawlers. If at least a tenth
    of them load assets, only those count.
    """
    figures = tables.figures
    automatic = np.isin(judgements.label, (CRAWLER, GOOD_BOT))
    if declared is not None:
        automatic |= declared.state != NOTHING
    seen = (figures["pages"] > 1) & ~automatic
    browsers = seen & (figures["assets"] > 0)
    ordinary = browsers if 10 * browsers.sum() >= seen.sum() else seen
    count = int(ordinary.sum())
    if count < _FEWEST_ORDINARY:
        return []
    aside = max(int(np.ceil(count * _ABOVE)), min(3, int(np.ceil(count / 100))))
    proposals = []
    for k, span in enumerate(_SPANS):
        peaks = figures[f"peak_{k}"]
        reached = int(np.sort(peaks[ordinary])[-1 - aside])
        limit = max(_LEAST, int(np.ceil(reached * _MARGIN)))
        above = peaks > limit
        touched = int(above.sum()), int((above & ordinary).sum())
        proposals.append(Proposal(RateLimit(limit, span), count, reached, *touched))
    return proposals


MOST_SOURCES = 20_000
"""Sources whose single requests are looked at: those with the most."""

_FIRST = 200
"""Pages and calls of each that are looked at."""


def campaigns(
    tables: Tables, judgements: SourceLabels, shapes: ShapeOpinion, declared: DeclaredBots | None
) -> list[tuple[CampaignResult, tuple[int, ...]]]:
    """
    Return the campaigns, largest first, with the places of their members.

    A source of a page or two that loads images and styles as a browser does counts as a person; otherwise all users of
    the newest browser would be a campaign. Among the addresses of a crawler it belongs to the crawler: some load a
    whole page now and then.
    """
    label = judgements.label
    figures = tables.figures
    doubtful = (label == UNKNOWN) & (figures["pages"] == 0) & (figures["assets"] > 0)
    doubtful |= (label == PERSON) & (figures["pages"] < LEAST_PAGES)
    people = (label == PERSON) | doubtful | (judgements.activity == OWN)
    chosen = np.flatnonzero(~people)
    chosen = np.sort(chosen[np.lexsort((chosen, -tables.requests[chosen]))[:MOST_SOURCES]])
    rows = tables.store.first_pages(tables.figures.sources[chosen], _FIRST)
    # All crawlers ask for robots.txt and all browsers for icons, whether they are there or not. When crawlers do so may
    # tell something.
    flags = rows["flags"].astype(np.int64)
    asking = flags & ROBOTS != 0
    robots = RobotsRequests(tables.places(rows["source"])[asking], rows["t"][asking] / 1e6)
    telling = ~asking & (flags >> TOPIC_SHIFT != BROWSER)
    rows = {name: column[telling] for name, column in rows.items()}
    requests = Requests(
        tables.places(rows["source"]),
        rows["t"] / 1e6,
        _numbered(rows["page"].astype(np.uint64)),
        rows["shape"].astype(np.int64),
        rows["status"].astype(np.int64),
        robots,
    )
    names = tables.sources
    agents = None if declared is None else declared.agents_of(np.arange(len(names)))
    limits = SimilarityLimits(k=shapes.similarity)
    bots = None if declared is None else declared.identities()
    found = find(
        tables.addresses, people, shapes.counts, shapes.plan, requests, agents, limits=limits, doubtful=doubtful,
        declared=bots,
    )  # fmt: skip
    return [
        (
            CampaignResult(
                f"c{number}",
                one.kind,
                [names[k] for k in one.members],
                round(float(one.similarity), 4),
                one.text,
                {names[k]: later for k, later in one.shifts},
            ),
            one.members,
        )
        for number, one in enumerate(found, 1)
    ]


def _numbered(pages: NDArray[np.uint64]) -> NDArray[np.int64]:
    """
    Replace the digests *pages* by numbers in the order of their first appearance.

    Digests differ in every run, and the result must not depend on their order.
    """
    different, first, which = np.unique(pages, return_index=True, return_inverse=True)
    numbers = np.empty(len(different), np.int64)
    numbers[np.argsort(first)] = np.arange(len(different))
    return numbers[which]

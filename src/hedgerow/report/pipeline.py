"""Making: the stages of a report, one after the other, with what each took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hedgerow.report.browsing_features import BrowsingOpinion
from hedgerow.report.campaign_search import campaigns
from hedgerow.report.containment import contain, limits
from hedgerow.report.declared_bots import DeclaredBots
from hedgerow.report.heuristics import Votes
from hedgerow.report.live_opinions import detector_opinions
from hedgerow.report.path_opinion import PathOpinion
from hedgerow.report.report_model import ReportModel, load
from hedgerow.report.residual_traffic import residual_traffic
from hedgerow.report.result import Report
from hedgerow.report.shape.model_file import load as load_shape
from hedgerow.report.shape_opinion import ShapeOpinion
from hedgerow.report.source_labels import DeclarationOpinion, HeuristicsOpinion, Opinion, SourceLabels
from hedgerow.report.tables.source_tables import Tables
from hedgerow.report.window_opinion import WindowOpinion
from hedgerow.request.bots import BotProofs, Bots, NameLookup
from hedgerow.settings.schema import Settings
from hedgerow.watch.models.bundle import load as load_bundle
from hedgerow.watch.models.bundle import load_window

if TYPE_CHECKING:
    from hedgerow.web.lookups.dns import Resolver

OPINIONS = ("heuristics", "manner", "path", "shape", "declared", "window")
"""Those of the report itself; the opinions of detectors come after the first two. Always added in the same order."""


class Options(msgspec.Struct, frozen=True):
    """
    How a report is made.

    *ignore_agents* hides user agents from everything. *model* is a file of thresholds and weights, *paths*, *window*
    and *shape* bundles for those; the ones that come with Hedgerow where there are none. *resolve* is where what is
    known of names is kept, if bots are to be verified by the DNS, which *resolver* asks. *settings* are those of the
    detectors. *told* says that all sources will be told of, in JSON: that is begun before campaigns are found.
    """

    ignore_agents: bool = False
    model: Path | None = None
    resolve: BotProofs | None = None
    resolver: Resolver | None = None
    paths: Path | None = None
    window: Path | None = None
    shape: Path | None = None
    settings: Settings = Settings()
    told: bool = False


class _Watch:
    """Seconds by what they went to."""

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
    model = load(options.model)
    silent = 0 if options.ignore_agents else _resolved(tables, bots, options)
    # What rests on figures alone is found beside what asks the store, which only one may do at a time.
    with ThreadPoolExecutor(1, thread_name_prefix="hedgerow-opinions") as beside:
        of_figures = beside.submit(_by_figures, tables, bots, model, options, watch)
        with watch("shapes"):
            shapes = ShapeOpinion(tables, load_shape(options.shape))
        votes, declared, opinions = of_figures.result()
    with watch("judging"):
        opinions["shape"] = shapes
        own = [name for name in OPINIONS if name in opinions]
        of_detectors = [name for name in opinions if name not in OPINIONS]
        in_turn = {name: opinions[name] for name in (*own[:2], *of_detectors, *own[2:])}
        judgements = SourceLabels(tables.figures["pages"], in_turn, declared, trust=model.trust)
        crowd = residual_traffic(judgements, shapes)
    report = Report(
        tables, judgements, declared=declared, votes=votes, rules=shapes.rules, crowd=crowd, silent=silent
    )  # fmt: skip
    with report.telling_beside() if options.told else nullcontext():
        with watch("containment"):
            report.containment = contain(tables, judgements)
            report.density = limits(tables, judgements, declared)
        with watch("campaigns"):
            report.join(campaigns(tables, judgements, shapes, declared))
    report.timing |= watch.seconds
    return report


def _by_figures(
    tables: Tables, bots: Bots, model: ReportModel, options: Options, watch: _Watch
) -> tuple[Votes, DeclaredBots | None, dict[str, Opinion]]:
    """The opinions that rest on the figures of sources; with them the votes and what sources declare."""
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


def _resolved(tables: Tables, bots: Bots, options: Options) -> int:
    """Ask for the names of who says it is a known bot, where that is wanted; how many had no answer."""
    proofs = options.resolve
    if proofs is None:
        return 0
    from hedgerow.report.name_resolution import resolve
    from hedgerow.web.lookups.dns import DnsResolver

    questions: list[NameLookup] = []
    proofs.ask = questions.append
    DeclaredBots(tables, bots)
    proofs.ask = None
    return resolve(questions, proofs, options.resolver or DnsResolver())

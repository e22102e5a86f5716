"""
PubCrawl: the pipeline of the paper (Jacob et al. 2012), for `hedgerow report --method pubcrawl`.

1. Prefilter (section 6.1): a source with very many requests on a day is a crawler outright. A source with few is left
   to containment. Both limits are settings, and are scaled to the traffic of the log by default.
2. The majority of the seven heuristics that have a vote, or the majority of three classifiers on the paper's eight
   features of traffic shape, makes a crawler of any other source.
3. Algorithm 1 finds campaigns among crawlers, without any shift in time.
4. Containment with the paper's k1 and k2.

User agents decide nothing, except that verified bots are on the white list. What Hedgerow adds (browsing features,
paths, windows, rate limits, activities, network groups, two grounds) is not used. A list for export still needs two of
the grounds that there are: volume, heuristics, shape.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.report.campaigns.search import synchronous
from hedgerow.report.campaigns.traffic_similarity import SimilarityLimits
from hedgerow.report.heuristics import HeuristicsOpinion, Votes
from hedgerow.report.label_rules import GROUNDS
from hedgerow.report.model_opinions import ShapeOpinion
from hedgerow.report.result import CampaignResult
from hedgerow.report.shape.series import DAY, Counts, SeriesPlan
from hedgerow.report.source_labels import (
    CONTAINED,
    CRAWLER,
    GOOD_BOT,
    PERSON,
    UNKNOWN,
    VERIFIED,
    Findings,
    Opinion,
    SourceLabels,
    one_each,
)
from hedgerow.report.tables.source_tables import Tables
from hedgerow.settings.tables import ReportSettings

K1, K2 = 20, 1000
"""The paper's containment."""

CRAWLER_FROM, JUDGED_FROM = 500_000, 1_000
PAPER_REQUESTS = 14_600_000
"""Requests a day of the paper's site, after its prefilter: 73 million in five days."""

_LEAST_CRAWLER_FROM = 1_000
_LEAST_VOTES = 3
_EVEN = 0.5
_GROUND = {"prefilter": GROUNDS.index("rate"), "heuristics": GROUNDS.index("requests"), "shape": GROUNDS.index("shape")}


class Prefilter(msgspec.Struct, frozen=True):
    """
    Requests on a source's busiest day: above *crawler_from* it is a crawler, below *judged_from* it is not judged.
    """

    crawler_from: int
    judged_from: int

    @staticmethod
    def of(settings: ReportSettings, requests: int, days: float) -> Prefilter:
        """
        Return the limits of the *settings*, or else those of the paper, scaled to a log of so many requests and days.

        A reader may make some hundred requests on a day, pages with all their images. So the first limit is never below
        1,000.

        >>> Prefilter.of(ReportSettings(), 73_000_000, 5.0)
        Prefilter(crawler_from=500000, judged_from=1000)
        >>> Prefilter.of(ReportSettings(), 200_000, 34.0)
        Prefilter(crawler_from=1000, judged_from=1)
        """
        scale = min(requests / max(days, 1.0) / PAPER_REQUESTS, 1.0)
        return Prefilter(
            settings.crawler_from or max(round(CRAWLER_FROM * scale), _LEAST_CRAWLER_FROM),
            settings.judged_from or max(round(JUDGED_FROM * scale), 1),
        )


class MethodSummary(msgspec.Struct, frozen=True):
    """What the method did: its limits, and how many sources each step decided on."""

    prefilter: Prefilter
    outright: int
    by_heuristics: int
    by_shape: int
    judged_people: int
    contained: int
    k: float

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {"name": "pubcrawl", **fields, "k1": K1, "k2": K2}

    @property
    def text(self) -> str:
        limits = self.prefilter
        return (
            "Method: PubCrawl, as in the paper of 2012. Sources with more than "
            f"{limits.crawler_from:,} requests on a day are crawlers outright: {self.outright:,}. Of those with "
            f"{limits.judged_from:,} or more on a day and enough for the models, the heuristics call "
            f"{self.by_heuristics:,} crawlers, the shape of traffic calls {self.by_shape:,}, and "
            f"{self.judged_people:,} are users. Sources with fewer requests are left to containment: "
            f"{self.contained:,}."
        )


def busiest_days(counts: Counts, plan: SeriesPlan) -> NDArray[np.int64]:
    """Return the most requests of each source on one day of the log, counted from its first request."""
    day = (counts.bins * plan.interval // DAY).astype(np.int64)
    keys = counts.rows * (int(day.max(initial=0)) + 1) + day
    different, which = np.unique(keys, return_inverse=True)
    sums = np.bincount(which, counts.values, len(different)).astype(np.int64)
    found = np.zeros(counts.size, np.int64)
    np.maximum.at(found, different // (int(day.max(initial=0)) + 1), sums)
    return found


class VolumeOpinion:
    """The opinion of the prefilter on sources with very many requests."""

    detector, codes = "prefilter", ("prefilter-volume",)

    def __init__(self, busiest: NDArray[np.int64], limits: Prefilter) -> None:
        self._busiest, self._limits = busiest, limits
        self.speaks: NDArray[np.bool_] = busiest > limits.crawler_from
        self.probability: NDArray[np.float64] = np.where(self.speaks, 1.0, np.nan)

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        limit = self._limits.crawler_from
        texts = [f"It made {n:,} requests on one day, more than {limit:,}." for n in self._busiest[some].tolist()]
        return one_each(self.probability[some], texts)


def judge(
    tables: Tables, votes: Votes, shapes: ShapeOpinion, settings: ReportSettings, declared: NDArray[np.int8] | None
) -> tuple[SourceLabels, MethodSummary]:
    """Label all sources by steps 1 and 2. *declared* is what sources declare; None if user agents are hidden."""
    days = tables.span / DAY
    limits = Prefilter.of(settings, int(tables.requests.sum()), days)
    busiest = busiest_days(shapes.counts, shapes.plan)
    opinions: dict[str, Opinion] = {
        "prefilter": VolumeOpinion(busiest, limits), "heuristics": HeuristicsOpinion(votes), "shape": shapes
    }  # fmt: skip
    labels = SourceLabels(tables.figures["pages"], opinions, None, trust={})
    enough = (busiest >= limits.judged_from) & (tables.requests >= shapes.least) & ~opinions["prefilter"].speaks
    voted = votes.cast >= _LEAST_VOTES
    grounds = {"prefilter": opinions["prefilter"].speaks, "heuristics": votes.crawlers & voted, "shape": shapes.speaks}
    labels.grounds = np.zeros((len(busiest), len(GROUNDS)), np.bool_)
    for name, column in grounds.items():
        labels.grounds[:, _GROUND[name]] = column & (enough | (name == "prefilter"))
    crawler = labels.grounds.any(1)
    known = enough & (voted | ~np.isnan(shapes.probability))
    labels.label[:] = np.where(crawler, CRAWLER, np.where(known, PERSON, UNKNOWN))
    labels.reason[labels.label == UNKNOWN] = CONTAINED
    labels.score[crawler] = np.maximum(labels.score[crawler], _EVEN)
    if declared is not None:
        labels.label[declared == VERIFIED] = GOOD_BOT
    found = labels.label
    summary = MethodSummary(
        limits,
        int(opinions["prefilter"].speaks.sum()),
        int((labels.grounds[:, _GROUND["heuristics"]] & (found == CRAWLER)).sum()),
        int((labels.grounds[:, _GROUND["shape"]] & (found == CRAWLER)).sum()),
        int((found == PERSON).sum()),
        int((found == UNKNOWN).sum()),
        shapes.similarity,
    )
    return labels, summary


def campaigns(
    tables: Tables, labels: SourceLabels, shapes: ShapeOpinion
) -> list[tuple[CampaignResult, tuple[int, ...]]]:
    """Return the campaigns of algorithm 1 among crawlers and verified bots, with the places of their members."""
    others = ~np.isin(labels.label, (CRAWLER, GOOD_BOT))
    limits = SimilarityLimits(k=shapes.similarity, shift=0)
    names = tables.sources
    return [
        (
            CampaignResult(f"c{number}", one.kind, [names[k] for k in one.members], one.similarity, one.text),
            one.members,
        )
        for number, one in enumerate(synchronous(others, shapes.counts, shapes.plan, limits), 1)
    ]

"""Together: the campaigns of a log (`campaigns.finding`), from its tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.campaigns.network_groups import ROBOTS, Requests
from hedgerow.report.campaigns.search import find
from hedgerow.report.campaigns.traffic_similarity import SimilarityLimits
from hedgerow.report.declared_bots import DeclaredBots
from hedgerow.report.result import CampaignResult
from hedgerow.report.shape_opinion import ShapeOpinion
from hedgerow.report.source_labels import PERSON, UNKNOWN, SourceLabels
from hedgerow.report.tables.source_tables import Tables

MOST_SOURCES = 20_000
"""Sources whose single requests are looked at: those with the most."""

_EVEN = 0.5
_LEAST_BROUGHT = 3
_FIRST = 200
"""Pages and calls of each that are looked at."""


def campaigns(
    tables: Tables, judgements: SourceLabels, shapes: ShapeOpinion, declared: DeclaredBots | None
) -> list[CampaignResult]:
    """
    The campaigns, the largest first.

    Most people come for a page or two and stay unknown; who brings a page's images and styles along, as a browser does,
    or wants nothing else, is taken for one here, or all who have the newest browser would be a campaign. But amid the
    addresses of a crawler it is held to be that crawler's: some draw a page now and then.
    """
    label = judgements.label
    figures = tables.figures
    least = np.where(figures["own"] + figures["foreign"] > 0, 1, _LEAST_BROUGHT)
    browses = (judgements.score < _EVEN) & (figures["brought"] >= least)
    like_one = np.where(figures["pages"] > 0, browses, figures["assets"] > 0)
    doubtful = (label == UNKNOWN) & like_one
    people = (label == PERSON) | doubtful
    chosen = np.flatnonzero(~people)
    chosen = np.sort(chosen[np.lexsort((chosen, -tables.requests[chosen]))[:MOST_SOURCES]])
    rows = tables.store.first_pages(tables.figures.sources[chosen], _FIRST)
    pages, robots = _numbered(rows["page"].astype(np.uint64), tables.builder.key.digest(ROBOTS.encode()))
    requests = Requests(
        tables.places(rows["source"]),
        rows["t"] / 1e6,
        pages,
        rows["shape"].astype(np.int64),
        rows["status"].astype(np.int64),
        robots,
    )
    names = tables.sources
    agents = None if declared is None else declared.agents_of(np.arange(len(names)))
    limits = SimilarityLimits(k=shapes.similarity)
    found = find(
        tables.addresses, people, shapes.counts, shapes.plan, requests, agents, limits=limits, doubtful=doubtful
    )
    return [
        CampaignResult(
            f"c{number}",
            one.kind,
            [names[k] for k in one.members],
            round(float(one.similarity), 4),
            one.text,
            {names[k]: later for k, later in one.shifts},
        )
        for number, one in enumerate(found, 1)
    ]


def _numbered(pages: NDArray[np.uint64], robots: int) -> tuple[NDArray[np.int64], int | None]:
    """
    The digests *pages* as numbers, in the order in which they come first, and the number of the page *robots*.

    Digests are others in every run, and what is found must not depend on their order.
    """
    different, first, which = np.unique(pages, return_index=True, return_inverse=True)
    numbers = np.empty(len(different), np.int64)
    numbers[np.argsort(first)] = np.arange(len(different))
    found = np.flatnonzero(different == np.uint64(robots))
    return numbers[which], int(numbers[found[0]]) if len(found) else None

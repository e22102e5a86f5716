"""
Containment: what k1 and k2 would touch in this log (PubCrawl's figures 6 and 7 and its table 9), and which fit it.

A source on one day counts once. What counts is what containment counts: pages and calls, no assets. k1 is to leave
nearly everybody alone who is not held to be a crawler; k2 is for those who have shown to be people and go on: it is
where even of them hardly anybody comes.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.core.rate_limit import RateLimit
from hedgerow.report.declared_bots import NOTHING, DeclaredBots
from hedgerow.report.rate_limit_proposal import Proposal
from hedgerow.report.request_volumes import K1, K2
from hedgerow.report.source_labels import CRAWLER, GOOD_BOT, SourceLabels
from hedgerow.report.tables.source_tables import Tables

FREE_TOUCHES = 0.01
"""The share of the days of sources not held to be crawlers that k1 may touch."""

MOST_TOUCHES = 0.001
_FEWEST_DAYS = 100
_FEWEST_ORDINARY = 20
_ABOVE, _MARGIN, _LEAST = 0.001, 1.5, 10
_SPANS = (1.2, 3.0, 60.0, 600.0)


class Containment(msgspec.Struct, frozen=True):
    """
    *volumes*: how many source-days made at most 1, 2, 4, ... requests, and how many requests those were. *grid*: table
    9. *k1* and *k2* are proposed; None where the log is too small to tell.
    """

    sources: int
    requests: int
    volumes: list[dict[str, int]]
    grid: list[dict[str, int]]
    k1: int | None
    k2: int | None


def contain(tables: Tables, judgements: SourceLabels) -> Containment:
    """What k1 and k2 would touch in this log."""
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
    """The smallest of *limits* that at most *share* of the days are above; the largest where all touch more."""
    total = days.sum()
    return next((limit for limit in limits if days[requests > limit].sum() <= share * total), limits[-1])


def limits(tables: Tables, judgements: SourceLabels, declared: DeclaredBots | None) -> list[Proposal]:
    """
    Density windows that fit this log; the same rule as `hedgerow replay --propose`.

    Ordinary are sources with at least two page visits that neither declare themselves nor are held to be crawlers, and
    that bring assets along, where at least a tenth do.
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


def to_json(found: Containment, windows: list[Proposal]) -> dict[str, Any]:
    proposed = [
        {"count": one.window.count, "seconds": one.window.seconds, "reached": one.reached, "touched": one.touched,
         "touched_ordinary": one.touched_ordinary}
        for one in windows
    ]  # fmt: skip
    told: dict[str, Any] = msgspec.to_builtins(found)
    return told | {"density": proposed}

"""Similarity: learn k of PubCrawl's algorithm 1 from a log whose campaigns are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec
import numpy as np

from hedgerow.report.campaigns.search import windows
from hedgerow.report.campaigns.traffic_similarity import SimilarityLimits, learn_k
from hedgerow.report.live_opinions import DeclaredBots
from hedgerow.report.shape.series import plan_of
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots, known_bots


class LearnedSimilarity(msgspec.Struct, frozen=True):
    """*k* of a log (None: there is no campaign of three busy sources), from so many *series* of so many *campaigns*."""

    log: str
    k: float | None
    series: int
    campaigns: int


def learn(log: str, tables: Tables, known: Mapping[str, str] | None = None) -> LearnedSimilarity:
    """
    Learn k from the windows of a log. *known* names the campaign of a source; without it, what sources declare does.

    Of several windows the lowest k counts: campaigns hold together in all of them.
    """
    plan = plan_of(tables.origin, tables.origin + tables.span)
    counts = tables.counts(plan)
    if known is None:
        declared = DeclaredBots(tables, Bots(known=known_bots()))
        names = [declared.bot(place) for place in range(len(tables.sources))]
    else:
        names = [known.get(source, "") for source in tables.sources]
    labelled = np.array([bool(name) for name in names], np.bool_)
    found, series = [], 0
    families: Counter[str] = Counter()
    for start, mine in windows(labelled, counts, plan, SimilarityLimits()):
        rows = np.zeros((len(mine), plan.points))
        for part, block in counts.blocks(mine, np.full(len(mine), start), plan.points):
            rows[part] = block
        mine_names = [names[place] for place in mine.tolist()]
        k = learn_k(rows, mine_names)
        if k is not None:
            found.append(k)
        series += len(mine)
        families.update(set(mine_names))
    return LearnedSimilarity(log, min(found, default=None), series, len(families))

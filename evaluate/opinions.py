"""
All opinions of a report together, on the real logs: `python -m evaluate.opinions` prints the table of docs/report.md.

Each log is judged by what the other ones have taught: thresholds, weights and trust of heuristics, manner and path by
`report.learning`, the shape's three classifiers by `training.shape`. User agents give the labels and are hidden from
every opinion. The model of paths is the one trained on simulated crawlers only: the default has seen these logs.
"""

from __future__ import annotations

import sys

import numpy as np

from evaluate import logs, real
from hedgerow.analyse.tables import Tables
from hedgerow.identity.bots import Bots, known_bots
from hedgerow.models.bundle import load_window, shipped
from hedgerow.report.judging import log_odds
from hedgerow.report.learning import learn, lesson, odds, quality
from hedgerow.shape.autocorrelation import Levels
from hedgerow.shape.bundle import INPUTS
from hedgerow.shape.classify import columns, judge
from hedgerow.shape.features import LEAST_REQUESTS
from hedgerow.shape.series import plan_of
from hedgerow.training.shape import fit_model, pooled, together

MODEL = "all"
SEED = 1


def learned(site, bots, bundles):
    """What a log teaches, and the features of its sources' traffic."""
    with Tables([str(real.DATA / "logs" / real.LOGS[site])], memory=1_000_000_000, hide_agents=True) as tables:
        plan = plan_of(tables.origin, tables.origin + tables.span)
        found = tables.features(tables.counts(plan), plan, levels=Levels(), least=LEAST_REQUESTS)
        return lesson(site, tables, bots, *bundles), found


def main() -> None:
    if not real.there():
        sys.exit(f"the real logs are not there: {real.DATA}")
    bots, bundles = Bots(known=known_bots()), (shipped("pathmarker"), load_window())
    told = {site: learned(site, bots, bundles) for site in real.LOGS}
    sources = {site: logs.log_of(site)[1] for site in real.LOGS}
    rows = []
    for site, (mine, features) in told.items():
        others = [other for other in real.LOGS if other != site]
        before = odds(learn([told[other][0] for other in others]), mine)
        groups = [[*sources[other], *together(sources[other], SEED)] for other in others]
        model = fit_model(pooled(groups), MODEL)
        scores = judge(features.rows[:, columns(MODEL)], model, INPUTS[MODEL]).scores
        shape = np.full(len(mine.figures.sources), np.nan)
        shape[features.sources] = scores
        shape = shape[mine.chosen]
        have = ~np.isnan(shape)
        for name, found, which in (
            ("heuristics, manner, path and window", before, np.ones(len(before), np.bool_)),
            ("with the shape", before + log_odds(shape), np.ones(len(before), np.bool_)),
            ("the shape alone, where there is one", log_odds(shape), have),
            ("without it, the same sources", before, have),
            ("with it, the same sources", before + log_odds(shape), have),
        ):
            crawlers = mine.crawlers[which]
            got = quality(crawlers, found[which])
            rates = [f"{got[key]:.1%}" for key in ("crawlers_right", "people_right", "recall_at_1_percent")]
            rows.append(
                [site, name, f"{crawlers.sum()} / {(~crawlers).sum()}", *rates[:2], f"{got['area']:.3f}", rates[2]]
            )
    head = ["log", "opinions", "crawlers / people", "crawlers right", "people right", "area under ROC"]
    print(logs.table([*head, "recall at 1 % false positives"], rows))


if __name__ == "__main__":
    main()

"""
All opinions of a report together, on the real logs: `python -m evaluate.opinions` prints the tables of docs/report.md.

Each log is judged by what the other ones have taught: thresholds of the heuristics and steps of the manner by
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
from hedgerow.report.learning import TRUST, learn, lesson, odds, quality
from hedgerow.shape.autocorrelation import Levels
from hedgerow.shape.bundle import INPUTS
from hedgerow.shape.classify import columns, judge
from hedgerow.shape.features import LEAST_REQUESTS
from hedgerow.shape.series import plan_of
from hedgerow.training.shape import fit_model, pooled, together

MODEL = "all"
SEED = 1
HONEYPOT = "honeynet-redhat_2004.log.xz"
UNSEEN = "semicomplete_elastic-apache-10k_2015.log.xz"
RATES = ("crawlers_right", "people_right", "recall_at_1_percent")


def learned(name, path, bots, bundles, labels=None):
    """What a log teaches, and the features of its sources' traffic."""
    with Tables([str(path)], memory=1_000_000_000, hide_agents=True) as tables:
        plan = plan_of(tables.origin, tables.origin + tables.span)
        found = tables.features(tables.counts(plan), plan, levels=Levels(), least=LEAST_REQUESTS)
        told = None if labels is None else dict.fromkeys(tables.sources, labels)
        return lesson(name, tables, bots, *bundles, told), found


def row(site, name, crawlers, found):
    got = quality(crawlers, found)
    rates = [f"{got[key]:.1%}".replace("%", " %") for key in RATES]
    return [site, name, f"{crawlers.sum()} / {(~crawlers).sum()}", *rates[:2], f"{got['area']:.3f}", rates[2]]


def main() -> None:
    if not real.there():
        sys.exit(f"the real logs are not there: {real.DATA}")
    bots, bundles = Bots(known=known_bots()), (shipped("pathmarker"), load_window())
    folder = real.DATA / "logs"
    told = {site: learned(site, folder / name, bots, bundles) for site, name in real.LOGS.items()}
    sources = {site: logs.log_of(site)[1] for site in real.LOGS}
    rows = []
    for site, (mine, features) in told.items():
        others = [other for other in real.LOGS if other != site]
        model = learn([told[other][0] for other in others])
        before = odds(model, mine)
        groups = [[*sources[other], *together(sources[other], SEED)] for other in others]
        fitted = fit_model(pooled(groups), MODEL)
        shape = np.full(len(mine.figures.sources), np.nan)
        shape[features.sources] = judge(features.rows[:, columns(MODEL)], fitted, INPUTS[MODEL]).scores
        shape = shape[mine.chosen]
        have = ~np.isnan(shape)
        whole = before + TRUST["shape"] * log_odds(shape)
        every = np.ones(len(before), np.bool_)
        for name, found, which in (
            ("all", whole, every),
            ("all but the shape", before, every),
            ("the manner alone", model.manner[""].odds(mine.manner), every),
            ("the manner without assets", model.manner["assets"].odds(mine.manner), every),
            ("the manner without referrers", model.manner["referrers"].odds(mine.manner), every),
            ("the window alone, where there is one", log_odds(mine.window), ~np.isnan(mine.window)),
            ("the shape alone, where there is one", log_odds(shape), have),
            ("all, on the same sources", whole, have),
        ):
            rows.append(row(site, name, mine.crawlers[which], found[which]))
    model = learn([one for one, _ in told.values()])
    unseen = learned("semicomplete", folder / UNSEEN, bots, bundles)[0]
    rows.append(row("semicomplete", "all but the shape", unseen.crawlers, odds(model, unseen)))
    head = ["log", "opinions", "crawlers / people", "crawlers right", "people right", "area under ROC"]
    print(logs.table([*head, "recall at 1 % false positives"], rows))
    honeypot = learned("honeynet", folder / HONEYPOT, bots, bundles, "crawler")[0]
    found = odds(model, honeypot) >= 0
    print(f"honeypot: {found.sum()} of {len(found)} sources with five page views are called crawlers")


if __name__ == "__main__":
    main()

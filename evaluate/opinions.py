"""
All opinions of a report together, on the real logs: `python -m evaluate.opinions` writes docs/evaluation/opinions.md.

Each log is judged by what the other ones have taught: thresholds of the heuristics and steps of the manner by
`report.learning`, the shape's three classifiers by `training.shape`, paths by the shipped recipe from drawn walks and
the other logs; and by what other sources of itself have taught. User agents give the labels and are hidden from every
opinion.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from evaluate import logs, real, sites
from evaluate.charts import line_chart
from hedgerow.lab.train.measures import roc, wilson
from hedgerow.lab.train.report_weights import TRUST, odds, quality, train_report_model, training_log
from hedgerow.lab.train.shape_model import fit_model, merged_people, pooled
from hedgerow.logs.reader import LogReader
from hedgerow.report.model_opinions import PathOpinion
from hedgerow.report.shape.autocorrelation import Levels
from hedgerow.report.shape.classifiers import INPUTS
from hedgerow.report.shape.features import LEAST_REQUESTS
from hedgerow.report.shape.series import plan_of
from hedgerow.report.shape.vote import columns, judge
from hedgerow.report.source_labels import log_odds
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots, known_bots
from hedgerow.watch.models.bundle import load_window, shipped

OUT = Path(__file__).parents[1] / "docs" / "evaluation"
MODEL = "all"
SEED = 1
FOLDS = 10
HONEYPOT = "honeynet-redhat_2004.log.xz"
UNSEEN = "semicomplete_elastic-apache-10k_2015.log.xz"
HEAD = ["log", "opinions", "crawlers / people", "crawlers right", "people right", "area under ROC", "at 1 %"]


def learned(name, path, bots, bundles, labels=None):
    """What a log teaches, the features of its sources' traffic, and the names of its labelled sources."""
    with Tables([str(path)], memory=1_000_000_000, hide_agents=True) as tables:
        plan = plan_of(tables.origin, tables.origin + tables.span)
        found = tables.features(tables.counts(plan), plan, levels=Levels(), least=LEAST_REQUESTS)
        told = None if labels is None else dict.fromkeys(tables.sources, labels)
        paths, windows = bundles
        mine = training_log(name, tables, bots, paths, windows, told)
        return mine, found, [tables.sources[k] for k in mine.chosen.tolist()]


def part(one, which):
    """A lesson with some of its sources."""
    names = ("crawlers", "measures", "manner", "path", "window", "chosen")
    return one._replace(**{name: getattr(one, name)[which] for name in names})


def by_folds(one):
    """What is said of each source by a model of nine tenths of the others, but for the shape."""
    fold = np.random.default_rng(SEED).permutation(len(one.crawlers)) % FOLDS
    found = np.zeros(len(fold))
    for k in range(FOLDS):
        found[fold == k] = odds(train_report_model([part(one, fold != k)]), part(one, fold == k))
    return found


def readers_of(path, names):
    """Which of some sources got hardly any errors and never asked for what only programs ask for."""
    wanted, visits = set(names), defaultdict(list)
    for visit in LogReader([str(path)]):
        if visit.address in wanted:
            visits[visit.address].append(visit)
    return np.array([real.is_served(visits[name]) for name in names])


def share(hits, of):
    if not of:
        return "none"
    low, high = wilson(hits, of)
    return f"{hits / of:.1%} ({low:.1%} to {high:.1%})".replace("%", " %")


def row(site, name, crawlers, found):
    got = quality(crawlers, found)
    yes, no = int(crawlers.sum()), int((~crawlers).sum())
    rates = [
        share(round(got[key] * of), of)
        for key, of in (("crawlers_right", yes), ("people_right", no), ("recall_at_1_percent", yes))
    ]
    return [site, name, f"{yes} / {no}", *rates[:2], f"{got['area']:.4f}", rates[2]]


def main() -> None:
    if not real.is_available():
        sys.exit(f"the real logs are not there: {real.DATA}")
    # Whose paths are judged by which bundle teaches nothing: each log's own are judged anew below.
    bots, bundles = Bots(known=known_bots()), (shipped("boosted"), load_window())
    folder = real.DATA / "logs"
    without = sites.without_each(sites.drawn_rows())
    told = {site: learned(site, folder / name, bots, bundles) for site, name in real.LOGS.items()}
    sources = {site: logs.log_of(site)[1] for site in real.LOGS}
    rows, curves = [], {}
    for site, (one, features, names) in told.items():
        mine = one._replace(path=PathOpinion(one.figures, without[site]).probability[one.chosen])
        others = [other for other in real.LOGS if other != site]
        model = train_report_model([told[other][0] for other in others])
        before = odds(model, mine)
        groups = [[*sources[other], *merged_people(sources[other], SEED)] for other in others]
        fitted = fit_model(pooled(groups), MODEL)
        shape = np.full(len(mine.figures.sources), np.nan)
        shape[features.sources] = judge(features.rows[:, columns(MODEL)], fitted, INPUTS[MODEL]).scores
        shape = shape[mine.chosen]
        have = ~np.isnan(shape)
        whole = before + TRUST["shape"] * log_odds(shape)
        every = np.ones(len(before), np.bool_)
        served = readers_of(folder / real.LOGS[site], names) | mine.crawlers
        for name, found, which in (
            ("all", whole, every),
            ("all, of readers only", whole, served),
            ("all but the shape", before, every),
            ("the same, by folds of its own sources", by_folds(mine), every),
            ("the manner alone", model.manner[""].odds(mine.manner), every),
            ("the manner without assets", model.manner["assets"].odds(mine.manner), every),
            ("the manner without referrers", model.manner["referrers"].odds(mine.manner), every),
            ("the window alone, where there is one", log_odds(mine.window), ~np.isnan(mine.window)),
            ("the shape alone, where there is one", log_odds(shape), have),
            ("all, on the same sources", whole, have),
        ):
            rows.append(row(site, name, mine.crawlers[which], found[which]))
        curves[site] = [(x, y) for x, y in roc(whole.tolist(), mine.crawlers.tolist()) if x <= 0.2]
    model = train_report_model([one for one, _, _ in told.values()])
    unseen = learned("semicomplete", folder / UNSEEN, bots, bundles)[0]
    rows.append(row("semicomplete", "all but the shape", unseen.crawlers, odds(model, unseen)))
    honeypot = learned("honeynet", folder / HONEYPOT, bots, bundles, "crawler")[0]
    found = odds(model, honeypot) >= 0
    (OUT / "opinions-roc.svg").write_text(
        line_chart("Each log by what the others have taught", curves, max_x=0.2), encoding="utf-8"
    )
    page = (Path(__file__).parent / "opinions.template.md").read_text(encoding="utf-8")
    page = page.format(table=logs.table(HEAD, rows), found=found.sum(), of=len(found))
    (OUT / "opinions.md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()

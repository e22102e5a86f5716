"""
The shape of traffic, and campaigns, on the real logs: `python -m evaluate.logs` writes docs/evaluation/logs.md.

User agents are used for labels and hidden from every detector. With `--ship` the bundle that comes with the package is
trained anew, on all logs.
"""

from __future__ import annotations

import csv
import json
import lzma
import sys
from collections import Counter, defaultdict
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np

from evaluate import real
from evaluate.charts import line_chart
from hedgerow.lab.train.measures import at_false_positives, roc, wilson
from hedgerow.lab.train.samples import PERSON
from hedgerow.lab.train.shape_model import (
    CRAWLER,
    FALSE_POSITIVES,
    MERGED,
    fit_model,
    gather,
    held_out_scores,
    measures,
    merged_people,
    rows_of,
    train_shape,
)
from hedgerow.logs.reader import LogReader
from hedgerow.report.campaigns import traffic_similarity as similarity
from hedgerow.report.campaigns.group_links import ROBOTS, Requests
from hedgerow.report.campaigns.search import find as find_campaigns
from hedgerow.report.pipeline import Options, make
from hedgerow.report.shape.classifiers import INPUTS, save
from hedgerow.report.shape.series import Counts, plan_of, rhythm
from hedgerow.report.shape.vote import columns, judge, words
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots, known_bots

OUT = Path(__file__).parents[1] / "docs" / "evaluation"
BUNDLE = Path(__file__).parents[1] / "src" / "hedgerow" / "data" / "models" / "shape.json"
TRAINED_ON = "sparkdeveloper"
UNSEEN = {"semicomplete": "semicomplete_elastic-apache-10k_2015.log.xz"}
"""A log whose times are not sound: all requests of an hour are in one minute of it."""

FAMILIES = {
    "Googlebot": "googlebot",
    "bingbot": "bingbot",
    "AhrefsBot": "ahrefsbot",
    "Baiduspider": "baiduspider",
    "YandexBot": "yandexbot",
    "MJ12bot": "mj12bot",
}
LEAST = 5
"""The fewest sources of a family that is judged for the goal."""

SEED = 1
WINDOW = 240
SHOWN = (
    ("crawlers_by_vote", "crawlers, by vote"),
    ("people_by_vote", "people, by vote"),
    ("people_together_by_vote", "people put together, by vote"),
    ("auc", "area under ROC"),
    ("crawlers_at_1_percent", "crawlers, at 1 % of people"),
)


def log_of(site):
    visits = list(LogReader([str(path_of(site))]))
    visits = [visit for visit in visits if not real.NOT_CRAWLERS.search(visit.user_agent)]
    return visits, gathered(visits)


def path_of(site):
    return real.DATA / "logs" / {**real.LOGS, **UNSEEN}[site]


def gathered(visits):
    bots = real.declared()
    return gather(visits, is_declared=lambda agent: bool(bots.search(agent)))


def cell(value):
    if not isinstance(value, dict):
        return f"{value:.4f}"
    return f"{value['value']:.1%} ({value['low']:.1%} to {value['high']:.1%})" if value["of"] else "none"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def how_many(logs):
    rows = []
    for site, (_, sources) in logs.items():
        for label in (CRAWLER, PERSON, ""):
            sizes = np.array([len(source.times) for source in sources if source.label == label])
            counts = [int((sizes >= least).sum()) for least in (1, 20, 50, 100, 1000)]
            rows.append([site, label or "unknown", *counts])
    return table(["log", "label", "sources", "20 requests", "50", "100", "1,000"], rows)


def classification(logs, parts):
    data = {site: rows_of([*sources, *merged_people(sources, SEED)]) for site, (_, sources) in logs.items()}
    rows, curves = [], {}
    for site in logs:
        if min((data[site].labels == CRAWLER).sum(), (data[site].labels == PERSON).sum()) < 20:
            continue
        for name in INPUTS:
            scores, probabilities = held_out_scores(data[site], name)
            found = measures(data[site], scores, probabilities)
            rows.append([f"{site}, sources left out", name, *(cell(found[key]) for key, _ in SHOWN), ""])
            limit = max(at_false_positives(scores.tolist(), data[site].crawlers.tolist(), FALSE_POSITIVES)[-1], 0.5)
            if site == TRAINED_ON:
                kept = data[site].labels != MERGED
                curves[name] = roc(scores[kept].tolist(), data[site].crawlers[kept].tolist())
            model = fit_model(data[site], name)
            for other in logs:
                if other == site:
                    continue
                verdicts = judge(data[other].rows[:, columns(name)], model, INPUTS[name])
                found = measures(data[other], verdicts.scores, verdicts.probabilities)
                called = (verdicts.scores > limit) & (verdicts.votes >= 2)
                shares = [f"{called[data[other].labels == label].mean():.1%}" for label in (CRAWLER, PERSON, MERGED)]
                shown = [*(cell(found[key]) for key, _ in SHOWN), " / ".join(shares)]
                rows.append([f"{site}, tested on {other}", name, *shown])
        if site == TRAINED_ON:
            parts["rules"] = "\n".join(f"- {words(rule, INPUTS['all'])}" for rule in model.rules.rules)
    curves = {name: [(x, y) for x, y in points if x <= 0.2] for name, points in curves.items()}
    (OUT / "shape-roc.svg").write_text(line_chart("False positives and crawlers found", curves, max_x=0.2))
    last = "called crawlers by the trained threshold: crawlers / people / together"
    return table(["trained on", "features", *(text for _, text in SHOWN), last], rows)


def known_series():
    """The sums of many sources whose nature is known: World Cup, wikibase's browsers and declared bots."""
    with lzma.open(real.DATA / "timeseries" / "worldcup98_requests-per-minute.csv.xz", "rt") as file:
        cup = [(datetime.fromisoformat(row["period"]), float(row["count"])) for row in csv.DictReader(file)]
    bins = np.array([int((at - cup[0][0]).total_seconds() // 1800) for at, _ in cup])
    with lzma.open(real.DATA / "timeseries" / "wikibase-semlab-2025" / "bot_vs_browser.json.xz") as file:
        wiki = np.array(json.load(file)["d"], dtype=float)
    half_hours = (wiki[:, 0] // 30).astype(int)
    return {
        "World Cup 1998, all requests": np.bincount(bins, [count for _, count in cup]),
        "wikibase 2025, browsers' user agents": np.bincount(half_hours, wiki[:, 2]),
        "wikibase 2025, declared bots": np.bincount(half_hours, wiki[:, 1]),
    }


def windows_of(series):
    return [series[at : at + WINDOW] for at in range(0, len(series) - WINDOW + 1, WINDOW)]


def crawlers_of(sources):
    """All crawlers of a log as one series."""
    first = min(float(source.times.min()) for source in sources)
    times = np.concatenate([source.times for source in sources if source.label == CRAWLER])
    return np.bincount(((times - first) // 1800).astype(int))


def aggregates(logs):
    """What is called a crawl, in windows of five days: every other one was there to choose the bound by."""
    series = known_series()
    cup, browsers, _ = series.values()
    people = min(rhythm(window).depth for window in windows_of(cup)[::2])
    crawls = [*windows_of(browsers)[::2], crawlers_of(logs[TRAINED_ON][1])]
    crawl = max(rhythm(window).depth for window in crawls)
    shown = []
    for name, counts in series.items():
        whole, windows = rhythm(counts), [rhythm(window) for window in windows_of(counts)]
        called = [
            f"{sum(bool(window.crawl) for window in half)} of {len(half)}" for half in (windows[::2], windows[1::2])
        ]
        shallowest, deepest = (f(window.depth for window in windows) for f in (min, max))
        depth = f"{whole.depth:.2f} ({shallowest:.2f} to {deepest:.2f})"
        shown.append([name, depth, "crawl" if whole.crawl else "people", *called])
    head = ["series", "depth of its day (of windows)", "called", "windows called a crawl, chosen by", "and the others"]
    return {"people": f"{people:.2f}", "crawl": f"{crawl:.2f}", "night": f"{(people + crawl) / 2:.2f}"}, table(
        head, shown
    )


def family_of(agent):
    return next((name for name, part in FAMILIES.items() if part in agent.lower()), "")


def campaigns(visits, sources):
    """How well the six families are found again, without user agents."""
    number = {source.name: n for n, source in enumerate(sources)}
    # Who is left out as a person is told by sessions alone: a bot that loads assets with referrers is taken for one.
    by_source = defaultdict(list)
    for visit in visits:
        by_source[visit.address].append(visit)
    people = np.array([real.likely_person(by_source[source.name]) for source in sources])
    targets, rows = {}, ([], [], [], [])
    for visit in visits:
        mine = number[visit.address]
        if not people[mine] and visit.kind in {"page", "call"}:
            values = (mine, visit.at, targets.setdefault(visit.target, len(targets)), visit.status)
            for column, value in zip(rows, values, strict=True):
                column.append(value)
    whose, times, numbers, answers = map(np.array, rows)
    requests = Requests.of_targets(whose, times, numbers, list(targets), answers)
    every = np.concatenate([source.times for source in sources])
    plan = plan_of(float(every.min()), float(every.max()))
    owners = np.repeat(np.arange(len(sources)), [len(source.times) for source in sources])
    counts = Counts.of_times(owners, every, plan, len(sources))
    found = find_campaigns([source.name for source in sources], people, counts, plan, requests)
    named = [(one.kind, [sources[member].name for member in one.members]) for one in found]
    return scored(named, families_of(visits, sources))


def in_report(site, visits, sources, *, which="all"):
    """
    The same of the campaigns that a report finds by itself, whose own opinions say who is a person.

    *which*: "busy" leaves out sources that ask for nothing but robots.txt, and families of fewer than five sources.
    """
    with Tables([str(path_of(site))], memory=1_000_000_000, hide_agents=True) as tables:
        report = make(tables, Bots(known=known_bots()), Options(ignore_agents=True))
    truth, agents = families_of(visits, sources)
    if which == "busy":
        asked = {visit.address for visit in visits if visit.target != ROBOTS}
        sizes = Counter(family for name, family in truth.items() if name in asked)
        truth = {name: family if name in asked and sizes[family] >= LEAST else "" for name, family in truth.items()}
    return scored([(one.kind, one.members) for one in report.campaigns], (truth, agents))


def shorter(visits):
    """The same of halves, thirds and quarters of a log: with fewer requests strangers are more alike by chance."""
    first, last = min(visit.at for visit in visits), max(visit.at for visit in visits)
    for parts in (2, 3, 4):
        for part in range(parts):
            start, end = (first + (last - first) * edge / parts for edge in (part, part + 1))
            some = [visit for visit in visits if start <= visit.at < end]
            line, _, _ = campaigns(some, gathered(some))
            yield [f"{part + 1} of {parts}", *line]


def families_of(visits, sources):
    """What each source says it is: for crawlers one of the six families or nothing, and the user agent of all."""
    agents = defaultdict(Counter)
    for visit in visits:
        agents[visit.address][visit.user_agent] += 1
    used = {name: counts.most_common(1)[0][0] for name, counts in agents.items()}
    return {source.name: family_of(used[source.name]) for source in sources if source.label == CRAWLER}, used


def scored(found, families):
    """How well the families are found again in campaigns, given as kinds and names of members."""
    truth, agents = families
    mine = {name: family for name, family in truth.items() if family}
    campaign = {member: k for k, (_, members) in enumerate(found) for member in members}
    clusters, sizes = defaultdict(Counter), Counter(mine.values())
    for name, family in mine.items():
        clusters[campaign.get(name, f"alone {name}")][family] += 1
    # As in the paper's own field (Bayer et al. 2009): the best family of each cluster, the best cluster of each family.
    precision = sum(cluster.most_common(1)[0][1] for cluster in clusters.values())
    largest = {family: max(cluster[family] for cluster in clusters.values()) for family in sizes}
    # Right: in a campaign most of whose declared members are of its family.
    kinds = [Counter(truth.get(m) or agents.get(m, "a monitor") for m in members) for _, members in found]
    right = sum(n in campaign and kinds[campaign[n]].most_common(1)[0][0] == family for n, family in mine.items())
    total = len(mine)
    # With strangers: of the declared members of campaigns that hold a family, those of the family.
    held = [(members, kind.most_common(1)[0][0]) for (_, members), kind in zip(found, kinds, strict=True)]
    held = [(members, name) for members, name in held if name in FAMILIES]
    declared = [truth[member] == name for members, name in held for member in members if member in truth]
    others = sum(member not in truth for members, _ in held for member in members)
    line = [
        total,
        f"{precision / total:.1%}",
        f"{sum(declared)} of {len(declared)}",
        others,
        f"{sum(largest.values()) / total:.1%}",
        f"{right / total:.1%} ({wilson(right, total)[0]:.1%} to {wilson(right, total)[1]:.1%})",
    ]
    told = ", ".join(f"{family} {largest[family]} of {sizes[family]}" for family in sorted(sizes))
    kinds = ", ".join(f"{kind} {count}" for kind, count in Counter(kind for kind, _ in found).items())
    how = f"campaigns by kind: {kinds}. Largest part of each family in one campaign: {told}."
    return line, how, mine


def k_of(sources, mine):
    busy = [n for n, source in enumerate(sources) if source.name in mine and len(source.times) >= 100]
    every = np.concatenate([source.times for source in sources])
    plan = plan_of(float(every.min()), float(every.max()))
    rows = np.zeros((len(busy), plan.points))
    for row, n in enumerate(busy):
        counts = Counts.of_times(np.zeros(len(sources[n].times)), sources[n].times, plan, 1)
        for _, block in counts.blocks(np.zeros(1, dtype=np.int64), counts.busiest(plan), plan.points):
            rows[row] = block[0]
    return len(busy), similarity.learn_k(rows, [mine[sources[n].name] for n in busy])


def main() -> None:
    if not real.is_available():
        sys.exit(f"the real logs are not there: {real.DATA}")
    logs = {site: log_of(site) for site in real.LOGS}
    if "--ship" in sys.argv:
        bundle = train_shape(
            {site: sources for site, (_, sources) in logs.items()},
            seed=SEED,
            similarity=similarity.K,
            provenance={"logs": sorted(logs), "labels": "declared bots and human-like sources; user agents hidden"},
            after=print,
        )
        save(bundle, BUNDLE)
        return
    parts = {}
    parts["classified"] = classification(logs, parts)
    parts["many"] = how_many(logs)
    bounds, parts["aggregates"] = aggregates(logs)
    parts |= bounds
    lines, hows = [], []
    for site, (visits, sources) in logs.items():
        for where, look in ((f"{site}, by likeness", campaigns), (f"{site}, in the report", partial(in_report, site))):
            line, how, mine = look(visits, sources)
            lines.append([where, *line])
            hows.append(f"- {where}: {how}")
        if site == TRAINED_ON:
            parts["busy"], parts["k"] = k_of(sources, mine)
    line, how, _ = in_report("semicomplete", *log_of("semicomplete"))
    lines.append(["semicomplete, in the report", *line])
    hows.append(f"- semicomplete, in the report: {how}")
    head = ["sources", "precision", "declared members of its family", "undeclared members", "recall", "accuracy"]
    busy = []
    for site, (visits, sources) in {**logs, "semicomplete": log_of("semicomplete")}.items():
        (count, precision, _, _, recall, accuracy), how, _ = in_report(site, visits, sources, which="busy")
        busy.append([site, count, precision, recall, accuracy])
        hows.append(f"- {site}, sources that ask for more than robots.txt: {how}")
    parts["more"] = table(["log", "sources", "precision", "recall", "accuracy"], busy)
    parts["shorter"] = table(["part", *head], shorter(logs[TRAINED_ON][0]))
    parts["campaigns"] = table(["log, who is a person", *head], lines) + "\n" + "\n".join(hows)
    parts["k"] = f"{parts['k']:.2f}" if parts["k"] is not None else "none: no three of a family stay together"
    (OUT / "logs.md").write_text(PAGE.format(**parts))
    print((OUT / "logs.md").read_text())


PAGE = (Path(__file__).parent / "logs.template.md").read_text()

if __name__ == "__main__":
    main()

"""The real logs without user agents, each classified by a bundle trained without it, and Iliou's sessions."""

from __future__ import annotations

from evaluate import real
from evaluate.charts import line_chart
from evaluate.crawls import readers
from evaluate.tables import SEED, first_alarm, found_by, percent, roc_row, table
from evaluate.texts import text
from evaluate.train import SIZE, log_rows, mixed
from hedgerow.core.ledger import NoLedger
from hedgerow.lab.train.fit import balance
from hedgerow.lab.train.learners import fit_trees, matrix
from hedgerow.lab.train.measures import roc
from hedgerow.lab.train.samples import PERSON, Sample, Walk, samples_of
from hedgerow.lab.train.simulated_data import draw_walks, path_rows
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.report.replay import likely_host, replay
from hedgerow.settings import read_settings
from hedgerow.watch.models.bundle import Bundle, shipped
from hedgerow.watch.sessions.path import ALL_FEATURES, PREFIXES
from hedgerow.web.gate import build_gate
from hedgerow.web.watch import build_watch

LEAKY = ("beside", "entries")


def without_each(drawn: list[Sample]) -> dict[str, Bundle]:
    """For each log: the shipped recipe, from the other logs and drawn rows."""
    return {site: mixed(drawn, [other for other in real.LOGS if other != site]) for site in real.LOGS}


def drawn_rows() -> list[Sample]:
    return path_rows(draw_walks(SEED, SIZE))


def scores_at_the_end(walks: list[Walk], score) -> tuple[list[float], list[bool]]:
    """One score a visitor: at the last prefix that its first long session reaches."""
    scores, truth = [], []
    for walk in walks:
        its = [sample for sample in samples_of(walk) if sample.number == 0]
        if its:
            scores.append(score(its[-1]))
            truth.append(walk.label != PERSON)
    return scores, truth


def fitted_without(samples: list[Sample], sites: list[str], hidden: tuple[str, ...]):
    """A score by boosting at each prefix, with some features hidden."""
    columns = [n for n, name in enumerate(ALL_FEATURES) if name not in hidden]
    models = {}
    for size in PREFIXES:
        its = [sample for sample in samples if sample.size == size]
        truth = [sample.label != PERSON for sample in its]
        models[size] = fit_trees(matrix(its)[:, columns], truth, SEED, balance(its, sites))[0]
    return lambda sample: models[sample.size].score([sample.features[n] for n in columns])


def logs(parts: list[str], left_out: dict[str, Bundle], drawn: list[Sample]) -> list[list[str]]:
    """The rows of the goals."""
    parts.append(text("logs"))
    pathmarker = shipped("pathmarker")
    rows, alarms, curves = [], [], {}
    for site, bundle in left_out.items():
        rest = [other for other in real.LOGS if other != site]
        fair = fitted_without([*drawn, *(row for other in rest for row in log_rows(other))], rest, LEAKY)
        everybody = real.read_log(site).walks
        crawlers = [walk for walk in everybody if walk.label != PERSON]
        scorers = {
            "`boosted`, without this log": lambda s, b=bundle: b.judge(s.features, s.size).probability,
            "the same, without beside and entries": fair,
            "`pathmarker` one-class, any length": lambda s: pathmarker.stages[0].model.score(s.features[:6]),
        }
        for who, walks in {"readers": readers(site) + crawlers, "human-like": everybody}.items():
            for name, score in scorers.items():
                scores, truth = scores_at_the_end(walks, score)
                rows.append([site, who, name, *roc_row(scores, truth)])
                if who == "readers" and "boosted" in name:
                    curves[site] = roc(scores, truth)
        people = [walk for walk in everybody if walk.label == PERSON]
        joined = real.stitched(site, 200, SEED)
        groups = (readers(site), people, joined, crawlers)
        alarms.append([site, *(percent(found_by(bundle, walks), len(walks)) for walks in groups)])
        alarms[-1].append(percent(found_by(shipped("boosted"), readers(site)), len(readers(site))))
    head = ["log", "people", "model", "people / crawlers", "area under ROC", "found at 0.5 %", "precision at 0.5 %"]
    parts.append(table(head, rows))
    parts.append(text("thresholds"))
    head = ["log", "readers", "human-like", "readers' sittings, joined", "declared crawlers", "shipped, readers"]
    parts.append(table(head, alarms))
    parts.append("\n![ROC](roc.svg)\n")
    plot = line_chart("Logs not trained on: crawlers found by readers got wrong", curves, max_x=1.0)
    (real.HERE.parent / "docs" / "evaluation" / "roc.svg").write_text(plot)
    return [
        [f"{site}, {who}: {what}", measured, "", "no figure was set"]
        for site, who, name, _, area, _, precision in rows
        if "boosted" in name
        for what, measured in (("area under ROC", area), ("precision at 0.5 %", precision))
    ]


def iliou(parts: list[str]) -> list[list[str]]:
    """The rows of the goals."""
    settings = read_settings('[watch]\npaths = "challenge"\nwindows = "challenge"\n', environment={})
    gate = build_gate(settings, tokens=TokenCodecs([Key(1, bytes(range(64)), 0.0)]), ledger=NoLedger(), entries=False)
    watch = build_watch(settings, gate.engine.policy, gate.state.update_score)
    labels, visits = real.iliou_visits()
    fates = replay(gate, visits, host=likely_host(visits), watch=watch).fates
    rows, cells = [], {}
    bundle = shipped("boosted")
    for label, walks in sorted(real.iliou_walks().items()):
        long_enough = [walk for walk in walks if len(walk.strides) >= 10]
        alarms = sum(first_alarm(bundle, walk) is not None for walk in long_enough)
        its = [fates[visitor] for visitor, its_label in labels.items() if its_label == label]
        challenged = sum(fate.challenged > 0 for fate in its)
        refused = sum(fate.refused + fate.detained > 0 for fate in its)
        cells[label] = (percent(refused, len(its)), percent(challenged, len(its)), refused, challenged, len(its))
        rows.append(
            [label, str(len(walks)), percent(alarms, len(long_enough)), percent(alarms, len(walks)), *cells[label][:2]]
        )
    parts.append(text("iliou", count=cells["human"][4]))
    head = ["label", "sessions", "held to be crawlers, of those judged", "of all", "challenged by the gate", "refused"]
    parts.append(table(head, [[*row[:4], row[5], row[4]] for row in rows]))
    refused, challenged, refusals, challenges, count = cells["human"]
    return [
        ["Iliou's people: none refused", refused, "", "met" if not refusals else "missed"],
        [
            "Iliou's people: at most 1 % challenged",
            challenged,
            "",
            "met" if challenges <= 0.01 * count else "missed",
        ],
        *(
            [
                f"half of Iliou's {label.replace('_', ' ')}s challenged, from a log",
                cells[label][1],
                "",
                "met" if 2 * cells[label][3] >= cells[label][4] else "missed",
            ]
            for label in ("moderate_bot", "advanced_bot")
        ),
    ]

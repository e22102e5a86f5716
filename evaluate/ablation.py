"""What each group of our own features adds to PathMarker's six, and what is lost without it, on unseen data."""

from __future__ import annotations

from collections.abc import Sequence

from evaluate import crawls, live, real
from evaluate.tables import SEED, TRAININGS, mean_row, percent, table
from evaluate.texts import text
from evaluate.train import log_rows
from hedgerow.lab.train.fit import balance
from hedgerow.lab.train.learners import fit_trees, matrix
from hedgerow.lab.train.measures import area, at_false_positives, roc
from hedgerow.lab.train.samples import PERSON, Sample, Walk, samples_of
from hedgerow.watch.sessions.path import ALL_FEATURES, PATHMARKER_FEATURES

SIZE = 20
GROUPS = {
    "gaps": ("gap_middle", "gap_low", "gap_high", "pauses", "longest"),
    "entries and strays": ("entries", "strays"),
    "revisits": ("revisits",),
    "onward and sideward": ("onward", "sideward"),
    "beside (assets)": ("beside",),
}
FEATURE_SETS = {
    "all": ALL_FEATURES,
    **{f"all without {name}": tuple(f for f in ALL_FEATURES if f not in group) for name, group in GROUPS.items()},
    "PathMarker's six alone": PATHMARKER_FEATURES,
    **{f"the six with {name}": (*PATHMARKER_FEATURES, *group) for name, group in GROUPS.items()},
}


def scores_of(
    train: Sequence[Sample], test: Sequence[Sample], features: Sequence[str], logs: Sequence[str], seeds: Sequence[int]
) -> list[list[float]]:
    """Return the scores of models trained with these features only, one list for each seed."""
    columns = [n for n, feature in enumerate(ALL_FEATURES) if feature in features]
    truth, rows, weights = is_crawler(train), matrix(train)[:, columns], balance(train, logs)
    models = [fit_trees(rows, truth, seed, weights)[0] for seed in seeds]
    return [[model.score([sample.features[n] for n in columns]) for sample in test] for model in models]


def is_crawler(samples: Sequence[Sample]) -> list[bool]:
    return [sample.label != PERSON for sample in samples]


def on_logs(logs: dict[str, list[Sample]], drawn: Sequence[Sample], features: Sequence[str]) -> list[str]:
    """Score each log by models of the other two and drawn walks: mean area, and crawlers found in all three."""
    seeds = TRAININGS[:3]
    areas, found, crawlers = [], 0, 0
    for site, test in logs.items():
        rest = [other for other in logs if other != site]
        train = [*drawn, *(row for other in rest for row in logs[other])]
        truth = is_crawler(test)
        for scores in scores_of(train, test, features, rest, seeds):
            areas.append(area(roc(scores, truth)))
            found += at_false_positives(scores, truth, 0.005)[0]
        crawlers += sum(truth)
    return [f"{sum(areas) / len(areas):.4f}", percent(round(found / len(seeds)), crawlers)]


def table_of(parts: list[str], people: list[Walk], drawn: list[Sample]) -> None:
    drawn = [sample for sample in drawn if sample.size == SIZE]
    logs = (
        {site: [row for row in log_rows(site) if row.size == SIZE] for site in real.LOGS} if real.is_available() else {}
    )
    rest = [site for site in logs if site != "french"]
    six = {kind.name for kind in live.TRAINING_CRAWLERS}
    held = [*people, *(walk for name, walks in live.load().items() if name not in six for walk in walks)]
    if logs:
        held += [*crawls.readers("french"), *real.stitched("french", 200, SEED)]
    test = [sample for walk in held for sample in samples_of(walk, (SIZE,)) if sample.number < 2]
    train = [*drawn, *(row for site in rest for row in logs[site])]
    rows = []
    for name, features in FEATURE_SETS.items():
        scores = scores_of(train, test, features, rest, TRAININGS)
        rows.append([name, *mean_row(scores, is_crawler(test)), *(on_logs(logs, drawn, features) if logs else ())])
    parts.append(text("ablation", trainings=len(TRAININGS)))
    head = ["features", "people / crawlers", "area under ROC, mean", "live crawls found at 0.5 %, mean"]
    head += ["logs in turn: area, mean", "declared crawlers found at 0.5 %, mean"]
    parts.append(table(head[: len(rows[0])], rows))

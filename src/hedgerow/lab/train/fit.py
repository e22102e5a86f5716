"""
Training of a bundle from samples, by one of three recipes.

`pathmarker`: a one-class SVM of people, then a C-SVC of crawlers, on PathMarker's six features of complete long
sessions. `window`: gradient boosting on the features of the sliding window. `boosted`: calibrated gradient boosting on
all features at each session length, with thresholds that share one budget of false positives (`thresholds`).

Thresholds, calibrations and metrics use scores of visitors that the model had not seen: cross-validation by visitor.
For logs of several sites, one whole log is held out at a time. No source of people, drawn or real, may be misclassified
more often than the budget allows.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from hedgerow.errors import ModelError
from hedgerow.lab.train import learners, measures
from hedgerow.lab.train.samples import LOG, PERSON, Sample
from hedgerow.lab.train.thresholds import StageBudget, allocate_budget
from hedgerow.watch.models.bundle import FORMAT, Bins, Bundle, Input, Stage, encoded
from hedgerow.watch.models.inference import Branches, Kernel, Kinds, Namer, Scorer
from hedgerow.watch.sessions.path import ALL_FEATURES, LONG, PATHMARKER_FEATURES, PREFIXES
from hedgerow.watch.sessions.window import MIN_WINDOW, WINDOW_FEATURES

T = TypeVar("T")
Fit = Callable[[Sequence[Sample]], T]
Flags = NDArray[np.bool_]

FOLDS = 5
BUDGET = 0.005
"""The share of people that all stages of a bundle together may misclassify."""

MIN_VISITORS = 20
"""The number of people, and of crawlers, that training needs."""

_MAX_PEOPLE = 2000
_MAX_PER_KIND = 35
_DIGITS = 10
_DECILES = 10
_BIN_DIGITS = 6
_ABOVE = 1.00001
_KINDS = ("depth-first", "random-like", "width-first")


def fold_of(visitor: str, seed: int) -> int:
    """Return the fold of a visitor. All its samples are in the same fold."""
    return zlib.crc32(f"{seed} {visitor}".encode()) % FOLDS


def folds_of(samples: Sequence[Sample], seed: int, held_out_logs: Sequence[str] = ()) -> list[int]:
    """Return the fold of each sample: that of its visitor, or that of its log if it is one of *held_out_logs*."""
    logs = {name: FOLDS + number for number, name in enumerate(held_out_logs)}
    return [logs.get(sample.source, fold_of(sample.visitor, seed)) for sample in samples]


def balance(samples: Sequence[Sample], held_out_logs: Sequence[str]) -> learners.Matrix | None:
    """Return weights that balance the sources of people, and drawn and logged crawlers; None without logs."""
    groups = []
    for sample in samples:
        is_person = sample.label == PERSON
        source = "logs" if sample.source in held_out_logs else sample.source if is_person else ""
        groups.append((is_person, source))
    counts = Counter(groups)
    if not any(source == "logs" for _, source in counts):
        return None
    return np.array([len(groups) / len(counts) / counts[group] for group in groups])


def _by_fold(samples: Sequence[Sample], folds: Sequence[int], fit: Fit[T]) -> dict[int, T]:
    """Return, for each fold, a model that was fitted without it."""
    return {
        fold: fit([sample for sample, its_fold in zip(samples, folds, strict=True) if its_fold != fold])
        for fold in sorted(set(folds))
    }


def held_out(samples: Sequence[Sample], folds: Sequence[int], fit: Fit[Scorer]) -> list[float]:
    """Return the score of every sample by a model that was fitted without its fold."""
    models = _by_fold(samples, folds, fit)
    return [models[fold].score(sample.features) for sample, fold in zip(samples, folds, strict=True)]


def calibrate(scores: Sequence[float], crawlers: Sequence[bool]) -> tuple[float, float]:
    """Return slope and intercept that turn scores into probabilities (Platt scaling)."""
    model = LogisticRegression(C=1e6, max_iter=1000).fit(np.array(scores)[:, None], np.array(crawlers))
    return float(model.coef_[0, 0]), float(model.intercept_[0])


def train(
    samples: Sequence[Sample],
    *,
    recipe: str = "boosted",
    budget: float = BUDGET,
    seed: int = 1,
    provenance: dict[str, Any] | None = None,
    sizes: Sequence[int] = PREFIXES,
    held_out_logs: Sequence[str] = (),
) -> Bundle:
    """
    Train a bundle. Raises `ModelError` if there are too few visitors of either kind.

    *held_out_logs* names the sources that are logs of whole sites. The recipe `boosted` holds each of them out in turn.
    """
    check_enough(samples)
    if recipe != "boosted":
        held_out_logs = ()
    features_input, names, fit, fit_namer = recipe_of(recipe, seed, held_out_logs)
    if recipe == "window":
        rows_at = {MIN_WINDOW: samples}
    else:
        wanted = sizes if recipe == "boosted" else (LONG,)
        rows_at = {size: [sample for sample in samples if sample.size == size] for size in wanted}
    if recipe == "pathmarker":
        check_enough(rows_at[LONG])
    candidates = {
        size: (rows, held_out(rows, folds_of(rows, seed, held_out_logs), fit))
        for size, rows in rows_at.items()
        if min(visitors_of(rows)) >= MIN_VISITORS
    }
    if recipe == "boosted":
        budgets = allocate_budget(candidates, budget, held_out_logs) if candidates else []
    elif recipe == "pathmarker":
        budget = learners.NU
        budgets = [StageBudget(0.0, budget)]
    else:
        limits = (
            measures.at_false_positives(its, [False] * len(its), budget) for its in _highest(*candidates[MIN_WINDOW])
        )
        budgets = [StageBudget(max(threshold for *_, threshold in limits), budget)]
    stages, metrics = [], {}
    for (size, (rows, scores)), part in zip(candidates.items(), budgets, strict=True):
        bins = people_bins(rows, len(names))
        calibration = calibrate(scores, truth_of(rows))
        stages.append(Stage(size, fit(rows), part.threshold, *calibration, part.share, fit_namer(rows), bins))
        folds = folds_of(rows, seed, held_out_logs)
        metrics[str(size)] = metrics_of(rows, scores, stages[-1], folds, fit_namer, held_out_logs)
    full_provenance = {"scikit-learn": sklearn.__version__, "seed": seed, "recipe": recipe, **(provenance or {})}
    if left_out := [size for size in rows_at if size not in candidates]:
        full_provenance["left out"] = f"sessions of {', '.join(map(str, left_out))} pages: fewer than {MIN_VISITORS}"
    bundle = Bundle(FORMAT, recipe, features_input, names, budget, tuple(stages), full_provenance, metrics)
    return rounded(bundle)


def rounded(bundle: Bundle) -> Bundle:
    """Return *bundle* with ten digits, which make the file much shorter."""
    return msgspec.convert(
        json.loads(encoded(bundle), parse_float=lambda text: float(f"{float(text):.{_DIGITS}g}")), Bundle
    )


def recipe_of(
    name: str, seed: int, held_out_logs: Sequence[str]
) -> tuple[Input, tuple[str, ...], Fit[Scorer], Fit[Namer | None]]:
    """Return the input of a recipe, its features, and the functions that fit its model and name kinds of crawlers."""
    if name == "boosted":
        return (
            "wide", ALL_FEATURES,
            lambda rows: learners.fit_trees(
                learners.matrix(rows), truth_of(rows), seed, balance(rows, held_out_logs)
            )[0],
            partial(_branches, seed=seed),
        )  # fmt: skip
    if name == "pathmarker":
        return "six", PATHMARKER_FEATURES, _one_class, partial(_kinds, seed=seed)
    return (
        "window", WINDOW_FEATURES,
        lambda rows: learners.fit_trees(learners.matrix(rows), truth_of(rows), seed)[0],
        lambda _: None,
    )  # fmt: skip


def _one_class(samples: Sequence[Sample]) -> Kernel:
    people = [sample for sample in samples if sample.label == PERSON][:_MAX_PEOPLE]
    return learners.fit_one_class(learners.matrix(people, len(PATHMARKER_FEATURES)), PATHMARKER_FEATURES)[0]


def visitors_of(samples: Sequence[Sample]) -> tuple[int, int]:
    """Return the numbers of people and of crawlers."""
    people = len({sample.visitor for sample in samples if sample.label == PERSON})
    return people, len({sample.visitor for sample in samples if sample.label != PERSON})


def check_enough(samples: Sequence[Sample]) -> None:
    people, crawlers = visitors_of(samples)
    if min(people, crawlers) < MIN_VISITORS:
        raise ModelError(
            f"{people} people and {crawlers} crawlers with enough visits are too few to train on; "
            f"it takes {MIN_VISITORS} of each"
        )


def _highest(samples: Sequence[Sample], scores: Sequence[float]) -> list[list[float]]:
    """Return, for each source of people, the higher score of every two windows, about as many as in a long session."""
    people: dict[str, dict[tuple[str, int], float]] = {}
    for sample, score in zip(samples, scores, strict=True):
        if sample.label == PERSON:
            scores_by_session, session = people.setdefault(sample.source, {}), (sample.visitor, sample.number // 2)
            scores_by_session[session] = max(score, scores_by_session.get(session, score))
    return [list(scores_by_session.values()) for scores_by_session in people.values()]


def _kinds(samples: Sequence[Sample], seed: int) -> Kinds | None:
    """Fit the paper's C-SVC on a few samples of each kind: its run time grows with the support vectors."""
    some: list[Sample] = []
    for label in _KINDS:
        of_kind = [sample for sample in samples if sample.label == label]
        of_kind.sort(key=lambda sample: zlib.crc32(f"{seed} {sample.visitor} {sample.number}".encode()))
        some += of_kind[:_MAX_PER_KIND]
    rows = learners.matrix(some, len(PATHMARKER_FEATURES))
    fitted = learners.fit_kinds(rows, [sample.label for sample in some], PATHMARKER_FEATURES)
    return fitted[0] if fitted else None


def _branches(samples: Sequence[Sample], seed: int) -> Branches | None:
    some = [sample for sample in samples if sample.label in _KINDS]
    fitted = learners.fit_branches(learners.matrix(some), [sample.label for sample in some], seed)
    return fitted[0] if fitted else None


def people_bins(samples: Sequence[Sample], width: int) -> tuple[Bins, ...]:
    """Return the distribution of features among people, those of this site if there are enough, and crawlers."""
    people = [sample for sample in samples if sample.label == PERSON]
    own = [sample for sample in people if sample.source == LOG]
    enough_own = len({sample.visitor for sample in own}) >= MIN_VISITORS
    bins = bins_of([sample.features for sample in (own if enough_own else people)], width)
    crawlers = [sample.features for sample in samples if sample.label != PERSON]
    return tuple(
        Bins(one.edges, one.shares, _shares(one.edges, [row[feature] for row in crawlers]))
        for feature, one in enumerate(bins)
    )


def bins_of(rows: Sequence[Sequence[float]], width: int) -> tuple[Bins, ...]:
    """
    Return the distinct deciles of the first *width* features of *rows*, and the share of rows between them.

    >>> bins_of([(float(n),) for n in range(20)], 1)[0].edges
    (1.00001, 3.00003, 5.00005, 7.00007, 9.00009, 11.0001, 13.0001, 15.0002, 17.0002)
    >>> bins_of([(0.0,), (0.0,), (0.0,), (1.0,)], 1)[0].shares
    (0.75, 0.25, 0.0)
    """
    if not rows:
        return ()
    bins = []
    for feature in range(width):
        # Slightly larger, so that the rounded edge is not below the value itself.
        ordered = sorted(float(f"{row[feature] * _ABOVE:.{_BIN_DIGITS}g}") for row in rows)
        edges = sorted({ordered[max(len(ordered) * part // _DECILES - 1, 0)] for part in range(1, _DECILES)})
        if edges[-1] < ordered[-1] and len(edges) < _DECILES - 1:
            # If most values are equal, add an edge for the values above them.
            edges = sorted({*edges, ordered[-1]})
        bins.append(Bins(tuple(edges), _shares(edges, [row[feature] for row in rows])))
    return tuple(bins)


def _shares(edges: Sequence[float], values: Sequence[float]) -> tuple[float, ...]:
    """Return the share of *values* between and beyond *edges*; nothing of no values."""
    counts = [0] * (len(edges) + 1)
    for value in values:
        counts[bisect_left(edges, value)] += 1
    return tuple(round(count / len(values), 5) for count in counts) if values else ()


def truth_of(samples: Sequence[Sample]) -> list[bool]:
    return [sample.label != PERSON for sample in samples]


def metrics_of(
    samples: Sequence[Sample],
    scores: Sequence[float],
    stage: Stage,
    folds: Sequence[int],
    fit_namer: Fit[Namer | None],
    held_out_logs: Sequence[str] = (),
    flagged: Flags | None = None,
) -> dict[str, Any]:
    """
    Return quality figures from held-out scores. Kinds are named by models that had not seen the visitor.

    *flagged* are the samples that are held to be a crawler's, if not all have the same threshold.
    """
    crawlers = np.array(truth_of(samples))
    if flagged is None:
        flagged = np.array(scores) > stage.threshold
    namers = _by_fold(samples, folds, fit_namer) if stage.kinds is not None else {}
    judged = [PERSON] * len(samples)
    for number in np.flatnonzero(flagged).tolist():
        namer = namers.get(folds[number])
        judged[number] = namer.name(samples[number].features) if namer else "suspect"

    def shares(which: Flags) -> dict[str, Any]:
        """Return the shares of people and of crawlers that are right."""
        people, bots = ~flagged[which & ~crawlers], flagged[which & crawlers]
        return {
            "people_right": measures.share(int(people.sum()), len(people)),
            "crawlers_found": measures.share(int(bots.sum()), len(bots)),
        }

    found_at, total, wrong, _, _ = measures.at_false_positives(scores, crawlers.tolist(), BUDGET)
    probabilities = [stage.probability(score) for score in scores]
    metrics: dict[str, Any] = {}
    sources = np.array([sample.source for sample in samples])
    if LOG in sources and len(set(sources)) > 1:
        # Simulated visitors were added, so the figures for the site's own visitors are given separately.
        people, bots = visitors_of([sample for sample in samples if sample.source == LOG])
        metrics["own"] = {**shares(sources == LOG), "people": people, "crawlers": bots}
    if held_out_logs:
        metrics["logs"] = {name: shares(sources == name) for name in held_out_logs}
    right = shares(np.ones(len(samples), np.bool_))
    return {
        **metrics,
        "calibration": measures.calibration_points(probabilities, crawlers.tolist()),
        **right,
        "auc": round(measures.area(measures.roc(scores, crawlers.tolist())), 5),
        "crawlers_found_at_half_percent": measures.share(found_at, total),
        "precision_at_half_percent": round(found_at / max(found_at + wrong, 1), 5),
        "calibration_error": round(measures.expected_calibration_error(probabilities, crawlers.tolist()), 5),
        "confusion": measures.confusion(zip((sample.label for sample in samples), judged, strict=True)),
        "interval": "95 %, Wilson; cross-validated by visitor",
        "least_people_right": right["people_right"]["low"],
    }

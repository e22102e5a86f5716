"""
Training of a bundle from samples, by one of three recipes.

`pathmarker`: a one-class SVM of people, then a C-SVC of crawlers, on PathMarker's six features of complete long
sessions. `window`: the linear SVM of the sliding window. `boosted`: calibrated gradient boosting on all features at
each session length, with thresholds that share one budget of false positives (`thresholds`).

Thresholds, calibrations and metrics use scores of visitors that the model had not seen: cross-validation by visitor.
For logs of several sites, one whole log is held out at a time. No source of people, drawn or real, may be misclassified
more often than the budget allows.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression

from hedgerow.errors import ModelError
from hedgerow.lab.train.calibration import calibration_points
from hedgerow.lab.train.learners import (
    NU,
    Matrix,
    fit_branches,
    fit_kinds,
    fit_linear,
    fit_one_class,
    fit_trees,
    matrix,
)
from hedgerow.lab.train.measures import (
    area,
    at_false_positives,
    confusion,
    expected_calibration_error,
    roc,
    share,
    wilson,
)
from hedgerow.lab.train.samples import LOG, PERSON, Sample
from hedgerow.lab.train.thresholds import StageBudget, allocate_budget
from hedgerow.watch.models.bundle import FORMAT, Bins, Bundle, Input, Stage
from hedgerow.watch.models.inference import Branches, Kernel, Kinds, Namer, Scorer, Trees
from hedgerow.watch.sessions.path import ALL_FEATURES, LONG, PATHMARKER_FEATURES, PREFIXES
from hedgerow.watch.sessions.window import MIN_WINDOW, WINDOW_FEATURES

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


def fold_of(visitor: str, seed: int, folds: int = FOLDS) -> int:
    """Return the fold of a visitor. All its samples are in the same fold."""
    return zlib.crc32(f"{seed} {visitor}".encode()) % folds


def folds_of(samples: Sequence[Sample], seed: int, held_out_logs: Sequence[str] = ()) -> list[int]:
    """Return the fold of each sample: that of its visitor, or that of its log if it is one of *held_out_logs*."""
    logs = {name: FOLDS + number for number, name in enumerate(held_out_logs)}
    return [logs.get(sample.source, fold_of(sample.visitor, seed)) for sample in samples]


def balance(samples: Sequence[Sample], held_out_logs: Sequence[str]) -> Matrix | None:
    """
    Return sample weights, or None without logs.

    Each source of people has the same weight, all logs together as one. So have drawn crawlers and those of logs.
    """
    groups = []
    for sample in samples:
        is_person = sample.label == PERSON
        source = "logs" if sample.source in held_out_logs else sample.source if is_person else ""
        groups.append((is_person, source))
    counts = Counter(groups)
    if not any(source == "logs" for _, source in counts):
        return None
    return np.array([len(groups) / len(counts) / counts[group] for group in groups])


def held_out(samples: Sequence[Sample], folds: Sequence[int], fit: Callable[[Sequence[Sample]], Scorer]) -> list[float]:
    """Return the score of every sample by a model that was fitted without its fold."""
    scores = [0.0] * len(samples)
    for fold in sorted(set(folds)):
        model = fit([sample for sample, its_fold in zip(samples, folds, strict=True) if its_fold != fold])
        for number, sample in enumerate(samples):
            if folds[number] == fold:
                scores[number] = model.score(sample.features)
    return scores


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
    stages, metrics = [], {}
    features_input: Input = {"boosted": "wide", "pathmarker": "six", "window": "window"}[recipe]  # type: ignore[assignment]
    if recipe == "boosted":
        rows_at = {size: [sample for sample in samples if sample.size == size] for size in sizes}
        trained_sizes = [size for size in sizes if _has_enough(rows_at[size])]
        candidates = {size: (rows_at[size], _scores(rows_at[size], seed, held_out_logs)) for size in trained_sizes}
        budgets = allocate_budget(candidates, budget, held_out_logs) if trained_sizes else []
        for size, budget_part in zip(trained_sizes, budgets, strict=True):
            stage, measured = _boosted(*candidates[size], size, budget_part, seed, held_out_logs)
            stages.append(stage)
            metrics[str(size)] = measured
    elif recipe == "pathmarker":
        whole = [sample for sample in samples if sample.size == LONG]
        check_enough(whole)
        stage, metrics[str(LONG)] = _pathmarker(whole, seed)
        stages.append(stage)
        budget = NU
    else:
        stage, metrics[str(MIN_WINDOW)] = _window(samples, budget, seed)
        stages.append(stage)
    full_provenance = {"scikit-learn": sklearn.__version__, "seed": seed, "recipe": recipe, **(provenance or {})}
    names = {"six": PATHMARKER_FEATURES, "wide": ALL_FEATURES, "window": WINDOW_FEATURES}[features_input]
    bundle = Bundle(FORMAT, recipe, features_input, names, budget, tuple(stages), full_provenance, metrics)
    return msgspec.convert(_rounded(msgspec.to_builtins(bundle)), Bundle)


def check_enough(samples: Sequence[Sample]) -> None:
    people = len({sample.visitor for sample in samples if sample.label == PERSON})
    crawlers = len({sample.visitor for sample in samples if sample.label != PERSON})
    if people < MIN_VISITORS or crawlers < MIN_VISITORS:
        raise ModelError(
            f"{people} people and {crawlers} crawlers with enough visits are too few to train on; "
            f"it takes {MIN_VISITORS} of each"
        )


def _has_enough(samples: Sequence[Sample]) -> bool:
    try:
        check_enough(samples)
    except ModelError:
        return False
    return True


def _scores(samples: Sequence[Sample], seed: int, held_out_logs: Sequence[str]) -> list[float]:
    return held_out(samples, folds_of(samples, seed, held_out_logs), lambda some: _trees(some, seed, held_out_logs))


def _trees(samples: Sequence[Sample], seed: int, held_out_logs: Sequence[str]) -> Trees:
    return fit_trees(matrix(samples), _truth(samples), seed, balance(samples, held_out_logs))[0]


def _boosted(
    samples: Sequence[Sample],
    scores: Sequence[float],
    size: int,
    stage_budget: StageBudget,
    seed: int,
    held_out_logs: Sequence[str],
) -> tuple[Stage, dict[str, Any]]:
    slope, intercept = calibrate(scores, _truth(samples))
    model, kinds = _trees(samples, seed, held_out_logs), _branches(samples, seed)
    bins = _bins(samples, len(ALL_FEATURES))
    stage = Stage(size, model, stage_budget.threshold, slope, intercept, stage_budget.share, kinds, bins)
    return stage, _metrics(samples, scores, stage, folds_of(samples, seed, held_out_logs), seed, held_out_logs)


def _pathmarker(samples: Sequence[Sample], seed: int) -> tuple[Stage, dict[str, Any]]:
    def fit(some: Sequence[Sample]) -> Kernel:
        people = [sample for sample in some if sample.label == PERSON][:_MAX_PEOPLE]
        return fit_one_class(matrix(people, len(PATHMARKER_FEATURES)), PATHMARKER_FEATURES)[0]

    folds = folds_of(samples, seed)
    scores = held_out(samples, folds, fit)
    slope, intercept = calibrate(scores, _truth(samples))
    stage = Stage(
        LONG, fit(samples), 0.0, slope, intercept, NU, _kinds(samples, seed), _bins(samples, len(PATHMARKER_FEATURES))
    )
    return stage, _metrics(samples, scores, stage, folds, seed)


def _window(samples: Sequence[Sample], allowed: float, seed: int) -> tuple[Stage, dict[str, Any]]:
    folds = folds_of(samples, seed)
    scores = held_out(samples, folds, lambda some: fit_linear(matrix(some), _truth(some), WINDOW_FEATURES, seed)[0])
    threshold = max(at_false_positives(its, [False] * len(its), allowed)[-1] for its in _highest(samples, scores))
    slope, intercept = calibrate(scores, _truth(samples))
    linear, _ = fit_linear(matrix(samples), _truth(samples), WINDOW_FEATURES, seed)
    stage = Stage(MIN_WINDOW, linear, threshold, slope, intercept, allowed, bins=_bins(samples, len(WINDOW_FEATURES)))
    return stage, _metrics(samples, scores, stage, folds, seed)


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
    fitted = (
        fit_kinds(matrix(some, len(PATHMARKER_FEATURES)), [sample.label for sample in some], PATHMARKER_FEATURES)
        if some
        else None
    )
    return fitted[0] if fitted else None


def _branches(samples: Sequence[Sample], seed: int) -> Branches | None:
    some = [sample for sample in samples if sample.label in _KINDS]
    fitted = fit_branches(matrix(some), [sample.label for sample in some], seed) if some else None
    return fitted[0] if fitted else None


def _bins(samples: Sequence[Sample], width: int) -> tuple[Bins, ...]:
    """Return the distribution of features among people: those of this site, if there are enough."""
    people = [sample for sample in samples if sample.label == PERSON]
    own = [sample for sample in people if sample.source == LOG]
    enough_own = len({sample.visitor for sample in own}) >= MIN_VISITORS
    return bins_of([sample.features for sample in (own if enough_own else people)], width)


def bins_of(rows: Sequence[Sequence[float]], width: int) -> tuple[Bins, ...]:
    """
    Return the distinct deciles of the first *width* features of *rows*, and the share of rows between them.

    >>> bins_of([(float(n),) for n in range(20)], 1)[0].edges
    (1.00001, 3.00003, 5.00005, 7.00007, 9.00009, 11.0001, 13.0001, 15.0002, 17.0002)
    >>> bins_of([(0.0,), (0.0,), (0.0,), (1.0,)], 1)
    (Bins(edges=(0.0, 1.00001), shares=(0.75, 0.25, 0.0)),)
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
        counts = [0] * (len(edges) + 1)
        for row in rows:
            counts[bisect_left(edges, row[feature])] += 1
        bins.append(Bins(tuple(edges), tuple(round(count / len(rows), 5) for count in counts)))
    return tuple(bins)


def _truth(samples: Sequence[Sample]) -> list[bool]:
    return [sample.label != PERSON for sample in samples]


def _metrics(
    samples: Sequence[Sample],
    scores: Sequence[float],
    stage: Stage,
    folds: Sequence[int],
    seed: int,
    held_out_logs: Sequence[str] = (),
) -> dict[str, Any]:
    """
    Return quality figures from the held-out scores. The kinds are also named by models that had not seen the visitor.
    """
    crawlers = _truth(samples)
    named: dict[int, Namer | None] = {}
    if stage.kinds is not None:
        fit = _branches if isinstance(stage.kinds, Branches) else _kinds
        for fold in set(folds):
            named[fold] = fit([s for s, its_fold in zip(samples, folds, strict=True) if its_fold != fold], seed)
    judged = []
    for sample, score, fold in zip(samples, scores, folds, strict=True):
        kinds = named.get(fold)
        crawler = kinds.name(sample.features) if kinds else "suspect"
        judged.append(crawler if score > stage.threshold else PERSON)
    right_people = sum(j == PERSON for j, c in zip(judged, crawlers, strict=True) if not c)
    found = sum(j != PERSON for j, c in zip(judged, crawlers, strict=True) if c)
    found_at, total, wrong, _, _ = at_false_positives(scores, crawlers, BUDGET)
    probabilities = [stage.probability(score) for score in scores]
    extra_metrics: dict[str, Any] = {}
    sources = {sample.source for sample in samples}
    if LOG in sources and len(sources) > 1:
        # Simulated visitors were added, so the figures for the site's own visitors are given separately.
        own = [(j == PERSON, c) for j, c, s in zip(judged, crawlers, samples, strict=True) if s.source == LOG]
        people, bots = [right for right, c in own if not c], [not right for right, c in own if c]
        extra_metrics["own"] = {
            "people_right": share(sum(people), len(people)),
            "crawlers_found": share(sum(bots), len(bots)),
            "people": len({s.visitor for s in samples if s.source == LOG and s.label == PERSON}),
            "crawlers": len({s.visitor for s in samples if s.source == LOG and s.label != PERSON}),
        }
    if held_out_logs:
        extra_metrics["logs"] = {
            name: _shares([(c, j) for s, c, j in zip(samples, crawlers, judged, strict=True) if s.source == name])
            for name in held_out_logs
        }
    return {
        **extra_metrics,
        "calibration": calibration_points(probabilities, crawlers),
        "people_right": share(right_people, len(crawlers) - sum(crawlers)),
        "crawlers_found": share(found, sum(crawlers)),
        "auc": round(area(roc(scores, crawlers)), 5),
        "crawlers_found_at_half_percent": share(found_at, total),
        "precision_at_half_percent": round(found_at / max(found_at + wrong, 1), 5),
        "calibration_error": round(expected_calibration_error(probabilities, crawlers), 5),
        "confusion": confusion(zip((s.label for s in samples), judged, strict=True)),
        "interval": "95 %, Wilson; cross-validated by visitor",
        "least_people_right": round(wilson(right_people, len(crawlers) - sum(crawlers))[0], 5),
    }


def _shares(judged: Sequence[tuple[bool, str]]) -> dict[str, Any]:
    """Return the shares of people and of crawlers that are right, from pairs of truth and classification."""
    people = [judgement == PERSON for crawler, judgement in judged if not crawler]
    found = [judgement != PERSON for crawler, judgement in judged if crawler]
    return {"people_right": share(sum(people), len(people)), "crawlers_found": share(sum(found), len(found))}


def _rounded(value: Any) -> Any:
    """Round all numbers to ten digits, which makes the file much shorter."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value

"""
Fitting: rows become a bundle.

Three recipes. `pathmarker`: a one-class SVM on people, then a C-SVC of crawlers, with PathMarker's six features of
whole long sessions. `window`: the sliding window's linear SVM. `boosted`: gradient boosting on all features at each
number of visits, calibrated; its thresholds share one budget of false positives (`thresholds`). All scores that these,
calibrations and metrics rest on are of visitors that the model had not seen: cross-validation, by visitor. Where rows
come from logs of several sites, a whole log is left out at a time, and no source of people, drawn or real, may be got
wrong more often than the budget allows.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression

from hedgerow.errors import ModelError
from hedgerow.lab.train.bins import bins_of
from hedgerow.lab.train.calibration import points
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
from hedgerow.lab.train.thresholds import SpentBudget, share_out
from hedgerow.watch.models.bundle import FORMAT, Bins, Bundle, Input, Stage
from hedgerow.watch.models.inference import Branches, Kernel, Kinds, Namer, Scorer, Trees
from hedgerow.watch.sessions.path import ALL_FEATURES, LONG, PATHMARKER_FEATURES, PREFIXES
from hedgerow.watch.sessions.window import MIN_WINDOW, WINDOW_FEATURES

FOLDS = 5
BUDGET = 0.005
"""The share of people that all stages of a bundle together may get wrong."""

LEAST_OF_EACH = 20
"""Visitors of each kind, people and crawlers, without which nothing is trained."""

_MOST_PEOPLE = 2000
_MOST_OF_A_KIND = 35
_DIGITS = 10
_KINDS = ("depth-first", "random-like", "width-first")


def fold_of(visitor: str, seed: int, folds: int = FOLDS) -> int:
    """Which fold a visitor is in: all its rows are in one."""
    return zlib.crc32(f"{seed} {visitor}".encode()) % folds


def folds_of(samples: Sequence[Sample], seed: int, apart: Sequence[str] = ()) -> list[int]:
    """The fold of each row: its visitor's, or that of its log where it is from one of those in *apart*."""
    logs = {name: FOLDS + number for number, name in enumerate(apart)}
    return [logs.get(sample.source, fold_of(sample.visitor, seed)) for sample in samples]


def balance(samples: Sequence[Sample], apart: Sequence[str]) -> Matrix | None:
    """
    Weights by which each source of people counts alike, all logs together as one, and so do drawn crawlers and those of
    logs; none without logs.
    """
    groups = [
        (sample.label == PERSON, "logs" if sample.source in apart else sample.source if sample.label == PERSON else "")
        for sample in samples
    ]
    counts = Counter(groups)
    if not any(source == "logs" for _, source in counts):
        return None
    return np.array([len(groups) / len(counts) / counts[group] for group in groups])


def held_out(samples: Sequence[Sample], folds: Sequence[int], fit: Callable[[Sequence[Sample]], Scorer]) -> list[float]:
    """The score of every row by a model that was fitted without its fold."""
    scores = [0.0] * len(samples)
    for fold in sorted(set(folds)):
        model = fit([sample for sample, its in zip(samples, folds, strict=True) if its != fold])
        for number, sample in enumerate(samples):
            if folds[number] == fold:
                scores[number] = model.score(sample.features)
    return scores


def calibrate(scores: Sequence[float], crawlers: Sequence[bool]) -> tuple[float, float]:
    """Slope and intercept that turn scores into probabilities (Platt's)."""
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
    apart: Sequence[str] = (),
) -> Bundle:
    """
    A bundle from rows; `ModelError` where there are too few visitors of either kind.

    *apart* names the sources that are logs of whole sites. For the recipe `boosted` each is left out in turn.
    """
    enough(samples)
    stages, metrics = [], {}
    wants: Input = {"boosted": "wide", "pathmarker": "six", "window": "window"}[recipe]  # type: ignore[assignment]
    if recipe == "boosted":
        rows_at = {size: [sample for sample in samples if sample.size == size] for size in sizes}
        asked = [size for size in sizes if _has_enough(rows_at[size])]
        tried = {size: (rows_at[size], _scores(rows_at[size], seed, apart)) for size in asked}
        for size, spent in zip(asked, share_out(tried, budget, apart) if asked else (), strict=True):
            stage, measured = _boosted(*tried[size], size, spent, seed, apart)
            stages.append(stage)
            metrics[str(size)] = measured
    elif recipe == "pathmarker":
        whole = [sample for sample in samples if sample.size == LONG]
        enough(whole)
        stage, metrics[str(LONG)] = _pathmarker(whole, seed)
        stages.append(stage)
        budget = NU
    else:
        stage, metrics[str(MIN_WINDOW)] = _window(samples, budget, seed)
        stages.append(stage)
    told = {"scikit-learn": sklearn.__version__, "seed": seed, "recipe": recipe, **(provenance or {})}
    names = {"six": PATHMARKER_FEATURES, "wide": ALL_FEATURES, "window": WINDOW_FEATURES}[wants]
    bundle = Bundle(FORMAT, recipe, wants, names, budget, tuple(stages), told, metrics)
    return msgspec.convert(_rounded(msgspec.to_builtins(bundle)), Bundle)


def enough(samples: Sequence[Sample]) -> None:
    people = len({sample.visitor for sample in samples if sample.label == PERSON})
    crawlers = len({sample.visitor for sample in samples if sample.label != PERSON})
    if people < LEAST_OF_EACH or crawlers < LEAST_OF_EACH:
        raise ModelError(
            f"{people} people and {crawlers} crawlers with enough visits are too few to train on; "
            f"it takes {LEAST_OF_EACH} of each"
        )


def _has_enough(samples: Sequence[Sample]) -> bool:
    try:
        enough(samples)
    except ModelError:
        return False
    return True


def _scores(samples: Sequence[Sample], seed: int, apart: Sequence[str]) -> list[float]:
    return held_out(samples, folds_of(samples, seed, apart), lambda some: _trees(some, seed, apart))


def _trees(samples: Sequence[Sample], seed: int, apart: Sequence[str]) -> Trees:
    return fit_trees(matrix(samples), _truth(samples), seed, balance(samples, apart))[0]


def _boosted(
    samples: Sequence[Sample],
    scores: Sequence[float],
    size: int,
    spent: SpentBudget,
    seed: int,
    apart: Sequence[str],
) -> tuple[Stage, dict[str, Any]]:
    """The stage at *size* visits."""
    slope, intercept = calibrate(scores, _truth(samples))
    model, kinds, bins = _trees(samples, seed, apart), _branches(samples, seed), _bins(samples, len(ALL_FEATURES))
    stage = Stage(size, model, spent.threshold, slope, intercept, spent.share, kinds, bins)
    return stage, _metrics(samples, scores, stage, folds_of(samples, seed, apart), seed, apart)


def _pathmarker(samples: Sequence[Sample], seed: int) -> tuple[Stage, dict[str, Any]]:
    def fit(some: Sequence[Sample]) -> Kernel:
        people = [sample for sample in some if sample.label == PERSON][:_MOST_PEOPLE]
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
    """For each source of people: the higher score of every two windows, about as many as a long session has."""
    people: dict[str, dict[tuple[str, int], float]] = {}
    for sample, score in zip(samples, scores, strict=True):
        if sample.label == PERSON:
            its, session = people.setdefault(sample.source, {}), (sample.visitor, sample.number // 2)
            its[session] = max(score, its.get(session, score))
    return [list(its.values()) for its in people.values()]


def _kinds(samples: Sequence[Sample], seed: int) -> Kinds | None:
    """The paper's C-SVC, from a few of each kind: its time grows with its support vectors."""
    some: list[Sample] = []
    for label in _KINDS:
        its = [sample for sample in samples if sample.label == label]
        its.sort(key=lambda sample: zlib.crc32(f"{seed} {sample.visitor} {sample.number}".encode()))
        some += its[:_MOST_OF_A_KIND]
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
    """What people were like: this site's own, where there are enough of them."""
    people = [sample for sample in samples if sample.label == PERSON]
    own = [sample for sample in people if sample.source == LOG]
    enough_own = len({sample.visitor for sample in own}) >= LEAST_OF_EACH
    return bins_of([sample.features for sample in (own if enough_own else people)], width)


def _truth(samples: Sequence[Sample]) -> list[bool]:
    return [sample.label != PERSON for sample in samples]


def _metrics(
    samples: Sequence[Sample],
    scores: Sequence[float],
    stage: Stage,
    folds: Sequence[int],
    seed: int,
    apart: Sequence[str] = (),
) -> dict[str, Any]:
    """What the held-out scores say. The kinds are named by C-SVCs that had not seen the visitor either."""
    crawlers = _truth(samples)
    named: dict[int, Namer | None] = {}
    if stage.kinds is not None:
        fit = _branches if isinstance(stage.kinds, Branches) else _kinds
        for fold in set(folds):
            named[fold] = fit([s for s, its in zip(samples, folds, strict=True) if its != fold], seed)
    judged = []
    for sample, score, fold in zip(samples, scores, folds, strict=True):
        kinds = named.get(fold)
        crawler = kinds.name(sample.features) if kinds else "suspect"
        judged.append(crawler if score > stage.threshold else PERSON)
    right_people = sum(j == PERSON for j, c in zip(judged, crawlers, strict=True) if not c)
    found = sum(j != PERSON for j, c in zip(judged, crawlers, strict=True) if c)
    found_at, total, wrong, _, _ = at_false_positives(scores, crawlers, BUDGET)
    probabilities = [stage.probability(score) for score in scores]
    told: dict[str, Any] = {}
    sources = {sample.source for sample in samples}
    if LOG in sources and len(sources) > 1:
        # Simulated ones were added: what holds for this site's own visitors is another question.
        own = [(j == PERSON, c) for j, c, s in zip(judged, crawlers, samples, strict=True) if s.source == LOG]
        people, bots = [right for right, c in own if not c], [not right for right, c in own if c]
        told["own"] = {
            "people_right": share(sum(people), len(people)),
            "crawlers_found": share(sum(bots), len(bots)),
            "people": len({s.visitor for s in samples if s.source == LOG and s.label == PERSON}),
            "crawlers": len({s.visitor for s in samples if s.source == LOG and s.label != PERSON}),
        }
    if apart:
        told["logs"] = {
            name: _shares([(c, j) for s, c, j in zip(samples, crawlers, judged, strict=True) if s.source == name])
            for name in apart
        }
    return {
        **told,
        "calibration": points(probabilities, crawlers),
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
    """People right and crawlers found, of rows that are crawlers' or not and were judged so."""
    people = [judgement == PERSON for crawler, judgement in judged if not crawler]
    found = [judgement != PERSON for crawler, judgement in judged if crawler]
    return {"people_right": share(sum(people), len(people)), "crawlers_found": share(sum(found), len(found))}


def _rounded(value: Any) -> Any:
    """Ten digits are enough, and make the file a good deal shorter."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value

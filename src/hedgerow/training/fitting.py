"""
Fitting: rows become a bundle.

Three recipes. `pathmarker`: a one-class SVM on people, then a C-SVC of crawlers, with PathMarker's six features of
whole long sessions. `window`: the sliding window's linear SVM. `boosted`: gradient boosting on all features at each
number of visits, calibrated; its thresholds share one budget of false positives. All scores that thresholds,
calibrations and metrics rest on are of visitors that the model had not seen: cross-validation, by visitor.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import sklearn
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC, OneClassSVM

from hedgerow.errors import ModelError
from hedgerow.models.bundle import FORMAT, Bins, Bundle, Input, Stage
from hedgerow.models.scoring import Kernel, Kinds, Linear, Scaling, Scorer, Trees
from hedgerow.sessions.paths import LONG, PREFIXES, SIX, WIDE
from hedgerow.sessions.window import LEAST, NAMES
from hedgerow.training.bins import bins_of
from hedgerow.training.calibration import points
from hedgerow.training.measures import (
    area,
    at_false_positives,
    confusion,
    expected_calibration_error,
    roc,
    share,
    wilson,
)
from hedgerow.training.rows import LOG, PERSON, Sample

Matrix = npt.NDArray[np.float64]
FOLDS = 5
BUDGET = 0.005
"""The share of people that all stages of a bundle together may get wrong."""

NU = 0.03
"""The one-class SVM's nu: about the share of people that the paper gets wrong, 3.57 %."""

GAMMA = 0.05
"""The one-class SVM's gamma. LIBSVM's own, 1/6, is so narrow that it gets twice as many people wrong as nu allows."""

LEAST_OF_EACH = 20
"""Visitors of each kind, people and crawlers, without which nothing is trained."""

_MOST_PEOPLE = 2000
_MOST_OF_A_KIND = 60
_TREES, _DEPTH = 70, 3
_DIGITS = 10
_LOGGED = frozenset({"variation", "short_variation", "gap_middle", "gap_low", "gap_high", "beside"})
_LOGGED_IN_WINDOW = frozenset({"gap_most", "gap_middle", "gap_variance"})


def matrix(samples: Sequence[Sample], width: int | None = None) -> Matrix:
    return np.array([sample.features[:width] for sample in samples], dtype=np.float64)


def scaling_of(rows: Matrix, names: Sequence[str]) -> Scaling:
    """The scaling that gives these rows mean 0 and deviation 1."""
    logged = _LOGGED if len(names) <= len(WIDE) and names[0] == WIDE[0] else _LOGGED_IN_WINDOW
    logs = tuple(name in logged for name in names)
    bent = _bent(rows, logs)
    deviations = bent.std(axis=0)
    return Scaling(
        logs,
        _floats(bent.mean(axis=0)),
        tuple(float(d) if d > 1e-9 else 1.0 for d in deviations),  # noqa: PLR2004
    )


def scaled(rows: Matrix, scaling: Scaling) -> Matrix:
    """All rows at once, as the scaling does one."""
    result: Matrix = (_bent(rows, scaling.logs) - np.array(scaling.means)) / np.array(scaling.scales)
    return result


def _bent(rows: Matrix, logs: tuple[bool, ...]) -> Matrix:
    bent: Matrix = np.where(np.array(logs), np.log1p(np.maximum(rows, 0.0)), rows)
    return bent


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def fit_one_class(rows: Matrix, names: Sequence[str]) -> tuple[Kernel, OneClassSVM]:
    """A one-class SVM of people, as `Kernel`: the score is above 0 where the row is not like a person's."""
    scaling = scaling_of(rows, names)
    model = OneClassSVM(nu=NU, gamma=GAMMA).fit(scaled(rows, scaling))
    vectors = tuple(_floats(vector) for vector in model.support_vectors_)
    kernel = Kernel(
        scaling, GAMMA, vectors, tuple(-c for c in _floats(model.dual_coef_[0])), -float(model.intercept_[0])
    )
    return kernel, model


def fit_linear(rows: Matrix, crawlers: Sequence[bool], names: Sequence[str], seed: int) -> tuple[Linear, LinearSVC]:
    """A linear SVM; the score is above 0 where it is a crawler."""
    scaling = scaling_of(rows, names)
    model = LinearSVC(C=1.0, class_weight="balanced", random_state=seed, max_iter=20_000).fit(
        scaled(rows, scaling), np.array(crawlers)
    )
    return Linear(scaling, _floats(model.coef_[0]), float(model.intercept_[0])), model


def fit_trees(rows: Matrix, crawlers: Sequence[bool], seed: int) -> tuple[Trees, GradientBoostingClassifier]:
    """Gradient boosting; the score is the logarithm of the odds that it is a crawler."""
    truth = np.array(crawlers)
    model = GradientBoostingClassifier(
        n_estimators=_TREES, max_depth=_DEPTH, learning_rate=0.15, subsample=0.5, min_samples_leaf=10, random_state=seed
    ).fit(rows, truth)
    roots: list[int] = []
    feature: list[int] = []
    threshold: list[float] = []
    left: list[int] = []
    right: list[int] = []
    value: list[float] = []
    for estimator in model.estimators_[:, 0]:
        tree = estimator.tree_
        start = len(feature)
        roots.append(start)
        for node in range(tree.node_count):
            leaf = tree.children_left[node] < 0
            feature.append(-1 if leaf else int(tree.feature[node]))
            threshold.append(0.0 if leaf else float(tree.threshold[node]))
            left.append(0 if leaf else start + int(tree.children_left[node]))
            right.append(0 if leaf else start + int(tree.children_right[node]))
            value.append(model.learning_rate * float(tree.value[node, 0, 0]) if leaf else 0.0)
    prior = float(truth.mean())
    offset = float(np.log(prior / (1 - prior)))
    trees = Trees(tuple(roots), tuple(feature), tuple(threshold), tuple(left), tuple(right), tuple(value), offset)
    return trees, model


def fit_kinds(rows: Matrix, labels: Sequence[str], names: Sequence[str]) -> tuple[Kinds, SVC] | None:
    """A C-SVC of the kinds of crawlers, or None where there is one kind only."""
    if len(set(labels)) < 2:  # noqa: PLR2004
        return None
    scaling = scaling_of(rows, names)
    model = SVC(C=10.0, gamma="scale").fit(scaled(rows, scaling), np.array(labels))
    pairs = len(model.classes_) == 2  # noqa: PLR2004 - then scikit-learn turns the signs round
    sign = -1.0 if pairs else 1.0
    kinds = Kinds(
        tuple(str(name) for name in model.classes_),
        scaling,
        float(model._gamma),  # noqa: SLF001 - there is no other way to learn it
        tuple(_floats(vector) for vector in model.support_vectors_),
        tuple(int(count) for count in model.n_support_),
        tuple(tuple(sign * c for c in _floats(row)) for row in model.dual_coef_),
        tuple(sign * o for o in _floats(model.intercept_)),
    )
    return kinds, model


def fold_of(visitor: str, seed: int, folds: int = FOLDS) -> int:
    """Which fold a visitor is in: all its rows are in one."""
    return zlib.crc32(f"{seed} {visitor}".encode()) % folds


def held_out(samples: Sequence[Sample], seed: int, fit: Callable[[Sequence[Sample]], Scorer]) -> list[float]:
    """The score of every row by a model that was fitted without its visitor's fold."""
    scores = [0.0] * len(samples)
    folds = [fold_of(sample.visitor, seed) for sample in samples]
    for fold in range(FOLDS):
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
) -> Bundle:
    """A bundle from rows; `ModelError` where there are too few visitors of either kind."""
    enough(samples)
    stages, metrics = [], {}
    wants: Input = {"boosted": "wide", "pathmarker": "six", "window": "window"}[recipe]  # type: ignore[assignment]
    if recipe == "boosted":
        rows_at = {size: [sample for sample in samples if sample.size == size] for size in sizes}
        asked = [size for size in sizes if _has_enough(rows_at[size])]
        # The more is known the more may be spent: a verdict on ten visits has to be surer than one on sixty.
        for size in asked:
            stage, measured = _boosted(rows_at[size], size, budget * size / sum(asked), seed)
            stages.append(stage)
            metrics[str(size)] = measured
    elif recipe == "pathmarker":
        whole = [sample for sample in samples if sample.size == LONG]
        enough(whole)
        stage, metrics[str(LONG)] = _pathmarker(whole, seed)
        stages.append(stage)
        budget = NU
    else:
        stage, metrics[str(LEAST)] = _window(samples, budget, seed)
        stages.append(stage)
    told = {"scikit-learn": sklearn.__version__, "seed": seed, "recipe": recipe, **(provenance or {})}
    names = {"six": SIX, "wide": WIDE, "window": NAMES}[wants]
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


def _boosted(samples: Sequence[Sample], size: int, allowed: float, seed: int) -> tuple[Stage, dict[str, Any]]:
    crawlers = _truth(samples)
    scores = held_out(samples, seed, lambda some: fit_trees(matrix(some), _truth(some), seed)[0])
    *_, threshold = at_false_positives(scores, crawlers, allowed)
    slope, intercept = calibrate(scores, crawlers)
    trees, _ = fit_trees(matrix(samples), crawlers, seed)
    stage = Stage(size, trees, threshold, slope, intercept, allowed, _kinds(samples, seed), _bins(samples, len(WIDE)))
    return stage, _metrics(samples, scores, stage, seed)


def _pathmarker(samples: Sequence[Sample], seed: int) -> tuple[Stage, dict[str, Any]]:
    def fit(some: Sequence[Sample]) -> Kernel:
        people = [sample for sample in some if sample.label == PERSON][:_MOST_PEOPLE]
        return fit_one_class(matrix(people, len(SIX)), SIX)[0]

    scores = held_out(samples, seed, fit)
    slope, intercept = calibrate(scores, _truth(samples))
    bins = _bins(samples, len(SIX))
    stage = Stage(LONG, fit(samples), 0.0, slope, intercept, NU, _kinds(samples, seed), bins)
    return stage, _metrics(samples, scores, stage, seed)


def _window(samples: Sequence[Sample], allowed: float, seed: int) -> tuple[Stage, dict[str, Any]]:
    scores = held_out(samples, seed, lambda some: fit_linear(matrix(some), _truth(some), NAMES, seed)[0])
    *_, threshold = at_false_positives(scores, _truth(samples), allowed)
    slope, intercept = calibrate(scores, _truth(samples))
    linear, _ = fit_linear(matrix(samples), _truth(samples), NAMES, seed)
    stage = Stage(LEAST, linear, threshold, slope, intercept, allowed, bins=_bins(samples, len(NAMES)))
    return stage, _metrics(samples, scores, stage, seed)


def _kinds(samples: Sequence[Sample], seed: int) -> Kinds | None:
    """The C-SVC, from a few of each kind: its time grows with its support vectors."""
    some: list[Sample] = []
    for label in sorted({sample.label for sample in samples} & {"depth-first", "width-first", "random-like"}):
        its = [sample for sample in samples if sample.label == label]
        its.sort(key=lambda sample: zlib.crc32(f"{seed} {sample.visitor} {sample.number}".encode()))
        some += its[:_MOST_OF_A_KIND]
    if not some:
        return None
    fitted = fit_kinds(matrix(some, len(SIX)), [sample.label for sample in some], SIX)
    return fitted[0] if fitted else None


def _bins(samples: Sequence[Sample], width: int) -> tuple[Bins, ...]:
    """What people were like: this site's own, where there are enough of them."""
    people = [sample for sample in samples if sample.label == PERSON]
    own = [sample for sample in people if sample.source == LOG]
    enough_own = len({sample.visitor for sample in own}) >= LEAST_OF_EACH
    return bins_of([sample.features for sample in (own if enough_own else people)], width)


def _truth(samples: Sequence[Sample]) -> list[bool]:
    return [sample.label != PERSON for sample in samples]


def _metrics(samples: Sequence[Sample], scores: Sequence[float], stage: Stage, seed: int) -> dict[str, Any]:
    """What the held-out scores say. The kinds are named by C-SVCs that had not seen the visitor either."""
    crawlers = _truth(samples)
    folds = [fold_of(sample.visitor, seed) for sample in samples]
    named: dict[int, Kinds | None] = {}
    if stage.kinds is not None:
        for fold in range(FOLDS):
            named[fold] = _kinds([s for s, its in zip(samples, folds, strict=True) if its != fold], seed)
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


def _rounded(value: Any) -> Any:
    """Ten digits are enough, and make the file a good deal shorter."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value

"""
scikit-learn models, fitted to samples and converted to the plain-Python models of a bundle.

Each function returns both: the converted model and the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.svm import SVC, LinearSVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

from hedgerow.lab.train.samples import Sample
from hedgerow.watch.models.inference import Branches, Kernel, Kinds, Linear, Scaling, Trees
from hedgerow.watch.sessions.path import ALL_FEATURES

Matrix = npt.NDArray[np.float64]

NU = 0.03
"""The nu of the one-class SVM: about the share of people that the paper misclassifies, 3.57 %."""

GAMMA = 0.05
"""The gamma of the one-class SVM. With LIBSVM's default, 1/6, it misclassifies twice as many people as nu allows."""

_TREES, _DEPTH = 70, 3
_LOG_SCALED = frozenset({"variation", "short_variation", "gap_middle", "gap_low", "gap_high", "beside"})
_LOG_SCALED_IN_WINDOW = frozenset({"gap_most", "gap_middle", "gap_variance"})


def matrix(samples: Sequence[Sample], width: int | None = None) -> Matrix:
    return np.array([sample.features[:width] for sample in samples], dtype=np.float64)


def scaling_of(rows: Matrix, names: Sequence[str]) -> Scaling:
    """Return the scaling that gives these rows mean 0 and deviation 1."""
    is_path = len(names) <= len(ALL_FEATURES) and names[0] == ALL_FEATURES[0]
    log_scaled = _LOG_SCALED if is_path else _LOG_SCALED_IN_WINDOW
    logs = tuple(name in log_scaled for name in names)
    transformed = _log_transformed(rows, logs)
    deviations = transformed.std(axis=0)
    return Scaling(
        logs,
        _floats(transformed.mean(axis=0)),
        tuple(float(d) if d > 1e-9 else 1.0 for d in deviations),  # noqa: PLR2004
    )


def scaled(rows: Matrix, scaling: Scaling) -> Matrix:
    result: Matrix = (_log_transformed(rows, scaling.logs) - np.array(scaling.means)) / np.array(scaling.scales)
    return result


def _log_transformed(rows: Matrix, logs: tuple[bool, ...]) -> Matrix:
    transformed: Matrix = np.where(np.array(logs), np.log1p(np.maximum(rows, 0.0)), rows)
    return transformed


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def fit_one_class(rows: Matrix, names: Sequence[str]) -> tuple[Kernel, OneClassSVM]:
    """Fit a one-class SVM of people. The score is above 0 if a row does not look like a person's."""
    scaling = scaling_of(rows, names)
    model = OneClassSVM(nu=NU, gamma=GAMMA).fit(scaled(rows, scaling))
    vectors = tuple(_floats(vector) for vector in model.support_vectors_)
    kernel = Kernel(
        scaling, GAMMA, vectors, tuple(-c for c in _floats(model.dual_coef_[0])), -float(model.intercept_[0])
    )
    return kernel, model


def fit_linear(rows: Matrix, crawlers: Sequence[bool], names: Sequence[str], seed: int) -> tuple[Linear, LinearSVC]:
    """Fit a linear SVM. The score is above 0 for a crawler."""
    scaling = scaling_of(rows, names)
    model = LinearSVC(C=1.0, class_weight="balanced", random_state=seed, max_iter=20_000).fit(
        scaled(rows, scaling), np.array(crawlers)
    )
    return Linear(scaling, _floats(model.coef_[0]), float(model.intercept_[0])), model


def fit_trees(
    rows: Matrix, crawlers: Sequence[bool], seed: int, weights: Matrix | None = None
) -> tuple[Trees, GradientBoostingClassifier]:
    """Fit gradient boosting. The score is the log-odds of a crawler."""
    truth = np.array(crawlers)
    model = GradientBoostingClassifier(
        n_estimators=_TREES, max_depth=_DEPTH, learning_rate=0.15, subsample=0.5, min_samples_leaf=10, random_state=seed
    ).fit(rows, truth, sample_weight=weights)
    trees = [estimator.tree_ for estimator in model.estimators_[:, 0]]
    roots = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]
    start = np.repeat(roots, [tree.node_count for tree in trees])
    columns = ("children_left", "children_right", "feature", "threshold")
    left, right, feature, threshold = (np.concatenate([getattr(tree, name) for tree in trees]) for name in columns)
    value = np.concatenate([tree.value[:, 0, 0] for tree in trees])
    leaf = left < 0
    prior = float(np.average(truth, weights=weights))
    offset = float(np.log(prior / (1 - prior)))
    converted = Trees(
        _ints(roots),
        _ints(np.where(leaf, -1, feature)),
        _floats(np.where(leaf, 0.0, threshold)),
        _ints(np.where(leaf, 0, start + left)),
        _ints(np.where(leaf, 0, start + right)),
        _floats(np.where(leaf, model.learning_rate * value, 0.0)),
        offset,
    )
    return converted, model


def fit_kinds(rows: Matrix, labels: Sequence[str], names: Sequence[str]) -> tuple[Kinds, SVC] | None:
    """Fit a C-SVC of the kinds of crawlers; None if there is only one kind."""
    if len(set(labels)) < 2:  # noqa: PLR2004
        return None
    scaling = scaling_of(rows, names)
    model = SVC(C=10.0, gamma="scale").fit(scaled(rows, scaling), np.array(labels))
    # With two classes scikit-learn inverts the signs.
    sign = -1.0 if len(model.classes_) == 2 else 1.0  # noqa: PLR2004
    kinds = Kinds(
        tuple(str(name) for name in model.classes_),
        scaling,
        float(model._gamma),  # noqa: SLF001 - there is no public attribute
        tuple(_floats(vector) for vector in model.support_vectors_),
        _ints(model.n_support_),
        tuple(tuple(sign * c for c in _floats(row)) for row in model.dual_coef_),
        tuple(sign * o for o in _floats(model.intercept_)),
    )
    return kinds, model


def fit_branches(rows: Matrix, labels: Sequence[str], seed: int) -> tuple[Branches, DecisionTreeClassifier] | None:
    """Fit a decision tree of the kinds of crawlers; None if there is only one kind."""
    if len(set(labels)) < 2:  # noqa: PLR2004
        return None
    model = DecisionTreeClassifier(max_depth=8, min_samples_leaf=5, class_weight="balanced", random_state=seed)
    tree = model.fit(rows, np.array(labels)).tree_
    leaf = tree.children_left < 0
    branches = Branches(
        tuple(str(name) for name in model.classes_),
        _ints(np.where(leaf, -1, tree.feature)),
        _floats(np.where(leaf, 0.0, tree.threshold)),
        _ints(np.where(leaf, 0, tree.children_left)),
        _ints(np.where(leaf, 0, tree.children_right)),
        _ints(tree.value[:, 0, :].argmax(axis=1)),
    )
    return branches, model

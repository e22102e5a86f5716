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
from sklearn.svm import SVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

from hedgerow.lab.train.samples import Sample
from hedgerow.watch.models.inference import Branches, Kernel, Kinds, Scaling, Trees

Matrix = npt.NDArray[np.float64]

NU = 0.03
"""The nu of the one-class SVM: about the share of people that the paper misclassifies, 3.57 %."""

GAMMA = 0.05
"""The gamma of the one-class SVM. With LIBSVM's default, 1/6, it misclassifies twice as many people as nu allows."""

_TREES, _DEPTH = 70, 3
_MORE_TREES, _SLOWLY = 25, 0.1
_LOG_SCALED = frozenset({"variation", "short_variation", "gap_middle", "gap_low", "gap_high", "beside"})


def matrix(samples: Sequence[Sample], width: int | None = None) -> Matrix:
    return np.array([sample.features[:width] for sample in samples], dtype=np.float64)


def scaling_of(rows: Matrix, names: Sequence[str]) -> Scaling:
    """Return the scaling that gives these rows mean 0 and deviation 1."""
    logs = tuple(name in _LOG_SCALED for name in names)
    transformed = _log_transformed(rows, logs)
    deviations = transformed.std(axis=0)
    return Scaling(
        logs,
        _tuple(transformed.mean(axis=0)),
        tuple(float(d) if d > 1e-9 else 1.0 for d in deviations),  # noqa: PLR2004
    )


def scaled(rows: Matrix, scaling: Scaling) -> Matrix:
    result: Matrix = (_log_transformed(rows, scaling.logs) - np.array(scaling.means)) / np.array(scaling.scales)
    return result


def _log_transformed(rows: Matrix, logs: tuple[bool, ...]) -> Matrix:
    transformed: Matrix = np.where(np.array(logs), np.log1p(np.maximum(rows, 0.0)), rows)
    return transformed


def _tuple(values: npt.NDArray[Any]) -> tuple[Any, ...]:
    return tuple(values.tolist())


def fit_one_class(rows: Matrix, names: Sequence[str]) -> tuple[Kernel, OneClassSVM]:
    """Fit a one-class SVM of people. The score is above 0 if a row does not look like a person's."""
    scaling = scaling_of(rows, names)
    model = OneClassSVM(nu=NU, gamma=GAMMA).fit(scaled(rows, scaling))
    vectors = tuple(_tuple(vector) for vector in model.support_vectors_)
    kernel = Kernel(
        scaling, GAMMA, vectors, tuple(-c for c in _tuple(model.dual_coef_[0])), -float(model.intercept_[0])
    )
    return kernel, model


def fit_trees(
    rows: Matrix, crawlers: Sequence[bool], seed: int, weights: Matrix | None = None
) -> tuple[Trees, GradientBoostingClassifier]:
    """Fit gradient boosting. The score is the log-odds of a crawler."""
    truth = np.array(crawlers)
    model = GradientBoostingClassifier(
        n_estimators=_TREES, max_depth=_DEPTH, learning_rate=0.15, subsample=0.5, min_samples_leaf=10, random_state=seed
    ).fit(rows, truth, sample_weight=weights)
    prior = float(np.average(truth, weights=weights))
    return _converted(model, float(np.log(prior / (1 - prior)))), model


def continue_trees(
    rows: Matrix, crawlers: Sequence[bool], start: Trees, seed: int, weights: Matrix | None = None
) -> tuple[Trees, GradientBoostingClassifier]:
    """Go on with the gradient boosting that gave *start*: a few small trees correct it for these rows."""
    model = GradientBoostingClassifier(
        init=_Start(start), n_estimators=_MORE_TREES, max_depth=_DEPTH, learning_rate=_SLOWLY, subsample=0.5,
        min_samples_leaf=10, random_state=seed,
    ).fit(rows, np.array(crawlers), sample_weight=weights)  # fmt: skip
    more = _converted(model, 0.0)
    count = len(start.feature)
    moved = [tuple(node + count if leaf >= 0 else 0 for node, leaf in zip(nodes, more.feature, strict=True))
             for nodes in (more.left, more.right)]  # fmt: skip
    joined = Trees(
        start.roots + tuple(root + count for root in more.roots), start.feature + more.feature,
        start.threshold + more.threshold, start.left + moved[0], start.right + moved[1], start.value + more.value,
        start.offset,
    )  # fmt: skip
    return joined, model


def tree_scores(trees: Trees, rows: Matrix) -> Matrix:
    """Return the scores of many rows, as `Trees.score` does for one."""
    values = rows.astype(np.float32).astype(np.float64)
    feature, threshold = np.array(trees.feature), np.array(trees.threshold)
    left, right, value = np.array(trees.left), np.array(trees.right), np.array(trees.value)
    scores, each = np.full(len(rows), trees.offset), np.arange(len(rows))
    for root in trees.roots:
        nodes = np.full(len(rows), root)
        while (inner := feature[nodes] >= 0).any():
            is_left = values[each, np.maximum(feature[nodes], 0)] <= threshold[nodes]
            nodes = np.where(inner, np.where(is_left, left[nodes], right[nodes]), nodes)
        scores += value[nodes]
    return scores


class _Start:
    """A finished model as the starting point of scikit-learn's gradient boosting."""

    def __init__(self, start: Trees) -> None:
        self._start = start

    def fit(self, *_: object, **__: object) -> _Start:
        return self

    def predict(self, rows: Matrix) -> Matrix:
        return self.predict_proba(rows)[:, 1]

    def predict_proba(self, rows: Matrix) -> Matrix:
        scores = tree_scores(self._start, rows)
        share = 1 / (1 + np.exp(-scores))
        return np.stack([1 - share, share], axis=1)


def _converted(model: GradientBoostingClassifier, offset: float) -> Trees:
    trees = [estimator.tree_ for estimator in model.estimators_[:, 0]]
    roots = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]
    start = np.repeat(roots, [tree.node_count for tree in trees])
    columns = ("children_left", "children_right", "feature", "threshold")
    left, right, feature, threshold = (np.concatenate([getattr(tree, name) for tree in trees]) for name in columns)
    value = np.concatenate([tree.value[:, 0, 0] for tree in trees])
    leaf = left < 0
    return Trees(
        _tuple(roots), _tuple(np.where(leaf, -1, feature)), _tuple(np.where(leaf, 0.0, threshold)),
        _tuple(np.where(leaf, 0, start + left)), _tuple(np.where(leaf, 0, start + right)),
        _tuple(np.where(leaf, model.learning_rate * value, 0.0)), offset,
    )  # fmt: skip


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
        tuple(_tuple(vector) for vector in model.support_vectors_),
        _tuple(model.n_support_),
        tuple(tuple(sign * c for c in _tuple(row)) for row in model.dual_coef_),
        tuple(sign * o for o in _tuple(model.intercept_)),
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
        _tuple(np.where(leaf, -1, tree.feature)),
        _tuple(np.where(leaf, 0.0, tree.threshold)),
        _tuple(np.where(leaf, 0, tree.children_left)),
        _tuple(np.where(leaf, 0, tree.children_right)),
        _tuple(tree.value[:, 0, :].argmax(axis=1)),
    )
    return branches, model

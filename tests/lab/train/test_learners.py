"""Trained models score visits as scikit-learn does, and the shipped bundles tell crawlers from people."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from hedgerow.lab.train.learners import (
    fit_branches,
    fit_kinds,
    fit_one_class,
    fit_trees,
    matrix,
    scaled,
    scaling_of,
)
from hedgerow.lab.train.samples import PERSON, samples_of, windows_of
from hedgerow.lab.train.simulated_data import Size, draw_walks
from hedgerow.watch.models.bundle import SHIPPED, shipped
from hedgerow.watch.models.inference import Linear
from hedgerow.watch.sessions.path import ALL_FEATURES, PATHMARKER_FEATURES
from hedgerow.watch.sessions.window import WINDOW_FEATURES


@pytest.fixture(scope="module")
def walks():
    return draw_walks(3, Size(sites=4, people=120, crawlers=120))


@pytest.fixture(scope="module")
def samples(walks):
    return [sample for walk in walks for sample in samples_of(walk, (20, 60))]


def test_one_class_svm_scores_equal_those_of_scikit_learn(samples):
    people = matrix([s for s in samples if s.label == PERSON], 6)
    kernel, model = fit_one_class(people, PATHMARKER_FEATURES)
    rows = matrix(samples, 6)
    told = model.decision_function(scaled(rows, kernel.scaling))
    assert [-kernel.score(s.features) for s in samples] == pytest.approx(told, abs=1e-9)


@pytest.mark.parametrize("names", [("depth-first", "width-first"), ("depth-first", "width-first", "random-like")])
def test_svc_classes_equal_those_of_scikit_learn(samples, names):
    crawlers = [s for s in samples if s.label in names]
    kinds, model = fit_kinds(matrix(crawlers, 6), [s.label for s in crawlers], PATHMARKER_FEATURES)
    told = model.predict(scaled(matrix(samples, 6), kinds.scaling))
    assert [kinds.name(s.features) for s in samples] == list(told)


def test_decision_tree_classes_equal_those_of_scikit_learn(samples):
    crawlers = [s for s in samples if s.label != PERSON]
    branches, model = fit_branches(matrix(crawlers), [s.label for s in crawlers], 1)
    assert not list(branches.faults(len(ALL_FEATURES)))
    assert [branches.name(s.features) for s in samples] == list(model.predict(matrix(samples)))
    assert fit_branches(matrix(crawlers), ["depth-first"] * len(crawlers), 1) is None


def test_linear_scores_equal_those_of_scikit_learn(walks):
    rows = windows_of(walks, Random(1))
    scaling = scaling_of(matrix(rows), WINDOW_FEATURES)
    model = LinearSVC(random_state=1).fit(scaled(matrix(rows), scaling), [s.label != PERSON for s in rows])
    linear = Linear(scaling, tuple(model.coef_[0].tolist()), float(model.intercept_[0]))
    told = model.decision_function(scaled(matrix(rows), linear.scaling))
    assert [linear.score(s.features) for s in rows] == pytest.approx(told, abs=1e-9)


def test_boosted_tree_scores_equal_those_of_scikit_learn(samples):
    trees, model = fit_trees(matrix(samples), [s.label != PERSON for s in samples], 1)
    told = model.decision_function(matrix(samples))
    assert [trees.score(s.features) for s in samples] == pytest.approx(told, abs=1e-9)


def test_trees_compare_in_single_precision(samples):
    """Features a hair beside a threshold fall to the side to which scikit-learn lets them fall."""
    trees, model = fit_trees(matrix(samples), [s.label != PERSON for s in samples], 1)
    rows = []
    for node, asked in enumerate(trees.feature):
        if asked >= 0:
            for beside in (-1e-9, 0.0, 1e-9):
                row = list(samples[0].features)
                row[asked] = trees.threshold[node] + beside
                rows.append(row)
    assert [trees.score(row) for row in rows] == pytest.approx(model.decision_function(np.array(rows)), abs=1e-9)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_bundles_are_valid_and_tell_crawlers_from_people(name, samples, walks):
    bundle = shipped(name)
    assert bundle.provenance["recipe"] == name
    assert sum(stage.share for stage in bundle.stages) <= bundle.budget * 1.0001
    rows = windows_of(walks, Random(1)) if name == "window" else [s for s in samples if s.size == 60]
    width = len(bundle.features)
    judged = [bundle.judge(s.features[:width], s.size) for s in rows]
    people = [j for j, s in zip(judged, rows, strict=True) if s.label == PERSON]
    crawlers = [j for j, s in zip(judged, rows, strict=True) if s.label != PERSON]
    assert sum(j.identity == "person" for j in people) >= 0.9 * len(people)
    # As many as it says it finds of visitors it has not seen, less three deviations: these are few.
    claimed = bundle.metrics[str(bundle.stages[-1].size)]["crawlers_found"]["value"]
    least = claimed - 3 * (claimed * (1 - claimed) / len(crawlers)) ** 0.5
    assert sum(j.identity != "person" for j in crawlers) >= least * len(crawlers)
    assert all(0 <= j.probability <= 1 for j in judged)

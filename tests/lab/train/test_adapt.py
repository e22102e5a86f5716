"""A bundle for a site goes on from the shipped one, is judged by visitors it has not seen, and is refused if worse."""

from __future__ import annotations

from random import Random

import msgspec
import numpy as np
import pytest

from hedgerow.lab.train.adapt import Comparison, Judged, adapt, balanced_weights, compare
from hedgerow.lab.train.learners import continue_trees, matrix, tree_scores
from hedgerow.lab.train.samples import LOG, PERSON, Sample, samples_of
from hedgerow.lab.train.simulated_data import Size, draw_people, draw_sites, draw_walks, path_rows
from hedgerow.watch.models.bundle import load
from hedgerow.watch.sessions.path import ALL_FEATURES


def sample(visitor: str, label: str = PERSON, source: str = LOG) -> Sample:
    return Sample(visitor, label, source, "x", 0, 20, (0.0,) * len(ALL_FEATURES))


@pytest.fixture(scope="module")
def simulated():
    return [row for row in path_rows(draw_walks("adapt", Size(4, 80, 80))) if row.size in {20, 40}]


def test_people_and_crawlers_weigh_the_same_however_few_they_are():
    rows = [sample(f"p{n}") for n in range(3)] + [sample("c", "random-like", "sim")] * 300
    rows += [sample(f"s{n}", source="sim") for n in range(60)]
    weights = balanced_weights(rows)
    is_person = np.array([row.label == PERSON for row in rows])
    assert weights[is_person].sum() == pytest.approx(weights[~is_person].sum())
    assert weights[0] == pytest.approx(5 * weights[-1]), "five times a simulated one at most"
    assert weights.sum() == pytest.approx(len(rows))


def test_trees_that_go_on_score_as_those_of_scikit_learn(simulated):
    rows = [row for row in simulated if row.size == 20]
    start = next(stage.model for stage in load().stages if stage.size == 20)
    trees, model = continue_trees(matrix(rows), [row.label != PERSON for row in rows], start, 1)
    told = model.decision_function(matrix(rows))
    assert [trees.score(row.features) for row in rows] == pytest.approx(told, abs=1e-9)
    assert tree_scores(trees, matrix(rows)) == pytest.approx(told, abs=1e-9)
    assert not list(trees.faults(len(ALL_FEATURES)))
    assert trees.feature[: len(start.feature)] == start.feature


@pytest.fixture(scope="module")
def adapted(simulated):
    """A site on which people read in a way that the shipped bundle knows, and three crawls."""
    people = draw_people(Random("site"), draw_sites(Random("site"), 2), 12, marked=True, name="own ")
    own = [row._replace(source=LOG) for walk in people for row in samples_of(walk, (20, 40))]
    crawls = [row for row in simulated if row.label != PERSON and row.visitor.endswith(("-1", "-2", "-3"))]
    rows = [*own, *(row._replace(source=LOG, visitor=f"own {row.visitor}") for row in crawls), *simulated]
    return adapt(rows, start=load(), sizes=(20, 40))


def test_every_stage_stays_and_no_threshold_falls(adapted):
    shipped = {stage.size: stage.threshold for stage in load().stages}
    assert [stage.size for stage in adapted.bundle.stages] == [20, 40]
    assert all(stage.threshold >= shipped[stage.size] - 1e-9 for stage in adapted.bundle.stages)
    assert not list(adapted.bundle.faults())
    assert adapted.bundle.provenance["start"].startswith("boosted (")


def test_figures_are_of_visitors_that_neither_models_nor_thresholds_have_seen(adapted):
    """The judgements of the nested validation are not those of the final bundle, which has seen everybody."""
    by_size = {size: [one for one in adapted.judged if one.sample.size == size] for size in (20, 40)}
    for size, judged in by_size.items():
        measured = adapted.bundle.metrics[str(size)]
        people = [one for one in judged if one.sample.label == PERSON]
        assert measured["people_right"]["of"] == len(people)
        assert measured["people_right"]["value"] == pytest.approx(
            sum(not one.flagged for one in people) / len(people), abs=1e-4
        )
        assert measured["own"]["people"] == 12
        assert "nested" in measured["interval"]
    final = [adapted.bundle.judge(s.features, s.size).identity != PERSON for s, _ in adapted.judged]
    assert final != [one.flagged for one in adapted.judged]


def test_a_bundle_that_suspects_more_people_of_the_site_is_worse():
    """Both suspects of the new bundle are people of the site; the current bundle suspects neither."""
    quiet, loud = (
        msgspec.structs.replace(
            load(), stages=tuple(msgspec.structs.replace(stage, threshold=threshold) for stage in load().stages)
        )
        for threshold in (1e9, -1e9)
    )
    judged = [Judged(sample("a"), True), Judged(sample("b"), False), Judged(sample("s", source="sim"), True)]
    found = compare(judged, quiet)
    assert found[:2] == (2, 1)
    assert found.suspected_by_current == 0
    assert found.fault == "it suspects 1 of the site's 2 people, the current bundle 0"
    assert compare(judged, loud).fault == ""


@pytest.mark.parametrize(
    ("found", "fault"), [(100, ""), (95, ""), (94, "it finds 94 of 100 crawlers, the current bundle 100")]
)
def test_a_bundle_that_loses_crawlers_is_worse(found, fault):
    assert Comparison(30, 0, 0, 100, found, 100).fault.startswith(fault)
    assert bool(Comparison(30, 0, 0, 100, found, 100).fault) == bool(fault)

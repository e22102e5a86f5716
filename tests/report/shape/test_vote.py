"""The bundle that ships, what it says in words, and bundles that are none."""

import json

import msgspec
import numpy as np
import pytest

from hedgerow.errors import ModelError
from hedgerow.report.shape.classifiers import (
    INPUTS,
    ClassifierEvidence,
    ClassifierRule,
    ClassifierRules,
    Condition,
    Machine,
    checked,
    load,
    save,
)
from hedgerow.report.shape.features import NAMES, Fine, features
from hedgerow.report.shape.series import DAY, Counts, plan_of
from hedgerow.report.shape.vote import classify, words


def traffic(days=6):
    """Three steady crawlers and three people who came once."""
    chance = np.random.default_rng(7)
    parts = [np.sort(chance.uniform(0, days * DAY, 400)) for _ in range(3)]
    for person in range(3):
        pages = person * 0.3 * DAY + np.cumsum(chance.uniform(20, 90, 5))
        parts.append(np.repeat(pages, 12) + np.tile(np.arange(12) // 6, 5))
    sources = np.repeat(np.arange(6), [len(part) for part in parts])
    return sources, np.concatenate(parts)


def found(*, days=6, fine=True):
    sources, times = traffic(days)
    plan = plan_of(times.min(), times.max())
    return features(Counts.of_times(sources, times, plan, 6), plan, Fine.of_times(sources, times, 6) if fine else None)


def test_crawlers_and_people_by_the_bundle_that_ships():
    verdicts = classify(found(), load())
    assert verdicts.labels == ["crawler"] * 3 + ["person"] * 3
    assert verdicts.scores[:3].min() > 0.8
    assert verdicts.scores[3:].max() < 0.3
    assert verdicts.votes.tolist() == [3, 3, 3, 0, 0, 0]
    assert verdicts.probabilities.shape == (6, 3)
    assert all(reason.startswith(("If ", "What says most that it is a ")) for reason in verdicts.reasons)
    assert ["a crawler" in reason for reason in verdicts.reasons] == [True] * 3 + [False] * 3


def test_without_seconds_the_model_of_the_series_is_asked():
    bundle = load()
    without = classify(found(fine=False), bundle)
    assert np.array_equal(without.scores, classify(found(), bundle, model="series").scores)
    assert without.labels[3:] == ["person"] * 3


def test_less_than_two_days_are_not_judged():
    assert classify(found(days=1), load()).labels == ["unknown"] * 6


def test_nobody_to_judge():
    rows = found()
    nobody = rows._replace(sources=rows.sources[:0], rows=rows.rows[:0])
    assert classify(nobody, load()).labels == []


def test_rules_in_words():
    rule = ClassifierRule((Condition(8, True, 0.25), Condition(2, False, 1.0), Condition(5, True, 0.0)), True, 41, 1)
    assert words(rule, NAMES) == (
        "If the share of intervals in use is above 0.25 and its auto-correlation decays: none or cut-off and it "
        "repeats itself by the half day or day: yes: a crawler (true of 41 of 42 in training)."
    )


def test_rules_add_up_what_they_covered():
    rules = ClassifierRules(
        (
            ClassifierRule((Condition(0, True, 0.5),), True, 9, 0),
            ClassifierRule((Condition(1, True, 0.5),), False, 1, 7),
        ),
        2.0,
    )
    rows = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    assert rules.probability(rows).tolist() == [19 / 20, 21 / 29, 0.5]
    assert rules.first(rows, crawler=np.array([True, False, True])).tolist() == [0, 1, -1]


def test_evidence_outside_its_scale_counts_as_its_end():
    evidence = ClassifierEvidence(0.0, 1.0, (-1.0, 3.0), discrete=False)
    assert evidence.of(np.array([-5.0, 50.0])).tolist() == [-1.0, 3.0]
    assert ClassifierEvidence(0.0, 3.0, (1.0, 2.0), discrete=True).of(np.array([0.0, 9.0])).tolist() == [1.0, 2.0]


def test_the_machine_is_what_scikit_learn_says():
    svc = pytest.importorskip("sklearn.svm").SVC
    chance = np.random.default_rng(1)
    rows = chance.random((80, 3))
    truth = rows[:, 0] > rows[:, 1]
    fitted = svc(C=3, gamma=0.7).fit(np.log1p(rows * 100), truth)
    machine = Machine(
        (0.0,) * 3, (1.0,) * 3,
        tuple(map(tuple, fitted.support_vectors_.tolist())), tuple(fitted.dual_coef_[0].tolist()),
        float(fitted.intercept_[0]), 0.7, 1.0, 0.0,
    )  # fmt: skip
    np.testing.assert_allclose(machine.decision(rows), fitted.decision_function(np.log1p(rows * 100)), atol=1e-9)


def test_a_bundle_comes_back_as_it_was_saved(tmp_path):
    save(load(), tmp_path / "b.json")
    assert load(tmp_path / "b.json") == load()


def spoilt(change):
    data = json.loads(msgspec.json.encode(load()))
    change(data)
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data.update(format="x"), "format"),
        (lambda data: data.update(models={"nine": data["models"]["eight"]}), "none of"),
        (lambda data: data["models"].update(eight=data["models"]["all"]), "Bayes"),
        (lambda data: data["models"]["all"]["machine"]["weights"].pop(), "one weight"),
        (lambda data: data["models"]["all"]["machine"]["scales"].__setitem__(0, 0), "scales"),
        (lambda data: data["models"]["all"]["rules"]["rules"][0]["conditions"][0].update(column=99), "not there"),
        (lambda data: data["models"]["all"].update(threshold=2), "no probability"),
        (lambda data: data.update(least=0), "limits"),
        (lambda data: data["models"]["all"]["bayes"]["features"][0].update(log_odds=[]), "without odds"),
        (lambda data: data.pop("models"), "no bundle"),
    ],
)
def test_a_spoilt_bundle_says_what_is_wrong(change, said):
    with pytest.raises(ModelError, match=said):
        checked(spoilt(change), "b.json")


@pytest.mark.parametrize("data", [b"", b"\x80\x04", b"[" * 100_000, b"{}"])
def test_other_bytes_are_no_bundle(data):
    with pytest.raises(ModelError):
        checked(data, "b.json")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ModelError, match="cannot be read"):
        load(tmp_path / "none.json")


def test_all_inputs_ship():
    assert load().models.keys() == INPUTS.keys()

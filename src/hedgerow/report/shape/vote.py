"""
Vote: three classifiers judge the shape of each source's traffic (PubCrawl, section 3.3.3) and give reasons in words.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.shape.autocorrelation import ALTERNATIONS, DECAYS
from hedgerow.report.shape.classifiers import INPUTS, ClassifierRule, Condition, ShapeModel, ShapeModels
from hedgerow.report.shape.features import NAMES, Features

Floats = NDArray[np.float64]
Label = Literal["crawler", "person", "unknown"]

MAJORITY = 2
EIGHT_FEATURES = "eight"
"""The model with the paper's features alone."""

_EVEN = 0.5
_TEXTS = {
    "r1": "resemblance to the interval before",
    "r2": "resemblance to the second interval before",
    "spikes": "number of moments at which it repeats itself",
    "trend_dispersion": "unsteadiness of its trend",
    "season_over_trend": "weight of its rhythm against its trend",
    "spread": "share of intervals in use",
    "visits": "number of separate visits for its requests",
    "days": "share of days in use",
    "hours": "share of the day's hours in use",
    "peak": "share of its requests in one interval",
    "silence": "longest silence as a share of the log",
    "seconds": "share of requests in a second of their own",
    "tens": "distance between those seconds",
    "minutes": "distance between those tens of seconds",
}
_ENUMERATED = {
    "decay": ("its auto-correlation decays", DECAYS),
    "alternation": ("its auto-correlation changes sign", ALTERNATIONS),
    "daily": ("it repeats itself by the half day or day", ("no", "yes")),
}


class ShapeVotes(NamedTuple):
    """
    One entry for each row of the features.

    *scores*: the mean of the three probabilities, 0 to 1. *votes*: how many classifiers vote for a crawler.
    *probabilities*: by naive Bayes, rules and support vector machine. *labels*: crawler, if the majority votes so and
    hardly any person had such a score; person, if the majority votes so; else unknown. *reasons*: the matching rule in
    words, or the strongest feature.
    """

    scores: Floats
    votes: NDArray[np.int64]
    probabilities: Floats
    labels: list[Label]
    reasons: list[str]


def classify(found: Features, bundle: ShapeModels, *, model: str = "") -> ShapeVotes:
    """
    Judge all rows by the model called *model*, or by the richest model whose features are present.

    In a log of less than two days all sources are unknown: its intervals differ from those of training.
    """
    name = model or richest(found, bundle)
    verdicts = judge(found.rows[:, columns(name)], bundle.models[name], INPUTS[name])
    return verdicts if found.comparable else verdicts._replace(labels=["unknown"] * len(found.rows))


def richest(found: Features, bundle: ShapeModels) -> str:
    there = np.asarray(~np.isnan(found.rows).any(axis=0))
    fitting = [name for name in INPUTS if name in bundle.models and there[columns(name)].all()]
    if not fitting:
        raise ValueError("no model of the bundle fits these features")
    return fitting[-1]


def columns(name: str) -> list[int]:
    return [NAMES.index(feature) for feature in INPUTS[name]]


def judge(rows: Floats, model: ShapeModel, names: tuple[str, ...]) -> ShapeVotes:
    """Judge rows with exactly the features of *model*."""
    probabilities = np.column_stack([part.probability(rows) for part in (model.bayes, model.rules, model.machine)])
    scores = probabilities.mean(axis=1)
    votes = (probabilities > _EVEN).sum(axis=1)
    majority = votes >= MAJORITY
    labels: list[Label] = [
        ("crawler" if score > model.threshold else "unknown") if crawler else "person"
        for crawler, score in zip(majority.tolist(), scores.tolist(), strict=True)
    ]
    texts = [words(rule, names) for rule in model.rules.rules]
    held = model.rules.first(rows, crawler=majority)
    reasons = [texts[number] if number >= 0 else "" for number in held.tolist()]
    without = np.flatnonzero(held < 0)
    odds = model.bayes.log_odds(rows[without]) * np.where(majority[without], 1.0, -1.0)[:, None]
    for row, column in zip(without.tolist(), odds.argmax(axis=1).tolist(), strict=True):
        whom = "crawler" if majority[row] else "person"
        reasons[row] = f"What says most that it is a {whom}: {_value(names[column], float(rows[row, column]))}."
    return ShapeVotes(scores, votes, probabilities, labels, reasons)


def words(rule: ClassifierRule, names: tuple[str, ...]) -> str:
    """A rule as a sentence."""
    conditions = " and ".join(_condition(condition, names[condition.column]) for condition in rule.conditions)
    whom = "crawler" if rule.crawler else "person"
    right = rule.crawlers if rule.crawler else rule.people
    return f"If {conditions}: a {whom} (true of {right:.0f} of {rule.crawlers + rule.people:.0f} in training)."


def _value(name: str, value: float) -> str:
    if name in _ENUMERATED:
        text, values = _ENUMERATED[name]
        return f"{text}: {values[min(int(value), len(values) - 1)]}"
    return f"the {_TEXTS[name]} is {value:.3g}"


def _condition(condition: Condition, name: str) -> str:
    if name in _ENUMERATED:
        text, values = _ENUMERATED[name]
        kept = [value for n, value in enumerate(values) if (n > condition.limit) == condition.above]
        return f"{text}: {' or '.join(kept)}"
    return f"the {_TEXTS[name]} is {'above' if condition.above else 'at most'} {condition.limit:.3g}"

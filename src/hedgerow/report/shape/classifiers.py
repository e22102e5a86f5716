"""
Scoring: the three classifiers of PubCrawl, as parameters, over many rows at once.

Naive Bayes with densities that were smoothed by local regression, rules (CN2), and a support vector machine with a
Gaussian kernel. Each says how probable it is that a row is a crawler's; training is elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LARGEST_LOG_ODDS = 30.0
_KERNEL_BLOCK = 1024


def sigmoid(values: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-np.clip(values, -_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS)))


def transformed(values: Floats) -> Floats:
    """What lies over several orders of magnitude, brought together; the order stays."""
    return np.sign(values) * np.log1p(np.abs(values) * 100.0)


class ClassifierEvidence(msgspec.Struct, frozen=True):
    """
    What one feature says: the log-odds for a crawler over a scale from *low* to *high*, evenly spaced.

    A discrete feature is looked up, others are read between the points of the scale; what is outside counts as its end.
    """

    low: float
    high: float
    log_odds: tuple[float, ...]
    discrete: bool

    def of(self, values: Floats) -> Floats:
        table = np.asarray(self.log_odds)
        if self.discrete:
            return np.asarray(table[np.clip(np.rint(values), 0, len(table) - 1).astype(np.int64)])
        scale = np.linspace(self.low, self.high, len(table))
        return np.asarray(np.interp(transformed(values), scale, table))

    def faults(self) -> Iterator[str]:
        if not self.log_odds or not all(map(math.isfinite, self.log_odds)):
            yield "a feature without odds"
        if not self.discrete and not self.low < self.high:
            yield "a scale that ends before it begins"


class Bayes(msgspec.Struct, frozen=True):
    """Naive Bayes: the log-odds of all features added up, with crawlers and people equally likely beforehand."""

    features: tuple[ClassifierEvidence, ...]

    def log_odds(self, rows: Floats) -> Floats:
        """What each feature of each row says for a crawler."""
        return np.column_stack([feature.of(rows[:, column]) for column, feature in enumerate(self.features)])

    def probability(self, rows: Floats) -> Floats:
        return sigmoid(self.log_odds(rows).sum(axis=1))

    def faults(self, width: int) -> Iterator[str]:
        if len(self.features) != width:
            yield "Bayes has not one scale for each feature"
        for feature in self.features:
            yield from feature.faults()


class Condition(msgspec.Struct, frozen=True):
    """That a feature (a column) is above a limit, or not."""

    column: int
    above: bool
    limit: float

    def holds(self, rows: Floats) -> NDArray[np.bool_]:
        values = rows[:, self.column]
        return values > self.limit if self.above else values <= self.limit


class ClassifierRule(msgspec.Struct, frozen=True):
    """If all conditions hold it is a crawler, or a person. *crawlers* and *people* are those it covered in training."""

    conditions: tuple[Condition, ...]
    crawler: bool
    crawlers: float
    people: float

    def holds(self, rows: Floats) -> NDArray[np.bool_]:
        found = np.ones(len(rows), dtype=np.bool_)
        for condition in self.conditions:
            found &= condition.holds(rows)
        return found


class ClassifierRules(msgspec.Struct, frozen=True):
    """
    CN2's unordered rules: all that hold are added up, as crawlers and people that they covered in training.

    *balance* is what a crawler counts for: how many more people than crawlers there were in training.
    """

    rules: tuple[ClassifierRule, ...]
    balance: float = 1.0

    def probability(self, rows: Floats) -> Floats:
        crawlers, people = np.ones(len(rows)), np.ones(len(rows))
        for rule in self.rules:
            held = rule.holds(rows)
            crawlers[held] += rule.crawlers * self.balance
            people[held] += rule.people
        return crawlers / (crawlers + people)

    def first(self, rows: Floats, *, crawler: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The number of the first rule that holds for each row and says the same as *crawler*; -1 where none does."""
        found = np.full(len(rows), -1, dtype=np.int64)
        for number in range(len(self.rules) - 1, -1, -1):
            rule = self.rules[number]
            found[rule.holds(rows) & (crawler == rule.crawler)] = number
        return found

    def faults(self, width: int) -> Iterator[str]:
        if not 0 < self.balance < math.inf:
            yield "rules without a balance"
        for rule in self.rules:
            if any(not 0 <= c.column < width or not math.isfinite(c.limit) for c in rule.conditions):
                yield "a rule about a feature that is not there"
            if not (rule.crawlers >= 0 and rule.people >= 0 and math.isfinite(rule.crawlers + rule.people)):
                yield "a rule that covers less than nobody"


class Machine(msgspec.Struct, frozen=True):
    """
    A C-SVM with a Gaussian kernel, over features that are less *means* and over *scales*.

    *slope* and *offset* turn its decision into a probability.
    """

    means: tuple[float, ...]
    scales: tuple[float, ...]
    vectors: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    intercept: float
    gamma: float
    slope: float
    offset: float

    def decision(self, rows: Floats) -> Floats:
        vectors, weights = np.asarray(self.vectors), np.asarray(self.weights)
        scaled = (transformed(rows) - np.asarray(self.means)) / np.asarray(self.scales)
        lengths = np.einsum("ij,ij->i", vectors, vectors)
        found = np.empty(len(rows))
        for begin in range(0, len(rows), _KERNEL_BLOCK):
            part = scaled[begin : begin + _KERNEL_BLOCK]
            distance = np.einsum("ij,ij->i", part, part)[:, None] + lengths - 2.0 * part @ vectors.T
            found[begin : begin + len(part)] = np.exp(-self.gamma * np.maximum(distance, 0.0)) @ weights
        return found + self.intercept

    def probability(self, rows: Floats) -> Floats:
        return sigmoid(self.slope * self.decision(rows) + self.offset)

    def faults(self, width: int) -> Iterator[str]:
        if not len(self.means) == len(self.scales) == width or min(self.scales, default=0.0) <= 0:
            yield "the machine's scales do not fit the features"
        if not self.vectors or any(len(vector) != width for vector in self.vectors):
            yield "the machine's vectors do not fit the features"
        if len(self.weights) != len(self.vectors):
            yield "the machine has not one weight for each vector"
        numbers = (*self.means, *self.scales, *self.weights, self.intercept, self.gamma, self.slope, self.offset)
        if not all(map(math.isfinite, numbers)) or not all(math.isfinite(x) for v in self.vectors for x in v):
            yield "the machine has a number that is none"

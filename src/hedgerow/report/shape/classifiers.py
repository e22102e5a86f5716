"""
Classifiers: the three of PubCrawl as parameters, applied to many rows at once, and the file that holds them.

Naive Bayes with densities smoothed by local regression, rules (CN2), and a support vector machine with a Gaussian
kernel. Each gives the probability of a crawler; training is elsewhere. The file is JSON, checked when loaded, and never
executed. Each model needs some of the features: the paper's eight, those of a series, or these and the fine ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import DECODE_ERRORS, ModelError
from hedgerow.report.shape.autocorrelation import Levels
from hedgerow.report.shape.features import EIGHT, FURTHER, NAMES

Floats = NDArray[np.float64]

_LARGEST_LOG_ODDS = 30.0
_KERNEL_BLOCK = 1024


def sigmoid(values: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-np.clip(values, -_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS)))


def transformed(values: Floats) -> Floats:
    """Compress values of several orders of magnitude. The order stays."""
    return np.sign(values) * np.log1p(np.abs(values) * 100.0)


class ClassifierEvidence(msgspec.Struct, frozen=True):
    """
    The log odds of one feature for a crawler, over an even scale from *low* to *high*.

    A discrete feature is looked up, others are interpolated; a value outside counts as the end of the scale.
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
    """Naive Bayes: the sum of the log odds of all features, with crawlers and people equally likely beforehand."""

    features: tuple[ClassifierEvidence, ...]

    def log_odds(self, rows: Floats) -> Floats:
        """Return the log odds of each feature of each row."""
        return np.column_stack([feature.of(rows[:, column]) for column, feature in enumerate(self.features)])

    def probability(self, rows: Floats) -> Floats:
        return sigmoid(self.log_odds(rows).sum(axis=1))

    def faults(self, width: int) -> Iterator[str]:
        if len(self.features) != width:
            yield "Bayes has not one scale for each feature"
        for feature in self.features:
            yield from feature.faults()


class Condition(msgspec.Struct, frozen=True):
    """A feature (a column) is above a limit, or not."""

    column: int
    above: bool
    limit: float

    def holds(self, rows: Floats) -> NDArray[np.bool_]:
        values = rows[:, self.column]
        return values > self.limit if self.above else values <= self.limit


class ClassifierRule(msgspec.Struct, frozen=True):
    """
    If all conditions hold, it is a crawler or a person. *crawlers* and *people* are the numbers covered in training.
    """

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
    Unordered rules of CN2: the crawlers and people that all matching rules covered in training are added.

    *balance* is the weight of a crawler: people per crawler in training.
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
        """Return the first rule that matches each row and agrees with *crawler*; -1 for none."""
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
    A C-SVM with a Gaussian kernel, over features minus *means* and divided by *scales*.

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


FORMAT = "hedgerow-shape-1"
INPUTS = {"eight": EIGHT, "series": EIGHT + FURTHER, "all": NAMES}
"""Which features a model may want; the richer one is preferred."""

_LARGEST = 16 << 20


class ShapeModel(msgspec.Struct, frozen=True):
    """
    Three voting classifiers over the features of one input.

    At most one in a hundred people outside the training set had a mean probability above *threshold*.
    """

    bayes: Bayes
    rules: ClassifierRules
    machine: Machine
    threshold: float

    def faults(self, width: int) -> Iterator[str]:
        yield from self.bayes.faults(width)
        yield from self.rules.faults(width)
        yield from self.machine.faults(width)
        if not 0 <= self.threshold <= 1:
            yield "its threshold is no probability"


class ShapeModels(msgspec.Struct, frozen=True):
    """
    The models by input, the levels of appendix A's tables (low, average, high), and the provenance.

    Sources with fewer than *least* requests have no shape. *similarity* is k of algorithm 1.
    """

    format: str
    models: dict[str, ShapeModel]
    levels: Levels
    least: int
    similarity: float
    night: float
    """How deep the quietest hours of a day are, at the least, where people are; see `rhythm`."""
    provenance: dict[str, Any] = {}
    metrics: dict[str, Any] = {}

    def faults(self) -> Iterator[str]:
        """Yield what is wrong with this bundle, in sentences."""
        if self.format != FORMAT:
            yield f"its format is {self.format!r}, not {FORMAT!r}"
        if not self.models or not self.models.keys() <= INPUTS.keys():
            yield f"its models are none of {', '.join(INPUTS)}"
        for name, model in self.models.items():
            for fault in model.faults(len(INPUTS.get(name, ()))):
                yield f"{name}: {fault}"
        if self.least < 1 or self.similarity <= 0:
            yield "its limits are none"


def load(path: Path | None = None) -> ShapeModels:
    """Load the bundle in the file *path*, or the one of Hedgerow."""
    if path is None:
        return checked((files("hedgerow.data") / "models" / "shape.json").read_bytes(), "shape")
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise ModelError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise ModelError(f"{str(path)!r} is too large for a bundle")
    return checked(data, str(path))


def save(bundle: ShapeModels, path: Path) -> None:
    try:
        path.write_bytes(msgspec.json.encode(bundle, order="deterministic") + b"\n")
    except OSError as error:
        raise ModelError(f"{str(path)!r} cannot be written: {error.strerror}") from None


def checked(data: bytes, where: str) -> ShapeModels:
    try:
        bundle = msgspec.json.decode(data, type=ShapeModels)
    except DECODE_ERRORS as error:
        raise ModelError(f"{where!r} is no bundle of the shape: {error}") from None
    if faults := list(bundle.faults()):
        raise ModelError(f"{where!r} is no bundle that can be used: {'; '.join(faults)}")
    return bundle

"""
Scoring: what scikit-learn's models say of one row, in plain Python and tens of microseconds.

A score is higher the more a row looks like a crawler's. Each kind of model checks itself: numbers that do not fit
together are faults, so that a bundle from elsewhere can neither crash nor hang who asks it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import repeat
from math import dist, exp, isfinite, log1p
from operator import mul
from typing import Protocol

import msgspec

Row = Sequence[float]
_LEAF = -1


class Scorer(Protocol):
    """What gives a row its score."""

    def score(self, row: Row) -> float: ...

    def faults(self, width: int) -> Iterator[str]:
        """What is wrong with this model for rows of *width* features."""


class Scaling(msgspec.Struct, frozen=True):
    """
    Brings features to about the same size: less *mean*, divided by *scale*.

    Where *logs* says so, the logarithm of 1 + x stands for x first: gaps run from milliseconds to days.
    """

    logs: tuple[bool, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]

    def __call__(self, row: Row) -> list[float]:
        return [
            ((log1p(x) if x > -1 else 0.0) if log else x) / scale - mean / scale
            for x, log, mean, scale in zip(row, self.logs, self.means, self.scales, strict=False)
        ]

    def faults(self, width: int) -> Iterator[str]:
        if not len(self.logs) == len(self.means) == len(self.scales) <= width:
            yield "the scaling is not as wide as the features"
        if not _sound(self.means) or not _sound(self.scales) or not all(self.scales):
            yield "a scale is no number"


class Linear(msgspec.Struct, frozen=True, tag="linear"):
    """A weighted sum: linear SVM, logistic regression."""

    scaling: Scaling
    weights: tuple[float, ...]
    offset: float

    def score(self, row: Row) -> float:
        return sum(x * w for x, w in zip(self.scaling(row), self.weights, strict=True)) + self.offset

    def faults(self, width: int) -> Iterator[str]:
        yield from self.scaling.faults(width)
        if len(self.weights) != len(self.scaling.means) or not _sound((*self.weights, self.offset)):
            yield "the weights are not those of the features"


class Kernel(msgspec.Struct, frozen=True, tag="kernel"):
    """A support vector machine with a radial kernel, exp(-gamma |x - v|^2): one-class or of two classes."""

    scaling: Scaling
    gamma: float
    vectors: tuple[tuple[float, ...], ...]
    coefficients: tuple[float, ...]
    offset: float

    def score(self, row: Row) -> float:
        total: float = sum(map(mul, self.coefficients, _near(self.scaling(row), self.gamma, self.vectors)))
        return total + self.offset

    def faults(self, width: int) -> Iterator[str]:
        yield from self.scaling.faults(width)
        yield from _vector_faults(self.scaling, self.gamma, self.vectors)
        if len(self.coefficients) != len(self.vectors) or not _sound((*self.coefficients, self.offset)):
            yield "the coefficients are not those of the vectors"


class Trees(msgspec.Struct, frozen=True, tag="trees"):
    """
    Boosted trees as flat arrays, all nodes of all trees in one.

    At node n a row goes to *left*[n] where its feature *feature*[n] is at most *threshold*[n], else to *right*[n];
    at a leaf, feature -1, it gets *value*[n]. Numbers are compared as scikit-learn compares them, in single precision.
    """

    roots: tuple[int, ...]
    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    value: tuple[float, ...]
    offset: float

    def score(self, row: Row) -> float:
        here = array("f", row).tolist()
        feature, threshold, left, right, value = self.feature, self.threshold, self.left, self.right, self.value
        total = self.offset
        for root in self.roots:
            node = root
            asked = feature[node]
            while asked >= 0:
                node = left[node] if here[asked] <= threshold[node] else right[node]
                asked = feature[node]
            total += value[node]
        return total

    def faults(self, width: int) -> Iterator[str]:
        nodes = len(self.feature)
        if not all(len(part) == nodes for part in (self.threshold, self.left, self.right, self.value)):
            yield "the trees' arrays are not of one length"
            return
        if not all(0 <= root < nodes for root in self.roots):
            yield "a tree's root is no node"
        yield from _branch_faults(self.feature, self.left, self.right, width)
        if not _sound((*self.threshold, *self.value, self.offset)):
            yield "a tree has what is no number"


class Namer(Protocol):
    """What tells which of several classes a row is."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def name(self, row: Row) -> str: ...

    def faults(self, width: int) -> Iterator[str]:
        """What is wrong with this model for rows of *width* features."""


class Branches(msgspec.Struct, frozen=True, tag="branches"):
    """
    Which of several classes a row is, by one decision tree: a microsecond or two, however many features there are.

    As in `Trees`; at a leaf the row is of class *kind*[n].
    """

    names: tuple[str, ...]
    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    kind: tuple[int, ...]

    def name(self, row: Row) -> str:
        here = array("f", row)
        node = 0
        while (asked := self.feature[node]) >= 0:
            node = self.left[node] if here[asked] <= self.threshold[node] else self.right[node]
        return self.names[self.kind[node]]

    def faults(self, width: int) -> Iterator[str]:
        nodes = len(self.feature)
        if not nodes or not all(len(part) == nodes for part in (self.threshold, self.left, self.right, self.kind)):
            yield "the branches' arrays are not of one length"
            return
        yield from _branch_faults(self.feature, self.left, self.right, width)
        if not all(0 <= kind < len(self.names) for kind in self.kind):
            yield "the classes are not those of the branches"
        if not _sound(self.threshold):
            yield "a tree has what is no number"


class Kinds(msgspec.Struct, frozen=True, tag="svc"):
    """
    Which of several classes a row is: libsvm's C-SVC, each class against each other, and most votes win.

    *vectors* come class by class, *counts* of each; *coefficients* has one row less than there are classes, as libsvm
    keeps them. One vote short of a tie, the class that comes first wins.
    """

    names: tuple[str, ...]
    scaling: Scaling
    gamma: float
    vectors: tuple[tuple[float, ...], ...]
    counts: tuple[int, ...]
    coefficients: tuple[tuple[float, ...], ...]
    offsets: tuple[float, ...]

    def name(self, row: Row) -> str:
        coefficients, counts = self.coefficients, self.counts
        near = _near(self.scaling(row), self.gamma, self.vectors)
        votes = [0] * len(counts)
        offsets = iter(self.offsets)
        start = 0
        for one, size in enumerate(counts):
            end = start + size
            other_start = end
            for other in range(one + 1, len(counts)):
                other_end = other_start + counts[other]
                total = next(offsets)
                total += sum(map(mul, coefficients[other - 1][start:end], near[start:end]))
                total += sum(map(mul, coefficients[one][other_start:other_end], near[other_start:other_end]))
                votes[one if total > 0 else other] += 1
                other_start = other_end
            start = end
        return self.names[votes.index(max(votes))]

    def faults(self, width: int) -> Iterator[str]:
        yield from self.scaling.faults(width)
        yield from _vector_faults(self.scaling, self.gamma, self.vectors)
        classes, vectors = len(self.counts), len(self.vectors)
        if classes < 2 or len(self.names) != classes or sum(self.counts) != vectors or min(self.counts) < 0:  # noqa: PLR2004
            yield "the classes are not those of the vectors"
        if len(self.coefficients) != classes - 1 or len(self.offsets) != classes * (classes - 1) // 2:
            yield "the coefficients are not those of the classes"
        if any(len(row) != vectors or not _sound(row) for row in self.coefficients) or not _sound(self.offsets):
            yield "the coefficients are not those of the vectors"


def _branch_faults(feature: Sequence[int], left: Sequence[int], right: Sequence[int], width: int) -> Iterator[str]:
    nodes = len(feature)
    if not all(_LEAF <= asked < width for asked in feature):
        yield "a tree asks for a feature that is not there"
    # A child comes after its parent, so every way ends.
    ways = zip(range(nodes), feature, left, right, strict=True)
    if not all(asked < 0 or (node < one < nodes and node < other < nodes) for node, asked, one, other in ways):
        yield "a tree leads nowhere"


def _near(here: Row, gamma: float, vectors: Sequence[Row]) -> list[float]:
    """How near the row is to each vector. Loops that run in C: this is most of what a judgement costs."""
    return [exp(-gamma * away * away) for away in map(dist, repeat(tuple(here)), vectors)]


def _vector_faults(scaling: Scaling, gamma: float, vectors: Sequence[Row]) -> Iterator[str]:
    if not isfinite(gamma) or gamma <= 0:
        yield "gamma is no positive number"
    if any(len(vector) != len(scaling.means) or not _sound(vector) for vector in vectors):
        yield "a vector is not as wide as the features"


def _sound(numbers: Row) -> bool:
    return all(isfinite(number) for number in numbers)

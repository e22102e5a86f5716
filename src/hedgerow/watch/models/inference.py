"""
Inference for scikit-learn's models on one row, in plain Python and tens of microseconds.

A higher score means that a row looks more like a crawler's. Each model yields its own `faults` for rows of a width, so
that an inconsistent bundle can neither crash nor hang its user.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import repeat
from math import dist, exp, isfinite, log1p
from operator import mul

import msgspec

Row = Sequence[float]
_LEAF = -1


class Scaling(msgspec.Struct, frozen=True):
    """Subtracts means, divides by scales. Where *logs* is true, log(1 + x) replaces x: gaps differ by magnitudes."""

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
        if not _all_finite(self.means) or not _all_finite(self.scales) or not all(self.scales):
            yield "a scale is no number"


class Linear(msgspec.Struct, frozen=True, tag="linear"):
    """A weighted sum: linear SVM or logistic regression."""

    scaling: Scaling
    weights: tuple[float, ...]
    offset: float

    def score(self, row: Row) -> float:
        return sum(x * w for x, w in zip(self.scaling(row), self.weights, strict=True)) + self.offset

    def faults(self, width: int) -> Iterator[str]:
        yield from self.scaling.faults(width)
        if len(self.weights) != len(self.scaling.means) or not _all_finite((*self.weights, self.offset)):
            yield "the weights are not those of the features"


class Kernel(msgspec.Struct, frozen=True, tag="kernel"):
    """A support vector machine with a radial kernel, exp(-gamma |x - v|^2): one-class or two-class."""

    scaling: Scaling
    gamma: float
    vectors: tuple[tuple[float, ...], ...]
    coefficients: tuple[float, ...]
    offset: float

    def score(self, row: Row) -> float:
        total: float = sum(map(mul, self.coefficients, _kernel_values(self.scaling(row), self.gamma, self.vectors)))
        return total + self.offset

    def faults(self, width: int) -> Iterator[str]:
        yield from self.scaling.faults(width)
        yield from _vector_faults(self.scaling, self.gamma, self.vectors)
        if len(self.coefficients) != len(self.vectors) or not _all_finite((*self.coefficients, self.offset)):
            yield "the coefficients are not those of the vectors"


class Trees(msgspec.Struct, frozen=True, tag="trees"):
    """
    Boosted trees as flat arrays, with the nodes of all trees in one.

    At node n a row goes to *left*[n] if its feature *feature*[n] is at most *threshold*[n], otherwise to *right*[n]. At
    a leaf, feature -1, its value is *value*[n]. Numbers are compared in single precision, as in scikit-learn.
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
            split = feature[node]
            while split >= 0:
                node = left[node] if here[split] <= threshold[node] else right[node]
                split = feature[node]
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
        if not _all_finite((*self.threshold, *self.value, self.offset)):
            yield "a tree contains a value that is not a number"


class Branches(msgspec.Struct, frozen=True, tag="branches"):
    """One decision tree that names the class of a row. Nodes are as in `Trees`; at a leaf the class is *kind*[n]."""

    names: tuple[str, ...]
    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    kind: tuple[int, ...]

    def name(self, row: Row) -> str:
        here = array("f", row)
        node = 0
        while (split := self.feature[node]) >= 0:
            node = self.left[node] if here[split] <= self.threshold[node] else self.right[node]
        return self.names[self.kind[node]]

    def faults(self, width: int) -> Iterator[str]:
        nodes = len(self.feature)
        if not nodes or not all(len(part) == nodes for part in (self.threshold, self.left, self.right, self.kind)):
            yield "the branches' arrays are not of one length"
            return
        yield from _branch_faults(self.feature, self.left, self.right, width)
        if not all(0 <= kind < len(self.names) for kind in self.kind):
            yield "the classes are not those of the branches"
        if not _all_finite(self.threshold):
            yield "a tree contains a value that is not a number"


class Kinds(msgspec.Struct, frozen=True, tag="svc"):
    """
    libsvm's C-SVC, which names the class of a row: every two classes are compared, and the class with most votes wins.

    *vectors* are sorted by class, *counts* of each; *coefficients* has one row less than there are classes, as in
    libsvm. In a tie the first class wins.
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
        near = _kernel_values(self.scaling(row), self.gamma, self.vectors)
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
        if any(len(row) != vectors or not _all_finite(row) for row in self.coefficients) or not _all_finite(
            self.offsets
        ):
            yield "the coefficients are not those of the vectors"


Scorer = Linear | Kernel | Trees
Namer = Branches | Kinds


def _branch_faults(feature: Sequence[int], left: Sequence[int], right: Sequence[int], width: int) -> Iterator[str]:
    nodes = len(feature)
    if not all(_LEAF <= split < width for split in feature):
        yield "a tree asks for a feature that is not there"
    # A child comes after its parent, so every path ends.
    paths = zip(range(nodes), feature, left, right, strict=True)
    if not all(split < 0 or (node < one < nodes and node < other < nodes) for node, split, one, other in paths):
        yield "a tree leads nowhere"


def _kernel_values(here: Row, gamma: float, vectors: Sequence[Row]) -> list[float]:
    """Return the kernel value for each vector. The loops run in C: this is most of the cost of a classification."""
    return [exp(-gamma * distance * distance) for distance in map(dist, repeat(tuple(here)), vectors)]


def _vector_faults(scaling: Scaling, gamma: float, vectors: Sequence[Row]) -> Iterator[str]:
    if not isfinite(gamma) or gamma <= 0:
        yield "gamma is no positive number"
    if any(len(vector) != len(scaling.means) or not _all_finite(vector) for vector in vectors):
        yield "a vector is not as wide as the features"


def _all_finite(numbers: Row) -> bool:
    return all(isfinite(number) for number in numbers)

"""Measures: how good a model is, each figure with its interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

_Z = 1.959964


def wilson(right: int, total: int) -> tuple[float, float]:
    """
    The 95 % interval of a share (Wilson's), which holds for few and for extreme ones too.

    >>> [round(end, 3) for end in wilson(99, 100)]
    [0.946, 0.998]
    """
    if not total:
        return (0.0, 1.0)
    share = right / total
    middle = share + _Z**2 / 2 / total
    margin = _Z * math.sqrt(share * (1 - share) / total + _Z**2 / 4 / total**2)
    scale = 1 + _Z**2 / total
    return (max((middle - margin) / scale, 0.0), min((middle + margin) / scale, 1.0))


def share(right: int, total: int) -> dict[str, float]:
    """A share as it stands in a report: its value, its interval, and of how many it is."""
    low, high = wilson(right, total)
    return {
        "value": round(right / total, 5) if total else 0.0,
        "low": round(low, 5),
        "high": round(high, 5),
        "of": total,
    }


def confusion(pairs: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """How often each true label (rows) was judged to be each (columns)."""
    table: dict[str, dict[str, int]] = {}
    for truth, judged in pairs:
        row = table.setdefault(truth, {})
        row[judged] = row.get(judged, 0) + 1
    return table


def roc(scores: Sequence[float], crawlers: Sequence[bool]) -> list[tuple[float, float]]:
    """
    False positives and true positives, as shares, at every threshold from the highest down.

    >>> roc([0.9, 0.8, 0.1], [True, False, True])
    [(0.0, 0.0), (0.0, 0.5), (1.0, 0.5), (1.0, 1.0)]
    """
    positives = sum(crawlers) or 1
    negatives = (len(crawlers) - sum(crawlers)) or 1
    points, true, false, last = [(0.0, 0.0)], 0, 0, math.inf
    for score, crawler in sorted(zip(scores, crawlers, strict=True), reverse=True):
        if score != last and points[-1] != (false / negatives, true / positives):
            points.append((false / negatives, true / positives))
        last = score
        true += crawler
        false += not crawler
    points.append((false / negatives, true / positives))
    return points


def area(points: Sequence[tuple[float, float]]) -> float:
    """The area under a ROC."""
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))


def at_false_positives(
    scores: Sequence[float], crawlers: Sequence[bool], most: float
) -> tuple[int, int, int, int, float]:
    """
    Where no more than the share *most* of people is above the threshold: crawlers found, crawlers, people wrongly
    found, people, and the threshold.
    """
    people = sorted((s for s, crawler in zip(scores, crawlers, strict=True) if not crawler), reverse=True)
    allowed = int(most * len(people))
    threshold = people[allowed] if allowed < len(people) else -math.inf
    found = sum(s > threshold for s, crawler in zip(scores, crawlers, strict=True) if crawler)
    wrong = sum(s > threshold for s in people)
    return found, sum(crawlers), wrong, len(people), threshold


def expected_calibration_error(probabilities: Sequence[float], crawlers: Sequence[bool], parts: int = 10) -> float:
    """How far, on average, a probability is from what then happens."""
    off = 0.0
    for _, mean, happened, count in calibration(probabilities, crawlers, parts):
        off += count * abs(mean - happened)
    return off / max(len(probabilities), 1)


def calibration(
    probabilities: Sequence[float], crawlers: Sequence[bool], parts: int = 10
) -> list[tuple[float, float, float, int]]:
    """For each part of the scale: where it begins, the mean probability, the share of crawlers, of how many."""
    found = []
    for part in range(parts):
        inside = [
            (p, c)
            for p, c in zip(probabilities, crawlers, strict=True)
            if part <= p * parts < part + 1 or (part == parts - 1 and p >= 1)
        ]
        if inside:
            mean = sum(p for p, _ in inside) / len(inside)
            found.append((part / parts, mean, sum(c for _, c in inside) / len(inside), len(inside)))
    return found

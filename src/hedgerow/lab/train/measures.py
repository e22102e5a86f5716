"""Quality measures of a model, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

_Z = 1.959964


def wilson(right: int, total: int) -> tuple[float, float]:
    """
    Return the 95 % interval of a share by Wilson's method, which is valid for small and extreme shares.

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
    """Return a share for a report: its value, its interval, and the total count."""
    low, high = wilson(right, total)
    value = round(right / total, 5) if total else 0.0
    return {"value": value, "low": round(low, 5), "high": round(high, 5), "of": total}


def confusion(pairs: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Return how often each true label (rows) was classified as each label (columns)."""
    table: dict[str, dict[str, int]] = {}
    for truth, judged in pairs:
        row = table.setdefault(truth, {})
        row[judged] = row.get(judged, 0) + 1
    return table


def roc(scores: Sequence[float], crawlers: Sequence[bool]) -> list[tuple[float, float]]:
    """
    Return false-positive and true-positive rates at every threshold from the highest down.

    >>> roc([0.9, 0.8, 0.1], [True, False, True])
    [(0.0, 0.0), (0.0, 0.5), (1.0, 0.5), (1.0, 1.0)]
    """
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    if not len(order):
        return [(0.0, 0.0), (0.0, 0.0)]
    # The last of each run of equal scores.
    ends = np.append(np.flatnonzero(np.diff(np.asarray(scores)[order])), len(order) - 1)
    true = np.cumsum(np.asarray(crawlers, np.bool_)[order])[ends]
    false = ends + 1 - true
    rates = ((count / max(int(count[-1]), 1)).tolist() for count in (false, true))
    return [(0.0, 0.0), *zip(*rates, strict=True)]


def area(points: Sequence[tuple[float, float]]) -> float:
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))


def at_false_positives(
    scores: Sequence[float], crawlers: Sequence[bool], max_rate: float
) -> tuple[int, int, int, int, float]:
    """
    Return the figures at the lowest threshold that at most the share *max_rate* of people exceeds.

    These are: crawlers found, all crawlers, people misclassified, all people, and the threshold.
    """
    people = sorted((s for s, crawler in zip(scores, crawlers, strict=True) if not crawler), reverse=True)
    allowed = int(max_rate * len(people))
    threshold = people[allowed] if allowed < len(people) else -math.inf
    found = sum(s > threshold for s, crawler in zip(scores, crawlers, strict=True) if crawler)
    wrong = sum(s > threshold for s in people)
    return found, sum(crawlers), wrong, len(people), threshold


def expected_calibration_error(probabilities: Sequence[float], crawlers: Sequence[bool]) -> float:
    """Return the mean distance between predicted probabilities and what happened."""
    distances = (n * abs(mean - happened) for _, mean, happened, n in calibration(probabilities, crawlers))
    return sum(distances) / max(len(probabilities), 1)


def calibration(
    probabilities: Sequence[float], crawlers: Sequence[bool], parts: int = 10
) -> list[tuple[float, float, float, int]]:
    """Return, for each part of the scale, its start, the mean probability, the share of crawlers, and the count."""
    values, truth = np.asarray(probabilities, np.float64), np.asarray(crawlers, np.float64)
    part_of = np.minimum((values * parts).astype(np.int64), parts - 1)
    means = []
    for part in np.unique(part_of).tolist():
        own = part_of == part
        means.append((part / parts, float(values[own].mean()), float(truth[own].mean()), int(own.sum())))
    return means


def calibration_points(probabilities: Sequence[float], crawlers: Sequence[bool]) -> list[dict[str, float]]:
    """Return, for each tenth of the scale, mean probability, share of crawlers, its 95 % interval, and the count."""
    points = []
    for _, mean, happened, count in calibration(probabilities, crawlers):
        low, high = wilson(round(happened * count), count)
        values = {"said": mean, "happened": happened, "low": low, "high": high}
        points.append({**{name: round(value, 5) for name, value in values.items()}, "of": count})
    return points

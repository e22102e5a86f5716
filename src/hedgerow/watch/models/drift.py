"""
Drift: whether visitors still resemble the people in the training data of a bundle.

For each feature of a stage, the sessions of people are counted by the bins of the bundle. The distance from the
training data is the population stability index: the sum, over all bins, of (now - then) * ln(now / then). An index up
to 0.1 is unimportant; above 0.25 a model should be retrained.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import log
from typing import NamedTuple

import msgspec

from hedgerow.watch.models.bundle import Bins, Bundle

MINOR_DRIFT, MAJOR_DRIFT = 0.1, 0.25
"""The index above which drift of a feature is noticeable, and above which a model should be retrained."""

MIN_SESSIONS = 200
"""Sessions needed for a statement: chance alone causes an index of about 9 / sessions."""

_MAX_SESSIONS = 20_000
_MIN_SHARE = 0.001


class FeatureDrift(NamedTuple):
    """The drift of one feature in the stage *size*: its stability index, and the number of sessions."""

    size: int
    feature: str
    drift: float
    sessions: int


class Drift(msgspec.Struct):
    """
    Sessions counted by stage, feature and bin. Beyond 20,000 sessions all counts are halved, so that old ones fade.
    """

    counts: dict[str, list[list[int]]] = {}

    def add(self, bundle: Bundle, row: Sequence[float], size: int) -> None:
        """Count one more session of *size* visits that was classified as a person's."""
        stage = bundle.stage_at(size)
        if stage is None or not stage.bins:
            return
        key = str(stage.size)
        counts = self.counts.get(key)
        if counts is None or [len(one) for one in counts] != [len(bins.shares) for bins in stage.bins]:
            counts = self.counts[key] = [[0] * len(bins.shares) for bins in stage.bins]
        for value, bins, one in zip(row, stage.bins, counts, strict=True):
            one[bisect_left(bins.edges, value)] += 1
        if sum(counts[0]) > _MAX_SESSIONS:
            self.counts[key] = [[count // 2 for count in one] for one in counts]

    def features(self, bundle: Bundle) -> Iterator[FeatureDrift]:
        for stage in bundle.stages:
            # An atomic copy: the caller may be in another thread than `add`.
            counts = list(self.counts.get(str(stage.size), ()))
            for name, bins, one in zip(bundle.features, stage.bins, counts, strict=False):
                yield FeatureDrift(stage.size, name, stability_index(bins, list(one)), sum(one))


def stability_index(bins: Bins, counts: Sequence[int]) -> float:
    """
    Return the population stability index of *counts*.

    >>> bins = Bins((1.0,), (0.5, 0.5))
    >>> stability_index(bins, [50, 50]), round(stability_index(bins, [90, 10]), 2)
    (0.0, 0.88)
    """
    total = sum(counts)
    if not total or len(counts) != len(bins.shares):
        return 0.0
    index = 0.0
    for share, count in zip(bins.shares, counts, strict=True):
        then, now = max(share, _MIN_SHARE), max(count / total, _MIN_SHARE)
        index += (now - then) * log(now / then)
    return index


def warning(drift: Sequence[FeatureDrift]) -> str:
    """Return a sentence about features with major drift; "" if there is none."""
    by_index = sorted(drift, key=lambda one: -one.drift)
    major = [one.feature for one in by_index if one.sessions >= MIN_SESSIONS and one.drift > MAJOR_DRIFT]
    names = list(dict.fromkeys(major))
    if not names:
        return ""
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")  # noqa: PLR2004
    return (
        f"visitors no longer resemble the people in the training data: {shown} drifted far; "
        "retrain with hedgerow train, and compare the new bundle as a shadow"
    )

"""
Drift: whether visitors are still like the people that a bundle was trained on.

For every feature of a stage it is counted how many sessions of people fall into each of the bins that the bundle has
from its training. How far the two are apart is the population stability index: the sum, over all bins, of
(now - then) * ln(now / then). Up to 0.1 is nothing to speak of, above 0.25 a model should be trained again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import log
from typing import NamedTuple

import msgspec

from hedgerow.watch.models.bundle import Bins, Bundle

MOVED, FAR = 0.1, 0.25
"""From which index on a feature has moved a little, and so far that a model should be trained again."""

ENOUGH = 200
"""Sessions without which nothing is said: chance alone makes an index of about 9 / sessions."""

_MOST = 20_000
_LEAST_SHARE = 0.001


class Moved(NamedTuple):
    """How far a feature of the stage *size* is from the training: its index is *off*, by so many sessions."""

    size: int
    feature: str
    off: float
    sessions: int


class Drift(msgspec.Struct):
    """
    How many sessions fell where: by stage, by feature, by bin. Older ones fade: beyond 20,000 all counts are halved.
    """

    counts: dict[str, list[list[int]]] = {}

    def add(self, bundle: Bundle, row: Sequence[float], size: int) -> None:
        """One more session of *size* visits that was judged to be a person's."""
        stage = bundle.stage_at(size)
        if stage is None or not stage.bins:
            return
        key = str(stage.size)
        counts = self.counts.get(key)
        if counts is None or [len(one) for one in counts] != [len(bins.shares) for bins in stage.bins]:
            counts = self.counts[key] = [[0] * len(bins.shares) for bins in stage.bins]
        for value, bins, one in zip(row, stage.bins, counts, strict=True):
            one[bisect_left(bins.edges, value)] += 1
        if sum(counts[0]) > _MOST:
            self.counts[key] = [[count // 2 for count in one] for one in counts]

    def moved(self, bundle: Bundle) -> Iterator[Moved]:
        """How far every feature of every stage has moved, stage by stage."""
        for stage in bundle.stages:
            # A copy, in one step: whoever asks may be another thread than the one that adds.
            counts = list(self.counts.get(str(stage.size), ()))
            for name, bins, one in zip(bundle.features, stage.bins, counts, strict=False):
                yield Moved(stage.size, name, index(bins, list(one)), sum(one))


def index(bins: Bins, counts: Sequence[int]) -> float:
    """
    The population stability index of *counts*.

    >>> index(Bins((1.0,), (0.5, 0.5)), [50, 50]), round(index(Bins((1.0,), (0.5, 0.5)), [90, 10]), 2)
    (0.0, 0.88)
    """
    total = sum(counts)
    if not total or len(counts) != len(bins.shares):
        return 0.0
    off = 0.0
    for share, count in zip(bins.shares, counts, strict=True):
        then, now = max(share, _LEAST_SHARE), max(count / total, _LEAST_SHARE)
        off += (now - then) * log(now / then)
    return off


def warning(moved: Sequence[Moved]) -> str:
    """What there is to say about it, in words; "" where there is nothing."""
    sure = [one for one in moved if one.sessions >= ENOUGH]
    far = list(dict.fromkeys(one.feature for one in sorted(sure, key=lambda m: -m.off) if one.off > FAR))
    if not far:
        return ""
    shown = ", ".join(far[:3]) + (f" and {len(far) - 3} more" if len(far) > 3 else "")  # noqa: PLR2004
    return (
        f"people here are no longer like those that the models were trained on: {shown} moved far; "
        "train again with hedgerow train, and look what the new bundle says in its shadow"
    )

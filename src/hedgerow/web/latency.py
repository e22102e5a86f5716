"""
How long requests take, by stage: histograms that cost a fraction of a microsecond for each observation.

The histograms of prometheus-client lock and take ten times as long. These are turned into its samples when somebody
reads the metrics.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Final, Literal

Stage = Literal["gate", "upstream", "rewrite"]
"""gate: identify and decide. upstream: until the head of the site's response. rewrite: changing a page, in all."""

STAGES: Final[tuple[Stage, ...]] = ("gate", "upstream", "rewrite")
BOUNDS: Final = (
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""Upper bounds of the buckets, in seconds. One more bucket has everything above."""
_TOTAL = "sum"


class Histogram:
    """Counts durations by bucket."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class Latency:
    """The histograms of one process."""

    def __init__(self) -> None:
        self.gate = Histogram()
        self.upstream = Histogram()
        self.rewrite = Histogram()

    def flat(self) -> dict[str, float]:
        """Return all numbers by name, so that those of several processes can be added."""
        found: dict[str, float] = {}
        for stage in STAGES:
            histogram: Histogram = getattr(self, stage)
            found |= {f"{stage} {bucket}": n for bucket, n in enumerate(histogram.counts) if n}
            found[f"{stage} {_TOTAL}"] = histogram.total
        return found


def cumulated(flat: Mapping[str, float], stage: Stage) -> tuple[list[tuple[str, float]], float]:
    """
    Return the buckets of a stage as Prometheus wants them, each with all smaller ones, and the sum of durations.

    >>> latency = Latency()
    >>> latency.gate.add(0.00002)
    >>> latency.gate.add(20.0)
    >>> buckets, total = cumulated(latency.flat(), "gate")
    >>> buckets[0], buckets[-2], buckets[-1], total
    (('5e-05', 1.0), ('10.0', 1.0), ('+Inf', 2.0), 20.00002)
    """
    return list(_buckets(flat, stage)), flat.get(f"{stage} {_TOTAL}", 0.0)


def _buckets(flat: Mapping[str, float], stage: Stage) -> Iterator[tuple[str, float]]:
    below = 0.0
    for bucket, bound in enumerate((*map(str, BOUNDS), "+Inf")):
        below += flat.get(f"{stage} {bucket}", 0)
        yield bound, below

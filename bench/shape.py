"""The shape of 100,000 sources of 240 points each, and the clustering of as many series."""

from __future__ import annotations

import resource
import time

import numpy as np

from hedgerow.report.campaigns.traffic_similarity import SimilarityLimits, find
from hedgerow.report.shape.classifiers import load
from hedgerow.report.shape.features import Fine, features
from hedgerow.report.shape.series import Counts, plan_of
from hedgerow.report.shape.vote import classify

SOURCES = 100_000
POINTS = 240
GOAL_SHAPE = 20.0
GOAL_CLUSTERS = 40.0


def requests(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Some forty requests a source: steady ones, daily ones, and those that come once."""
    chance = np.random.default_rng(1)
    sizes = chance.integers(20, 60, count)
    sources = np.repeat(np.arange(count), sizes)
    kind = np.repeat(chance.integers(0, 3, count), sizes)
    when = np.repeat(chance.random(count), sizes)
    share = chance.random(len(sources))
    daily = (np.floor(share * 5) + 0.3 + 0.4 * chance.random(len(sources))) / 5
    once = np.minimum(when + 0.002 * share, 0.9999)
    times = np.choose(kind, (share, daily, once)) * POINTS * 1800
    return sources, times


def series(count: int) -> np.ndarray:
    """Busy crawlers, one in ten of which is followed by up to 29 others of its campaign."""
    chance = np.random.default_rng(2)
    rows = np.empty((count, POINTS), dtype=np.float64)
    at = 0
    while at < count:
        size = min(int(chance.integers(3, 30)) if chance.random() < 0.1 else 1, count - at)
        plan = chance.gamma(0.7, 1, POINTS)
        plan *= np.exp(chance.normal(12, 1)) / plan.sum()
        rows[at : at + size] = chance.poisson(plan, (size, POINTS))
        at += size
    return rows


def main() -> None:
    sources, times = requests(SOURCES)
    began = time.perf_counter()
    plan = plan_of(0.0, POINTS * 1800 - 1.0)
    counts = Counts.of_times(sources, times, plan, SOURCES)
    fine = Fine.of_times(sources, times, SOURCES)
    counted = time.perf_counter()
    found = features(counts, plan, fine)
    measured = time.perf_counter()
    verdicts = classify(found, load())
    judged = time.perf_counter()
    print(f"{len(verdicts.labels):,} sources x {plan.points} points of {len(times):,} requests")
    print(f"counts {counted - began:.1f} s, features {measured - counted:.1f} s, classes {judged - measured:.1f} s")
    print(f"all {judged - began:.1f} s; goal: at most {GOAL_SHAPE:.0f} s")
    matrix = series(SOURCES)
    began = time.perf_counter()
    campaigns = find(matrix, SimilarityLimits())
    taken = time.perf_counter() - began
    print(f"clustering of {SOURCES:,} series: {taken:.1f} s, {len(campaigns):,} campaigns; goal: {GOAL_CLUSTERS:.0f} s")
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")

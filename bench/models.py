"""What a judgement costs: one row, at each number of visits, by each of the bundles that come with Hedgerow."""

from __future__ import annotations

import random

from bench.timing import measure
from hedgerow.watch.models.bundle import shipped

GOAL = 50e-6


def main() -> None:
    dice = random.Random(1)
    candidates = {}
    for name in ("boosted", "pathmarker", "window"):
        bundle = shipped(name)
        for stage in bundle.stages:
            row = [dice.random() for _ in bundle.features]
            candidates[f"{name}, {stage.size} visits"] = lambda bundle=bundle, row=row, size=stage.size: bundle.judge(
                row, size
            )
    found = measure(candidates)
    for name, seconds in found.items():
        print(f"{name:32} {seconds * 1e6:8.1f} µs")
    print(f"goal: at most {GOAL * 1e6:.0f} µs; the slowest is {max(found.values()) * 1e6:.1f} µs")

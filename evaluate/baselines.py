"""Simple rules and a small model, to compare the shipped model with. Each says whether a walk is a crawler's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean, median, pstdev

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hedgerow.lab.train.samples import PERSON, Stride, Walk
from hedgerow.lab.train.simulated_data import Size, draw_walks
from hedgerow.watch.sessions.path import LONG

MIN_PAGES = 10
"""No path of fewer pages is judged."""
RATE_PAGES, RATE_SECONDS = 30, 60.0
CAPACITY, LEAK = 40, 0.5
"""CrowdSec's http-crawl-non_statics: distinct pages above 40, of which one leaks out every half second."""
FALSE_POSITIVES = 0.005
FEATURES = (
    "median gap", "spread of gaps", "gaps below a second", "pages in the fastest minute", "pages with a parent",
    "distinct pages", "assets per page", "pages without assets",
)  # fmt: skip
_DRAWN = Size(sites=6, people=240, crawlers=240)

Judge = Callable[[Walk], bool]


def rate_threshold(walk: Walk) -> bool:
    """More than 30 pages within a minute."""
    return fastest_minute(walk.strides) > RATE_PAGES


def fastest_minute(strides: Sequence[Stride]) -> int:
    """
    Return the largest number of pages within a minute.

    >>> fastest_minute([Stride(0.0, 1, None), Stride(59.0, 2, None), Stride(61.0, 3, None)])
    2
    """
    times, first, most = [stride.at for stride in strides], 0, 0
    for last, at in enumerate(times):
        while at - times[first] >= RATE_SECONDS:
            first += 1
        most = max(most, last - first + 1)
    return most


def no_assets(walk: Walk) -> bool:
    """No image, style or script with any of the first ten pages."""
    return not any(stride.side_requests for stride in walk.strides[:MIN_PAGES])


def crowdsec_rule(walk: Walk) -> bool:
    """
    A leaky bucket of distinct pages, as CrowdSec's crawl scenario has it.

    A page that the bucket has seen does not count again until the bucket was empty.
    """
    level, seen, before = 0.0, set[int](), walk.strides[0].at
    for stride in walk.strides:
        level = max(0.0, level - (stride.at - before) / LEAK)
        before = stride.at
        if not level:
            seen.clear()
        if stride.page not in seen:
            seen.add(stride.page)
            level += 1
            if level > CAPACITY:
                return True
    return False


def features(strides: Sequence[Stride]) -> list[float]:
    """The eight features of the small model, in the order of `FEATURES`."""
    gaps = [max(0.0, b.at - a.at) for a, b in pairwise(strides)]
    count = len(strides)
    return [
        float(np.log1p(median(gaps))),
        pstdev(gaps) / (fmean(gaps) or 1.0),
        sum(gap < 1.0 for gap in gaps) / len(gaps),
        float(np.log1p(fastest_minute(strides))),
        sum(stride.parent is not None for stride in strides) / count,
        len({stride.page for stride in strides}) / count,
        float(np.log1p(fmean(stride.side_requests for stride in strides))),
        sum(not stride.side_requests for stride in strides) / count,
    ]


def logistic_regression(seed: int, players: Sequence[Walk] = ()) -> Judge:
    """
    Return a judge that was trained on simulated walks and on every second one of these *players*.

    Its threshold is exceeded by 0.5 % of the other players and of simulated people whom it was not trained on.
    """
    rows = {half: draw_walks(seed + half, _DRAWN) for half in (0, 1)}
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, class_weight="balanced"))
    train = [walk for walk in [*rows[0], *players[::2]] if len(walk.strides) >= MIN_PAGES]
    model.fit([features(walk.strides[:LONG]) for walk in train], [walk.label != PERSON for walk in train])
    others = [*rows[1], *players[1::2]]
    people = [walk for walk in others if walk.label == PERSON and len(walk.strides) >= MIN_PAGES]
    scores = model.predict_proba([features(walk.strides[:LONG]) for walk in people])[:, 1]
    threshold = float(np.quantile(scores, 1 - FALSE_POSITIVES))
    return lambda walk: float(model.predict_proba([features(walk.strides[:LONG])])[0, 1]) > threshold

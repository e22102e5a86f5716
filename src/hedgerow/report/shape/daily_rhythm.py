"""
Rhythm: whether the sum of many sources sleeps at night, as people do.

The traffic of a whole site, or of all of a country, has no eight features to be judged by: added up, crawlers are as
smooth as people. But people sleep, even in a crowd that comes for a match; a crawler that is spread over thousands of
addresses does not, or works when it pleases its owner. So a typical day is made of all days, and the question is how
deep its quietest hours are.

A crowd comes suddenly and goes again over days. What has risen or fallen since yesterday is no part of a day's rhythm,
and would fill its night, or hollow it out: so each interval is measured by the mean of the 24 hours around it first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

NIGHT = 0.33
"""
How deep a day is at the least where people are: half way between the shallowest day of a crowd, one from all over the
world, and the deepest of a crawl, on one half of the series that are known (docs/evaluation/logs.md).
"""

_LEAST_DAYS = 3
_LEAST_A_DAY = 200.0
_WIDTH = 6
_DAY = 48
# A day around an interval: half of the first and half of the last half-hour, so that it has no more of one side.
_AROUND = np.concatenate(([0.5], np.ones(_DAY - 1), [0.5]))


class DailyRhythm(NamedTuple):
    """*depth*: by how much the quietest three hours of a typical day are below the busiest three, 0 to 1."""

    depth: float
    days: int
    crawl: bool | None
    text: str


def rhythm(counts: ArrayLike, night: float = NIGHT) -> DailyRhythm:
    """
    The rhythm of requests in half-hour intervals; a crawl where the day is no deeper than *night*.

    Nothing is said where there are not three days with at least 200 requests in the 24 hours around each interval: then
    a quiet hour is chance. The first and the last twelve hours have no such day around them.
    """
    series = np.asarray(counts, dtype=np.float64)
    around = np.convolve(series, _AROUND, "valid") if len(series) > _DAY else np.zeros(0)
    told = around >= _LEAST_A_DAY
    days = int(told.sum()) // _DAY
    if days < _LEAST_DAYS:
        return DailyRhythm(0.0, days, None, "Too few days or requests to tell a rhythm.")
    half = _DAY // 2
    measured = series[half : len(series) - half][told] / around[told] * _DAY
    hour = (np.flatnonzero(told) + half) % _DAY
    typical = np.bincount(hour, measured, _DAY) / np.maximum(np.bincount(hour, minlength=_DAY), 1)
    smooth = np.convolve(np.concatenate((typical, typical[: _WIDTH - 1])), np.ones(_WIDTH) / _WIDTH, "valid")
    depth = float(1.0 - smooth.min() / smooth.max())
    crawl = depth <= night
    text = f"Over {days} days the quietest three hours have {1 - depth:.0%} of the busiest three's requests: " + (
        "people sleep, this does not." if crawl else "it sleeps and wakes as people do."
    )
    return DailyRhythm(depth, days, crawl, text.replace("%", " %"))

"""
Rhythm: whether the sum of many sources sleeps at night, as people do.

The traffic of a whole site, or of all of a country, has no eight features to be judged by: added up, crawlers are as
smooth as people. But people sleep, even in a crowd that comes for a match; a crawler that is spread over thousands of
addresses does not, or works when it pleases its owner. So a typical day is made of all days, each
measured by its own mean so that no single day counts for more, and the question is how deep its quietest hours are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_LEAST_DAYS = 3
_LEAST_A_DAY = 200.0
_WIDTH = 6
_DAY = 48


class Rhythm(NamedTuple):
    """*depth*: by how much the quietest three hours of a typical day are below the busiest three, 0 to 1."""

    depth: float
    days: int
    crawl: bool | None
    text: str


def rhythm(counts: ArrayLike, night: float) -> Rhythm:
    """
    The rhythm of requests in half-hour intervals; a crawl where the day is no deeper than *night*.

    Nothing is said of fewer than three days, or of fewer than 200 requests a day: then a quiet hour is chance.
    """
    series = np.asarray(counts, dtype=np.float64)
    days = series[: len(series) // _DAY * _DAY].reshape(-1, _DAY)
    days = days[days.sum(axis=1) >= _LEAST_A_DAY]
    if len(days) < _LEAST_DAYS:
        return Rhythm(0.0, len(days), None, "Too few days or requests to tell a rhythm.")
    typical = (days / days.mean(axis=1, keepdims=True)).mean(axis=0)
    smooth = np.convolve(np.concatenate((typical, typical[: _WIDTH - 1])), np.ones(_WIDTH) / _WIDTH, "valid")
    depth = float(1.0 - smooth.min() / smooth.max()) if smooth.max() > 0 else 1.0
    crawl = depth <= night
    text = f"Over {len(days)} days the quietest three hours have {1 - depth:.0%} of the busiest three's requests: " + (
        "people sleep, this does not." if crawl else "it sleeps and wakes as people do."
    )
    return Rhythm(depth, len(days), crawl, text)

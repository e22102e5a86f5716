"""
Rate limits over a sliding window: the limit itself, and the functions that add, remove and count hit times.

A fixed interval that starts anew lets twice the allowed number pass across its boundary. A window here always ends at
the visit being judged, so the count is exact to the visit.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from collections.abc import Sequence
from math import isfinite
from typing import Literal

import msgspec

from hedgerow.core.settings_table import Faults
from hedgerow.core.visit import Kind

LimitKey = Literal["visitor", "prefix", "network"]
LimitedKinds = Literal["pages", "requests", "everything", "prefetches"]
# The time of a visit is exact to a quarter of a microsecond; a window must be much longer.
_SHORTEST_WINDOW = 0.001
_MOST_COUNTED = 100_000


class RateLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    A limit that more than *count* visits within *seconds* exceed.

    *by* is the key whose visits are added up: a visitor, an address prefix or a network. *of* selects the visits:
    pages, "requests" (pages and calls), everything (assets too) or prefetches. Prefetches count nowhere else, because a
    site can make browsers send dozens. Assets do not count by default: one gallery page may load a hundred.
    """

    count: int
    seconds: float
    by: LimitKey = "visitor"
    of: LimitedKinds = "pages"


def limit_faults(name: str, limits: Sequence[RateLimit]) -> Faults:
    """Check the rate limits of the setting *name*."""
    for number, limit in enumerate(limits):
        if not 1 <= limit.count <= _MOST_COUNTED:
            yield f"{name}.{number}.count", f"must be from 1 to {_MOST_COUNTED}, is {limit.count}"
        if not (limit.seconds >= _SHORTEST_WINDOW and isfinite(limit.seconds)):
            yield f"{name}.{number}.seconds", f"must be at least {_SHORTEST_WINDOW}, is {limit.seconds:g}"


PEAK_SECONDS = (1.2, 3.0, 60.0, 600.0)
"""Lengths of the windows in which a report counts the busiest moments of a source."""

PAGES, CALLS, ASSETS, PREFETCHES = range(4)
SERIES: dict[Kind, int] = {"page": PAGES, "call": CALLS, "asset": ASSETS, "prefetch": PREFETCHES}
COUNTED_SERIES: dict[LimitedKinds, tuple[int, ...]] = {
    "pages": (PAGES,),
    "requests": (PAGES, CALLS),
    "everything": (PAGES, CALLS, ASSETS),
    "prefetches": (PREFETCHES,),
}


def add_hit(hits: array[float], at: float, *, max_age: float, max_hits: int) -> None:
    """
    Insert *at* into the sorted *hits*, and drop the hits that no window needs any more.

    A hit at least *max_age* seconds older than the newest has left every window. A window with *max_hits* hits already
    exceeds its limit, so older hits do not matter.
    """
    if not hits or at >= hits[-1]:
        hits.append(at)
    else:
        insort(hits, at)
    if len(hits) > max_hits:
        del hits[: len(hits) - max_hits]
    if hits[0] <= hits[-1] - max_age:
        del hits[: bisect_right(hits, hits[-1] - max_age)]


def drop_hit(hits: array[float], at: float) -> None:
    """Remove *at* from the sorted *hits* if it is still there."""
    index = bisect_right(hits, at) - 1
    if index >= 0 and hits[index] == at:
        del hits[index]


def count_hits(hits: array[float], at: float, seconds: float) -> int:
    """
    Count the sorted *hits* within the *seconds* that end at *at*.

    A hit exactly *seconds* old is outside the window, so two adjacent windows never count the same hit.

    >>> count_hits(array("d", [0.0, 8.0, 9.0, 10.0]), 10.0, 10.0)
    3
    """
    newest = len(hits) if not hits or hits[-1] <= at else bisect_right(hits, at)
    return newest - bisect_right(hits, at - seconds)


RATE_HALF_LIFE = 10.0
RATE_PER_VISIT = 0.6931471805599453 / RATE_HALF_LIFE


def updated_rate(rate: float, since: float, at: float, visits: int) -> float:
    """
    Return the rate of visits a second at *at* that was *rate* at *since*, with *visits* more.

    An average in which visits lose half of their weight every ten seconds; ln 2 / 10 for each visit makes a steady
    stream of visits add up to its own rate.
    """
    faded: float = rate * 0.5 ** (max(0.0, at - since) / RATE_HALF_LIFE)
    return faded + visits * RATE_PER_VISIT

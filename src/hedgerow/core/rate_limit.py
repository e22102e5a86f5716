"""
Request density (mod_antiCrawl's timetable) as a true sliding window.

The thesis counts from a client's first arrival and starts again when the interval is over, so twice the allowed number
can pass across the boundary. Here a window ends at the visit being judged, whenever that is: more than *count* visits
within any *seconds* are seen, to the visit.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from typing import Literal

import msgspec

from hedgerow.core.visit import Kind

LimitKey = Literal["visitor", "prefix", "network"]
LimitedKinds = Literal["pages", "requests", "everything", "prefetches"]


class RateLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    A limit: more than *count* visits within *seconds* is too dense.

    *by* says whose visits are added up: one visitor's, all of one address prefix, or all of one network. *of* says
    which visits: pages alone, "requests" (pages and calls), everything (assets too) or prefetches alone, which count
    nowhere else: a browser makes them, by the dozen where the site asks for it. Assets are left out by default
    because one page of a gallery may bring a hundred of them, and its reader is a person.
    """

    count: int
    seconds: float
    by: LimitKey = "visitor"
    of: LimitedKinds = "pages"


PEAK_SECONDS = (1.2, 3.0, 60.0, 600.0)
"""Lengths of the windows in which a report counts the busiest moments of a source."""

PAGES, CALLS, ASSETS, PREFETCHES = range(4)
_SERIES: dict[Kind, int] = {"page": PAGES, "call": CALLS, "asset": ASSETS, "prefetch": PREFETCHES}
_COUNTED: dict[LimitedKinds, tuple[int, ...]] = {
    "pages": (PAGES,),
    "requests": (PAGES, CALLS),
    "everything": (PAGES, CALLS, ASSETS),
    "prefetches": (PREFETCHES,),
}


def series_of(kind: Kind) -> int:
    """The series in which a visit of this kind is counted."""
    return _SERIES[kind]


def counted_by(of: LimitedKinds) -> tuple[int, ...]:
    """The series that a window of this sort adds up."""
    return _COUNTED[of]


def add_hit(hits: array[float], at: float, *, keep: float, most: int) -> None:
    """
    Add a visit at *at* to the sorted *hits*, and drop those that no window can need any more.

    A hit *keep* seconds or more older than the newest has left every window, and more than *most* hits need not be
    told apart: a window that holds *most* is already too dense. Late-comers (a log out of order) go where they belong.
    """
    if not hits or at >= hits[-1]:
        hits.append(at)
    else:
        insort(hits, at)
    if len(hits) > most:
        del hits[: len(hits) - most]
    if hits[0] <= hits[-1] - keep:
        del hits[: bisect_right(hits, hits[-1] - keep)]


def drop_hit(hits: array[float], at: float) -> None:
    """Take a visit at *at* back out of the sorted *hits*, where it still is."""
    index = bisect_right(hits, at) - 1
    if index >= 0 and hits[index] == at:
        del hits[index]


def count_hits(hits: array[float], at: float, seconds: float) -> int:
    """
    How many of the sorted *hits* lie in the *seconds* that end at *at*.

    A hit exactly *seconds* old has left the window: two adjoining windows never count one hit twice.

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

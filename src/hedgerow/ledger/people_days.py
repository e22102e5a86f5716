"""
The days of people in the ledger: how many pages they read, from which the limits of the budget are derived.

Only those count as people who had a clearance or an account and were never suspects on that day. A crawler can obtain
clearances. So of all clearances at one address only that with the most pages counts, and a crawler that wants to raise
a limit needs many addresses: more than one in a thousand of all that people have on the site. And it has to read many
pages with each of them without being suspected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from hedgerow.core.address import prefix_of
from hedgerow.core.state import ACCOUNT, CLEARANCE

SHARE = 0.999
"""The share of people's days that a limit does not touch."""
LEAST_DAYS = 1_000
"""Days of people from which on this share says something."""
_GATEWAY_FROM = 5


class VisitorPages(NamedTuple):
    """What one visitor read from one address on one day, and whether it was suspected of anything but its volume."""

    visitor: str
    address: str
    pages: int
    is_suspect: bool


class PeopleDay(msgspec.Struct, frozen=True):
    """
    One day: how many addresses had how many pages.

    *holders*: the most pages by one visitor with a clearance or an account. *others*: the pages without a clearance, at
    addresses at which somebody had one, and which are no gateway.
    """

    holders: dict[int, int] = {}
    others: dict[int, int] = {}


def count_people(rows: Iterable[VisitorPages]) -> PeopleDay:
    """Count the people of one day."""
    pages, suspects, places = Counter[str](), set[str](), dict[str, str]()
    for visitor, address, count, is_suspect in rows:
        pages[visitor] += count
        places.setdefault(visitor, prefix_of(address))
        if is_suspect:
            suspects.add(visitor)
    tainted = {places[visitor] for visitor in suspects}
    most, people = Counter[str](), Counter[str]()
    for visitor, count in pages.items():
        if visitor.startswith((CLEARANCE, ACCOUNT)) and visitor not in suspects:
            prefix = places[visitor]
            most[prefix] = max(most[prefix], count)
            people[prefix] += 1
    others = [
        pages[prefix]
        for prefix, count in people.items()
        if prefix in pages and prefix not in tainted and count < _GATEWAY_FROM
    ]
    return PeopleDay(dict(Counter(most.values())), dict(Counter(others)))


def percentile(days: Counter[int], share: float) -> int:
    """
    Return the number of pages that *share* of the days do not exceed.

    >>> percentile(Counter({1: 90, 5: 9, 200: 1}), 0.9), percentile(Counter({1: 90, 5: 9, 200: 1}), 0.999)
    (1, 200)
    """
    left = share * days.total()
    for pages in sorted(days):
        left -= days[pages]
        if left <= 0:
            return pages
    return 0


def derived(days: Sequence[dict[int, int]], least: int, most: int) -> tuple[int, int]:
    """
    Return a limit that one day in a thousand exceeds, from *least* to *most*, and the number of days it comes from.

    >>> derived([{5: 2000, 400: 10}], 300, 1000), derived([{5: 20, 400: 10}], 300, 1000)
    ((400, 2010), (300, 0))
    """
    counted = Counter[int]()
    for day in days:
        counted.update(day)
    if counted.total() < LEAST_DAYS:
        return least, 0
    return min(most, max(least, percentile(counted, SHARE))), counted.total()

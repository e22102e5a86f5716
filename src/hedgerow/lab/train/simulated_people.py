"""
Simulated people and their walks over a site.

The generator is fitted to real data that were published for research: 24,875 paths of people through a wiki
(Wikispeedia, West and Leskovec 2012) and 2,986 sessions in a shop (Diginetica, CIKM Cup 2016). Only quantiles and
shares are stored (`data/people.json`, made by `python -m evaluate.people`): time on a page, differences between people,
pages per sitting, time between sittings, and how often people go back. It is not fitted to any detector or to the logs
of the evaluation.

A person comes for a sitting, enters at the home page or elsewhere, and clicks a link of the page or, after going back,
of an earlier one. Going back is not a request: the browser has the page. What the data do not contain is assumed in the
constants below: who opens tabs, who sends no referrer, how many assets come along.
"""

from __future__ import annotations

import math
from bisect import bisect
from functools import cache
from importlib.resources import files
from itertools import accumulate
from random import Random

import msgspec

from hedgerow.lab.simulate.crawl import HOME, Site
from hedgerow.lab.train.samples import Stride

TABBED = 0.2
"""The share of people who open several links in tabs."""
TAB_BURST = 0.12
"""The probability that they do so at a click."""
HIDDEN = 0.05
"""The share of people whose browser sends no referrer."""
ENTERS_HOME = 0.4
"""The share of sittings that begin at the home page."""
KEENNESS = 0.7
"""The standard deviation of the logarithm of pages per sitting between people."""
COMPANIONS = (0.0, 0.0, 0.0, 0.3, 1.0, 8.0)
"""Requests per page that look like pages (frames, redirects, calls without a type), by site."""
RELOADS = 0.02
"""The share of clicks that reload the page."""


class PeopleStatistics(msgspec.Struct, frozen=True):
    """
    Statistics of real people; tuples are evenly spaced quantiles from the lowest to the highest.

    *shop_gaps* and *wiki_gaps* are seconds on a page. *person_spread* is the standard deviation between people of the
    mean logarithm of the seconds, and *within_share* the remaining spread within a person.
    """

    shop_gaps: tuple[float, ...]
    wiki_gaps: tuple[float, ...]
    person_spread: float
    within_share: float
    shop_lengths: tuple[float, ...]
    wiki_lengths: tuple[float, ...]
    away: tuple[float, ...]
    back: float
    source: str = ""


@cache
def people_statistics() -> PeopleStatistics:
    return msgspec.json.decode((files("hedgerow.data") / "people.json").read_bytes(), type=PeopleStatistics)


def quantile(values: tuple[float, ...], share: float) -> float:
    """
    Return the quantile at *share*, by linear interpolation.

    >>> quantile((0.0, 10.0, 30.0), 0.75)
    20.0
    """
    position = share * (len(values) - 1)
    low = min(int(position), len(values) - 2)
    return values[low] + (values[low + 1] - values[low]) * (position - low)


class SimulatedPerson:
    """One person with a reading speed, tab habits and a browser."""

    def __init__(self, rng: Random, *, marked: bool, assets: float, companions: float = 0.0) -> None:
        self._chance = rng
        self._companions = companions
        self._statistics = people_statistics()
        self._in_shop = rng.random() < 0.5  # noqa: PLR2004 - evenly
        self._pace = math.exp(rng.gauss(0, self._statistics.person_spread))
        self._keenness = math.exp(rng.gauss(0, KEENNESS))
        self._tabbed = rng.random() < TABBED
        self._hidden = not marked and rng.random() < HIDDEN
        self._assets = assets
        self._cached = rng.uniform(0.05, 0.6)

    def walk(self, site: Site, *, pages: int) -> list[Stride]:
        """Return the first *pages* requests of this person on *site*, in as many sittings as needed."""
        strides: list[Stride] = []
        at = self._chance.uniform(0, 86_400)
        while len(strides) < pages:
            at = max(self._sitting(site, strides, at, pages), strides[-1].at)
            at += quantile(self._statistics.away, self._chance.random())
        return strides[:pages]

    def pause(self) -> float:
        """Draw the seconds until the next page of this person; one page in eight ends a sitting."""
        gap = self._reading_time()
        return gap + quantile(self._statistics.away, self._chance.random()) if self._chance.random() < 1 / 8 else gap

    def _sitting(self, site: Site, strides: list[Stride], at: float, max_pages: int) -> float:
        """Add the strides of one sitting. Return its end."""
        rng = self._chance
        lengths = self._statistics.shop_lengths if self._in_shop else self._statistics.wiki_lengths
        remaining = max(round(quantile(lengths, rng.random()) * self._keenness), 1)
        page = HOME if rng.random() < ENTERS_HOME else self._any_page(site)
        self._request(strides, at, page, None, entry=True)
        trail = [page]
        remaining -= 1
        while remaining > 0 and len(strides) < max_pages:
            at = max(at + self._reading_time(), strides[-1].at)
            while len(trail) > 1 and rng.random() < self._statistics.back:
                trail.pop()
            current = trail[-1]
            links = site[current]
            if not links:
                trail[:] = [HOME]
                links = site[HOME]
                current = HOME
            if rng.random() < RELOADS:
                self._request(strides, at, current, trail[-2] if len(trail) > 1 else None)
                remaining -= 1
                continue
            burst = rng.randint(2, 7) if self._tabbed and rng.random() < TAB_BURST else 1
            for number in range(min(burst, remaining)):
                at = max(at + rng.lognormvariate(0.3, 0.7), strides[-1].at) if number else at
                page = self._choose(links)
                self._request(strides, at, page, current)
                remaining -= 1
            trail.append(page)
        return at + self._reading_time()

    def _request(self, strides: list[Stride], at: float, page: int, parent: int | None, *, entry: bool = False) -> None:
        expected = self._assets * (1.0 if entry else self._cached)
        side_requests = round(expected * self._chance.uniform(0.3, 1.7))
        strides.append(Stride(at, page, None if self._hidden else parent, side_requests))
        strides += companions_of(strides[-1], self._companions, self._chance, hidden=self._hidden)

    def _reading_time(self) -> float:
        gaps = self._statistics.shop_gaps if self._in_shop else self._statistics.wiki_gaps
        median = quantile(gaps, 0.5)
        gap = quantile(gaps, self._chance.random())
        # Part of the spread is between people. The spread of one person is narrower, around its own median.
        ratio = max(gap, 0.05) / median
        return float(median * self._pace * ratio**self._statistics.within_share)

    def _choose(self, links: tuple[int, ...]) -> int:
        """Draw a link; those further up are more likely, because people seldom scroll to the end."""
        weights = _weights(len(links))
        return links[bisect(weights, self._chance.random() * weights[-1])]

    def _any_page(self, site: Site) -> int:
        return int(len(site) * self._chance.random() ** 2)


def companions_of(stride: Stride, expected: float, rng: Random, *, hidden: bool = False) -> list[Stride]:
    """Draw requests that a browser sends after a page and that look like pages: redirects, or common frames."""
    companions: list[Stride] = []
    at = stride.at
    while expected and rng.random() < expected / (1 + expected):
        at += rng.uniform(0.0, 0.5)
        is_redirect = not companions and rng.random() < 0.5  # noqa: PLR2004 - half
        page = stride.page if is_redirect else 1_000_000 + rng.randrange(40)
        parent = None if hidden else stride.parent if is_redirect else stride.page
        companions.append(Stride(at, page, parent))
    return companions


@cache
def _weights(count: int) -> tuple[float, ...]:
    """Return the cumulative weights of links: 1/(n + 3) for the n-th."""
    return tuple(accumulate(1 / (number + 3) for number in range(count)))

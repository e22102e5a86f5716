"""
People: walks over a site as people take them, by a generator.

What it is fitted to is real and was published for research: 24,875 paths of people through a wiki (Wikispeedia, West
and Leskovec 2012), and 2,986 sessions in a shop (Diginetica, CIKM Cup 2016). Of these only quantiles and shares are
kept (`data/people.json`, made by `python -m evaluate.people`): how long people look at a page, in the shop and in the
wiki; how much they differ from each other in that; how many pages they see in a sitting; how long they stay away; and
how often they go back. It is not fitted to any detector or to the logs that the evaluation uses.

A person comes for a sitting, enters at the home page or anywhere, and clicks on: a link of the page, or, after going
back, of an earlier one. Going back itself is no request: the browser has the page. What the data do not tell is assumed
here, in names: who opens tabs, who sends no referrer, how many assets come along.
"""

from __future__ import annotations

import math
from bisect import bisect
from functools import cache
from importlib.resources import files
from random import Random

import msgspec

from hedgerow.lab.simulate.site import HOME, Site
from hedgerow.lab.train.walks import Stride

TABBED = 0.2
"""The share of people who open links in tabs, several at a time."""
TAB_BURST = 0.12
"""How often they do, by click."""
HIDDEN = 0.05
"""The share of people whose browser sends no referrer."""
ENTERS_HOME = 0.4
"""The share of sittings that begin at the home page."""
KEENNESS = 0.7
"""How much people differ in how many pages they see in a sitting: the deviation of the logarithm."""
COMPANIONS = (0.0, 0.0, 0.0, 0.3, 1.0, 8.0)
"""How many requests that look like pages (frames, redirects, calls that name no type) a page brings along, by site."""
RELOADS = 0.02
"""The share of clicks that ask for the same page again."""


class Fitted(msgspec.Struct, frozen=True):
    """
    What the data say, as quantiles from the least to the most, evenly spaced.

    *shop_gaps* and *wiki_gaps* are seconds on a page; *person_spread* is the standard deviation of a person's own mean
    from that of all, of the logarithm of the seconds, and *within_share* what is left of the spread within a person.
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
def fitted() -> Fitted:
    """What comes with the package."""
    return msgspec.json.decode((files("hedgerow.data") / "people.json").read_bytes(), type=Fitted)


def quantile(values: tuple[float, ...], share: float) -> float:
    """
    The quantile at *share*, between the two that are known.

    >>> quantile((0.0, 10.0, 30.0), 0.75)
    20.0
    """
    place = share * (len(values) - 1)
    low = min(int(place), len(values) - 2)
    return values[low] + (values[low + 1] - values[low]) * (place - low)


class SimulatedPerson:
    """One person: how quick it reads, whether it opens tabs, what its browser does."""

    def __init__(self, chance: Random, *, marked: bool, assets: float, companions: float = 0.0) -> None:
        self._chance = chance
        self._companions = companions
        self._fitted = fitted()
        self._in_shop = chance.random() < 0.5  # noqa: PLR2004 - evenly
        self._pace = math.exp(chance.gauss(0, self._fitted.person_spread))
        self._keenness = math.exp(chance.gauss(0, KEENNESS))
        self._tabbed = chance.random() < TABBED
        self._hidden = not marked and chance.random() < HIDDEN
        self._assets = assets
        self._cached = chance.uniform(0.05, 0.6)

    def walk(self, site: Site, *, pages: int) -> list[Stride]:
        """The first *pages* requests of this person on *site*, in as many sittings as it takes."""
        strides: list[Stride] = []
        at = self._chance.uniform(0, 86_400)
        while len(strides) < pages:
            at = max(self._sit(site, strides, at, pages), strides[-1].at)
            at += quantile(self._fitted.away, self._chance.random())
        return strides[:pages]

    def pause(self) -> float:
        """Seconds until the next page, as this person's go: one in eight ends a sitting."""
        gap = self._looks()
        return gap + quantile(self._fitted.away, self._chance.random()) if self._chance.random() < 1 / 8 else gap

    def _sit(self, site: Site, strides: list[Stride], at: float, most: int) -> float:
        """One sitting; when it ends."""
        chance = self._chance
        lengths = self._fitted.shop_lengths if self._in_shop else self._fitted.wiki_lengths
        left = max(round(quantile(lengths, chance.random()) * self._keenness), 1)
        page = HOME if chance.random() < ENTERS_HOME else self._any_page(site)
        self._ask(strides, at, page, None, entry=True)
        trail = [page]
        left -= 1
        while left > 0 and len(strides) < most:
            at = max(at + self._looks(), strides[-1].at)
            while len(trail) > 1 and chance.random() < self._fitted.back:
                trail.pop()
            here = trail[-1]
            links = site[here]
            if not links:
                trail[:] = [HOME]
                links = site[HOME]
                here = HOME
            if chance.random() < RELOADS:
                self._ask(strides, at, here, trail[-2] if len(trail) > 1 else None)
                left -= 1
                continue
            burst = chance.randint(2, 7) if self._tabbed and chance.random() < TAB_BURST else 1
            for number in range(min(burst, left)):
                at = max(at + chance.lognormvariate(0.3, 0.7), strides[-1].at) if number else at
                page = self._choose(links)
                self._ask(strides, at, page, here)
                left -= 1
            trail.append(page)
        return at + self._looks()

    def _ask(self, strides: list[Stride], at: float, page: int, parent: int | None, *, entry: bool = False) -> None:
        expected = self._assets * (1.0 if entry else self._cached)
        beside = round(expected * self._chance.uniform(0.3, 1.7))
        strides.append(Stride(at, page, None if self._hidden else parent, beside))
        strides += companions_of(strides[-1], self._companions, self._chance, hidden=self._hidden)

    def _looks(self) -> float:
        """Seconds until the next click."""
        gaps = self._fitted.shop_gaps if self._in_shop else self._fitted.wiki_gaps
        middle = quantile(gaps, 0.5)
        gap = quantile(gaps, self._chance.random())
        # Part of the spread is between people: what this one has is narrower, around a middle of its own.
        ratio = max(gap, 0.05) / middle
        return float(middle * self._pace * ratio**self._fitted.within_share)

    def _choose(self, links: tuple[int, ...]) -> int:
        """A link, those further up more often: people seldom scroll to the end."""
        weights = _weights(len(links))
        return links[bisect(weights, self._chance.random() * weights[-1])]

    def _any_page(self, site: Site) -> int:
        return int(len(site) * self._chance.random() ** 2)


def companions_of(stride: Stride, expected: float, chance: Random, *, hidden: bool = False) -> list[Stride]:
    """
    What a browser asks for by itself after a page, and that looks like a page: the page again (a redirect), or some of
    a few that many pages have.
    """
    found: list[Stride] = []
    at = stride.at
    while expected and chance.random() < expected / (1 + expected):
        at += chance.uniform(0.0, 0.5)
        again = not found and chance.random() < 0.5  # noqa: PLR2004 - half
        page = stride.page if again else 1_000_000 + chance.randrange(40)
        parent = None if hidden else stride.parent if again else stride.page
        found.append(Stride(at, page, parent))
    return found


@cache
def _weights(count: int) -> tuple[float, ...]:
    """Adding up to: 1/(n + 3) for the n-th link."""
    total, weights = 0.0, []
    for number in range(count):
        total += 1 / (number + 3)
        weights.append(total)
    return tuple(weights)

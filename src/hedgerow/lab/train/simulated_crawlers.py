"""
Crawlers: walks over a site as programs take them.

PathMarker trains with six: depth-first, breadth-first and random-like, each without a delay and with one of N(8, 1) s.
`OTHERS` are crawlers that no model is trained on; they are for the test.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from hedgerow.lab.simulate.site import HOME, Site
from hedgerow.lab.train.simulated_people import SimulatedPerson, companions_of
from hedgerow.lab.train.walks import Stride

Delay = Callable[[Random], float]
LABELS = {"depth": "depth-first", "breadth": "width-first", "random": "random-like"}


class Crawler(NamedTuple):
    """
    How a crawler goes about it.

    *order* is which link it takes next: depth, breadth, random, popular (the page that most links lead to first) or
    list (the pages one by one, by a list of its own). *delay* gives the seconds between two requests of one worker, on
    top of how long the answer takes. *workers* ask at once. *parents* is false where it sends no referrer and there is
    no marker. *assets*: it drives a browser, which loads them. *last*: going depth first it takes a page's last link
    first, as a plain stack does; else the first one, as `hedgerow crawl` does.

    Going depth or breadth first it takes any of the *loose* links that are next, as one does that keeps a set or asks
    what is ready. It follows the share *chosen* of all links, asks for the share *again* of its pages a second time at
    once (a check before it reads, or a retry), and stands still after the share *stalls*, for up to a minute.
    *anywhere*: it begins at any page.
    """

    name: str
    order: str
    delay: Delay
    workers: int = 1
    parents: bool = True
    assets: bool = False
    last: bool = False
    loose: int = 1
    chosen: float = 1.0
    again: float = 0.0
    stalls: float = 0.0
    anywhere: bool = False

    @property
    def label(self) -> str:
        return LABELS.get(self.order, "random-like")


def no_delay(_: Random) -> float:
    return 0.0


def eight_seconds(chance: Random) -> float:
    """The paper's delay."""
    return max(chance.gauss(8, 1), 0.0)


SIX = tuple(
    Crawler(f"{order}{name}", order, delay)
    for order in ("depth", "breadth", "random")
    for name, delay in (("", no_delay), ("-delay", eight_seconds))
)
"""The paper's training crawlers."""

OTHERS = (
    Crawler("breadth-16-workers", "breadth", no_delay, workers=16),
    Crawler("depth-even-2-20", "depth", lambda chance: chance.uniform(2, 20)),
    Crawler("random-like-a-person", "random", lambda chance: chance.lognormvariate(2.8, 1.2), assets=True),
    Crawler("popular-slow", "popular", lambda chance: chance.expovariate(1 / 60)),
    Crawler("list-second", "list", lambda chance: chance.gauss(1, 0.1), parents=False),
    Crawler(
        "breadth-timed-as-people", "breadth", lambda chance: SimulatedPerson(chance, marked=True, assets=0.0).pause()
    ),
    Crawler("breadth-browser", "breadth", lambda chance: chance.uniform(1, 4), assets=True),
)
"""Crawlers for the test only."""


def varied(crawler: Crawler, chance: Random) -> Crawler:
    """
    One of the six, as it may be set up: another delay, more than one worker, no referrers, a browser.

    Half of them keep the paper's delay. Else a model would learn two delays and nothing of paths.
    """
    changed = crawler
    if chance.random() < 0.5:  # noqa: PLR2004 - half
        changed = crawler._replace(delay=draw_delay(chance))
    return changed._replace(
        workers=chance.choice((1, 1, 2, 4, 8, 16, 32)) if changed.delay is no_delay else chance.choice((1, 1, 1, 4)),
        parents=chance.random() < 0.5,  # noqa: PLR2004 - a share
        assets=chance.random() < 0.25,  # noqa: PLR2004 - likewise
        last=chance.random() < 0.5,  # noqa: PLR2004 - likewise
        loose=chance.choice((1, 1, 1, 4, 16, 64)),
        chosen=chance.choice((1.0, 1.0, chance.uniform(0.1, 1.0))),
        again=chance.choice((0.0, 0.0, 0.0, chance.random())),
        stalls=chance.choice((0.0, 0.0, chance.uniform(0.0, 0.1))),
        anywhere=chance.random() < 0.5,  # noqa: PLR2004 - likewise
    )


def draw_delay(chance: Random) -> Delay:
    """
    A delay of some kind, of a third of a second to three hours on average; or of bursts, with hours between them, as
    search engines come.
    """
    mean = math.exp(chance.uniform(math.log(0.3), math.log(10_800)))
    spread = chance.uniform(0.3, 1.4)
    return chance.choice(
        (
            lambda its: max(its.gauss(mean, mean / 8), 0.0),
            lambda its: its.uniform(0.5 * mean, 1.5 * mean),
            lambda its: its.expovariate(1 / mean),
            lambda its: mean * its.lognormvariate(-spread * spread / 2, spread),
            lambda its: its.expovariate(1 / mean) if its.random() < 0.8 else its.expovariate(1 / 20_000),  # noqa: PLR2004
        )
    )


def crawl(
    site: Site, crawler: Crawler, chance: Random, *, pages: int, marked: bool, assets: float, companions: float = 0.0
) -> list[Stride]:
    """
    The first *pages* requests of *crawler* on *site*.

    Where links are *marked*, each is another URL for each page that it stands on, and the crawler cannot tell that it
    has the page already. *assets* and *companions* are how many come with a page; see `people`.
    """
    popularity = _popularity(site) if crawler.order == "popular" else []
    start = chance.randrange(len(site)) if crawler.anywhere else HOME
    frontier: list[tuple[int, int | None]] = [(start, None)]
    if crawler.order == "list":
        frontier = [(page, None) for page in range(len(site) - 1, -1, -1)]
    asked: set[tuple[int, int | None]] = set()
    strides: list[Stride] = []
    pace = chance.lognormvariate(-1.8, 0.7)
    # Workers that are free, by when; and pages that are on their way, by when they are there.
    free = [chance.random() * 0.01 for _ in range(crawler.workers)]
    coming: list[tuple[float, int]] = []
    now = 0.0
    while len(strides) < pages:
        now = max(now, heapq.heappop(free))
        while coming and (coming[0][0] <= now or not frontier):
            there, page = heapq.heappop(coming)
            now = max(now, there)
            if crawler.order != "list":
                links = site[page] if crawler.last or crawler.order == "breadth" else site[page][::-1]
                chosen = crawler.chosen
                frontier.extend((link, page) for link in links if chosen >= 1 or chance.random() < chosen)
        taken = _take(frontier, asked, crawler, chance, popularity, marked=marked)
        if taken is None:
            if not coming:
                break
            heapq.heappush(free, coming[0][0])
            continue
        page, parent = taken
        beside = _poisson(chance, assets) if crawler.assets else 0
        strides.append(Stride(now, page, parent if crawler.parents or marked else None, beside))
        if crawler.assets:
            strides += companions_of(strides[-1], companions, chance, hidden=not (crawler.parents or marked))
            now = strides[-1].at
        answered = now + pace * chance.lognormvariate(0, 0.4)
        if crawler.again and chance.random() < crawler.again:
            strides.append(strides[-1]._replace(at=answered))
            now = answered
            answered += pace * chance.lognormvariate(0, 0.4)
        if crawler.stalls and chance.random() < crawler.stalls:
            answered += chance.uniform(0, 60)
        heapq.heappush(coming, (answered, page))
        heapq.heappush(free, answered + crawler.delay(chance))
    return strides[:pages]


def _take(
    frontier: list[tuple[int, int | None]],
    asked: set[tuple[int, int | None]],
    crawler: Crawler,
    chance: Random,
    popularity: list[int],
    *,
    marked: bool,
) -> tuple[int, int | None] | None:
    """The next link to follow, or None where none is left."""
    order = crawler.order
    while frontier:
        if order == "random":
            place = chance.randrange(len(frontier))
            frontier[place], frontier[-1] = frontier[-1], frontier[place]
        elif order == "popular":
            place = max(range(len(frontier)), key=lambda n: popularity[frontier[n][0]])
            frontier[place], frontier[-1] = frontier[-1], frontier[place]
        elif crawler.loose > 1:
            place = chance.randrange(min(crawler.loose, len(frontier)))
            first = 0 if order == "breadth" else -1
            place = place if order == "breadth" else -1 - place
            frontier[place], frontier[first] = frontier[first], frontier[place]
        taken = frontier.pop(0) if order == "breadth" else frontier.pop()
        known = taken if marked else (taken[0], None)
        if known not in asked:
            asked.add(known)
            return taken
    return None


def _popularity(site: Site) -> list[int]:
    """How many links lead to each page."""
    popularity = [0] * len(site)
    for links in site:
        for link in links:
            popularity[link] += 1
    return popularity


def _poisson(chance: Random, mean: float) -> int:
    """How many, where *mean* are to be expected."""
    count, left = 0, chance.expovariate(1.0)
    while left < mean and count < 500:  # noqa: PLR2004 - enough
        count += 1
        left += chance.expovariate(1.0)
    return count

"""
Simulated crawlers and their walks over a site.

PathMarker trains with six crawlers: depth-first, breadth-first and random-like, each without a delay and with a delay
of N(8, 1) s.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable
from itertools import chain
from random import Random
from typing import NamedTuple

from hedgerow.lab.simulate.crawl import HOME, Site
from hedgerow.lab.train.samples import Stride
from hedgerow.lab.train.simulated_people import companions_of

Delay = Callable[[Random], float]
LABELS = {"depth": "depth-first", "breadth": "width-first", "random": "random-like"}


class Crawler(NamedTuple):
    """
    The behaviour of a crawler.

    *order* is the order of links: depth, breadth, random, popular (pages with most incoming links first) or list (pages
    one by one from a list). *delay* returns the seconds between two requests of one worker, in addition to the response
    time. *workers* send requests concurrently. *parents* is false if the crawler sends no referrer and there is no
    marker. With *assets* it uses a browser, which loads them. With *last*, depth-first takes the last link of a page
    first, as a plain stack does; otherwise the first, as `hedgerow crawl` does.

    With depth-first or breadth-first order it takes any of the next *loose* links. It follows the share *chosen* of all
    links, and requests the share *again* of its pages twice (a check or a retry). After the share *stalls* of pages it
    pauses for up to a minute. With *anywhere* it begins at a random page.
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


def eight_seconds(rng: Random) -> float:
    return max(rng.gauss(8, 1), 0.0)


TRAINING_CRAWLERS = tuple(
    Crawler(f"{order}{name}", order, delay)
    for order in ("depth", "breadth", "random")
    for name, delay in (("", no_delay), ("-delay", eight_seconds))
)
"""The training crawlers of the paper."""


def varied(crawler: Crawler, rng: Random) -> Crawler:
    """Return *crawler* in another configuration. Half keep their delay; a model must learn paths, not two delays."""
    changed = crawler
    if rng.random() < 0.5:  # noqa: PLR2004
        changed = crawler._replace(delay=draw_delay(rng))
    return changed._replace(
        workers=rng.choice((1, 1, 2, 4, 8, 16, 32)) if changed.delay is no_delay else rng.choice((1, 1, 1, 4)),
        parents=rng.random() < 0.5,  # noqa: PLR2004 - a share
        assets=rng.random() < 0.25,  # noqa: PLR2004 - likewise
        last=rng.random() < 0.5,  # noqa: PLR2004 - likewise
        loose=rng.choice((1, 1, 1, 4, 16, 64)),
        chosen=rng.choice((1.0, 1.0, rng.uniform(0.1, 1.0))),
        again=rng.choice((0.0, 0.0, 0.0, rng.random())),
        stalls=rng.choice((0.0, 0.0, rng.uniform(0.0, 0.1))),
        anywhere=rng.random() < 0.5,  # noqa: PLR2004 - likewise
    )


def draw_delay(rng: Random) -> Delay:
    """Draw a kind of delay, with a mean of a third of a second to three hours, or in bursts as search engines do."""
    mean = math.exp(rng.uniform(math.log(0.3), math.log(10_800)))
    spread = rng.uniform(0.3, 1.4)
    return rng.choice(
        (
            lambda rng_: max(rng_.gauss(mean, mean / 8), 0.0),
            lambda rng_: rng_.uniform(0.5 * mean, 1.5 * mean),
            lambda rng_: rng_.expovariate(1 / mean),
            lambda rng_: mean * rng_.lognormvariate(-spread * spread / 2, spread),
            lambda rng_: rng_.expovariate(1 / mean) if rng_.random() < 0.8 else rng_.expovariate(1 / 20_000),  # noqa: PLR2004
        )
    )


def crawl(
    site: Site, crawler: Crawler, rng: Random, *, pages: int, marked: bool, assets: float, companions: float = 0.0
) -> list[Stride]:
    """
    Return the first *pages* requests of *crawler* on *site*.

    If links are *marked*, each has another URL on each page, and the crawler cannot see that it already has the target.
    *assets* and *companions* are numbers per page; see `simulated_people`.
    """
    popularity = Counter(chain.from_iterable(site)) if crawler.order == "popular" else Counter()
    start = rng.randrange(len(site)) if crawler.anywhere else HOME
    frontier: list[tuple[int, int | None]] = [(start, None)]
    if crawler.order == "list":
        frontier = [(page, None) for page in range(len(site) - 1, -1, -1)]
    requested: set[tuple[int, int | None]] = set()
    strides: list[Stride] = []
    response_time = rng.lognormvariate(-1.8, 0.7)
    # Times at which workers become free, and pages in transit with their arrival times.
    free = [rng.random() * 0.01 for _ in range(crawler.workers)]
    in_transit: list[tuple[float, int]] = []
    now = 0.0
    while len(strides) < pages:
        now = max(now, heapq.heappop(free))
        while in_transit and (in_transit[0][0] <= now or not frontier):
            arrives_at, page = heapq.heappop(in_transit)
            now = max(now, arrives_at)
            if crawler.order != "list":
                links = site[page] if crawler.last or crawler.order == "breadth" else site[page][::-1]
                chosen = crawler.chosen
                frontier.extend((link, page) for link in links if chosen >= 1 or rng.random() < chosen)
        link_taken = _take(frontier, requested, crawler, rng, popularity, marked=marked)
        if link_taken is None:
            if not in_transit:
                break
            heapq.heappush(free, in_transit[0][0])
            continue
        page, parent = link_taken
        side_requests = _poisson(rng, assets) if crawler.assets else 0
        strides.append(Stride(now, page, parent if crawler.parents or marked else None, side_requests))
        if crawler.assets:
            strides += companions_of(strides[-1], companions, rng, hidden=not (crawler.parents or marked))
            now = strides[-1].at
        responded_at = now + response_time * rng.lognormvariate(0, 0.4)
        if crawler.again and rng.random() < crawler.again:
            strides.append(strides[-1]._replace(at=responded_at))
            now = responded_at
            responded_at += response_time * rng.lognormvariate(0, 0.4)
        if crawler.stalls and rng.random() < crawler.stalls:
            responded_at += rng.uniform(0, 60)
        heapq.heappush(in_transit, (responded_at, page))
        heapq.heappush(free, responded_at + crawler.delay(rng))
    return strides[:pages]


def _take(
    frontier: list[tuple[int, int | None]],
    requested: set[tuple[int, int | None]],
    crawler: Crawler,
    rng: Random,
    popularity: Counter[int],
    *,
    marked: bool,
) -> tuple[int, int | None] | None:
    order = crawler.order
    while frontier:
        # The chosen link changes places with the one that is taken: the first, or the last.
        index = end = 0 if order == "breadth" else -1
        if order == "random":
            index = rng.randrange(len(frontier))
        elif order == "popular":
            index = max(range(len(frontier)), key=lambda n: popularity[frontier[n][0]])
        elif crawler.loose > 1:
            index = abs(end) + rng.randrange(min(crawler.loose, len(frontier)))
            index *= -1 if end else 1
        frontier[index], frontier[end] = frontier[end], frontier[index]
        link = frontier.pop(end)
        key = link if marked else (link[0], None)
        if key not in requested:
            requested.add(key)
            return link
    return None


def _poisson(rng: Random, mean: float) -> int:
    """Draw from a Poisson distribution, at most 500."""
    count, total = 0, rng.expovariate(1.0)
    while total < mean and count < 500:  # noqa: PLR2004 - enough
        count += 1
        total += rng.expovariate(1.0)
    return count

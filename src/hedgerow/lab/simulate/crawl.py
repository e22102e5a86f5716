"""
Random sites, crawlers on them, and the number of requests that they need if links are marked (PathMarker 2019).

Pages are numbers, and page 0 is the home page. Every page has the same fixed links (header, footer, side bar) to the
first pages, and links of its own, which lead to popular pages more often.

The URL of a marked link differs for each parent page and each worker, and does not reveal its target. So workers cannot
share links, and none of them recognises a page before it has fetched it. It then recognises the content: a page that
was fetched before is a wasted request, and its links are not read again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from itertools import accumulate, count
from random import Random
from typing import Literal, NamedTuple

HOME = 0

Site = tuple[tuple[int, ...], ...]
"""For each page, the distinct pages that it links to."""


def popularity(pages: int, deviation: float) -> list[float]:
    """
    Return the probability of each page as a link target: P(n) = 2 (cdf(n) - cdf(n - 1)), with the cdf of N(0,
    *deviation*).

    The sum is not exactly 1, because the paper's formula starts one page left of 0 and ends at the last page. Divide by
    the sum to draw from it.

    >>> [round(chance, 3) for chance in popularity(4, deviation=1.5)]
    [0.495, 0.495, 0.323, 0.137]
    """
    return [2 * (_cdf(n / deviation) - _cdf((n - 1) / deviation)) for n in range(pages)]


def _cdf(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2


def draw_site(rng: Random, *, pages: int, links: int, fixed: int, deviation: float) -> Site:
    """
    Return a site of *pages* pages with *links* links each, the first *fixed* of them the same on every page.

    The others are drawn independently. A link that is drawn twice or is one of the fixed counts once, so some pages
    have fewer links. Some pages are not linked at all: about 60 of 10,000 with the paper's numbers.
    """
    everywhere = range(fixed)
    cumulative = list(accumulate(popularity(pages, deviation)))
    numbers = range(pages)
    own = links - fixed
    return tuple(
        tuple(dict.fromkeys((*everywhere, *rng.choices(numbers, cum_weights=cumulative, k=own)))) for _ in numbers
    )


Order = Literal["random", "breadth", "depth"]
CrawlMemory = Literal["crew", "worker"]
"""Whether all workers together remember the pages that were read, or each worker its own."""


class SimulatedCrawl(NamedTuple):
    """The number of all requests, and the number of requests after which each new page was found."""

    requests: int
    found_at: Sequence[int]

    @property
    def efficiency(self) -> float:
        return len(self.found_at) / self.requests

    def extra_requests(self, pages: int) -> float | None:
        """
        Return the requests beyond one per page for *pages* new pages, as a share; None if the crawl ended before.

        >>> crawl = SimulatedCrawl(7, [1, 2, 6])
        >>> crawl.extra_requests(2), crawl.extra_requests(3), crawl.extra_requests(4)
        (0.0, 1.0, None)
        """
        return self.found_at[pages - 1] / pages - 1 if pages <= len(self.found_at) else None


class _Frontier:
    """Links that a worker has seen and not tried, in the order in which it takes them."""

    def __init__(self, order: Order, rng: Random) -> None:
        self._order = order
        self._rng = rng
        self._links: deque[int] | list[int] = deque() if order == "breadth" else []

    def add(self, targets: Sequence[int]) -> None:
        # The links of one page are in random order, or all workers would do the same.
        in_order = self._order == "random"
        self._links.extend(targets if in_order else self._rng.sample(targets, len(targets)))

    def take(self) -> int | None:
        links = self._links
        if not links:
            return None
        if self._order == "random":
            index = int(self._rng.random() * len(links))
            links[index], links[-1] = links[-1], links[index]
        return links.popleft() if isinstance(links, deque) else links.pop()


def crawl(
    site: Site,
    rng: Random,
    *,
    workers: int,
    order: Order = "random",
    memory: CrawlMemory = "crew",
    marked: bool = True,
    pages: int | None = None,
    rounds: int | None = None,
) -> SimulatedCrawl:
    """
    Crawl *site* with *workers* workers until *pages* new pages are found, *rounds* are over or no link is left.

    A round is one request of each worker. The first is for the home page, whose URL everybody knows. Every worker reads
    it, whatever the *memory*: without links of its own a worker could not start.

    If links are not *marked*, they reveal their target: workers share their links, and skip those to known pages.
    """

    def new_frontier() -> _Frontier:
        frontier = _Frontier(order, rng)
        frontier.add(site[HOME])
        return frontier

    fetched = bytearray(len(site))
    read = bytearray(len(site))
    read[HOME] = True
    frontiers = [new_frontier() for _ in range(workers)] if marked else [new_frontier()] * workers
    reads = [read] * workers if memory == "crew" else [bytearray(read) for _ in range(workers)]
    crew = list(zip(frontiers, reads, strict=True))
    found_at: list[int] = []
    requests = 0
    for round_number in count() if rounds is None else range(rounds):
        before = requests
        for frontier, read in crew:
            target = frontier.take() if round_number else HOME
            while not marked and target is not None and fetched[target]:
                target = frontier.take()
            if target is None:
                continue
            requests += 1
            if not read[target]:
                read[target] = True
                frontier.add(site[target])
            if not fetched[target]:
                fetched[target] = True
                found_at.append(requests)
                if len(found_at) == pages:
                    return SimulatedCrawl(requests, found_at)
        if requests == before:
            break
    return SimulatedCrawl(requests, found_at)

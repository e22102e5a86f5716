"""
Crawlers on a site with marked links, and the number of requests that they need.

The URL of a marked link differs for each parent page and each worker, and does not reveal its target. So workers cannot
share links, and none of them recognises a page before it has fetched it. It then recognises the content: a page that
was fetched before is a wasted request, and its links are not read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import count
from random import Random
from typing import NamedTuple, Protocol

from hedgerow.lab.simulate.site import HOME, Site


class Order(StrEnum):
    RANDOM = "random"
    BREADTH = "breadth"
    DEPTH = "depth"


class CrawlMemory(StrEnum):
    """Whether all workers together remember the pages that were read, or each worker its own."""

    CREW = "crew"
    WORKER = "worker"


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


class _Frontier(Protocol):
    """Links that a worker has seen and not tried; `take` returns None if none is left."""

    def add(self, targets: Sequence[int]) -> None: ...

    def take(self) -> int | None: ...


class _Bag:
    """Links in random order, all equally likely."""

    def __init__(self, rng: Random) -> None:
        self._random = rng.random
        self._links: list[int] = []

    def add(self, targets: Sequence[int]) -> None:
        self._links.extend(targets)

    def take(self) -> int | None:
        links = self._links
        if not links:
            return None
        # The last link fills the gap, because the order does not matter.
        index = int(self._random() * len(links))
        link, links[index] = links[index], links[-1]
        links.pop()
        return link


class _Queue:
    """The oldest link first; those of one page in random order, or all workers would do the same."""

    def __init__(self, rng: Random) -> None:
        self._chance = rng
        self._links: deque[int] = deque()

    def add(self, targets: Sequence[int]) -> None:
        self._links.extend(self._chance.sample(targets, len(targets)))

    def take(self) -> int | None:
        return self._links.popleft() if self._links else None


class _Stack(_Queue):
    """The newest link first; those of one page in random order."""

    def take(self) -> int | None:
        return self._links.pop() if self._links else None


_FRONTIERS: dict[Order, Callable[[Random], _Frontier]] = {
    Order.RANDOM: _Bag,
    Order.BREADTH: _Queue,
    Order.DEPTH: _Stack,
}


def crawl(
    site: Site,
    rng: Random,
    *,
    workers: int,
    order: Order = Order.RANDOM,
    memory: CrawlMemory = CrawlMemory.CREW,
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
        frontier = _FRONTIERS[order](rng)
        frontier.add(site[HOME])
        return frontier

    fetched = bytearray(len(site))
    read = bytearray(len(site))
    read[HOME] = True
    frontiers = [new_frontier() for _ in range(workers)] if marked else [new_frontier()] * workers
    reads = [read] * workers if memory is CrawlMemory.CREW else [bytearray(read) for _ in range(workers)]
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

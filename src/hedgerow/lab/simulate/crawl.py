"""
Crawlers that walk a site whose links are marked, and how many requests they need.

A marked link says neither where it leads nor whether it leads where another one does: its URL is another for each
parent page and for each worker. So the workers cannot hand links to each other, and none of them knows a page before
it has fetched it. Then it does know: by the content. A page that was there before is a wasted request, and its links
are not read again.
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
    """Which of the links that it has not tried yet a worker tries next."""

    RANDOM = "random"
    BREADTH = "breadth"
    DEPTH = "depth"


class CrawlMemory(StrEnum):
    """Who remembers the pages that were read: all workers together, or each worker its own only."""

    CREW = "crew"
    WORKER = "worker"


class SimulatedCrawl(NamedTuple):
    """How a crawl went: all its requests, and after how many of them the first, the second, ... page was new."""

    requests: int
    found_at: Sequence[int]

    @property
    def efficiency(self) -> float:
        """New pages for each request."""
        return len(self.found_at) / self.requests

    def extra_requests(self, pages: int) -> float | None:
        """
        How many more requests *pages* new pages took than pages are, as a share; None where the crawl ended before.

        >>> crawl = Crawl(7, [1, 2, 6])
        >>> crawl.extra_requests(2), crawl.extra_requests(3), crawl.extra_requests(4)
        (0.0, 1.0, None)
        """
        return self.found_at[pages - 1] / pages - 1 if pages <= len(self.found_at) else None


class _Frontier(Protocol):
    """The links that a worker has seen and not tried; `take` is None where there are none left."""

    def add(self, targets: Sequence[int]) -> None: ...

    def take(self) -> int | None: ...


class _Bag:
    """Any link, all equally likely."""

    def __init__(self, chance: Random) -> None:
        self._random = chance.random
        self._links: list[int] = []

    def add(self, targets: Sequence[int]) -> None:
        self._links.extend(targets)

    def take(self) -> int | None:
        links = self._links
        if not links:
            return None
        # The last one moves into the gap: in a bag there is no order to keep.
        place = int(self._random() * len(links))
        taken, links[place] = links[place], links[-1]
        links.pop()
        return taken


class _Queue:
    """The oldest link first; those of one page in any order, or all workers would do the same."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._links: deque[int] = deque()

    def add(self, targets: Sequence[int]) -> None:
        self._links.extend(self._chance.sample(targets, len(targets)))

    def take(self) -> int | None:
        return self._links.popleft() if self._links else None


class _Stack(_Queue):
    """The newest link first; those of one page in any order."""

    def take(self) -> int | None:
        return self._links.pop() if self._links else None


_FRONTIERS: dict[Order, Callable[[Random], _Frontier]] = {
    Order.RANDOM: _Bag,
    Order.BREADTH: _Queue,
    Order.DEPTH: _Stack,
}


def crawl(
    site: Site,
    chance: Random,
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

    A round is one request of each worker; the first one is for the home page, whose address everybody knows. It is
    read by every worker, whatever the *memory*: without links of its own a worker could not start.

    Not *marked*, a link says where it leads: the workers share their links, and leave out those to pages they have.
    """

    def starting() -> _Frontier:
        frontier = _FRONTIERS[order](chance)
        frontier.add(site[HOME])
        return frontier

    fetched = bytearray(len(site))
    read = bytearray(len(site))
    read[HOME] = True
    frontiers = [starting() for _ in range(workers)] if marked else [starting()] * workers
    reads = [read] * workers if memory is CrawlMemory.CREW else [bytearray(read) for _ in range(workers)]
    crew = list(zip(frontiers, reads, strict=True))
    found_at: list[int] = []
    requests = 0
    for done in count() if rounds is None else range(rounds):
        before = requests
        for frontier, read in crew:
            target = frontier.take() if done else HOME
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

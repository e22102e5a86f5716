"""The frontier: the links that a crawler has seen and not yet followed, and which of them comes next."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from typing import Literal

from hedgerow.core.decision import Identity

Order = Literal["depth", "breadth", "random"]

IDENTITIES: dict[Order, Identity] = {"depth": "depth-first", "breadth": "width-first", "random": "random-like"}
"""What a crawler of each order is held to be."""

_MOST = 200_000


class Frontier:
    """
    Links in an *order*, each given out once.

    "depth": the first link of the page that was read last. "breadth": the links in the order in which they were seen.
    "random": any of them, each as likely as the others.

    >>> frontier = Frontier("depth")
    >>> frontier.add(["/a", "/b"]); frontier.next()
    '/a'
    >>> frontier.add(["/a/1", "/a/2", "/b"]); [frontier.next() for _ in range(4)]
    ['/a/1', '/a/2', '/b', None]
    """

    def __init__(self, order: Order, seed: int | None = None) -> None:
        self._order = order
        self._random = random.Random(seed)  # noqa: S311 - nothing is to be kept secret
        self._waiting: deque[str] = deque()
        self._given: set[str] = set()

    def add(self, links: Iterable[str]) -> None:
        """The links of a page, from its top to its end."""
        fresh = [link for link in dict.fromkeys(links) if link not in self._given]
        self._waiting.extend(reversed(fresh) if self._order == "depth" else fresh)
        while len(self._waiting) > _MOST:
            # What would come last of all is dropped.
            self._waiting.popleft() if self._order == "depth" else self._waiting.pop()

    def next(self) -> str | None:
        """The link to follow, or None where there is none left."""
        while self._waiting:
            link = self._take()
            if link not in self._given:
                self._given.add(link)
                return link
        return None

    def _take(self) -> str:
        if self._order == "depth":
            return self._waiting.pop()
        if self._order == "random":
            chosen = self._random.randrange(len(self._waiting))
            self._waiting[chosen], self._waiting[0] = self._waiting[0], self._waiting[chosen]
        return self._waiting.popleft()

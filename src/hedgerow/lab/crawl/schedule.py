"""When a crawler requests what: the frontier of links that it has not yet followed, and the delay before a request."""

from __future__ import annotations

import math
import random
import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Literal

from hedgerow.core.decision import Identity

Order = Literal["depth", "breadth", "random"]

IDENTITIES: dict[Order, Identity] = {"depth": "depth-first", "breadth": "width-first", "random": "random-like"}
"""The identity of a crawler of each order."""

_MAX_LINKS = 200_000
_NORMAL = re.compile(r"normal\(\s*([0-9.]+)\s*,\s*([0-9.]+)\s*\)")


class Frontier:
    """
    Links in an *order*, each returned once.

    "depth": the first link of the page that was read last. "breadth": links in the order in which they were seen.
    "random": any link, all equally likely.

    >>> frontier = Frontier("depth")
    >>> frontier.add(["/a", "/b"]); frontier.next()
    '/a'
    >>> frontier.add(["/a/1", "/a/2", "/b"]); [frontier.next() for _ in range(4)]
    ['/a/1', '/a/2', '/b', None]
    """

    def __init__(self, order: Order, seed: int | None = None) -> None:
        self._order = order
        self._random = random.Random(seed)  # noqa: S311 - not secret
        self._waiting: deque[str] = deque()
        self._returned: set[str] = set()

    def add(self, links: Iterable[str]) -> None:
        """Add the links of a page, in their order on the page."""
        new_links = [link for link in dict.fromkeys(links) if link not in self._returned]
        self._waiting.extend(reversed(new_links) if self._order == "depth" else new_links)
        while len(self._waiting) > _MAX_LINKS:
            # Drop the link that would be followed last.
            self._waiting.popleft() if self._order == "depth" else self._waiting.pop()

    def next(self) -> str | None:
        while self._waiting:
            link = self._take()
            if link not in self._returned:
                self._returned.add(link)
                return link
        return None

    def _take(self) -> str:
        if self._order == "depth":
            return self._waiting.pop()
        if self._order == "random":
            chosen = self._random.randrange(len(self._waiting))
            self._waiting[chosen], self._waiting[0] = self._waiting[0], self._waiting[chosen]
        return self._waiting.popleft()


def parse_delay(text: str, seed: int | None = None) -> Callable[[], float]:
    """
    Return a function that gives the seconds before each request: constant, or drawn from a normal distribution.

    Raises ValueError with a sentence if *text* is neither.

    >>> parse_delay("0.5")()
    0.5
    >>> 3 < parse_delay("normal(8,1)", seed=1)() < 13
    True
    """
    rng = random.Random(seed)  # noqa: S311 - not secret
    normal = _NORMAL.fullmatch(text.strip())
    try:
        if normal is not None:
            mean, deviation = float(normal[1]), float(normal[2])
            return lambda: max(0.0, rng.gauss(mean, deviation))
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (seconds >= 0 and math.isfinite(seconds)):
        raise ValueError(f"{text!r} is not a delay; write seconds, such as 0.5, or normal(8,1)")
    return lambda: seconds

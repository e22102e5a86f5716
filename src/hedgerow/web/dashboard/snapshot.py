"""
What the state knows about all visitors at one moment, shared by the pages that need it.

Reading a hundred thousand scores takes a while, during which the thread that serves visitors has to wait for the
interpreter. So a snapshot is used again for twenty times as long as it took to make, and making it pauses often.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from hedgerow.challenge.prices import (
    FREE_PAGES,
    HALF_LIFE,
    MAX_HELD,
    PriceLevel,
    gateway_key,
    is_price_key,
    pages_within_a_day,
    price_key,
    price_level,
    price_of,
    priced_address,
)
from hedgerow.core.attack import visitors_of
from hedgerow.core.decision import Block, VisitorScore
from hedgerow.policy.score import score_at
from hedgerow.web.visitor_rows import gateways_among

_REUSE = 20.0
_SLICE = 500
_PAUSE = 0.0002


class Snapshot:
    """
    Blocks and scores of visitors, by key.

    *suspects* are the scores of those that are not taken for people, and *reasons* the codes against them.
    *prices* counts addresses by what the next clearance costs there, if that is more than usual.
    """

    def __init__(self, blocks: Sequence[Block], scores: Sequence[tuple[str, VisitorScore]], now: float) -> None:
        self.blocks = {block.key: block for block in visitors_of(blocks)}
        self.scores: dict[str, VisitorScore] = {}
        self.suspects = 0
        self.reasons = Counter[str]()
        prices: list[tuple[str, VisitorScore]] = []
        for start in range(0, len(scores), _SLICE):
            for key, score in scores[start : start + _SLICE]:
                if is_price_key(key):
                    prices.append((key, score))
                    continue
                self.scores[key] = score
                if score.identity != "person":
                    self.suspects += 1
                    for code, _ in score.reasons:
                        self.reasons[code] += 1
            if start:
                # Whoever waits for the interpreter gets it now.
                time.sleep(_PAUSE)
        self.gateways = gateways_among(prices, now)
        self._prices = dict(prices)
        self.prices = Counter[str]()
        for number, (key, score) in enumerate(prices):
            # Nearly all have few pages, and to know that is quicker than to work out a price.
            if sum(times for _, times in score.reasons) >= FREE_PAGES and (address := priced_address(key)):
                self.prices[self.price(address, now)] += 1
            if number % _SLICE == 0:
                time.sleep(_PAUSE)

    def price(self, address: str, now: float) -> PriceLevel:
        """Return what the next clearance costs at *address*."""
        return price_level(price_of(self.pages(address, now), self.held(address, now)))

    def held(self, address: str, now: float) -> int:
        """Return how many clearances are used side by side at *address*."""
        return min(MAX_HELD, round(score_at(self._prices.get(gateway_key(address)), now, HALF_LIFE)))

    def pages(self, address: str, now: float) -> int:
        """Return how many pages count for the price at *address*."""
        return pages_within_a_day(self._prices.get(price_key(address)), now)


class Snapshots:
    """Makes snapshots of what *read* returns for a moment, and keeps the last one for a while."""

    def __init__(self, read: Callable[[float], tuple[Sequence[Block], Sequence[tuple[str, VisitorScore]]]]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._last: Snapshot | None = None
        self._good_until = 0.0

    def get(self, now: float) -> Snapshot:
        with self._lock:
            start = time.monotonic()
            if self._last is None or start >= self._good_until:
                self._last = Snapshot(*self._read(now), now)
                end = time.monotonic()
                self._good_until = end + _REUSE * (end - start)
            return self._last

    def forget(self) -> None:
        """Make a new one the next time: something was changed."""
        with self._lock:
            self._last = None

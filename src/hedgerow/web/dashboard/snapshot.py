"""
What the state knows about all visitors at one moment, shared by the pages that need it.

Reading a hundred thousand scores takes a while, during which the thread that serves visitors has to wait for the
interpreter. So a snapshot is used again for twenty times as long as it took to make, and making it pauses often.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from heapq import merge
from itertools import islice
from typing import Generic, TypeVar

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

T = TypeVar("T")


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


class StoredState:
    """Blocks and scores as they are stored, with those that stand for no visitor. *keys* are all keys in order."""

    def __init__(self, blocks: Sequence[Block], scores: Sequence[tuple[str, VisitorScore]]) -> None:
        self.blocks = {block.key: block for block in blocks}
        self.scores: dict[str, VisitorScore] = {}
        sorted_parts = [sorted(self.blocks.keys() - {key for key, _ in scores})] if self.blocks else []
        for part in _slices(scores):
            self.scores.update(part)
            sorted_parts.append(sorted(key for key, _ in part))
        self.keys: list[str] = []
        for keys in _slices(merge(*sorted_parts)):
            self.keys += keys


def _slices(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield lists of some items, with a pause after each: whoever waits for the interpreter gets it then."""
    rest = iter(items)
    while part := list(islice(rest, _SLICE)):
        yield part
        time.sleep(_PAUSE)


class Snapshots:
    """Makes snapshots of what *read* returns for a moment, and keeps the last one of each kind for a while."""

    def __init__(self, read: Callable[[float], tuple[Sequence[Block], Sequence[tuple[str, VisitorScore]]]]) -> None:
        self._described = _KeptValue(lambda now: Snapshot(*read(now), now))
        self._stored = _KeptValue(lambda now: StoredState(*read(now)))

    def get(self, now: float) -> Snapshot:
        return self._described.get(now)

    def stored(self, now: float, seconds: float) -> StoredState | None:
        """Return None if it takes longer than *seconds*: then it is being made."""
        return self._stored.get_within(now, seconds)

    def forget(self) -> None:
        """Make new ones the next time: something was changed."""
        self._described.forget()
        self._stored.forget()


class _KeptValue(Generic[T]):
    """What *make* returned for a moment. The longer that took, the longer it is used again."""

    def __init__(self, make: Callable[[float], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._last: T | None = None
        self._good_until = 0.0
        self._making: Future[T] | None = None

    def get(self, now: float) -> T:
        with self._lock:
            start = time.monotonic()
            if self._last is None or start >= self._good_until:
                self._last = self._make(now)
                end = time.monotonic()
                self._good_until = end + _REUSE * (end - start)
            return self._last

    def get_within(self, now: float, seconds: float) -> T | None:
        """Return None if it takes longer than *seconds*: then it is made in a thread, for the next call."""
        if self._last is not None and time.monotonic() < self._good_until:
            return self._last
        with self._starting:
            if self._making is None:
                self._making = Future()
                threading.Thread(target=self._finish, args=(self._making, now), daemon=True).start()
            making = self._making
        try:
            return making.result(seconds)
        except TimeoutError:
            return None

    def _finish(self, making: Future[T], now: float) -> None:
        try:
            making.set_result(self.get(now))
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            making.set_exception(error)
        with self._starting:
            self._making = None

    def forget(self) -> None:
        with self._lock:
            self._last = None

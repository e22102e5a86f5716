"""
What a clearance costs at one address: the more pages were read with its clearances, the more the next one costs.

A crawler can solve a challenge, use the clearance for a few pages, drop it and solve the next challenge. So a clearance
proves nothing and has a price. The pages that are read with the clearances of an address are counted for the address,
and each clearance counts as one page more. The first pages are free. Then the work for the next clearance doubles with
each `STEP` pages, then only an image or a recording is asked for, and at last there is no clearance until a day later.
A page counts for a day, and up to six hours more. Whoever has a clearance does not pay for the pages of its address.

Many people behind one address, as in a school, each hold a clearance of their own and use it side by side: one is used
again after another was. Whoever drops clearances uses one after the other. So the count is divided by the number of
clearances that are held. Processes notice for themselves which clearances are used side by side, and the state counts
them, each once a day. An address with several is a gateway: see `detectors.containment`.

A CAPTCHA that may be answered as often as one likes is worth nothing, because programs read most images. So the wrong
answers of an address are counted as well.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal, NamedTuple

from hedgerow.core.address import network_of, parse_address
from hedgerow.core.decision import VisitorScore

STEP = 10.0
"""Pages by which the price rises once."""
FREE_STEPS = 3
FREE_PAGES = STEP * (FREE_STEPS + 1)
"""Pages with which the price has risen once."""
WORK_STEPS = 4
"""How often the work doubles before only a CAPTCHA is asked for."""
CAPTCHA_STEPS = 3
HALF_LIFE = 43_200.0
"""Seconds in which the count of clearances that are held side by side fades by half."""
_PERIOD = 21_600.0
_PERIODS = 5
"""Pages are counted by periods of six hours. Those of this one and of the four before it count."""
_PAGES_ONE_BY_ONE = 16
_PAGES_IN_FULL = 32
_PAGES_AT_ONCE = 4

MAX_HELD = 64
"""Clearances of one address that count."""
GATEWAY_FROM = 5.0
"""Clearances that are held side by side at one address, from which on operators are shown it as a gateway."""

NETWORK_SIZE = 64
"""How many addresses of people an IPv6 network has at least, as far as prices go."""

_KEY = "clearances:"
_GATEWAY_KEY = "gateway:"
_CLAIM = "held:"
_SHOWN = "shown:"


def priced(prefix: str, address: str) -> dict[str, float]:
    """
    Return the addresses for which a page with a clearance counts, and the share of the pages that makes the price.

    A client may have all addresses of an IPv6 network (/48), so the network has a price as well. It may also be that
    of thousands of people, so a page counts much less there.

    >>> priced("192.0.2.1", "192.0.2.1"), priced("2001:db8:1:2::/64", "2001:db8:1:2::3")
    ({'192.0.2.1': 1.0}, {'2001:db8:1:2::/64': 1.0, '2001:db8:1::/48': 0.015625})
    """
    network = network_of(address) if ":" in prefix else ""
    return {prefix: 1.0, network: 1 / NETWORK_SIZE} if network else {prefix: 1.0}


def price_key(prefix: str) -> str:
    """Return the key under which the state counts the pages of an address."""
    return _KEY + prefix


def gateway_key(prefix: str) -> str:
    """Return the key under which the state counts the clearances that are held side by side at an address."""
    return _GATEWAY_KEY + prefix


def claim_key(visitor: str) -> str:
    """Return the key under which the state notes that the clearance of *visitor* was counted today."""
    return _CLAIM + visitor


def shown_key(visitor: str) -> str:
    """Return the key under which the state counts the challenges that *visitor* was shown and has not answered."""
    return _SHOWN + visitor


def pages_to_count(today: int, *, is_suspected: bool) -> int:
    """
    Return how many pages to add to the count of the address for the page number *today* of a clearance.

    The first pages count one by one, so that nobody can drop a clearance before its pages count. After that four count
    at once, in advance. Of a visitor who goes on with one clearance and was not suspected today, only one page in four
    counts: it drops nothing, and has a budget of its own.

    >>> sum(pages_to_count(page, is_suspected=False) for page in range(1, 301))
    99
    >>> [pages_to_count(page, is_suspected=True) for page in range(16, 23)]
    [1, 4, 0, 0, 0, 4, 0]
    """
    if today <= _PAGES_ONE_BY_ONE:
        return min(today, 1)
    if today % _PAGES_AT_ONCE != 1:
        return 0
    return _PAGES_AT_ONCE if is_suspected or today <= _PAGES_IN_FULL else 1


def counted_pages(pages: int, at: float) -> tuple[str, ...]:
    """Return codes for the score of an address that count so many *pages* at *at*."""
    return (_period(at),) * pages


def pages_within_a_day(score: VisitorScore | None, at: float) -> int:
    """
    Return how many pages the score of an address counts for the last day before *at*, and up to six hours more.

    >>> score = VisitorScore(reasons=(("pages-0", 7), ("pages-4", 2), ("challenge-wrong", 1)))
    >>> [pages_within_a_day(score, hours * 3600.0) for hours in (24, 29, 30, 54)]
    [9, 9, 2, 0]
    """
    if score is None:
        return 0
    periods = {_period(at - _PERIOD * before) for before in range(_PERIODS)}
    return sum(times for code, times in score.reasons if code in periods)


def _period(at: float) -> str:
    return f"pages-{int(at // _PERIOD)}"


def is_price_key(key: str) -> bool:
    """Tell whether a key of the state is that of a price, a gateway or a count, and not that of a visitor."""
    return key.startswith((_KEY, _GATEWAY_KEY, _CLAIM, _SHOWN))


def priced_address(key: str) -> str:
    """Return the address whose pages *key* counts, or "". Networks, clearances and accounts are none."""
    name = key.removeprefix(_KEY) if key.startswith(_KEY) else ""
    return name if not name.endswith("/48") and parse_address(name.partition("/")[0]) else ""


def gateway_of(key: str) -> str:
    """Return the address of which *key* counts the clearances that are held, or ""."""
    return key.removeprefix(_GATEWAY_KEY) if key.startswith(_GATEWAY_KEY) else ""


PriceLevel = Literal["usual", "work", "captcha", "none"]
"""What the next clearance costs: the usual work, more work, an image or recording, or there is none."""


class ClearancePrice(NamedTuple):
    """
    What the next clearance costs a visitor.

    *steps* is how often the price has risen at its address. *held* clearances are used side by side there. *wrong* is
    the number of wrong answers of today: of the visitor if it has a clearance or an account, else of the address.
    """

    steps: int = 0
    held: int = 0
    wrong: int = 0


def price_of(pages: float, held: float) -> int:
    """
    Return how often the price has risen for an address with so many counted *pages* and clearances *held*.

    >>> [price_of(pages, 0) for pages in (0.0, 39.0, 40.0, 79.0, 110.0)], price_of(600.0, 30)
    ([0, 0, 1, 4, 8], 0)
    """
    return max(0, int(pages / STEP / (1 + held / 2)) - FREE_STEPS)


def wants_captcha(price: int) -> bool:
    """Return whether a calculation is not enough any more."""
    return price > WORK_STEPS


def is_sold_out(price: int) -> bool:
    """Return whether the address gets no clearance."""
    return price > WORK_STEPS + CAPTCHA_STEPS


def price_level(price: int) -> PriceLevel:
    """
    Return what a price that has risen so often means.

    >>> [price_level(price) for price in (0, 1, 4, 5, 7, 8)]
    ['usual', 'work', 'work', 'captcha', 'captcha', 'none']
    """
    if is_sold_out(price):
        return "none"
    return "captcha" if wants_captcha(price) else "work" if price else "usual"


class _Holders:
    """The clearances that were used lately at one address, and those that came back after another one was used."""

    __slots__ = ("counted", "day", "last", "seen")

    def __init__(self) -> None:
        self.last = ""
        self.day = 0
        self.seen: OrderedDict[str, None] = OrderedDict()
        self.counted: set[str] = set()

    def add(self, visitor: str, day: int) -> bool:
        if visitor == self.last:
            return False
        if day != self.day:
            self.day = day
            self.counted.clear()
        is_new = visitor in self.seen and visitor not in self.counted and len(self.counted) < MAX_HELD
        if is_new:
            self.counted.add(visitor)
        self.last = visitor
        self.seen[visitor] = None
        self.seen.move_to_end(visitor)
        if len(self.seen) > MAX_HELD:
            self.seen.popitem(last=False)
        return is_new


class HeldClearances:
    """Notices clearances that are used side by side at one address, in this process: the *most* addresses used last."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._by_prefix: OrderedDict[str, _Holders] = OrderedDict()

    def use(self, prefix: str, visitor: str, day: int) -> bool:
        """Return whether the clearance of *visitor* comes back after another one was used, for the first time today."""
        holders = self._by_prefix.get(prefix)
        if holders is None:
            holders = self._by_prefix[prefix] = _Holders()
            if len(self._by_prefix) > self._most:
                self._by_prefix.popitem(last=False)
        else:
            self._by_prefix.move_to_end(prefix)
        return holders.add(visitor, day)

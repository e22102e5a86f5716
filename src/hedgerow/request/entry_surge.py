"""
Whether a site is being read from many addresses, with a page or a few for each.

A crawler that removes the marks from links comes to ever new pages, each once, and never returns. People come without a
marked link, too: from search engines, bookmarks and messages. But they come to the same pages again and again, and they
return: their browser obtains a clearance, or they follow a link of the page. So what counts are entries to pages by
which nobody has come who returned, and only as long as their visitors have not.

The count of such entries halves every hour. If it is far above the usual count of this site, and most of those visitors
have not returned, there is a surge: every visitor without a clearance has to obtain one.

A crawler may also follow a few links of the page that it came to, from the same address. So there is a second count, of
the new pages that strangers read, by links of their own as well, until they have a clearance. It needs to be higher,
and most of all strangers must be without a clearance: browsers with JavaScript obtain one within seconds.

The surge ends by itself, after five minutes in which few came who did not obtain one, or in which most did. In the
latter case people came, and more of them are usual from then on.

Everything is bounded: the visitors and pages of about an hour, and Bloom filters of the pages by which people come.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

FLOOR = 150
"""Entries that are usual on any site."""
_READ_FLOOR = 1.5
"""How many times as many pages strangers may read by links of their own."""
_MOST_READ = 4
"""Pages of one stranger that count as read."""

_HALF_LIFE = 3600.0
_SLOT = 300.0
_STEP = 10.0
_LEARNED_IN = 86_400.0
_FAR_ABOVE = 3.0
_MOST_RETURN = 0.25
_HALF = 0.5
_QUIET = 0.1
_MOST_EACH = 12
_MOST_VISITORS = 20_000
_BLOOM_BITS = 20
_BLOOM_PAGES = 50_000

Change = Literal["", "began", "ended"]


class PageFilter:
    """
    A set of pages, as two Bloom filters of 128 KB: the newest 50,000 pages, and as many before them.

    >>> pages = PageFilter()
    >>> pages.add(b"123456")
    >>> b"123456" in pages, b"654321" in pages
    (True, False)
    """

    def __init__(self) -> None:
        self._newest, self._older = bytearray(1 << _BLOOM_BITS - 3), bytearray(1 << _BLOOM_BITS - 3)
        self._size = 0

    def add(self, page: bytes) -> None:
        if self._size >= _BLOOM_PAGES:
            self._newest, self._older, self._size = bytearray(1 << _BLOOM_BITS - 3), self._newest, 0
        self._size += 1
        for place in _places(page):
            self._newest[place >> 3] |= 1 << (place & 7)

    def __contains__(self, page: bytes) -> bool:
        # Without a loop: it is asked with nearly every entry.
        a, b, c = _places(page)
        for bits in (self._newest, self._older):
            if bits[a >> 3] >> (a & 7) & bits[b >> 3] >> (b & 7) & bits[c >> 3] >> (c & 7) & 1:
                return True
        return False


@lru_cache(maxsize=1 << 12)
def _places(page: bytes) -> tuple[int, int, int]:
    """Return which bits of a filter stand for *page*; it is asked of several filters."""
    number, mask = int.from_bytes(page, "big"), (1 << _BLOOM_BITS) - 1
    return number & mask, number >> _BLOOM_BITS & mask, number * 0x9E3779B97F4A7C15 >> 40 & mask


class _Stranger:
    """A visitor without a clearance that came without a marked link."""

    __slots__ = ("asked_in", "at", "came_at", "has_returned", "is_cleared", "pages", "read", "read_at")

    def __init__(self, at: float) -> None:
        self.at = 0.0
        self.came_at = at
        self.read_at = at
        self.read = 0
        self.is_cleared = False
        self.pages: tuple[bytes, ...] = ()
        self.asked_in = -1
        self.has_returned = False


class EntrySurge:
    """
    Counts entries of strangers, and tells whether there is a surge. Times need not be in order.

    Without *clears* browsers obtain no clearance by themselves: then what strangers read is not counted.
    """

    def __init__(self, floor: float = FLOOR, *, clears: bool = True) -> None:
        self._floor = floor
        self._clears = clears
        self._quiet = _QUIET * floor
        self.is_on = False
        self.count = 0.0
        """Entries of strangers to new pages, of those that have not returned."""
        self._all = 0.0
        self.read_count = 0.0
        """New pages that strangers have read, of those that have not obtained a clearance."""
        self._strangers_came = self._uncleared = 0.0
        self._at = 0.0
        self.usual = 0.0
        """The usual *count* of this site."""
        self._usually_read = 0.0
        self._known = PageFilter()
        self._read = PageFilter()
        self._counted = PageFilter()
        self._strangers: dict[str, _Stranger] = {}
        self._older: dict[str, _Stranger] = {}
        self._slot = 0
        self._began = 0.0
        self._asked = self._unsolved = 0

    @property
    def is_idle(self) -> bool:
        """Whether no stranger has come lately."""
        return not self._strangers and not self._older

    @property
    def _is_unusual(self) -> bool:
        """Whether most of the visitors that came to new pages have not returned."""
        return self.count > (1 - _MOST_RETURN) * self._all

    @property
    def limit(self) -> float:
        """The count from which on there is a surge."""
        return max(self._floor, _FAR_ABOVE * self.usual)

    @property
    def _is_unusually_read(self) -> bool:
        """Whether most of the strangers that came have not obtained a clearance."""
        return self._uncleared > (1 - _MOST_RETURN) * self._strangers_came

    @property
    def read_limit(self) -> float:
        """The count of pages that strangers have read from which on there is a surge."""
        return max(_READ_FLOOR * self._floor, _FAR_ABOVE * self._usually_read)

    def enter(self, visitor: str, page: bytes, at: float) -> Change:
        """Record that a visitor without a clearance comes to *page* without a marked link."""
        change = self._advance(at)
        stranger = self._stranger(visitor, at)
        change = self._count_read(stranger, page, at) or change
        if stranger.has_returned or len(stranger.pages) >= _MOST_EACH or page in self._counted or page in self._known:
            return change
        self._counted.add(page)
        stranger.at, stranger.pages = at, (*stranger.pages, page)
        self.count += 1
        self._all += 1
        if self.count >= self.limit and self._is_unusual:
            return self._begin() or change
        return change

    def read(self, visitor: str, page: bytes, at: float) -> Change:
        """Record that a visitor without a clearance reads *page* by a link of its own."""
        change = self._advance(at)
        stranger = self._find(visitor)
        return (self._count_read(stranger, page, at) if stranger is not None else "") or change

    def _count_read(self, stranger: _Stranger, page: bytes, at: float) -> Change:
        if not self._clears or stranger.is_cleared or stranger.read >= _MOST_READ:
            return ""
        if page in self._read or page in self._known:
            return ""
        self._read.add(page)
        stranger.read += 1
        stranger.read_at = at
        self.read_count += 1
        return self._begin() if self.read_count >= self.read_limit and self._is_unusually_read else ""

    def _begin(self) -> Change:
        if self.is_on:
            return ""
        self.is_on, self._asked, self._unsolved = True, 0, 0
        self._began = self._at
        return "began"

    def ask(self, visitor: str, at: float) -> Change:
        """Record that a visitor is asked for a clearance because of the surge."""
        change = self._advance(at)
        stranger = self._stranger(visitor, at)
        if stranger.asked_in != self._slot:
            stranger.asked_in = self._slot
            self._asked += 1
            self._unsolved += 1
        return change

    def come_back(self, visitor: str, at: float) -> None:
        """Record that a visitor follows a link of its own."""
        stranger = self._find(visitor)
        if stranger is None or stranger.has_returned:
            return
        stranger.has_returned = True
        self._decay(at)
        self.count = max(0.0, self.count - len(stranger.pages) * _left(stranger.at, at))
        if stranger.asked_in == self._slot:
            self._unsolved -= 1
        for page in stranger.pages:
            self._known.add(page)

    def clear(self, visitor: str, at: float) -> None:
        """Record that a visitor has a clearance."""
        self.come_back(visitor, at)
        stranger = self._find(visitor)
        if stranger is None or stranger.is_cleared:
            return
        stranger.is_cleared = True
        self._decay(at)
        self.read_count = max(0.0, self.read_count - stranger.read * _left(stranger.read_at, at))
        self._uncleared = max(0.0, self._uncleared - _left(stranger.came_at, at))

    def meet(self, page: bytes) -> None:
        """Record that a person comes by *page* without a marked link."""
        if page not in self._known:
            self._known.add(page)

    def _find(self, visitor: str) -> _Stranger | None:
        return self._strangers.get(visitor) or self._older.get(visitor)

    def _stranger(self, visitor: str, at: float) -> _Stranger:
        stranger = self._find(visitor)
        if stranger is None:
            stranger = self._strangers[visitor] = _Stranger(at)
            self._strangers_came += 1
            self._uncleared += 1
            if len(self._strangers) >= _MOST_VISITORS:
                self._strangers, self._older = {}, self._strangers
        return stranger

    def _decay(self, at: float) -> None:
        if at > self._at:
            factor = math.exp2((self._at - at) / _HALF_LIFE)
            self.count *= factor
            self._all *= factor
            self.read_count *= factor
            self._strangers_came *= factor
            self._uncleared *= factor
            self._at = at

    def _advance(self, at: float) -> Change:
        """Let time pass, and judge the last five minutes at their end."""
        if at - self._at < _STEP and int(at // _SLOT) <= self._slot:
            return ""
        self._decay(at)
        slot = int(at // _SLOT)
        if slot <= self._slot:
            return ""
        passed = slot - self._slot
        if self.is_on and passed == 1 and at - self._began < _SLOT:
            # It began just before: too few were asked to tell anything.
            self._slot = slot
            return ""
        asked, unsolved = (self._asked, self._unsolved) if passed == 1 else (0, 0)
        self._slot, self._asked, self._unsolved = slot, 0, 0
        if not self.is_on:
            # A slow crawler must not become usual.
            learned = 1 - math.exp(-min(passed, 12) * _SLOT / _LEARNED_IN)
            if not self._is_unusual:
                self.usual += (self.count - self.usual) * learned
            if not self._is_unusually_read:
                self._usually_read += (self.read_count - self._usually_read) * learned
            return ""
        were_people = asked >= self._quiet and unsolved < _HALF * asked
        if unsolved >= self._quiet and not were_people:
            return ""
        if were_people:
            self.usual = max(self.usual, 2 * self.limit / _FAR_ABOVE)
            self._usually_read = max(self._usually_read, 2 * self.read_limit / _FAR_ABOVE)
        self.is_on, self.count, self._all = False, 0.0, 0.0
        self.read_count = self._strangers_came = self._uncleared = 0.0
        return "ended"


def _left(since: float, at: float) -> float:
    """Return how much is left at *at* of one that was counted at *since*."""
    return math.exp2(-max(0.0, at - since) / _HALF_LIFE)

"""
Which links of a page view were used by strangers, and whether they divide these links among themselves.

A link that somebody posts or mails is one link for many. A crawler that changes its address uses each link of a page
once, and each from an address that never returns. So a link counts while a single stranger has used it. A link with two
users, or with one that holds a clearance, is public: it does not count, and it makes room for more. A stranger counts
three times at most, however many links of the page it uses, and not at all once it holds a clearance.

Everything is bounded: the records used last, a few links each, for one day.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import NamedTuple

_PUBLIC = b"*"
_VOUCHED = b"+"
_DAY = 86_400.0
_MOST_LINKS = 64
_MOST_EACH = 3
_ROOM_OF_PUBLIC = 3
_OF_VISITOR = 2


class RecentNames:
    """The newest *most* names, and up to as many before them."""

    def __init__(self, most: int = 20_000) -> None:
        self._most = most
        self._newest: set[bytes] = set()
        self._older: set[bytes] = set()

    def add(self, name: bytes) -> None:
        if name not in self._newest:
            self._newest.add(name)
            if len(self._newest) >= self._most:
                self._newest, self._older = set(), self._newest

    def __contains__(self, name: bytes) -> bool:
        return name in self._newest or name in self._older


class UsedLink(NamedTuple):
    """A link, as its users name it: the visitor that it was issued to, the page it stood on, and its own digest."""

    issued_to: bytes
    parent: bytes
    target: bytes


_Users = dict[bytes, bytes]
"""The user of each link: a stranger, or that the link is public or vouched for."""


class LinkUses:
    """
    The uses of links by strangers, by page view and by the visitor that the links were issued to.

    From *allowed* links of one page view on, each used by a single stranger, a further one is refused; and so is one
    from twice as many links of all pages of one visitor on. A refused use leaves no trace: a crawler that tries the
    same link again from another address does not make the link public. At most *most* views and visitors are recorded.
    """

    def __init__(self, allowed: int = 9, *, most: int = 4_096) -> None:
        self._allowed = allowed
        self._most = most
        self._records: OrderedDict[bytes, tuple[float, _Users]] = OrderedDict()
        self._people = RecentNames()

    def __len__(self) -> int:
        return len(self._records)

    def use(self, link: UsedLink, stranger: bytes, at: float) -> bool:
        """Record that *stranger* uses *link*; return False if it must not."""
        name = link.parent + link.target
        on_page = self._users(link.issued_to + link.parent, at)
        in_all = self._users(link.issued_to, at)
        user = on_page.get(name, b"")
        if user not in {_PUBLIC, _VOUCHED, stranger}:
            if user:
                stranger = _PUBLIC
            elif not (self._has_room(on_page, stranger, 1) and self._has_room(in_all, stranger, _OF_VISITOR)):
                return False
            on_page[name] = in_all[name] = stranger
        return True

    def _has_room(self, users: _Users, stranger: bytes, times: int) -> bool:
        if len(users) >= _MOST_LINKS:
            return False
        counts = Counter(users.values())
        counts[stranger] += 1
        room = times * self._allowed + _ROOM_OF_PUBLIC * counts.pop(_PUBLIC, 0)
        counts.pop(_VOUCHED, None)
        return sum(min(count, _MOST_EACH) for who, count in counts.items() if who not in self._people) <= room

    def vouch(self, link: UsedLink, at: float) -> None:
        """Record that a visitor with a clearance used a link: anybody may use it from now on."""
        name = link.parent + link.target
        for record in (link.issued_to + link.parent, link.issued_to):
            users = self._users(record, at)
            if name in users or len(users) < _MOST_LINKS:
                users[name] = _VOUCHED

    def is_vouched(self, link: UsedLink) -> bool:
        known = self._records.get(link.issued_to + link.parent)
        return known is not None and known[1].get(link.parent + link.target) == _VOUCHED

    def clear(self, stranger: bytes) -> None:
        """Record that a stranger has obtained a clearance: what it used does not count any more."""
        self._people.add(stranger)

    def _users(self, record: bytes, at: float) -> _Users:
        known = self._records.pop(record, None)
        if known is None or at - known[0] > _DAY:
            known = (at, {})
            if len(self._records) >= self._most:
                self._records.popitem(last=False)
        self._records[record] = known
        return known[1]

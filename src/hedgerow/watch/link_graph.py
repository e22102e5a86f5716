"""
Ties: who has borrowed whose links and to whom one has lent, in few bytes for each visitor; and who has used a link.

Whether ties make a campaign is for `sharing` to say.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import msgspec

from hedgerow.markers.token import VISITOR_BYTES
from hedgerow.watch.sessions.lru import forget_oldest

PUBLIC = 4
"""So many visitors that have used a link make it public; more of them are not told apart."""

_MOST_BORROWED = 32
_MOST_LENT = 64
# A link, since when, whose it is; a visitor, since when. What is looked for comes first. Whole seconds are enough for
# what fades in hours.
_BORROWED = struct.Struct(f"<II{VISITOR_BYTES}s")
_LENT = struct.Struct(f"<{VISITOR_BYTES}sI")
_LATEST = 2**32 - 1
_LINK = struct.Struct("<I")


class LinkGroup:
    """A campaign that goes on."""

    __slots__ = ("crossed", "id", "into", "links", "members", "over", "pages", "seen", "since")

    def __init__(self, name: str, at: float) -> None:
        self.id = name
        self.since = self.seen = at
        self.members: dict[str, None] = {}
        self.links = self.pages = 0.0
        self.crossed: Counter[str] = Counter()
        self.into: LinkGroup | None = None
        self.over = False


class Node(msgspec.Struct, gc=False, eq=False):
    """
    What is known of one visitor: marked *pages* as of *at*, links borrowed (when, and whose), and to whom it has lent.

    >>> node = Node(0.0)
    >>> node.borrow(7, 5.0, b"lender")
    >>> node.lend(b"friend", 6.0)
    >>> list(node.borrowed()), list(node.lent())
    ([(7, 5, b'lender')], [(b'friend', 6)])
    """

    at: float
    name: str = ""
    pages: float = 0.0
    _campaign: LinkGroup | None = None
    # Records one after the other: a dictionary of one entry takes four times as much.
    _borrowed: bytes = b""
    _lent: bytes = b""

    @property
    def campaign(self) -> LinkGroup | None:
        """The campaign that a visitor is in now: that into which its own was merged; None once it is over."""
        group = self._campaign
        if group is None:
            return None
        while group.into is not None:
            group = group.into
        self._campaign = None if group.over else group
        return self._campaign

    @property
    def tied(self) -> bool:
        return bool(self._borrowed or self._lent)

    def borrowed(self) -> Iterator[tuple[int, float, bytes]]:
        """Links that were borrowed, the oldest first: which, when, and whose."""
        return _BORROWED.iter_unpack(self._borrowed)

    def lent(self) -> Iterator[tuple[bytes, float]]:
        """To whom it has lent, and when last; the oldest first."""
        return _LENT.iter_unpack(self._lent)

    def borrow(self, link: int, at: float, issuer: bytes) -> None:
        borrowed = _without(self._borrowed, _LINK.pack(link), _BORROWED.size) + _BORROWED.pack(
            link, _second(at), issuer
        )
        if len(borrowed) > _MOST_BORROWED * _BORROWED.size:
            # The oldest makes room, and takes its part of the pages along: the share stays what it is.
            borrowed = borrowed[_BORROWED.size :]
            self.pages *= _MOST_BORROWED / (_MOST_BORROWED + 1)
        self._borrowed = borrowed

    def lend(self, who: bytes, at: float) -> None:
        lent = _without(self._lent, who, _LENT.size) + _LENT.pack(who, _second(at))
        self._lent = lent[-_MOST_LENT * _LENT.size :]

    def join(self, group: LinkGroup) -> None:
        """Belong to a campaign: that is all that need be known from now on, and the room is for others."""
        self._campaign = group
        self._borrowed = self._lent = b""

    def to_bytes(self) -> bytes:
        """The visitor as it is kept over a restart."""
        name = self.name.encode("utf-8", "surrogateescape")
        return _ENCODER.encode(NodeSnapshot(name, self.at, self.pages, tuple(self.borrowed()), tuple(self.lent())))

    def restore(self, kept: NodeSnapshot) -> None:
        """Go on from what was kept. Of who is in a campaign that is known already nothing more need be."""
        self.name = kept.name.decode("utf-8", "surrogateescape") or self.name
        self.at, self.pages = max(kept.at, self.at), kept.pages
        if self.campaign is None:
            for link, at, issuer in kept.borrowed:
                self.borrow(link, at, issuer)
            for who, at in kept.lent:
                self.lend(who, at)


class NodeSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """A node as it is kept over a restart."""

    name: bytes
    at: float
    pages: float
    borrowed: tuple[tuple[Annotated[int, msgspec.Meta(ge=0, lt=2**32)], float, bytes], ...]
    lent: tuple[tuple[bytes, float], ...]

    @classmethod
    def read(cls, kept: bytes) -> NodeSnapshot | None:
        """What was kept as *kept*, or None where that is none of ours."""
        try:
            return _DECODER.decode(kept)
        except msgspec.MsgspecError:
            return None


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(NodeSnapshot)


class LinkGraph:
    """
    Who has used a link that was minted for another. There is room for *most*: those that were not used for the longest
    are forgotten.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._users: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._users)

    def use(self, link: int, who: bytes) -> bool:
        """Take down that one has used a link; false where it had before."""
        users = self._users.pop(link, b"")
        fresh = _place(users, who, VISITOR_BYTES) < 0
        if fresh and len(users) < PUBLIC * VISITOR_BYTES:
            users += who
        if len(self._users) >= self._most:
            forget_oldest(self._users)
        self._users[link] = users
        return fresh

    def worth(self, link: int) -> float:
        """What a link that was borrowed counts: less the more use it, and nothing once it is public."""
        users = len(self._users.get(link, b"")) // VISITOR_BYTES
        return 1 / users if 0 < users < PUBLIC else 0.0


def _place(records: bytes, key: bytes, width: int) -> int:
    """Where the record is that begins with *key*; -1 where none does."""
    found = records.find(key)
    while found % width and found != -1:
        found = records.find(key, found + 1)
    return found


def _without(records: bytes, key: bytes, width: int) -> bytes:
    found = _place(records, key, width)
    return records if found < 0 else records[:found] + records[found + width :]


def _second(at: float) -> int:
    return min(max(int(at), 0), _LATEST)

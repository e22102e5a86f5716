"""
Records of who used whose links: one `VisitorNode` for each visitor, and `LinkUsers` with the users of each link.

`link_sharing` decides whether the visitors in these records form a campaign.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import msgspec

from hedgerow.markers.encoding import VISITOR_BYTES
from hedgerow.watch.sessions.lru import LruDict
from hedgerow.watch.sessions.path import find_record

PUBLIC_USERS = 4
"""A link with this many users is public. No more users of a link are recorded."""

_MAX_USED_LINKS = 32
_MAX_USERS = 64
# A used link: its number, the time, and the visitor it was issued to. A user: the visitor, and the time. The search key
# comes first. Whole seconds are precise enough for records that fade within hours.
_USED_LINK = struct.Struct(f"<II{VISITOR_BYTES}s")
_USER = struct.Struct(f"<{VISITOR_BYTES}sI")
_MAX_SECONDS = 2**32 - 1
_LINK = struct.Struct("<I")


class LinkGroup:
    """A campaign that is still active."""

    __slots__ = ("crossed", "id", "links", "members", "merged_into", "over", "pages", "seen", "since")

    def __init__(self, name: str, at: float) -> None:
        self.id = name
        self.since = self.seen = at
        self.members: dict[str, None] = {}
        self.links = self.pages = 0.0
        self.crossed: Counter[str] = Counter()
        self.merged_into: LinkGroup | None = None
        self.over = False


class VisitorNode(msgspec.Struct, gc=False, eq=False):
    """
    A visitor's marked *pages* as of time *at*, the links of others that it used, and the users of its own links.

    >>> node = VisitorNode(0.0)
    >>> node.add_used_link(7, 5.0, b"issuer")
    >>> node.add_user(b"friend", 6.0)
    >>> list(node.used_links()), list(node.users())
    ([(7, 5, b'issuer')], [(b'friend', 6)])
    """

    at: float
    name: str = ""
    pages: float = 0.0
    _campaign: LinkGroup | None = None
    # Consecutive fixed-size records: a dictionary with one entry takes four times as much memory.
    _used_links: bytes = b""
    _users: bytes = b""

    @property
    def campaign(self) -> LinkGroup | None:
        """The visitor's campaign, after mergers; None once the campaign is over."""
        group = self._campaign
        if group is None:
            return None
        while group.merged_into is not None:
            group = group.merged_into
        self._campaign = None if group.over else group
        return self._campaign

    @property
    def is_connected(self) -> bool:
        """Whether the visitor used a link of another visitor, or another visitor used one of its links."""
        return bool(self._used_links or self._users)

    def used_links(self) -> Iterator[tuple[int, float, bytes]]:
        """Yield link, time and issuer of each link of another visitor, oldest first."""
        return _USED_LINK.iter_unpack(self._used_links)

    def users(self) -> Iterator[tuple[bytes, float]]:
        """Yield each visitor that used a link issued to this one, and when it last did, oldest first."""
        return _USER.iter_unpack(self._users)

    def links_of(self, issuer: bytes) -> set[int]:
        """Return the links of *issuer* that this visitor used."""
        return {link for link, _, of in self.used_links() if of == issuer}

    def add_used_link(self, link: int, at: float, issuer: bytes) -> None:
        record = _USED_LINK.pack(link, _second(at), issuer)
        records = _without(self._used_links, _LINK.pack(link), _USED_LINK.size) + record
        if len(records) > _MAX_USED_LINKS * _USED_LINK.size:
            # Dropping the oldest link also drops its part of the pages, so the share of foreign links stays the same.
            records = records[_USED_LINK.size :]
            self.pages *= _MAX_USED_LINKS / (_MAX_USED_LINKS + 1)
        self._used_links = records

    def add_user(self, user: bytes, at: float) -> None:
        records = _without(self._users, user, _USER.size) + _USER.pack(user, _second(at))
        self._users = records[-_MAX_USERS * _USER.size :]

    def join(self, group: LinkGroup) -> None:
        """Make the visitor a member of a campaign. Its link records are no longer needed and are freed."""
        self._campaign = group
        self._used_links = self._users = b""

    def to_bytes(self) -> bytes:
        name = self.name.encode("utf-8", "surrogateescape")
        return _ENCODER.encode(NodeSnapshot(name, self.at, self.pages, tuple(self.used_links()), tuple(self.users())))

    def restore(self, snapshot: NodeSnapshot) -> None:
        """Continue from a snapshot. A member of a known campaign needs no link records."""
        self.name = snapshot.name.decode("utf-8", "surrogateescape") or self.name
        self.at, self.pages = max(snapshot.at, self.at), snapshot.pages
        if self.campaign is None:
            for link, at, issuer in snapshot.used_links:
                self.add_used_link(link, at, issuer)
            for user, at in snapshot.users:
                self.add_user(user, at)


class NodeSnapshot(msgspec.Struct, frozen=True, array_like=True):
    name: bytes
    at: float
    pages: float
    used_links: tuple[tuple[Annotated[int, msgspec.Meta(ge=0, lt=2**32)], float, bytes], ...]
    users: tuple[tuple[bytes, float], ...]

    @classmethod
    def from_bytes(cls, data: bytes) -> NodeSnapshot | None:
        """Return the snapshot in *data*, or None if *data* is not a valid snapshot."""
        try:
            return _DECODER.decode(data)
        except msgspec.MsgspecError:
            return None


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(NodeSnapshot)


class LinkUsers:
    """The visitors that used each link issued to another. At most *max_links*; the least recently used are dropped."""

    def __init__(self, max_links: int) -> None:
        self._users: LruDict[int, bytes] = LruDict(max_links)

    def __len__(self) -> int:
        return len(self._users)

    def add(self, link: int, user: bytes) -> bool:
        """Record that *user* used *link*. Return false if it had used the link before."""
        users = self._users.pop(link, b"")
        is_new = find_record(users, user, VISITOR_BYTES) < 0
        if is_new and len(users) < PUBLIC_USERS * VISITOR_BYTES:
            users += user
        self._users.make_room()
        self._users[link] = users
        return is_new

    def weight(self, link: int) -> float:
        """Return the weight of a link: one divided by its users, and zero once the link is public."""
        users = len(self._users.get(link, b"")) // VISITOR_BYTES
        return 1 / users if 0 < users < PUBLIC_USERS else 0.0


def _without(records: bytes, key: bytes, width: int) -> bytes:
    number = find_record(records, key, width)
    return records if number < 0 else records[: number * width] + records[(number + 1) * width :]


def _second(at: float) -> int:
    return min(max(int(at), 0), _MAX_SECONDS)

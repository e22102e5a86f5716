"""
Lists and blocks in the site's own memory, and what they say of a request: one or two microseconds, nobody is asked.

The order is that of the gate: the administrator's lists first, the most specific entry counts; then blocks, of the
visitor, of everyone at its address, of its network.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from hedgerow.core.decision import PASS, Block, Decision
from hedgerow.core.ip_bytes import V6, pack_address
from hedgerow.core.state import ACCOUNT, prefix_key
from hedgerow.lists.model import Listing, ListName, Lists, decide
from hedgerow.services.banlist.messages import ListMessage

_EVERYONE = prefix_key("")
# How keys end that are not one visitor's: everyone at an address, and networks.
_OF_SEVERAL = (_EVERYONE, "/24", "/48")
# How many of its bytes stand for an address of IPv6: a visitor's, and a network's.
_VISITOR, _NETWORK = 8, 6
_BYTES = {"64": _VISITOR, "64" + _EVERYONE: _VISITOR, "48": _NETWORK}


def _place(key: str) -> str | bytes:
    r"""
    Where the block of a key is kept: by bytes where it is of IPv6, which are read sooner than its /64 is written.

    >>> _place("2001:db8::/64"), _place("2001:db8::/48"), _place("192.0.2.1/*"), _place("account:ann/64")
    (b' \x01\r\xb8\x00\x00\x00\x00', b' \x01\r\xb8\x00\x00', '192.0.2.1/*', 'account:ann/64')
    """
    address, _, length = key.partition("/")
    if length not in _BYTES:
        return key
    try:
        place = pack_address(V6, address)[: _BYTES[length]]
    except (OSError, ValueError):
        return key
    return place + _EVERYONE.encode() if length.endswith(_EVERYONE) else place


def _wider_places(visitor: str | bytes) -> tuple[str | bytes, str | bytes]:
    """Where the blocks of everyone at an address and of its network are kept, given that of the visitor."""
    if isinstance(visitor, bytes):
        return visitor + _EVERYONE.encode(), visitor[:_NETWORK]
    return visitor + _EVERYONE, visitor.rpartition(".")[0] + ".0/24"


class LocalLists:
    """What the server has told, ready to be looked up. One thread at a time may `take`; any may `check`."""

    def __init__(self) -> None:
        self._lists = Lists()
        self._blocks: dict[str, Block] = {}
        self._places: dict[str | bytes, Decision] = {}
        self._wider = False
        self._entries: dict[tuple[ListName, str], Listing] = {}
        self._lock = threading.Lock()
        self.version = ""
        """That of what is here; empty until everything has come once."""
        self.changed: Callable[[], None] = lambda: None
        """Called when something has been taken in."""

    def __len__(self) -> int:
        return len(self._lists) + len(self._blocks)

    def check(self, at: float, address: str, account: str = "", user_agent: str = "") -> Decision:
        """What lists and blocks say of a request: pass, or what keeps it out."""
        found = self._lists.find(at, address, account, user_agent)
        if found is not None:
            return decide(found)
        blocks = self._places
        if blocks and (address or account):
            visitor: str | bytes
            if ":" not in address:
                visitor = address
            else:
                try:
                    visitor = pack_address(V6, address)[:_VISITOR]
                except (OSError, ValueError):
                    visitor = address
            blocked = blocks.get(ACCOUNT + account if account else visitor)
            if blocked is not None and blocked.until > at:
                return blocked
            for place in _wider_places(visitor) if self._wider else ():
                blocked = blocks.get(place)
                if blocked is not None and blocked.until > at:
                    return blocked
        return PASS

    def take(self, lines: Iterable[ListMessage]) -> None:
        """
        Take in lines up to a version.

        Everything anew is made ready beside what is there, and put in its place at once: nobody is let in meanwhile.
        """
        with self._lock:
            lists, blocks, entries, version = self._lists, dict(self._blocks), self._entries, self.version
            changed = False
            for line in lines:
                changed = changed or not line.at
                if line.start:
                    lists, blocks, entries = Lists(), {}, {}
                elif line.put is not None:
                    lists.put(line.put)
                    entries[line.put.list, line.put.subject] = line.put
                elif line.drop is not None:
                    lists.drop(*line.drop)
                    entries.pop(line.drop, None)
                elif line.block is not None:
                    blocks[line.block.key] = line.block
                elif line.free:
                    blocks.pop(line.free, None)
                version = line.at or version
            if not changed:
                self.version = version
                return
            lists.settle()
            self._wider = any(key.endswith(_OF_SEVERAL) for key in blocks)
            self._places = {_place(key): Decision(b.action, (b.evidence,), b.until) for key, b in blocks.items()}
            self._lists, self._blocks, self._entries, self.version = lists, blocks, entries, version
        self.changed()

    def everything(self) -> tuple[list[Listing], list[Block]]:
        """All entries and blocks."""
        with self._lock:
            return list(self._entries.values()), list(self._blocks.values())

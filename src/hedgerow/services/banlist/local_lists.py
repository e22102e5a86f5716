"""
The lists and blocks in the site's own memory. A check takes one or two microseconds.

The order is that of the gate: first the administrator's lists, in which the most specific entry applies, then the
blocks of the visitor, of everyone at its address, and of its network.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from hedgerow.core.decision import PASS, Block, Decision
from hedgerow.core.ip_bytes import V6, pack_address
from hedgerow.core.state import ACCOUNT, EVERYONE
from hedgerow.lists.model import Listing, ListName, Lists, decide
from hedgerow.services.banlist.messages import ListMessage

# The ends of keys that stand for several visitors: everyone at an address, and networks.
_SHARED = (EVERYONE, "/24", "/48")
# The first bytes of an IPv6 address that identify a visitor and a network.
_VISITOR_BYTES, _NETWORK_BYTES = 8, 6
_KEY_BYTES = {"64": _VISITOR_BYTES, "64" + EVERYONE: _VISITOR_BYTES, "48": _NETWORK_BYTES}


def _lookup_key(key: str) -> str | bytes:
    r"""
    Return the key for looking up a block. For IPv6 it is bytes, because packing an address is faster than formatting.

    >>> _lookup_key("2001:db8::/64"), _lookup_key("2001:db8::/48"), _lookup_key("192.0.2.1/*")
    (b' \x01\r\xb8\x00\x00\x00\x00', b' \x01\r\xb8\x00\x00', '192.0.2.1/*')
    >>> _lookup_key("account:ann/64")
    'account:ann/64'
    """
    address, _, length = key.partition("/")
    if length not in _KEY_BYTES:
        return key
    try:
        packed = pack_address(V6, address)[: _KEY_BYTES[length]]
    except (OSError, ValueError):
        return key
    return packed + EVERYONE.encode() if length.endswith(EVERYONE) else packed


def _shared_keys(visitor: str | bytes) -> tuple[str | bytes, str | bytes]:
    """Return the lookup keys of everyone at a visitor's address and of its network."""
    if isinstance(visitor, bytes):
        return visitor + EVERYONE.encode(), visitor[:_NETWORK_BYTES]
    return visitor + EVERYONE, visitor.rpartition(".")[0] + ".0/24"


class LocalLists:
    """The lists and blocks from the server. One thread at a time may `take`; any may `check`."""

    def __init__(self) -> None:
        self._lists = Lists()
        self._blocks: dict[str, Block] = {}
        self._decisions: dict[str | bytes, Decision] = {}
        self._any_shared = False
        self._entries: dict[tuple[ListName, str], Listing] = {}
        self._lock = threading.Lock()
        self.version = ""
        """The server's name for this content; empty until everything has arrived once."""
        self.changed: Callable[[], None] = lambda: None
        """Called after a change."""

    def __len__(self) -> int:
        return len(self._lists) + len(self._blocks)

    def check(self, at: float, address: str, account: str = "", user_agent: str = "") -> Decision:
        """Return the decision of lists and blocks on a request."""
        found = self._lists.find(at, address, account, user_agent)
        if found is not None:
            return decide(found)
        decisions = self._decisions
        if decisions and (address or account):
            visitor: str | bytes = address
            if ":" in address:
                try:
                    visitor = pack_address(V6, address)[:_VISITOR_BYTES]
                except (OSError, ValueError):
                    visitor = address
            blocked = decisions.get(ACCOUNT + account if account else visitor)
            if blocked is not None and blocked.until > at:
                return blocked
            for key in _shared_keys(visitor) if self._any_shared else ():
                blocked = decisions.get(key)
                if blocked is not None and blocked.until > at:
                    return blocked
        return PASS

    def take(self, lines: Iterable[ListMessage]) -> None:
        """Apply messages up to a version. A snapshot replaces the content at once, so that no visitor slips through."""
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
            self._any_shared = any(key.endswith(_SHARED) for key in blocks)
            self._decisions = {_lookup_key(k): Decision(b.action, (b.evidence,), b.until) for k, b in blocks.items()}
            self._lists, self._blocks, self._entries, self.version = lists, blocks, entries, version
        self.changed()

    def everything(self) -> tuple[list[Listing], list[Block]]:
        with self._lock:
            return list(self._entries.values()), list(self._blocks.values())

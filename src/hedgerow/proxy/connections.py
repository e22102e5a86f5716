"""How many connections clients may have, in total and of one address, and which are closed to make room."""

from __future__ import annotations

import heapq
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal, Protocol

from hedgerow.core.address import parse_address, prefix_of

_log = logging.getLogger("hedgerow.server")

_LOG_INTERVAL = 60.0
_MIN_IDLE = 1.0
_SEARCH_INTERVAL = 0.25
_CLOSED_AT_ONCE = 1 / 16


class Connection(Protocol):
    idle_since: float
    """Since when it waits for a request, for the rest of a request's head or of a handshake; infinite otherwise."""

    def close_idle(self) -> None: ...


class Connections:
    """
    The connections of one server: at most *most*, and *most_per_address* of one IPv4 address or IPv6 /64.

    Browsers keep connections open that they may need again, and attackers send heads that never end. So where there is
    no room, the one that has been idle for the longest is closed for a new one: it waits for a request, or for more
    than a second for the rest of one. Only where none is idle the new one is refused. Peers that *trusts* names
    are proxies for many clients, and have no limit of their own. *refused* counts what was refused, by reason.
    """

    def __init__(
        self, most: int, most_per_address: int, trusts: Callable[[str], bool], refused: Counter[str] | None = None
    ) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._trusts = trusts
        self.refused: Counter[str] = Counter() if refused is None else refused
        self._keys: dict[Connection, str] = {}
        self._by_key: dict[str, set[Connection]] = {}
        self._searched_at = self._logged_at = float("-inf")

    def __len__(self) -> int:
        return len(self._keys)

    def admit(self, connection: Connection, peer: str, now: float) -> bool:
        """Count a new connection of *peer*, which is "" where it has no address. False where there is no room."""
        key = prefix_of(parse_address(peer) or peer) if peer and not self._trusts(peer) else ""
        others = self._by_key.get(key, ())
        if key and len(others) >= self._most_per_address and not self._close_idle(others, 1, now):
            return self._refuse("address", peer, now)
        if len(self._keys) >= self._most and not self._make_room(now):
            return self._refuse("total", peer, now)
        self._keys[connection] = key
        self._by_key.setdefault(key, set()).add(connection)
        return True

    def release(self, connection: Connection) -> None:
        """Forget a connection, if it is known."""
        key = self._keys.pop(connection, None)
        if key is not None:
            others = self._by_key[key]
            others.discard(connection)
            if not others:
                del self._by_key[key]

    def replace(self, connection: Connection, other: Connection) -> None:
        """Count *other*, which speaks another protocol, instead of *connection*."""
        key = self._keys.get(connection)
        if key is not None:
            self.release(connection)
            self._keys[other] = key
            self._by_key.setdefault(key, set()).add(other)

    def _make_room(self, now: float) -> bool:
        """Close some idle connections of anybody. Where there is none, do not search again at once."""
        if now - self._searched_at < _SEARCH_INTERVAL:
            return False
        self._searched_at = now
        return self._close_idle(self._keys, max(1, int(self._most * _CLOSED_AT_ONCE)), now)

    def _close_idle(self, among: Iterable[Connection], most: int, now: float) -> bool:
        """Close up to *most* connections that have been idle for the longest; return whether there was one."""
        idle = (one for one in among if one.idle_since <= now - _MIN_IDLE)
        closed = heapq.nsmallest(most, idle, key=lambda one: one.idle_since)
        for one in closed:
            self.release(one)
            one.close_idle()
        return bool(closed)

    def _refuse(self, reason: Literal["address", "total"], peer: str, now: float) -> Literal[False]:
        self.refused[reason] += 1
        if now - self._logged_at >= _LOG_INTERVAL:
            self._logged_at = now
            whose = "connections in total" if reason == "total" else "connections of one address"
            _log.warning("%s: refused, too many %s; %d refused so far", ascii(peer), whose, self.refused.total())
        return False

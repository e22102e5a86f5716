"""
Clearance usage shared by the workers of one machine: from which networks each clearance was used lately.
"""

from __future__ import annotations

import lmdb
import msgspec

from hedgerow.challenge.clearance import ClearanceUsage
from hedgerow.state.lmdb.state import LmdbState, entries_with_prefix

_SEEN = b"seen:"


_LOOKED_AT = 2


_SIGHTING = msgspec.msgpack.Decoder(dict[bytes, float])


class LmdbClearanceUsage(ClearanceUsage):
    """From which networks each clearance has been seen lately, in whatever worker."""

    def __init__(
        self, state: LmdbState, *, networks: int = 3, window: float = 600.0, max_entries: int = 100_000
    ) -> None:
        super().__init__(networks=networks, window=window, max_entries=max_entries)
        self._state = state
        self._hand = _SEEN

    def __len__(self) -> int:
        with self._state.writing() as txn:
            return sum(1 for _ in entries_with_prefix(txn, self._state.more, _SEEN))

    def record_use(self, clearance: bytes, network: bytes, at: float) -> int:
        name = _SEEN + clearance
        with self._state.writing() as txn:
            data = txn.get(name, db=self._state.more)
            if data is None:
                self._sweep(txn, at)
            seen = _SIGHTING.decode(data) if data is not None else {}
            count = self.add(seen, network, at)
            txn.put(name, msgspec.msgpack.encode(seen), db=self._state.more)
            return count

    def _sweep(self, txn: lmdb.Transaction, at: float) -> None:
        """A new one comes: look at two others, and forget those that were seen too long ago."""
        with txn.cursor(self._state.more) as cursor:
            there = cursor.set_range(self._hand) and cursor.key().startswith(_SEEN)
            if not there:
                there = cursor.set_range(_SEEN) and cursor.key().startswith(_SEEN)
            for _ in range(_LOOKED_AT):
                if not there:
                    break
                if self.are_outdated(_SIGHTING.decode(cursor.value()), at):
                    there = cursor.delete() and cursor.key().startswith(_SEEN)
                else:
                    there = cursor.next() and cursor.key().startswith(_SEEN)
            self._hand = cursor.key() if there else _SEEN

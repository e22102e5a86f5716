"""What workers of one machine share besides counters, blocks and standings: sightings, lost welcomes, tallies."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import lmdb
import msgspec

from hedgerow.challenge.clearance import Sightings
from hedgerow.stores.lmdb import LmdbState

_UNTIL = struct.Struct("<d")
_SEEN, _UNWELCOME, _TALLY = b"seen:", b"unwelcome:", b"tally:"
_LOOKED_AT = 2
_SIGHTING = msgspec.msgpack.Decoder(dict[bytes, float])


class LmdbSightings(Sightings):
    """From which networks each clearance has been seen lately, in whatever worker."""

    def __init__(self, state: LmdbState, *, networks: int = 3, window: float = 600.0, most: int = 100_000) -> None:
        super().__init__(networks=networks, window=window, most=most)
        self._state = state
        self._hand = _SEEN

    def __len__(self) -> int:
        with self._state.writing() as txn:
            return sum(1 for _ in _below(txn, self._state.more, _SEEN))

    def see(self, clearance: bytes, network: bytes, at: float) -> int:
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
                if self.are_over(_SIGHTING.decode(cursor.value()), at):
                    there = cursor.delete() and cursor.key().startswith(_SEEN)
                else:
                    there = cursor.next() and cursor.key().startswith(_SEEN)
            self._hand = cursor.key() if there else _SEEN


class LmdbUnwelcome:
    """Which bots have lost their welcome, in whatever worker."""

    def __init__(self, state: LmdbState) -> None:
        self._state = state

    def get(self, bot: str, /) -> float | None:
        with self._state.reading() as txn:
            data = txn.get(_UNWELCOME + bot.encode(), db=self._state.more)
        return float(_UNTIL.unpack(data)[0]) if data is not None else None

    def __setitem__(self, bot: str, until: float, /) -> None:
        with self._state.writing() as txn:
            txn.put(_UNWELCOME + bot.encode(), _UNTIL.pack(until), db=self._state.more)


class LmdbTallies:
    """What each worker has counted, under its process id; those of workers that have ended stay."""

    def __init__(self, state: LmdbState) -> None:
        self._state = state

    def put(self, tally: bytes) -> None:
        with self._state.writing() as txn:
            txn.put(_TALLY + b"%d" % os.getpid(), tally, db=self._state.more)

    def all(self) -> dict[int, bytes]:
        """Tallies by process id."""
        with self._state.reading() as txn:
            return {int(name[len(_TALLY) :]): tally for name, tally in _below(txn, self._state.more, _TALLY)}


def _below(txn: lmdb.Transaction, database: object, start: bytes) -> Iterator[tuple[bytes, bytes]]:
    with txn.cursor(database) as cursor:
        there = cursor.set_range(start)
        while there and cursor.key().startswith(start):
            yield cursor.item()
            there = cursor.next()

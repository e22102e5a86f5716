"""
What workers of one machine share besides counters, blocks and standings.

Sightings of clearances, lost welcomes, what each has counted, and answers that wait for a front to come for them.
"""

from __future__ import annotations

import os
import secrets
import struct
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import lmdb
import msgspec

from hedgerow.challenge.clearance import Sightings
from hedgerow.stores.lmdb import LmdbState
from hedgerow.stores.pending import Held

_UNTIL = struct.Struct("<d")
_SEEN, _UNWELCOME, _TALLY, _PENDING = b"seen:", b"unwelcome:", b"tally:", b"pending:"
_HELD = struct.Struct("<qq")
_LOOKED_AT = 2
_SIGHTING = msgspec.msgpack.Decoder(dict[bytes, float])
_HELD_BYTES = 16_000_000
_REFERENCE_BYTES = 24


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


class LmdbPending:
    """
    Answers that wait for a front, whichever worker it comes to. They take 16 MB at the most.

    A name begins with the time, so that the oldest stand first.
    """

    def __init__(self, state: LmdbState) -> None:
        self._state = state
        self._own: OrderedDict[str, None] = OrderedDict()

    def hold(self, held: Held, most: int) -> tuple[str, Sequence[Held]]:
        name = time.time_ns().to_bytes(8, "big") + secrets.token_bytes(_REFERENCE_BYTES - 8)
        reference, data = urlsafe_b64encode(name).decode(), msgspec.msgpack.encode(held)
        given_up = []
        with self._state.writing() as txn:
            txn.put(_PENDING + name, data, db=self._state.more)
            count, size = self._count(txn, 1, len(data))
            with txn.cursor(self._state.more) as cursor:
                while (count > most or size > _HELD_BYTES) and _first(cursor, _PENDING):
                    gone = bytes(cursor.value())
                    given_up.append(msgspec.msgpack.decode(gone, type=Held))
                    cursor.delete()
                    count, size = self._count(txn, -1, -len(gone))
        self._own[reference] = None
        if len(self._own) > most:
            self._own.popitem(last=False)
        return reference, given_up

    def take(self, reference: str) -> Held | None:
        self._own.pop(reference, None)
        try:
            name = urlsafe_b64decode(reference)
        except ValueError:
            return None
        if len(name) != _REFERENCE_BYTES:
            return None
        with self._state.writing() as txn:
            data = txn.pop(_PENDING + name, db=self._state.more)
            if data is None:
                return None
            self._count(txn, -1, -len(data))
            return msgspec.msgpack.decode(data, type=Held)

    def leave(self) -> Sequence[Held]:
        return [held for reference in list(self._own) if (held := self.take(reference)) is not None]

    def _count(self, txn: lmdb.Transaction, more: int, size: int) -> tuple[int, int]:
        """How many are held, and in how many bytes, from now on."""
        count, total = _HELD.unpack(txn.get(b"held", default=_HELD.pack(0, 0), db=self._state.more))
        txn.put(b"held", _HELD.pack(count + more, total + size), db=self._state.more)
        return count + more, total + size


def _first(cursor: lmdb.Cursor, start: bytes) -> bool:
    return bool(cursor.set_range(start)) and bytes(cursor.key()).startswith(start)


def _below(txn: lmdb.Transaction, database: object, start: bytes) -> Iterator[tuple[bytes, bytes]]:
    with txn.cursor(database) as cursor:
        there = cursor.set_range(start)
        while there and cursor.key().startswith(start):
            yield cursor.item()
            there = cursor.next()

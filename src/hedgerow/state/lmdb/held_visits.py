"""
Visits whose answer waits for a front server, shared by the workers of one machine.
"""

from __future__ import annotations

import secrets
import struct
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Sequence

import lmdb
import msgspec

from hedgerow.state.held_visits import HeldVisit
from hedgerow.state.lmdb.state import LmdbState

_PENDING = b"pending:"
_HELD = struct.Struct("<qq")


_HELD_BYTES = 16_000_000


_REFERENCE_BYTES = 24


class LmdbHeldVisits:
    """
    Answers that wait for a front, whichever worker it comes to. They take 16 MB at the most.

    A name begins with the time, so that the oldest stand first.
    """

    def __init__(self, state: LmdbState) -> None:
        self._state = state
        self._own: OrderedDict[str, None] = OrderedDict()

    def hold(self, held: HeldVisit, most: int) -> tuple[str, Sequence[HeldVisit]]:
        name = time.time_ns().to_bytes(8, "big") + secrets.token_bytes(_REFERENCE_BYTES - 8)
        reference, data = urlsafe_b64encode(name).decode(), msgspec.msgpack.encode(held)
        given_up = []
        with self._state.writing() as txn:
            txn.put(_PENDING + name, data, db=self._state.more)
            count, size = self._count(txn, 1, len(data))
            with txn.cursor(self._state.more) as cursor:
                while (count > most or size > _HELD_BYTES) and _first(cursor, _PENDING):
                    gone = bytes(cursor.value())
                    given_up.append(msgspec.msgpack.decode(gone, type=HeldVisit))
                    cursor.delete()
                    count, size = self._count(txn, -1, -len(gone))
        self._own[reference] = None
        if len(self._own) > most:
            self._own.popitem(last=False)
        return reference, given_up

    def take(self, reference: str) -> HeldVisit | None:
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
            return msgspec.msgpack.decode(data, type=HeldVisit)

    def leave(self) -> Sequence[HeldVisit]:
        return [held for reference in list(self._own) if (held := self.take(reference)) is not None]

    def _count(self, txn: lmdb.Transaction, more: int, size: int) -> tuple[int, int]:
        """How many are held, and in how many bytes, from now on."""
        count, total = _HELD.unpack(txn.get(b"held", default=_HELD.pack(0, 0), db=self._state.more))
        txn.put(b"held", _HELD.pack(count + more, total + size), db=self._state.more)
        return count + more, total + size


def _first(cursor: lmdb.Cursor, start: bytes) -> bool:
    return bool(cursor.set_range(start)) and bytes(cursor.key()).startswith(start)

"""Small stores that the workers of one machine share, in the LMDB file of their state."""

from __future__ import annotations

import os
import secrets
import struct
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Sequence

import lmdb
import msgspec

from hedgerow.challenge.clearance import ClearanceUsage
from hedgerow.state.held_visits import HeldVisit
from hedgerow.state.lmdb.state import LmdbState, entries_with_prefix

_CLEARANCE, _HELD, _REVOKED, _METRICS = b"seen:", b"pending:", b"unwelcome:", b"tally:"
_SWEPT_AT_ONCE = 2
_MAX_HELD_BYTES = 16_000_000
_REFERENCE_BYTES = 24
_TOTALS = struct.Struct("<qq")
_UNTIL = struct.Struct("<d")
_USES = msgspec.msgpack.Decoder(dict[bytes, float])


class LmdbClearanceUsage(ClearanceUsage):
    """The networks that used each clearance recently."""

    def __init__(self, state: LmdbState, *, window: float = 600.0) -> None:
        super().__init__(window=window)
        self._state = state
        self._sweep_from = _CLEARANCE

    def __len__(self) -> int:
        with self._state.reading() as txn:
            return sum(1 for _ in entries_with_prefix(txn, self._state.more, _CLEARANCE))

    def record_use(self, clearance: bytes, network: bytes, at: float) -> int:
        with self._state.writing() as txn:
            data = txn.get(_CLEARANCE + clearance, db=self._state.more)
            if data is None:
                self._sweep(txn, at)
            uses = _USES.decode(data) if data is not None else {}
            count = self.add(uses, network, at)
            txn.put(_CLEARANCE + clearance, msgspec.msgpack.encode(uses), db=self._state.more)
            return count

    def _sweep(self, txn: lmdb.Transaction, at: float) -> None:
        """Check two other clearances whenever a new one is added, and drop them if they are outdated."""
        with txn.cursor(self._state.more) as cursor:
            found = _seek(cursor, self._sweep_from, _CLEARANCE) or _seek(cursor, _CLEARANCE, _CLEARANCE)
            for _ in range(_SWEPT_AT_ONCE):
                if found:
                    outdated = self.are_outdated(_USES.decode(cursor.value()), at)
                    found = (cursor.delete() if outdated else cursor.next()) and cursor.key().startswith(_CLEARANCE)
            self._sweep_from = cursor.key() if found else _CLEARANCE


class LmdbHeldVisits:
    """Held visits, in 16 MB at most. A reference starts with the time, so that the oldest comes first."""

    def __init__(self, state: LmdbState) -> None:
        self._state = state
        self._own: OrderedDict[str, None] = OrderedDict()

    def hold(self, held: HeldVisit, most: int) -> tuple[str, Sequence[HeldVisit]]:
        name = time.time_ns().to_bytes(8, "big") + secrets.token_bytes(_REFERENCE_BYTES - 8)
        reference, data = urlsafe_b64encode(name).decode(), msgspec.msgpack.encode(held)
        dropped = []
        with self._state.writing() as txn:
            txn.put(_HELD + name, data, db=self._state.more)
            count, size = self._add_totals(txn, 1, len(data))
            with txn.cursor(self._state.more) as cursor:
                while (count > most or size > _MAX_HELD_BYTES) and _seek(cursor, _HELD, _HELD):
                    oldest = bytes(cursor.value())
                    dropped.append(msgspec.msgpack.decode(oldest, type=HeldVisit))
                    cursor.delete()
                    count, size = self._add_totals(txn, -1, -len(oldest))
        self._own[reference] = None
        if len(self._own) > most:
            self._own.popitem(last=False)
        return reference, dropped

    def take(self, reference: str) -> HeldVisit | None:
        self._own.pop(reference, None)
        try:
            name = urlsafe_b64decode(reference)
        except ValueError:
            return None
        if len(name) != _REFERENCE_BYTES:
            return None
        with self._state.writing() as txn:
            data = txn.pop(_HELD + name, db=self._state.more)
            if data is None:
                return None
            self._add_totals(txn, -1, -len(data))
            return msgspec.msgpack.decode(data, type=HeldVisit)

    def leave(self) -> Sequence[HeldVisit]:
        return [held for reference in list(self._own) if (held := self.take(reference)) is not None]

    def _add_totals(self, txn: lmdb.Transaction, count: int, size: int) -> tuple[int, int]:
        """Add to the number and the bytes of held visits, and return both."""
        old_count, old_size = _TOTALS.unpack(txn.get(b"held", default=_TOTALS.pack(0, 0), db=self._state.more))
        totals = old_count + count, old_size + size
        txn.put(b"held", _TOTALS.pack(*totals), db=self._state.more)
        return totals


class LmdbRevokedBots:
    """The bots that lost their good-bot status, and until when."""

    def __init__(self, state: LmdbState) -> None:
        self._state = state

    def get(self, bot: str, /) -> float | None:
        with self._state.reading() as txn:
            data = txn.get(_REVOKED + bot.encode(), db=self._state.more)
        return float(_UNTIL.unpack(data)[0]) if data is not None else None

    def __setitem__(self, bot: str, until: float, /) -> None:
        with self._state.writing() as txn:
            txn.put(_REVOKED + bot.encode(), _UNTIL.pack(until), db=self._state.more)


class LmdbWorkerMetrics:
    """The metrics of each worker by process id. Those of workers that have ended stay."""

    def __init__(self, state: LmdbState) -> None:
        self._state = state

    def put(self, metrics: bytes) -> None:
        with self._state.writing() as txn:
            txn.put(_METRICS + b"%d" % os.getpid(), metrics, db=self._state.more)

    def all(self) -> dict[int, bytes]:
        with self._state.reading() as txn:
            entries = entries_with_prefix(txn, self._state.more, _METRICS)
            return {int(name[len(_METRICS) :]): metrics for name, metrics in entries}


def _seek(cursor: lmdb.Cursor, start: bytes, prefix: bytes) -> bool:
    """Move to the first key from *start* on, and return whether it begins with *prefix*."""
    return bool(cursor.set_range(start)) and bytes(cursor.key()).startswith(prefix)

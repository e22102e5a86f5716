"""The counters of the state in LMDB: the hit times of each key, within a budget of bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import lmdb

from hedgerow.core.rate_limit import SERIES, RateLimit, updated_rate
from hedgerow.core.state import StateQuery, prefix_key
from hedgerow.state.hit_times import TODAY_BYTES, Counted, HitTimes

_MAX_KEY_BYTES = 400
_SAMPLE = 16
_DAY = struct.Struct("<qq")
_REQUESTS = struct.Struct("<d")
_RATE = struct.Struct("<dd")


def name_of(key: str) -> bytes:
    """Return a key as LMDB accepts it: itself, or its digest if it is long."""
    name = key.encode("utf-8", "surrogateescape")
    return b"=" + name if len(name) <= _MAX_KEY_BYTES else b"#" + blake2b(name, digest_size=32).digest()


class LmdbCounters:
    """
    Counters in a database of *environment*, of about *memory* bytes.

    If they take more, each new key removes the oldest of a sample of neighbouring keys. That is nearly the key that has
    been silent longest, without a list of all keys.
    """

    def __init__(self, environment: lmdb.Environment, windows: Sequence[RateLimit], memory: int) -> None:
        self.database: Any = environment.open_db(b"trails")
        self._days: Any = environment.open_db(b"days")
        self._more: Any = environment.open_db(b"more")
        self._page_bytes = environment.stat()["psize"]
        self._memory = memory
        self._most_days = memory // 4 // TODAY_BYTES
        self._sweep_from = b""
        self.forgotten = 0
        """The number of visitors that this process has forgotten for lack of room."""
        self.use_limits(windows)

    def use_limits(self, windows: Sequence[RateLimit]) -> None:
        self._counted = Counted(windows)

    def counts_kind(self, query: StateQuery) -> bool:
        """Return whether any window counts this visit."""
        return query.count and SERIES[query.kind] in self._counted.series

    def size(self, txn: lmdb.Transaction) -> int:
        """Return the bytes that the counters take."""
        stat = txn.stat(self.database)
        return int((stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]) * self._page_bytes)

    def count(self, txn: lmdb.Transaction, query: StateQuery) -> tuple[int, ...]:
        """Count the visit, and return one count for each window."""
        counted, at, visitor, prefix = self._counted, query.at, query.visitor, query.prefix
        series = SERIES[query.kind]
        own = self._add(txn, visitor, at, series)
        network = self._add(txn, query.network, at, series) if query.network else None
        # The hits of a prefix are those of the visitor without an account and those of all accounts there.
        plain: HitTimes | None = own
        accounts: HitTimes | None = None
        if visitor != prefix:
            accounts = self._add(txn, prefix_key(prefix), at, series)
            plain = self._get(txn, name_of(prefix)) if counted.by_prefix else None
        elif counted.by_prefix:
            accounts = self._get(txn, name_of(prefix_key(prefix)))
        counts = []
        for by, kinds, seconds in counted.windows:
            first, second = (own, None) if by == "visitor" else (plain, accounts) if by == "prefix" else (network, None)
            total = first.count(kinds, at, seconds) if first is not None else 0
            counts.append(total + second.count(kinds, at, seconds) if second is not None else total)
        return tuple(counts)

    def count_site(self, txn: lmdb.Transaction, at: float, visits: int) -> float:
        """Count *visits*, and return the rate of visits to the whole site."""
        rate, since = _RATE.unpack(txn.get(b"rate", default=_RATE.pack(0.0, 0.0), db=self._more))
        rate = updated_rate(rate, since, at, visits)
        txn.put(b"rate", _RATE.pack(rate, max(since, at)), db=self._more)
        return rate

    def count_today(self, txn: lmdb.Transaction, query: StateQuery, more: int) -> int:
        """Count requests of the day. Those of the day before are forgotten."""
        name = name_of(query.daily or query.visitor)
        newest = _DAY.unpack(txn.get(b"day", default=_DAY.pack(0, 0), db=self._more))[0]
        if query.day > newest or query.day < newest - 1:
            # Another day, or a clock that was ahead has been set right.
            txn.drop(self._days, delete=False)
            txn.put(b"day", _DAY.pack(query.day, 0), db=self._more)
            newest = query.day
        data = txn.get(name, db=self._days)
        count = _REQUESTS.unpack(data)[0] if data is not None else 0.0
        if query.day == newest:
            count += more
        txn.put(name, _REQUESTS.pack(count), db=self._days)
        if txn.stat(self._days)["entries"] > self._most_days:
            with txn.cursor(self._days) as cursor:
                if not cursor.set_range(name + b"\0"):
                    cursor.first()
                cursor.delete()
        return int(count)

    def forget_today(self, txn: lmdb.Transaction, key: str) -> None:
        txn.delete(name_of(key), db=self._days)

    def take_back(self, txn: lmdb.Transaction, query: StateQuery, series: int) -> None:
        """Remove a visit from *series*, in which it was counted."""
        keys = [query.visitor, query.network, prefix_key(query.prefix) if query.visitor != query.prefix else ""]
        for name in [name_of(key) for key in keys if key]:
            hits = self._get(txn, name)
            if hits is not None:
                hits.drop(query.at, series)
                if hits:
                    txn.put(name, hits.to_bytes(), db=self.database)
                else:
                    txn.delete(name, db=self.database)

    def forget(self, txn: lmdb.Transaction, key: str) -> None:
        txn.delete(name_of(key), db=self.database)

    def _get(self, txn: lmdb.Transaction, name: bytes) -> HitTimes | None:
        data = txn.get(name, db=self.database)
        return HitTimes(data) if data is not None else None

    def _add(self, txn: lmdb.Transaction, key: str, at: float, series: int) -> HitTimes:
        name = name_of(key)
        data = txn.get(name, db=self.database)
        if data is None:
            self._sweep(txn, at)
        hits = HitTimes(data)
        hits.add(at, series, keep=self._counted.keep, most=self._counted.most)
        txn.put(name, hits.to_bytes(), db=self.database)
        return hits

    def _sweep(self, txn: lmdb.Transaction, at: float) -> None:
        """Remove neighbouring keys whose hits have left every window, and the two oldest if there is no room."""
        full = self.size(txn) > self._memory
        with txn.cursor(self.database) as cursor:
            if not cursor.set_range(self._sweep_from) and not cursor.first():
                return
            others: list[tuple[float, bytes]] = []
            for _ in range(_SAMPLE if full else 2):
                name, data = cursor.item()
                newest = HitTimes(data).newest()
                if newest <= at - self._counted.keep:
                    # After the last key the cursor has an empty key.
                    found = cursor.delete() and cursor.key() != b""
                else:
                    others.append((newest, name))
                    found = cursor.next()
                if not found:
                    break
            self._sweep_from = cursor.key()
        if full:
            # Two for one, because half-empty pages count as well.
            for _, name in sorted(others)[:2]:
                txn.delete(name, db=self.database)
                self.forgotten += 1

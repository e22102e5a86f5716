"""The counters of the state in LMDB: the times of each key's visits, within a number of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import lmdb

from hedgerow.core.rate_limit import RateLimit, series_of
from hedgerow.core.state import StateQuery, prefix_key
from hedgerow.state.hit_times import Counted, HitTimes

_LONGEST_KEY = 400
_SAMPLE = 16


def name_of(key: str) -> bytes:
    """A key as LMDB takes it; of a long one its digest."""
    name = key.encode("utf-8", "surrogateescape")
    if len(name) <= _LONGEST_KEY:
        return b"=" + name
    return b"#" + blake2b(name, digest_size=32).digest()


class LmdbCounters:
    """
    Counters in *database* of *environment*, at most some *memory* bytes of them.

    When they take more, the oldest of some that lie together are forgotten for each new one: nearly those that have
    been silent for the longest, without a list of all of them.
    """

    def __init__(self, environment: lmdb.Environment, windows: Sequence[RateLimit], memory: int) -> None:
        self.database: Any = environment.open_db(b"trails")
        self._page = environment.stat()["psize"]
        self._memory = memory
        self._hand = b""
        self.forgotten = 0
        """Visitors that this process has forgotten because there was no room."""
        self.use(windows)

    def use(self, windows: Sequence[RateLimit]) -> None:
        self._counted = Counted(windows)

    def counts_kind(self, query: StateQuery) -> bool:
        """Whether any window counts this visit."""
        return query.count and series_of(query.kind) in self._counted.series

    def size(self, txn: lmdb.Transaction) -> int:
        """Bytes that the counters take now."""
        stat = txn.stat(self.database)
        return int((stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]) * self._page)

    def count(self, txn: lmdb.Transaction, query: StateQuery) -> tuple[int, ...]:
        """Count the visit, and give one count for each window."""
        counted, at, visitor, prefix = self._counted, query.at, query.visitor, query.prefix
        series = series_of(query.kind)
        own = self._add(txn, name_of(visitor), at, series)
        network = self._add(txn, name_of(query.network), at, series) if query.network else None
        # Of a prefix are the visits of who has no account there, and those of everyone else.
        plain: HitTimes | None = own
        others: HitTimes | None = None
        if visitor != prefix:
            others = self._add(txn, name_of(prefix_key(prefix)), at, series)
            plain = self._get(txn, name_of(prefix)) if counted.by_prefix else None
        elif counted.by_prefix:
            others = self._get(txn, name_of(prefix_key(prefix)))
        counts = []
        for by, kinds, seconds in counted.windows:
            if by == "visitor":
                total = own.count(kinds, at, seconds)
            elif by == "prefix":
                total = plain.count(kinds, at, seconds) if plain is not None else 0
                if others is not None:
                    total += others.count(kinds, at, seconds)
            else:
                total = network.count(kinds, at, seconds) if network is not None else 0
            counts.append(total)
        return tuple(counts)

    def take_back(self, txn: lmdb.Transaction, query: StateQuery, series: int) -> None:
        """The visit was counted in *series*, and is not of it."""
        keys = [query.visitor, query.network]
        if query.visitor != query.prefix:
            keys.append(prefix_key(query.prefix))
        for name in [name_of(key) for key in keys if key]:
            trail = self._get(txn, name)
            if trail is not None:
                trail.drop(query.at, series)
                if trail:
                    txn.put(name, trail.to_bytes(), db=self.database)
                else:
                    txn.delete(name, db=self.database)

    def forget(self, txn: lmdb.Transaction, key: str) -> None:
        txn.delete(name_of(key), db=self.database)

    def _get(self, txn: lmdb.Transaction, name: bytes) -> HitTimes | None:
        data = txn.get(name, db=self.database)
        return HitTimes(data) if data is not None else None

    def _add(self, txn: lmdb.Transaction, name: bytes, at: float, series: int) -> HitTimes:
        data = txn.get(name, db=self.database)
        if data is None:
            self._sweep(txn, at)
        trail = HitTimes(data)
        trail.add(at, series, keep=self._counted.keep, most=self._counted.most)
        txn.put(name, trail.to_bytes(), db=self.database)
        return trail

    def _sweep(self, txn: lmdb.Transaction, at: float) -> None:
        """
        Look at some counters that lie together: a new one comes.

        Those that have left every window go; where there is no room, the two that have been silent for the longest.
        """
        full = self.size(txn) > self._memory
        with txn.cursor(self.database) as cursor:
            if not cursor.set_range(self._hand) and not cursor.first():
                return
            others: list[tuple[float, bytes]] = []
            for _ in range(_SAMPLE if full else 2):
                name, data = cursor.item()
                newest = HitTimes(data).newest()
                if newest <= at - self._counted.keep:
                    # Behind the last one there is no next, and the cursor says so by an empty key.
                    there = cursor.delete() and cursor.key() != b""
                else:
                    others.append((newest, name))
                    there = cursor.next()
                if not there:
                    break
            self._hand = cursor.key()
        if full:
            # Two for one: pages that are half empty count as well.
            for _, name in sorted(others)[:2]:
                txn.delete(name, db=self.database)
                self.forgotten += 1

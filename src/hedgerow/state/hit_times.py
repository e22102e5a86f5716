"""
The times of one key's visits as bytes: how many of each series, and then the times, each series sorted.

What stores that keep values instead of objects (LMDB; the script for Redis reads the same form) have for counters.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence

from hedgerow.core.rate_limit import RateLimit, add_hit, count_hits, counted_series, drop_hit

_HEAD = struct.Struct("<4I")
_TIME = 8
_SERIES = 4


class HitTimes:
    """The times of the visits of one key; *data* is as `to_bytes` gave it."""

    __slots__ = ("series",)

    def __init__(self, data: bytes | None = None) -> None:
        self.series: list[array[float]] = []
        if data is None:
            self.series = [array("d") for _ in range(_SERIES)]
            return
        start = _HEAD.size
        for length in _HEAD.unpack_from(data):
            end = start + length * _TIME
            hits = array("d")
            hits.frombytes(data[start:end])
            self.series.append(hits)
            start = end

    def to_bytes(self) -> bytes:
        return b"".join((_HEAD.pack(*map(len, self.series)), *(hits.tobytes() for hits in self.series)))

    def __bool__(self) -> bool:
        """Whether there is any visit left."""
        return any(self.series)

    def newest(self) -> float:
        return max((hits[-1] for hits in self.series if hits), default=-float("inf"))

    def add(self, at: float, series: int, *, keep: float, most: int) -> None:
        add_hit(self.series[series], at, max_age=keep, max_hits=most)

    def drop(self, at: float, series: int) -> None:
        drop_hit(self.series[series], at)

    def count(self, counted: Sequence[int], at: float, seconds: float) -> int:
        total = 0
        for series in counted:
            hits = self.series[series]
            if hits:
                total += count_hits(hits, at, seconds)
        return total


class Counted:
    """What a set of windows means for a store: which series are counted, for how long, how many at the most."""

    def __init__(self, windows: Sequence[RateLimit]) -> None:
        self.windows = tuple((w.by, counted_series(w.of), w.seconds) for w in windows)
        self.series = frozenset(s for w in windows for s in counted_series(w.of))
        self.keep = max((w.seconds for w in windows), default=0.0)
        self.most = max((w.count for w in windows), default=0) + 1
        self.by_prefix = any(w.by == "prefix" for w in windows)

"""
What all engines share: limits of the state, and the hit times of one key as bytes.

The bytes are the length of each series, then the times, each series sorted. LMDB stores them.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence

from hedgerow.core.rate_limit import COUNTED_SERIES, RateLimit, add_hit, count_hits, drop_hit

DAILY_KINDS = frozenset({"page", "prefetch"})
"""The kinds of visits that count for the day: neither what a page loads nor what its scripts request."""
SCORE_BYTES, TODAY_BYTES, ENTRY_BYTES = 700, 250, 1_000
"""The memory that a score, a count of the day and the entries of a visitor take, rounded up."""
MAX_ENTRIES = 8
UNCOUNTED: tuple[int, ...] = ()

_HEAD = struct.Struct("<4I")
_TIME_BYTES = 8
_SERIES = 4


class HitTimes:
    """The hit times of one key; *data* comes from `to_bytes`."""

    __slots__ = ("series",)

    def __init__(self, data: bytes | None = None) -> None:
        self.series = [array("d") for _ in range(_SERIES)]
        if data is not None:
            start = _HEAD.size
            for hits, length in zip(self.series, _HEAD.unpack_from(data), strict=True):
                if length:
                    end = start + length * _TIME_BYTES
                    hits.frombytes(data[start:end])
                    start = end

    def to_bytes(self) -> bytes:
        return b"".join([_HEAD.pack(*map(len, self.series)), *map(array.tobytes, self.series)])

    def __bool__(self) -> bool:
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
            if hits := self.series[series]:
                total += count_hits(hits, at, seconds)
        return total


class Counted:
    """What a store must count for *windows*: which series, for how long, and how many hits at most."""

    def __init__(self, windows: Sequence[RateLimit]) -> None:
        self.windows = tuple((w.by, COUNTED_SERIES[w.of], w.seconds) for w in windows)
        self.series = frozenset(s for w in windows for s in COUNTED_SERIES[w.of])
        self.keep = max((w.seconds for w in windows), default=0.0)
        self.most = max((w.count for w in windows), default=0) + 1
        self.by_prefix = any(w.by == "prefix" for w in windows)
        self.by_network = any(w.by == "network" for w in windows)

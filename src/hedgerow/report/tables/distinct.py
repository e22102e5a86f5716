"""
Distinct: the different pages of each group of rows, exactly, in as much memory as is meant for it.

A pair is a page and its group (the shape of the page, or the host that led there) in one number: the digest of the page
with the group in place of its lowest bits. Up to `MOST` pairs of a kind are kept at once. Where there are more, the
pages with the lowest digests are counted first, and all rows are looked at again for those with higher ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.tables.rows import ROW, Rows

Pairs = NDArray[np.uint64]
Select = Callable[[Rows], Sequence[tuple[NDArray[np.uint64], NDArray[Any]]]]
"""Digests and groups of some rows, for one kind of pairs or several."""

MOST = 1 << 21
GROUPS = 1 << 18
"""More than there may be texts of one kind."""

_GROUP = np.uint64(GROUPS - 1)


def group_of(pairs: Pairs) -> NDArray[np.int64]:
    return (pairs & _GROUP).astype(np.int64)


def page_of(pairs: Pairs) -> NDArray[np.uint64]:
    """The digests of pages, as far as they are in pairs."""
    return pairs & ~_GROUP


def by_group(pairs: Pairs) -> NDArray[np.int64]:
    """How many pages each group has."""
    return np.bincount(group_of(pairs), minlength=GROUPS)


def different(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The different *values*, sorted; numpy's `unique` takes far longer."""
    ordered = np.sort(values)
    begins = np.ones(len(ordered), np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    return ordered[begins]


class DistinctPairs:
    """The different pairs that *select* finds in rows, of pages from the digest *low* on."""

    def __init__(self, select: Select, low: int = 0) -> None:
        self._select = select
        self._low = low
        self.high: int | None = None
        """Where the digests end that are counted; None where all are."""
        self._found: list[list[Pairs]] = [[np.zeros(0, np.uint64)] for _ in select(np.zeros(0, ROW))]
        self._size = 0

    def add(self, rows: Rows) -> None:
        for found, (digest, group) in zip(self._found, self._select(rows), strict=True):
            inside = digest >= np.uint64(self._low)
            if self.high is not None:
                inside &= digest < np.uint64(self.high)
            found.append(different(digest[inside] & ~_GROUP | group[inside].astype(np.uint64)))
            self._size += len(found[-1])
        if self._size > 2 * MOST:
            self.pairs()

    def pairs(self, high: int | None = None) -> list[Pairs]:
        """The pairs of each kind, sorted; of pages below the digest *high*, where that is given."""
        kinds = [different(np.concatenate(found)) for found in self._found]
        longest = max(kinds, key=len)
        if len(longest) > MOST:
            self.high = max(int(page_of(longest)[MOST // 2]), self._low + GROUPS)
        ends = [end for end in (self.high, high) if end is not None]
        if ends:
            kinds = [pairs[: np.searchsorted(pairs, np.uint64(min(ends)))] for pairs in kinds]
        self._found, self._size = [[pairs] for pairs in kinds], sum(map(len, kinds))
        return kinds


def in_ranges(count: Callable[[int], Sequence[DistinctPairs]]) -> Iterator[list[Pairs]]:
    """
    The different pairs of each kind, range by range of digests, until all have been counted.

    *count* counts the pairs from a digest on, in several shares of the rows.
    """
    low: int | None = 0
    while low is not None:
        shares = count(low)
        for share in shares:
            share.pairs()
        low = min((share.high for share in shares if share.high is not None), default=None)
        kinds = zip(*(share.pairs(low) for share in shares), strict=True)
        yield [different(np.concatenate(pairs)) for pairs in kinds]

"""
Different: how many different things there are, in as much memory as is meant for it. Compiled by numba.

Up to `MOST` of them are counted one by one. Of more a sample is kept, which the things themselves decide: half of them,
a quarter, and so on, as many as there is room for. So the answer depends on nothing but what was entered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.tables.jit import M1, M2, lean

MOST = 1 << 21
_S = np.uint64(32)
_LEAST = 1 << 14


@lean
def _mixed(one: Any, other: Any) -> Any:
    h = (one ^ other * M2) * M1
    return h ^ h >> _S


@lean
def _is_in(one: Any, halvings: int) -> bool:
    """Whether a thing is in the sample."""
    return halvings == 0 or one * M2 >> np.uint64(64 - halvings) == np.uint64(0)


@lean
def _enter(first: int, ones: Any, others: Any, halvings: int, counts: Any, enough: int, table: Any, used: int) -> Any:
    """
    Enter pairs from *first* on into *table*, as long as it is not half full. An empty place has 0 for the other.

    *counts* are how many there are by the other; who has *enough* gets no more. Gives the pair that comes next and how
    many are there.
    """
    mask = np.uint64(len(table) - 1)
    i = first
    while i < len(ones) and 2 * used < len(table):
        if _is_in(ones[i], halvings) and (not enough or counts[others[i]] < enough):
            one = ones[i]
            other = np.uint64(others[i]) + np.uint64(1)
            place = np.int64(_mixed(one, other) & mask)
            while table[place, 1] != np.uint64(0) and (table[place, 0] != one or table[place, 1] != other):
                place = np.int64(np.uint64(place + 1) & mask)
            if table[place, 1] == np.uint64(0):
                table[place, 0] = one
                table[place, 1] = other
                used += 1
                if enough:
                    counts[others[i]] += 1
        i += 1
    return i, used


class DistinctCount:
    """
    Pairs of two numbers, each once. Which of them are in the sample is decided by the first number.

    Where *enough* is given, no more than so many are kept with the same second number, which is then small; these are
    few, and all are counted.
    """

    def __init__(self, *, enough: int = 0) -> None:
        self.halvings = 0
        """How often the sample has been halved."""
        self._enough = enough
        self._counts = np.zeros(0, np.int64)
        self._table: NDArray[np.uint64] = np.zeros((_LEAST, 2), np.uint64)
        self._used = 0

    @property
    def pairs(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """All pairs, in no order."""
        there = self._table[self._table[:, 1] != 0]
        return there[:, 0], there[:, 1] - np.uint64(1)

    def enter(self, ones: NDArray[np.uint64], others: NDArray[np.uint64]) -> None:
        """Enter pairs."""
        if self._enough and len(others) and int(others.max()) >= len(self._counts):
            more = np.zeros(2 * int(others.max()) + 1, np.int64)
            more[: len(self._counts)] = self._counts
            self._counts = more
        done = 0
        while True:
            done, self._used = _enter(
                done, ones, others, self.halvings, self._counts, self._enough, self._table, self._used
            )
            if done == len(ones):
                return
            if self._used >= MOST and not self._enough:
                self.halve(self.halvings + 1)
            else:
                self._renew(4 * len(self._table))

    def take(self, other: DistinctCount) -> None:
        """Enter all that *other* has."""
        self.halve(other.halvings)
        ones, others = other.pairs
        self.enter(ones, others)

    def halve(self, halvings: int) -> None:
        """Halve the sample until it has been halved so often."""
        if halvings > self.halvings:
            self.halvings = halvings
            self._renew(len(self._table))

    def _renew(self, size: int) -> None:
        ones, others = self.pairs
        self._table, self._used = np.zeros((size, 2), np.uint64), 0
        self._counts[:] = 0
        self.enter(ones, others)

    def by_other(self) -> dict[int, int]:
        """By the second number, about how many different first ones it has."""
        key, different = np.unique(self.pairs[1], return_counts=True)
        return dict(zip(key.tolist(), (different << self.halvings).tolist(), strict=True))

"""Recalling: the numbers of texts that came before, by their digest and length. Compiled by numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.tables.jit import M1, lean
from hedgerow.report.tables.line_scanner import AGENT, PLACE, SHAPE, Scanned

UNKNOWN = -1
_EMPTY = 0
_S = np.uint64(32)
_LEAST = 1 << 14


@lean
def _told(column: int, start: int, end: int) -> Any:
    """What tells texts of the same digest apart: the kind of text, and for all but shapes the length."""
    return np.uint64(column + 1) << np.uint64(32) | np.uint64(0 if column == SHAPE else end - start)


@lean
def _look_up(words: Any, digests: Any, table: Any, out: Any) -> None:
    mask = np.uint64(len(table) - 1)
    for k in range(len(words)):
        out[k] = UNKNOWN
        column = words[k, 0]
        if column not in (AGENT, PLACE, SHAPE):
            continue
        told = _told(column, words[k, 1], words[k, 2])
        place = (digests[k] ^ told) * M1 >> _S & mask
        while table[place, 1] != _EMPTY:
            if table[place, 0] == digests[k] and table[place, 1] == told:
                out[k] = np.int64(table[place, 2])
                break
            place = (place + np.uint64(1)) & mask


@lean
def _enter(rows: Any, table: Any) -> None:
    mask = np.uint64(len(table) - 1)
    for k in range(len(rows)):
        if rows[k, 1] == _EMPTY:
            continue
        place = (rows[k, 0] ^ rows[k, 1]) * M1 >> _S & mask
        while table[place, 1] != _EMPTY:
            place = (place + np.uint64(1)) & mask
        for n in range(3):
            table[place, n] = rows[k, n]


class InternCache:
    """Numbers of user agents, referring hosts and shapes."""

    def __init__(self) -> None:
        self._table = np.zeros((_LEAST, 3), np.uint64)
        self._used = 0

    def numbers(self, scanned: Scanned) -> NDArray[np.int64]:
        """The number of each word of *scanned*, or `UNKNOWN`."""
        out = np.empty(len(scanned.words), np.int64)
        _look_up(scanned.words, scanned.digests, self._table, out)
        return out

    def remember(self, scanned: Scanned, which: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """That the words *which* have *numbers*; none of them was known."""
        words = scanned.words[which]
        kept = np.isin(words[:, 0], (AGENT, PLACE, SHAPE))
        words, digests, numbers = words[kept], scanned.digests[which][kept], numbers[kept]
        rows = np.empty((len(words), 3), np.uint64)
        length = np.where(words[:, 0] == SHAPE, 0, words[:, 2] - words[:, 1])
        rows[:, 0], rows[:, 1], rows[:, 2] = digests, (words[:, 0] + 1) << 32 | length, numbers
        self._used += len(rows)
        if 2 * self._used > len(self._table):
            before = self._table
            self._table = np.zeros((4 << int(self._used).bit_length(), 3), np.uint64)
            _enter(before, self._table)
        _enter(rows, self._table)

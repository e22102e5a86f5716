"""
Accounts: the users that the ordinary lines of a log name, where sources are told apart by them. Compiled by numba.

The scanner passes over the user of a line, which hardly any report wants to know; where one does, the lines that it has
taken are looked at once more, as far as their user.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.tables.jit import compiled
from hedgerow.report.tables.line_scanner import HOST, Scanned
from hedgerow.report.tables.url_features import Bytes, digest

NOBODY = np.uint64(0)
_UNAUTHORIZED = 401


@compiled
def _users(data: Bytes, starts: Any, odd: Any, status: Any, words: int) -> Any:
    """Of each line the digest of its user (`NOBODY` where it has none), and where that begins and ends."""
    n = len(starts)
    digests = np.zeros(n, np.uint64)
    places = np.zeros((n, 2), np.int64)
    for k in range(n):
        if odd[k] or status[k] == _UNAUTHORIZED:
            continue
        i = starts[k]
        for _ in range(words):
            while data[i] != 32:
                i += 1
            i += 1
        end = i
        while data[end] != 32:
            end += 1
        if end - i == 1 and data[i] == 45:
            continue
        if end - i == 2 and data[i] == 34 and data[i + 1] == 34:
            continue
        digests[k] = digest(data, i, end)
        places[k, 0] = i
        places[k, 1] = end
    return digests, places


def users(scanned: Scanned, data: NDArray[np.uint8]) -> tuple[NDArray[np.int64], list[tuple[int, bytes]]]:
    """
    The users of scanned lines: by line which of them it has, or -1; and of each the first of its lines, and its name.

    Who is asked for a password has given none that was right: that line has no user.
    """
    data = data.view()
    data.flags.writeable = False
    before = 3 if scanned.texts[HOST].max(initial=-1) >= 0 else 2
    digests, places = _users(data, scanned.starts, scanned.odd, scanned.status, before)
    there = np.flatnonzero(digests != NOBODY)
    _, first, which = np.unique(digests[there], return_index=True, return_inverse=True)
    # As they come: numbers are given in this order.
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    found = np.full(len(digests), -1, np.int64)
    found[there] = rank[which]
    lines = there[first[order]].tolist()
    return found, [(line, data[places[line, 0] : places[line, 1]].tobytes()) for line in lines]

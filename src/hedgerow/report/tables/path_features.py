"""
Stepping: the paths that sources take, as the features of their long sessions. Compiled by numba.

The same numbers as `sessions.paths.PathSession.wide` gives, for all sources of a log at once; the referrer stands for
the parent. Of each source the first sessions count (`MOST_SESSIONS`), and only those of at least `LEAST` steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.report.tables.jit import compiled, lean
from hedgerow.report.tables.url_features import PAGE
from hedgerow.watch.sessions.path import ALL_FEATURES, LONG, PREFIXES, SHORT_GAP

MOST_SESSIONS = 8
"""Long sessions of one source that are looked at."""

LEAST = PREFIXES[0]
WIDTH = len(ALL_FEATURES)
_ENTRY, _STRAY, _SAME_STRAY = 255, 254, 253
_SECOND = 1e6
_OWN = 1


@compiled
def _shape(numbers: Any, parents: Any, start: int, end: int) -> Any:
    """Greatest depth and width of the steps from *start* to before *end*, as if there were no others."""
    depths = np.full(LONG, -1, np.int64)
    widths = np.zeros(LONG, np.int64)
    deepest = 0
    widest = 0
    for k in range(start, end):
        depth = 0
        above = parents[k]
        if above < _SAME_STRAY and depths[above] >= 0:
            depth = depths[above] + 1
            deepest = max(deepest, depth)
            widths[above] += 1
            widest = max(widest, widths[above])
        depths[numbers[k]] = depth
    return deepest, widest


@lean
def _variation(gaps: Any, start: int, end: int) -> float:
    total = 0.0
    for k in range(start, end):
        total += gaps[k]
    if total <= 0 or end <= start:
        return 0.0
    mean = total / (end - start)
    square = 0.0
    for k in range(start, end):
        square += (gaps[k] - mean) ** 2
    return square / (end - start) / mean**2


@compiled
def _features(size: int, times: Any, numbers: Any, parents: Any, different: int, beside: int, out: Any) -> None:
    """The features of a session of *size* steps."""
    count = size - 1
    gaps = np.empty(max(count, 1), np.float64)
    gaps[0] = 0.0
    for k in range(count):
        gaps[k] = times[k + 1] - times[k]
    # The longest short session: its first step, and the step after its last.
    first = 0
    start = 0
    end = 1
    pauses = 0
    for k in range(count):
        if gaps[k] >= SHORT_GAP:
            first = k + 1
            pauses += 1
        if k + 2 - first > end - start:
            start = first
            end = k + 2
    depth, width = _shape(numbers, parents, 0, size)
    short_depth, short_width = _shape(numbers, parents, start, end)
    length = end - start
    out[0] = depth / size
    out[1] = width / size
    out[2] = _variation(gaps, 0, count)
    out[3] = abs(depth / size - short_depth / length)
    out[4] = abs(width / size - short_width / length)
    out[5] = _variation(gaps, start, end - 1)
    ordered = np.sort(gaps)
    last = len(ordered) - 1
    out[6] = ordered[(last + 1) // 2]
    out[7] = ordered[last // 10]
    out[8] = ordered[last - last // 10]
    entries = strays = onward = sideward = 0
    for k in range(size):
        if parents[k] == _ENTRY:
            entries += 1
        elif parents[k] >= _SAME_STRAY:
            strays += 1
            sideward += parents[k] == _SAME_STRAY
        if k:
            onward += parents[k] == numbers[k - 1]
            sideward += parents[k] == parents[k - 1] and parents[k] < _SAME_STRAY
    out[9] = pauses / size
    out[10] = entries / size
    out[11] = strays / size
    out[12] = 1 - different / size
    out[13] = onward / size
    out[14] = sideward / size
    out[15] = beside / size
    out[16] = length / size


@compiled
def step(
    bounds: Any, close: int, exact: bool, t: Any, page: Any, parent: Any, place: Any, kind: Any, places: Any, rows: Any,
    features: Any,
) -> int:  # fmt: skip
    """
    The sessions of the sources whose rows lie between *bounds*; of each source at most *close* rows.

    *rows* gets the number of the source and the steps, *features* the features; gives how many there are.
    """
    found = 0
    times = np.zeros(LONG, np.float64)
    pages = np.zeros(LONG, np.uint64)
    numbers = np.zeros(LONG, np.int64)
    parents = np.zeros(LONG, np.int64)
    for s in range(len(bounds) - 1):
        start = bounds[s]
        end = min(bounds[s + 1], start + close)
        size = different = beside = sessions = 0
        led = np.uint64(0)
        i = start
        while i < end and sessions < MOST_SESSIONS:
            # Visits of one second are spread evenly over it, in their order.
            j = i + 1
            if not exact:
                while j < end and t[j] == t[i]:
                    j += 1
            for k in range(i, j):
                if kind[k] != PAGE:
                    if size and beside < 65535:
                        beside += 1
                    continue
                if size == LONG:
                    if sessions < MOST_SESSIONS:
                        _features(size, times, numbers, parents, different, beside, features[found])
                        rows[found, 0] = s
                        rows[found, 1] = size
                        found += 1
                        sessions += 1
                    size = different = beside = 0
                    led = np.uint64(0)
                at = (t[i] + (k - i) * 1_000_000 // (j - i)) / _SECOND
                above = _ENTRY
                before = led
                led = np.uint64(0)
                if places[place[k]] == _OWN:
                    led = parent[k]
                    above = _SAME_STRAY if led == before else _STRAY
                    for n in range(different):
                        if pages[n] == parent[k]:
                            above = n
                            break
                number = different
                for n in range(different):
                    if pages[n] == page[k]:
                        number = n
                        break
                if number == different:
                    pages[number] = page[k]
                    different += 1
                parents[size] = above
                numbers[size] = number
                times[size] = max(at, times[size - 1]) if size else at
                size += 1
            i = j
        if size >= LEAST and sessions < MOST_SESSIONS:
            _features(size, times, numbers, parents, different, beside, features[found])
            rows[found, 0] = s
            rows[found, 1] = size
            found += 1
    return found

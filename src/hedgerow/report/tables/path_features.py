"""
Path features: the paths that sources take through a site, as the features of their long sessions.

The same numbers as `watch.sessions.path.PathSession.wide` gives, for all sources of a log at once; the referrer stands
for the parent. Of each source the first sessions count (`MOST_SESSIONS`), and only those of at least `LEAST` steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.tables.jit import Kernel
from hedgerow.report.tables.url_features import PAGE
from hedgerow.watch.sessions.path import ALL_FEATURES, LONG, PREFIXES, SHORT_GAP

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

CLOSELY = 1 << 20
"""Rows of one source that are looked at."""

MOST_SESSIONS = 8
"""Long sessions of one source that are looked at."""

LEAST = PREFIXES[0]
WIDTH = len(ALL_FEATURES)
_ENTRY, _STRAY, _SAME_STRAY = 255, 254, 253
_SECOND = 1e6
_OWN = 1


@Kernel
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


@Kernel
def _variation(gaps: Any, start: int, end: int) -> float:
    total = 0.0
    for k in range(start, end):
        total += gaps[k]
    if total <= 0 or end <= start:
        return 0.0
    mean = total / (end - start)
    square = 0.0
    for k in range(start, end):
        square += (gaps[k] - mean) * (gaps[k] - mean)
    return square / (end - start) / (mean * mean)


@Kernel
def _put_features(size: int, times: Any, numbers: Any, parents: Any, different: int, others: int, out: Any) -> None:
    """The features of a session of *size* steps; *others* are requests for no pages."""
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
    out[15] = others / size
    out[16] = length / size


@Kernel
def _find_sessions(rows: Any, bounds: Any, facts: Any, sessions: Any, features: Any) -> int:
    """
    The sessions of the sources whose rows lie between *bounds*; of each source at most `CLOSELY` rows.

    *sessions* gets the place of the source and the steps, *features* the features; gives how many there are.
    """
    t, page, parent, place, kind = rows["t"], rows["page"], rows["parent"], rows["place"], rows["kind"]
    found = 0
    times = np.zeros(LONG, np.float64)
    pages = np.zeros(LONG, np.uint64)
    numbers = np.zeros(LONG, np.int64)
    parents = np.zeros(LONG, np.int64)
    for s in range(len(bounds) - 1):
        end = min(bounds[s + 1], bounds[s] + CLOSELY)
        size = different = others = count = 0
        # The row of the last page visit whose referrer is a page of the site; -1 where the last one has none such.
        led = -1
        i = bounds[s]
        while i < end and count < MOST_SESSIONS:
            # Visits of one second are spread evenly over it, in their order.
            j = i + 1
            while j < end and t[j] == t[i] and not facts.exact:
                j += 1
            for k in range(i, j):
                if kind[k] != PAGE:
                    if size and others < 65535:
                        others += 1
                    continue
                if size == LONG:
                    if count < MOST_SESSIONS:
                        _put_features(size, times, numbers, parents, different, others, features[found])
                        sessions[found][0], sessions[found][1] = s, size
                        found += 1
                        count += 1
                    size = different = others = 0
                    led = -1
                at = (t[i] + (k - i) * 1_000_000 // (j - i)) / _SECOND
                above = _ENTRY
                if facts.places[place[k]] == _OWN:
                    above = _SAME_STRAY if led >= 0 and parent[led] == parent[k] else _STRAY
                    led = k
                    for n in range(different):
                        if pages[n] == parent[k]:
                            above = n
                            break
                else:
                    led = -1
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
        if size >= LEAST and count < MOST_SESSIONS:
            _put_features(size, times, numbers, parents, different, others, features[found])
            sessions[found][0], sessions[found][1] = s, size
            found += 1
    return found


def sessions_of(rows: Any, bounds: Any, pages: Ints, facts: Any, *, compiled: bool) -> tuple[Ints, Floats]:
    """The long sessions of sources, which have so many *pages*: place of the source and steps, and the features."""
    most = int(np.minimum(-(-pages // LONG), MOST_SESSIONS).sum())
    sessions, features = np.zeros((most, 2), np.int64), np.zeros((most, WIDTH))
    find = _find_sessions.compiled if compiled else _find_sessions
    count = find(rows, bounds, facts, sessions, features)
    return sessions[:count].copy(), features[:count].copy()

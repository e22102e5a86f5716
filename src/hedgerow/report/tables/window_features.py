"""
Window features: the features of the sliding windows of 27 to 40 page visits of each source.

The same numbers as `watch.sessions.window.Window.features` gives, for all sources of a log at once, whenever the watch
would have judged: at 27 visits, and again when 27 others have come. Of each source the first windows count
(`MOST_WINDOWS`).

A log has no cookies and no addresses but the source's own. What user agents declare is not known yet when rows are
counted: of each window the most frequent one is kept (`WHO`), and how many visits it made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.report.tables.jit import Kernel
from hedgerow.report.tables.path_features import CLOSELY, Floats, Ints
from hedgerow.report.tables.url_features import PAGE
from hedgerow.watch.sessions.window import MAX_WINDOW as MOST
from hedgerow.watch.sessions.window import MIN_WINDOW as LEAST
from hedgerow.watch.sessions.window import SESSION_GAP
from hedgerow.watch.sessions.window import WINDOW_FEATURES as NAMES

MOST_WINDOWS = 8
"""Windows of one source that are looked at."""

WIDTH = len(NAMES)
WHO = 3
"""Of each window: the place of its source, the most frequent user agent (0: none), and how many visits it made."""

_SECOND = 1e6
_OWN = 1
_ABSENT, _REFERRED_ELSEWHERE, _REFERRED_HERE = 0, 1, 2


@Kernel
def _root(roots: Any, one: int) -> int:
    while roots[one] != one:
        one = roots[one]
    return one


@Kernel
def _place(names: Any, count: int, name: Any) -> int:
    for k in range(count):
        if names[k] == name:
            return k
    return -1


@Kernel
def _changes_trees(page: Any, parent: Any, row: Any, referred: Any, size: int) -> bool:
    """What `watch.sessions.window.changes_trees` says of the first *size* visits and the next one."""
    names = np.empty(2 * MOST, np.uint64)
    roots = np.empty(2 * MOST, np.int64)
    count = 0
    for k in range(size):
        here = _place(names, count, page[row[k]])
        if here < 0:
            names[count] = page[row[k]]
            roots[count] = here = count
            count += 1
        if referred[k] == _REFERRED_HERE:
            above = _place(names, count, parent[row[k]])
            if above < 0:
                names[count] = parent[row[k]]
                roots[count] = above = count
                count += 1
            roots[_root(roots, here)] = _root(roots, above)
    here = _place(names, count, page[row[size]])
    if referred[size] != _REFERRED_HERE:
        return here < 0
    above = _place(names, count, parent[row[size]])
    if here < 0 or above < 0:
        return here < 0 and above < 0
    return _root(roots, here) != _root(roots, above)


@Kernel
def _most_frequent(size: int, agents: Any) -> Any:
    """The most frequent user agent, of equals the one that came first, and its visits."""
    best = most = 0
    for k in range(size):
        count = 0
        for n in range(size):
            count += agents[n] == agents[k]
        if count > most:
            most = count
            best = agents[k]
    return best, most


@Kernel
def _sessions(size: int, gaps: Any, agents: Any) -> Any:
    """How many sessions there are, and the most visits of one: a user agent's, which a long silence ends."""
    total = 0.0
    for k in range(1, size):
        total += gaps[k]
    ends = total >= SESSION_GAP
    number = np.zeros(MOST, np.int64)
    visits = np.zeros(MOST, np.int64)
    latest = np.zeros(MOST, np.float64)
    count = 0
    at = 0.0
    for k in range(size):
        at += gaps[k] if k else 0.0
        mine = -1
        # The newest session of the same user agent.
        for n in range(count - 1, -1, -1):
            if number[n] == agents[k]:
                mine = n
                break
        if mine < 0 or (ends and at - latest[mine] >= SESSION_GAP):
            mine = count
            number[mine] = agents[k]
            count += 1
        visits[mine] += 1
        latest[mine] = at
    return count, visits.max()


@Kernel
def _put_features(size: int, gaps: Any, referred: Any, agents: Any, hidden: bool, out: Any) -> None:
    count = max(size - 1, 1)
    between = np.zeros(count, np.float64)
    total = 0.0
    for k in range(1, size):
        between[k - 1] = gaps[k]
        total += gaps[k]
    mean = total / count
    square = 0.0
    for k in range(count):
        square += (between[k] - mean) * (between[k] - mean)
    between.sort()
    half = count // 2
    out[0] = size
    out[1] = 1.0
    out[5], out[7] = _sessions(size, gaps, agents)
    out[8] = between[count - 1]
    out[9] = between[half] if count % 2 else (between[half - 1] + between[half]) / 2
    out[10] = square / count
    for k in range(size):
        out[11 + referred[k]] += 1.0 / size
        if agents[k] == 0 and not hidden:
            out[14] += 1.0 / size


@Kernel
def _find_windows(rows: Any, bounds: Any, visits: Any, facts: Any, who: Any, features: Any) -> None:
    """
    The windows of the sources whose rows lie between *bounds*; of each source at most `CLOSELY` rows, among which are
    so many page *visits*.

    *who* gets what `WHO` says, *features* the features.
    """
    t, page, parent, place, agent, kind = (
        rows["t"],
        rows["page"],
        rows["parent"],
        rows["place"],
        rows["agent"],
        rows["kind"],
    )
    found = 0
    # Of each visit of the window: the row, the seconds before it, its user agent, and what its referrer is.
    row = np.zeros(MOST + 1, np.int64)
    gaps = np.zeros(MOST + 1, np.float64)
    agents = np.zeros(MOST + 1, np.int64)
    referred = np.zeros(MOST + 1, np.int64)
    for s in range(len(bounds) - 1):
        if visits[s] < LEAST:
            continue
        end = min(bounds[s + 1], bounds[s] + CLOSELY)
        size = fresh = windows = 0
        total = latest = 0.0
        i = bounds[s]
        while i < end and windows < MOST_WINDOWS:
            # Visits of one second are spread evenly over it, in their order.
            j = i + 1
            while j < end and t[j] == t[i] and not facts.exact:
                j += 1
            for k in range(i, j):
                if kind[k] != PAGE or windows == MOST_WINDOWS:
                    continue
                at = (t[i] + (k - i) * 1_000_000 // (j - i)) / _SECOND
                gap = max(at - latest, 0.0) if size else 0.0
                row[size] = k
                agents[size] = 0 if facts.hidden else agent[k]
                led = facts.places[place[k]] == _OWN
                referred[size] = _REFERRED_HERE if led else _REFERRED_ELSEWHERE if place[k] else _ABSENT
                # As the watch keeps it: in single precision.
                gaps[size] = np.float32(gap)
                if size >= LEAST:
                    joins = False
                    if size < MOST:
                        joins = gap < SESSION_GAP and agents[size - 1] == agents[size]
                        soon = gap < total / (size - 1)
                        if joins != soon:
                            joins = not _changes_trees(page, parent, row, referred, size)
                    if not joins:
                        for n in range(size):
                            row[n], gaps[n] = row[n + 1], gaps[n + 1]
                            agents[n], referred[n] = agents[n + 1], referred[n + 1]
                        size -= 1
                        total -= gaps[0]
                if size:
                    total += gaps[size]
                    latest = max(at, latest)
                else:
                    latest = at
                size += 1
                fresh += 1
                if fresh == LEAST:
                    _put_features(size, gaps, referred, agents, facts.hidden, features[found])
                    best, most = _most_frequent(size, agents)
                    who[found][0], who[found][1], who[found][2] = s, best, most
                    found += 1
                    windows += 1
                    fresh = 0
            i = j


def windows_of(rows: Any, bounds: Any, pages: Ints, facts: Any, *, compiled: bool) -> tuple[Ints, Floats]:
    """The windows of sources, which have so many *pages*: what `WHO` says, and the features."""
    most = int(np.minimum(pages // LEAST, MOST_WINDOWS).sum())
    who, features = np.zeros((most, WHO), np.int64), np.zeros((most, WIDTH))
    if most:
        find = _find_windows.compiled if compiled else _find_windows
        find(rows, bounds, pages, facts, who, features)
    return who, features

"""
Windowing: the windows of 27 to 40 page visits that sources look out of, as their features. Compiled by numba.

The same numbers as `sessions.window.Window.features` gives, for all sources of a log at once, whenever the watch would
have judged: at 27 visits, and again when 27 others have come. Of each source the first windows count (`MOST_WINDOWS`).

A log tells no cookies and no addresses but the source's own. What user agents declare is not known yet when rows are
counted: of each window the most frequent one is told (`WHO`), and its part of the visits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.report.tables.jit import compiled
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


@compiled
def _root(roots: Any, one: int) -> int:
    while roots[one] != one:
        one = roots[one]
    return one


@compiled
def _place(names: Any, count: int, name: Any) -> int:
    for k in range(count):
        if names[k] == name:
            return k
    return -1


@compiled
def _changes_trees(size: int, pages: Any, parents: Any, has: Any, page: Any, parent: Any, led: bool) -> bool:
    """What `sessions.window.changes_trees` says of the visits so far and the next one."""
    names = np.empty(2 * MOST, np.uint64)
    roots = np.empty(2 * MOST, np.int64)
    count = 0
    for k in range(size):
        here = _place(names, count, pages[k])
        if here < 0:
            names[count] = pages[k]
            roots[count] = here = count
            count += 1
        if has[k]:
            above = _place(names, count, parents[k])
            if above < 0:
                names[count] = parents[k]
                roots[count] = above = count
                count += 1
            roots[_root(roots, here)] = _root(roots, above)
    here = _place(names, count, page)
    if not led:
        return here < 0
    above = _place(names, count, parent)
    if here < 0 or above < 0:
        return here < 0 and above < 0
    return _root(roots, here) != _root(roots, above)


@compiled
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


@compiled
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


@compiled
def _features(size: int, gaps: Any, referred: Any, agents: Any, hidden: bool, out: Any) -> None:
    count = max(size - 1, 1)
    between = np.zeros(count, np.float64)
    for k in range(1, size):
        between[k - 1] = gaps[k]
    mean = between.sum() / count
    square = 0.0
    for k in range(count):
        square += (between[k] - mean) ** 2
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


@compiled
def slide(
    bounds: Any, visits: Any, close: int, exact: bool, hidden: bool, t: Any, page: Any, parent: Any, place: Any,
    agent: Any, kind: Any, places: Any, who: Any, features: Any,
) -> int:  # fmt: skip
    """
    The windows of the sources whose rows lie between *bounds*; of each source at most *close* rows, among which are so
    many page *visits*.

    *hidden* says that user agents are. *who* gets what `WHO` says, *features* the features; gives how many there are.
    """
    found = 0
    gaps = np.zeros(MOST + 1, np.float32)
    pages = np.zeros(MOST + 1, np.uint64)
    parents = np.zeros(MOST + 1, np.uint64)
    has = np.zeros(MOST + 1, np.bool_)
    referred = np.zeros(MOST + 1, np.int64)
    agents = np.zeros(MOST + 1, np.int64)
    for s in range(len(bounds) - 1):
        if visits[s] < LEAST:
            continue
        start = bounds[s]
        end = min(bounds[s + 1], start + close)
        size = fresh = windows = 0
        total = latest = 0.0
        i = start
        while i < end and windows < MOST_WINDOWS:
            # Visits of one second are spread evenly over it, in their order.
            j = i + 1
            if not exact:
                while j < end and t[j] == t[i]:
                    j += 1
            for k in range(i, j):
                if kind[k] != PAGE or windows == MOST_WINDOWS:
                    continue
                at = (t[i] + (k - i) * 1_000_000 // (j - i)) / _SECOND
                gap = max(at - latest, 0.0) if size else 0.0
                led = places[place[k]] == _OWN
                name = 0 if hidden else np.int64(agent[k])
                if size >= LEAST:
                    joins = False
                    if size < MOST:
                        same = gap < SESSION_GAP and agents[size - 1] == name
                        soon = gap < total / (size - 1)
                        joins = same
                        if same != soon:
                            joins = not _changes_trees(size, pages, parents, has, page[k], parent[k], led)
                    if not joins:
                        for n in range(1, size):
                            gaps[n - 1] = gaps[n]
                            pages[n - 1] = pages[n]
                            parents[n - 1] = parents[n]
                            has[n - 1] = has[n]
                            referred[n - 1] = referred[n]
                            agents[n - 1] = agents[n]
                        size -= 1
                        total -= np.float64(gaps[0])
                gaps[size] = np.float32(gap)
                pages[size] = page[k]
                parents[size] = parent[k]
                has[size] = led
                referred[size] = _REFERRED_HERE if led else _REFERRED_ELSEWHERE if place[k] else _ABSENT
                agents[size] = name
                if size:
                    total += np.float64(gaps[size])
                    latest = max(at, latest)
                else:
                    latest = at
                size += 1
                fresh += 1
                if fresh == LEAST:
                    _features(size, gaps, referred, agents, hidden, features[found])
                    who[found, 0] = s
                    who[found, 1], who[found, 2] = _most_frequent(size, agents)
                    found += 1
                    windows += 1
                    fresh = 0
            i = j
    return found

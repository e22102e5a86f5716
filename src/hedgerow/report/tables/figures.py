"""
Counting: what each source did, from its rows in the order of time. Compiled by numba; one row of figures a source.

A source with very many rows is looked at closely only as far as `CLOSELY`: how often it comes back to a page, in which
order it takes them, how dense it gets. Everything that is a plain count is of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from threading import local
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.rate_limit import PEAK_SECONDS
from hedgerow.report.tables import window_features as windowing
from hedgerow.report.tables.jit import M1, compiled, lean
from hedgerow.report.tables.path_features import MOST_SESSIONS, WIDTH, step
from hedgerow.report.tables.row_builder import COLUMNS, Rows
from hedgerow.report.tables.url_features import ASSET, HEAD, OLD_HTTP, PAGE, PARAMETERS, REFERRED, ROBOTS
from hedgerow.watch.sessions.path import LONG
from hedgerow.watch.sessions.window import LEAST

CLOSELY = 1 << 20
"""Rows of one source that are looked at closely."""

SPANS = PEAK_SECONDS
"""Seconds in which the most page visits are counted; those of `windows.proposal`."""

COUNTS = (
    "requests", "pages", "calls", "assets", "errors", "heads", "robots", "parameters", "unreferred", "listed",
    "own", "foreign", "old_http", "brought",
)  # fmt: skip
"""
Plain counts: requests by kind; answers from 400 on; requests for headers only, for robots.txt, for pages with a query;
page visits without a referrer, from a listing, from a page of the site, from another site; in HTTP/1.0; assets that
name a page of the site as their referrer, as a browser's do.
"""
CLOSE = (
    "closely", "close_pages", "different", "agents", "agent", "agent_requests", "profiles", "rising", "falling", "days",
    "busiest", "peak_0", "peak_1", "peak_2", "peak_3", "seconds", "tens", "minutes", "human_like",
)  # fmt: skip
"""
What is looked at closely: rows and page visits looked at; different pages; user agents, the most frequent and its
requests; visits to pages of a large group; of those that follow another page of the group, how many come after it in
the alphabet and how many before it; days with requests and the most on one; the most page visits in each of `SPANS`;
in how many different seconds, tens of seconds and minutes it sent something; requests in sittings that look like a
person's: with half an hour of silence before and after, `SITTING` requests or more, of them `SITTING_ASSETS` for assets
and one for a page, and `SITTING_REFERRED` of ten with a referrer.
"""
SITTING, SITTING_ASSETS, SITTING_REFERRED = 3, 2, 3
FIGURES = COUNTS + CLOSE
_COUNTS, _CLOSE = len(COUNTS), len(CLOSE)
_DAY = 86_400_000_000
_SECOND = 1_000_000
_SITTING_GAP = 1800 * _SECOND
_TENTHS = 10
_ERRORS_FROM = 400
_SPANS = np.array([round(span * _SECOND) for span in SPANS], np.int64)

OWN, FOREIGN = 1, 2


@lean
def _count_plainly(
    start: int, end: int, kind: Any, flags: Any, status: Any, place: Any, lead: Any, places: Any, listing: Any, out: Any
) -> None:
    for i in range(start, end):
        out[0] += 1
        out[1 + min(kind[i], 2)] += 1
        if status[i] >= _ERRORS_FROM:
            out[4] += 1
        flag = flags[i]
        if flag & HEAD:
            out[5] += 1
        if flag & ROBOTS:
            out[6] += 1
        if flag & OLD_HTTP:
            out[12] += 1
        if flag & REFERRED and kind[i] == ASSET and places[place[i]] == OWN:
            out[13] += 1
        if kind[i] != PAGE:
            continue
        if flag & PARAMETERS:
            out[7] += 1
        if not flag & REFERRED:
            out[8] += 1
        elif places[place[i]] == OWN:
            out[10] += 1
            if listing[lead[i]]:
                out[9] += 1
        else:
            out[11] += 1


@compiled
def _spread(times: Any, start: int, end: int) -> Any:
    """The times of some rows; those of one whole second are spread evenly over it, in their order."""
    spread = np.empty(end - start, np.int64)
    i = start
    while i < end:
        j = i + 1
        while j < end and times[j] == times[i]:
            j += 1
        for k in range(i, j):
            spread[k - start] = times[i] + (k - i) * _SECOND // (j - i)
        i = j
    return spread


@lean
def _human_like(start: int, end: int, t: Any, kind: Any, flags: Any) -> Any:
    """How many of some rows are in sittings that look like a person's."""
    begin = start
    found = assets = pages = referred = 0
    for i in range(start, end):
        assets += kind[i] == ASSET
        pages += kind[i] == PAGE
        referred += flags[i] & REFERRED != 0
        if i + 1 == end or t[i + 1] - t[i] > _SITTING_GAP:
            size = i + 1 - begin
            if (
                size >= SITTING and assets >= SITTING_ASSETS and pages > 0
                and _TENTHS * referred >= SITTING_REFERRED * size
            ):  # fmt: skip
                found += size
            begin = i + 1
            assets = pages = referred = 0
    return found


@compiled
def _count_closely(
    start: int, end: int, exact: bool, t: Any, page: Any, order: Any, shape: Any, agent: Any, kind: Any,
    profile: Any, seen: Any, stamps: Any, per_agent: Any, out: Any,
) -> None:  # fmt: skip
    """The figures of `CLOSE` for the rows of one source; *seen*, *stamps* and *per_agent* are room to work in."""
    n = end - start
    size = 64
    while size < 2 * n:
        size *= 2
    mask = np.uint64(size - 1)
    stamp = stamps[0] + 1
    stamps[0] = stamp
    times = t[start:end] if exact else _spread(t, start, end)
    recent = np.empty(n, np.int64)
    tails = np.zeros(len(_SPANS), np.int64)
    pages = different = agents = profiles = rising = falling = days = busiest = on_day = 0
    top_agent = top_count = 0
    last_day = np.int64(-(1 << 62))
    last_second = np.int64(-(1 << 60))
    last_shape = np.uint32(0)
    last_order = np.uint64(0)
    for k in range(n):
        i = start + k
        second = t[i] // _SECOND
        if second != last_second:
            out[15] += 1
            out[16] += second // 10 != last_second // 10
            out[17] += second // 60 != last_second // 60
            last_second = second
        day = t[i] // _DAY
        if day != last_day:
            days += 1
            on_day = 0
            last_day = day
        on_day += 1
        busiest = max(busiest, on_day)
        a = agent[i]
        if per_agent[a, 0] != stamp:
            per_agent[a, 0] = stamp
            per_agent[a, 1] = 0
            agents += 1
        per_agent[a, 1] += 1
        if per_agent[a, 1] > top_count:
            top_count = per_agent[a, 1]
            top_agent = a
        if kind[i] != PAGE:
            continue
        recent[pages] = times[k]
        pages += 1
        for s in range(len(_SPANS)):
            while times[k] - recent[tails[s]] >= _SPANS[s]:
                tails[s] += 1
            out[11 + s] = max(out[11 + s], pages - tails[s])
        place = page[i] * M1 >> np.uint64(20) & mask
        while stamps[1 + np.int64(place)] == stamp and seen[place] != page[i]:
            place = (place + np.uint64(1)) & mask
        if stamps[1 + np.int64(place)] != stamp:
            stamps[1 + np.int64(place)] = stamp
            seen[place] = page[i]
            different += 1
        if profile[shape[i]]:
            profiles += 1
            if last_shape == shape[i]:
                if order[i] > last_order:
                    rising += 1
                elif order[i] < last_order:
                    falling += 1
            last_shape = shape[i]
            last_order = order[i]
    out[0] = n
    out[1] = pages
    out[2] = different
    out[3] = agents
    out[4] = top_agent
    out[5] = top_count
    out[6] = profiles
    out[7] = rising
    out[8] = falling
    out[9] = days
    out[10] = busiest


@compiled
def _count(
    bounds: Any, exact: bool, t: Any, page: Any, order: Any, shape: Any, lead: Any, place: Any, agent: Any, status: Any,
    kind: Any, flags: Any, places: Any, listing: Any, profile: Any, seen: Any, stamps: Any, per_agent: Any,
) -> Any:  # fmt: skip
    n = len(bounds) - 1
    out = np.zeros((n, _COUNTS + _CLOSE), np.int64)
    for k in range(n):
        start, end = bounds[k], bounds[k + 1]
        _count_plainly(start, end, kind, flags, status, place, lead, places, listing, out[k])
        close = min(end, start + CLOSELY)
        _count_closely(
            start, close, exact, t, page, order, shape, agent, kind, profile, seen, stamps, per_agent, out[k, _COUNTS:]
        )
        out[k, _COUNTS + _CLOSE - 1] = _human_like(start, close, t, kind, flags)
    return out


class Figures:
    """
    The figures of sources: *sources* (rising, where they are all of a log), *first*, *last*, *values* (`FIGURES`).

    *sessions* are their long sessions: the place of the source, and the steps; *paths* their features (`stepping`).
    *who* and *windows* are their windows likewise (`windowing`).
    """

    def __init__(
        self,
        sources: NDArray[np.uint64],
        first: NDArray[np.int64],
        last: NDArray[np.int64],
        values: NDArray[np.int64],
        sessions: NDArray[np.int64],
        paths: NDArray[np.float64],
        who: NDArray[np.int64],
        windows: NDArray[np.float64],
    ) -> None:
        self.sources = sources
        self.first = first
        self.last = last
        self.values = values
        self.sessions = sessions
        self.paths = paths
        self.who = who
        self.windows = windows

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        return self.values[:, FIGURES.index(name)]


class Kinds(NamedTuple):
    """
    What the numbers in rows stand for, as far as counting asks.

    *exact* says that times have fractions of seconds. *agents* is how many user agents there are. *places* tells by its
    number which referring host is the site's own, *listing* which shape of page is a listing, *profile* which is a
    large group. *hidden* says that user agents tell no sessions apart.
    """

    exact: bool
    agents: int
    places: NDArray[np.uint8]
    listing: NDArray[np.bool_]
    profile: NDArray[np.bool_]
    hidden: bool = False


class _Desk(NamedTuple):
    """Room to count in, whatever was counted there before: pages, stamps of who was there last, user agents."""

    seen: NDArray[np.uint64]
    stamps: NDArray[np.int64]
    per_agent: NDArray[np.int64]


_DESKS = local()


def _desk(agents: int) -> _Desk:
    """The desk of this thread, with room for so many user agents; to clear a new one takes longer than most parts."""
    desk: _Desk | None = getattr(_DESKS, "own", None)
    if desk is None or len(desk.per_agent) < agents:
        desk = _DESKS.own = _Desk(
            np.zeros(2 * CLOSELY, np.uint64), np.zeros(2 * CLOSELY + 1, np.int64), np.zeros((agents, 2), np.int64)
        )
    return desk


def count(pieces: Iterable[Rows], kinds: Kinds) -> Figures:
    """The figures of every source in *pieces*, in which those of a source come together and by time; in that order."""
    exact, places = kinds.exact, kinds.places
    desk = _desk(kinds.agents)
    sessions: list[NDArray[np.int64]] = []
    paths: list[NDArray[np.float64]] = []
    who: list[NDArray[np.int64]] = []
    windows: list[NDArray[np.float64]] = []
    before = 0
    found: list[tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
    going_on: np.uint64 | None = None
    for rows in _whole_sources(pieces):
        source = rows["source"]
        cuts = np.flatnonzero(np.diff(source)) + 1
        bounds = np.concatenate(([0], cuts, [len(source)])).astype(np.int64)
        columns = [rows[name] for name in COLUMNS if name not in {"source", "parent"}]
        values: Any = _count(
            bounds,
            exact,
            *columns,
            places,
            kinds.listing,
            kinds.profile,
            *desk,  # type: ignore[call-arg]
        )
        steps, features = _steps(bounds, exact, rows, values, places)
        whose, seen_through = _windows(bounds, kinds, rows, values)
        sources, first, last = source[bounds[:-1]], rows["t"][bounds[:-1]], rows["t"][bounds[1:] - 1]
        if going_on is not None and going_on == sources[0]:
            # More of a source that is too large for one piece: only what is a plain count, and its end.
            found[-1][3][-1, :_COUNTS] += values[0, :_COUNTS]
            found[-1][2][-1] = last[0]
            sources, first, last, values = sources[1:], first[1:], last[1:], values[1:]
            steps, features = steps[steps[:, 0] > 0], features[steps[:, 0] > 0]
            whose, seen_through = whose[whose[:, 0] > 0], seen_through[whose[:, 0] > 0]
            steps[:, 0] -= 1
            whose[:, 0] -= 1
        steps[:, 0] += before
        whose[:, 0] += before
        before += len(sources)
        sessions.append(steps)
        paths.append(features)
        who.append(whose)
        windows.append(seen_through)
        if len(sources):
            found.append((sources, first, last, values))
        going_on = source[-1]
    if not found:
        none = np.zeros(0, np.int64)
        values = np.zeros((0, len(FIGURES)), np.int64)
        return Figures(
            none.astype(np.uint64), none, none, values, np.zeros((0, 2), np.int64), np.zeros((0, WIDTH)),
            np.zeros((0, windowing.WHO), np.int64), np.zeros((0, windowing.WIDTH)),
        )  # fmt: skip
    joined: tuple[Any, ...] = tuple(np.concatenate(parts) for parts in zip(*found, strict=True))
    sources, first, last, values = joined
    return Figures(
        sources, first, last, values, np.concatenate(sessions), np.concatenate(paths), np.concatenate(who),
        np.concatenate(windows),
    )  # fmt: skip


def together(parts: Sequence[Figures]) -> Figures:
    """The figures of *parts* that share no source, by the number of the source; its sessions with it."""
    before = np.cumsum([0, *(len(part.sources) for part in parts)])
    sources, first, last, values, paths, windows = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("sources", "first", "last", "values", "paths", "windows")
    )
    order = np.argsort(sources, kind="stable")
    place = np.argsort(order, kind="stable")
    steps, step_order = _placed([part.sessions for part in parts], before, place)
    who, who_order = _placed([part.who for part in parts], before, place)
    return Figures(
        sources[order], first[order], last[order], values[order], steps, paths[step_order], who, windows[who_order]
    )


def _placed(
    parts: Sequence[NDArray[np.int64]], before: NDArray[np.int64], place: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that name a source of their part first, by the places of all sources; and in which order they come now."""
    rows = np.concatenate(parts)
    rows[:, 0] = place[rows[:, 0] + np.repeat(before[:-1], [len(part) for part in parts])]
    order = np.argsort(rows[:, 0], kind="stable")
    return rows[order], order


def _steps(
    bounds: NDArray[np.int64], exact: bool, rows: Rows, values: NDArray[np.int64], places: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The long sessions of the sources in *rows*."""
    pages = values[:, FIGURES.index("close_pages")]
    most = int(np.minimum(-(-pages // LONG), MOST_SESSIONS).sum())
    steps, features = np.zeros((most, 2), np.int64), np.zeros((most, WIDTH))
    count = step(
        bounds, CLOSELY, exact, rows["t"], rows["page"], rows["parent"], rows["place"], rows["kind"], places, steps,
        features,
    )  # fmt: skip
    return steps[:count].copy(), features[:count].copy()


def _windows(
    bounds: NDArray[np.int64], kinds: Kinds, rows: Rows, values: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The windows of the sources in *rows*."""
    pages = values[:, FIGURES.index("close_pages")]
    most = int(np.minimum(pages // LEAST, windowing.MOST_WINDOWS).sum())
    who, features = np.zeros((most, windowing.WHO), np.int64), np.zeros((most, windowing.WIDTH))
    if most:
        windowing.slide(
            bounds, pages, CLOSELY, kinds.exact, kinds.hidden, rows["t"], rows["page"], rows["parent"], rows["place"],
            rows["agent"], rows["kind"], kinds.places, who, features,
        )  # fmt: skip
    return who, features


def _whole_sources(pieces: Iterable[Rows]) -> Iterator[Rows]:
    """The same rows, cut where a source ends, unless it is longer than what is looked at closely anyway."""
    kept: list[Rows] = []
    size = 0
    for rows in pieces:
        source = rows["source"]
        if kept and kept[-1]["source"][-1] != source[0]:
            yield _joined(kept)
            kept, size = [], 0
        # Where the last source of the piece begins: sorted within a piece.
        last = int(np.searchsorted(source, source[-1]))
        if last == 0 and size + len(source) <= 2 * CLOSELY:
            kept.append(rows)
            size += len(source)
            continue
        yield _joined([*kept, {name: column[: last or len(source)] for name, column in rows.items()}])
        kept, size = [], 0
        if last:
            kept = [{name: column[last:] for name, column in rows.items()}]
            size = len(source) - last
    if kept:
        yield _joined(kept)


def _joined(parts: list[Rows]) -> Rows:
    joined = (
        parts[0] if len(parts) == 1 else {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    )
    # One type of array, wherever it comes from: or numba compiles it all once more.
    for column in joined.values():
        column.flags.writeable = False
    return joined

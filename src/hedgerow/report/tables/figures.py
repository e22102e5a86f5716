"""
Figures: what each source did, counted from its rows in the order of time; one row of figures for each source.

Of a source with very many rows only the first `CLOSELY` are examined in detail: how often it returns to a page, in
which order it takes pages, how fast it becomes. Plain counts include all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.core.rate_limit import PEAK_SECONDS
from hedgerow.report.tables import path_features, window_features
from hedgerow.report.tables.jit import Kernel
from hedgerow.report.tables.path_features import CLOSELY, Floats, Ints
from hedgerow.report.tables.rows import COLUMNS, Rows, join
from hedgerow.report.tables.topics import API, BROWSER, DOWNLOAD, FEED, LOGIN, PROBE, SENT, TOPIC_SHIFT
from hedgerow.report.tables.url_features import ASSET, HEAD, OLD_HTTP, PAGE, PARAMETERS, REFERRED, ROBOTS

SPANS = PEAK_SECONDS
"""Seconds in which the most page visits are counted; those of the rate limits that a report proposes."""

COUNTS = (
    "requests", "pages", "calls", "assets", "errors", "heads", "robots", "parameters", "unreferred", "listed",
    "own", "foreign", "old_http", "brought", "led", "asked", "faults", "icons", "logins", "feeds", "probes",
    "downloads", "sent",
)  # fmt: skip
"""
Plain counts: requests by kind; responses from 400 on; requests for headers only, for robots.txt, for pages with a
query; page visits without a referrer, from a listing, from a page of the site, from another site; in HTTP/1.0; assets
that name a page of the site as their referrer, as a browser's do; assets and calls that name any referrer; what the
visitor itself asked for, which is pages and calls without a referrer (a page's scripts have one) but for icons, and how
many of these were errors; then by topic (`topics`): icons and the like, log-ins, feeds, probes without a referrer
that were answered by an error, downloads, and whatever else was sent.
"""
CLOSE = (
    "closely", "close_pages", "different", "agents", "agent", "agent_requests", "profiles", "rising", "falling", "days",
    "busiest", "peak_0", "peak_1", "peak_2", "peak_3", "seconds", "tens", "minutes", "human_like", "announced",
    "hearsay", "rapid", "lone",
)  # fmt: skip
"""
What is looked at closely: rows and page visits looked at; different pages; user agents, the most frequent and its
requests; visits to pages of a large group; of those that follow another page of the group, how many come after it in
the alphabet and how many before it; days with requests and the most on one; the most page visits in each of `SPANS`;
in how many different seconds, tens of seconds and minutes it sent something; requests in sittings that look like a
person's: with half an hour of silence before and after, `SITTING` requests or more, of them `SITTING_ASSETS` for assets
and one for a page, and `SITTING_REFERRED` of ten with a referrer; page visits within ten seconds of a request for
robots.txt; page visits that name a page of the site as their referrer which the source never asked for before, or which
is the same page at the beginning of a sitting; visits to a page that is new to the source, at most a second after the
last page; page visits with no other in half an hour before and after.
"""
SITTING, SITTING_ASSETS, SITTING_REFERRED = 3, 2, 3
FIGURES = COUNTS + CLOSE
OWN, FOREIGN = 1, 2
"""What a referring host is to the site."""

_COUNTS = len(COUNTS)
(
    _REQUESTS, _PAGES, _CALLS, _ASSETS, _ERRORS, _HEADS, _ROBOTS, _PARAMETERS, _UNREFERRED, _LISTED, _OWN, _FOREIGN,
    _OLD_HTTP, _BROUGHT, _LED, _ASKED, _FAULTS, _ICONS, _LOGINS, _FEEDS, _PROBES, _DOWNLOADS, _SENT, _CLOSE_ROWS,
    _CLOSE_PAGES, _DIFFERENT, _AGENTS, _AGENT, _AGENT_REQUESTS, _PROFILES, _RISING, _FALLING,
    _DAYS, _BUSIEST, _PEAK, _, _, _, _SECONDS, _TENS, _MINUTES, _HUMAN_LIKE, _ANNOUNCED, _HEARSAY, _RAPID,
    _LONE,
) = range(len(FIGURES))  # fmt: skip
_BY_TOPIC = np.zeros(8, np.int64)
_BY_TOPIC[[BROWSER, LOGIN, FEED, PROBE, DOWNLOAD, SENT]] = _ICONS, _LOGINS, _FEEDS, _PROBES, _DOWNLOADS, _SENT
_DAY = 86_400_000_000
_SECOND = 1_000_000
_SITTING_GAP = 1800 * _SECOND
_SOON = 10 * _SECOND
_ERRORS_FROM = 400
_LEAST_SLOTS = 64
_SPANS = np.array([round(span * _SECOND) for span in SPANS])


class SiteFacts(NamedTuple):
    """
    The meaning of numbers in rows, as far as counting needs it.

    *exact*: times have fractions of seconds. *agents*: number of user agents. *places*: whether a referring host is the
    site's own, by its number. *listing*, *profile*: whether a shape of page is a listing or a large group, by its
    number. *hidden*: user agents do not separate sessions.
    """

    exact: bool
    agents: int
    places: NDArray[np.uint8]
    listing: NDArray[np.bool_]
    profile: NDArray[np.bool_]
    hidden: bool = False


class _Scratch(NamedTuple):
    """
    The state of a source while it is counted: a hash table of its pages, and how often it used each user agent.

    An entry belongs to the source whose *stamp* it has, so nothing has to be cleared for the next source.
    """

    pages: Any
    page_stamps: Any
    agent_counts: Any
    agent_stamps: Any


@Kernel
def _count_plainly(rows: Any, start: int, end: int, facts: SiteFacts, out: Any) -> None:
    """Count the figures of `COUNTS` for the rows of one source."""
    kinds, flags, statuses, place, lead = rows["kind"], rows["flags"], rows["status"], rows["place"], rows["lead"]
    for i in range(start, end):
        kind, flag = kinds[i], flags[i]
        topic, failed = flag >> TOPIC_SHIFT, statuses[i] >= _ERRORS_FROM
        out[_REQUESTS] += 1
        out[_PAGES + min(kind, ASSET)] += 1
        if failed:
            out[_ERRORS] += 1
        if topic and topic != API and (topic != PROBE or (failed and not flag & REFERRED)):
            out[_BY_TOPIC[topic]] += 1
        if kind != PAGE and flag & REFERRED:
            out[_LED] += 1
        elif kind < ASSET and topic != BROWSER:
            out[_ASKED] += 1
            if failed:
                out[_FAULTS] += 1
        if flag & HEAD:
            out[_HEADS] += 1
        if flag & ROBOTS:
            out[_ROBOTS] += 1
        if flag & OLD_HTTP:
            out[_OLD_HTTP] += 1
        if flag & REFERRED and kind == ASSET and facts.places[place[i]] == OWN:
            out[_BROUGHT] += 1
        if kind != PAGE:
            continue
        if flag & PARAMETERS:
            out[_PARAMETERS] += 1
        if not flag & REFERRED:
            out[_UNREFERRED] += 1
        elif facts.places[place[i]] == OWN:
            out[_OWN] += 1
            if facts.listing[lead[i]]:
                out[_LISTED] += 1
        else:
            out[_FOREIGN] += 1


@Kernel
def _human_like(rows: Any, start: int, end: int) -> int:
    """Return how many rows are in sessions that look like a person's."""
    t, kind, flags = rows["t"], rows["kind"], rows["flags"]
    begin = start
    found = assets = pages = referred = 0
    for i in range(start, end):
        assets += kind[i] == ASSET
        pages += kind[i] == PAGE
        referred += flags[i] & REFERRED != 0
        if i + 1 == end or t[i + 1] - t[i] > _SITTING_GAP:
            size = i + 1 - begin
            visits = size >= SITTING and assets >= SITTING_ASSETS and pages > 0
            if visits and 10 * referred >= SITTING_REFERRED * size:
                found += size
            begin = i + 1
            assets = pages = referred = 0
    return found


@Kernel
def _count_times(rows: Any, start: int, end: int, out: Any) -> None:
    """Count days, the most requests on one day, and distinct seconds, tens of seconds and minutes."""
    t = rows["t"]
    days = busiest = on_day = 0
    last_day = last_second = -(1 << 60)
    for i in range(start, end):
        second = t[i] // _SECOND
        if second != last_second:
            out[_SECONDS] += 1
            out[_TENS] += second // 10 != last_second // 10
            out[_MINUTES] += second // 60 != last_second // 60
            last_second = second
        day = t[i] // _DAY
        if day != last_day:
            days += 1
            on_day = 0
            last_day = day
        on_day += 1
        busiest = max(busiest, on_day)
    out[_DAYS] = days
    out[_BUSIEST] = busiest


@Kernel
def _count_agents(rows: Any, start: int, end: int, stamp: int, scratch: _Scratch, out: Any) -> None:
    """Count user agents, and the requests of the most frequent one (of equals, the first)."""
    agent, counts, stamps = rows["agent"], scratch.agent_counts, scratch.agent_stamps
    agents = top = most = 0
    for i in range(start, end):
        one = agent[i]
        if stamps[one] != stamp:
            stamps[one] = stamp
            counts[one] = 0
            agents += 1
        counts[one] += 1
        if counts[one] > most:
            most = counts[one]
            top = one
    out[_AGENTS] = agents
    out[_AGENT] = top
    out[_AGENT_REQUESTS] = most


@Kernel
def _count_pages(rows: Any, start: int, end: int, stamp: int, facts: SiteFacts, scratch: _Scratch, out: Any) -> None:
    """Count page visits, distinct pages, the order of pages of large groups, and what browsers hardly do."""
    kind, page, shape, order = rows["kind"], rows["page"], rows["shape"], rows["ord"]
    t, flags, place, parent = rows["t"], rows["flags"], rows["place"], rows["parent"]
    seen, stamps = scratch.pages, scratch.page_stamps
    size = _LEAST_SLOTS
    while size < 2 * (end - start):
        size *= 2
    pages = different = profiles = rising = falling = announced = hearsay = rapid = lone = together = 0
    last = -1
    robots = before = -(1 << 60)
    for i in range(start, end):
        if flags[i] & ROBOTS:
            robots = t[i]
        if kind[i] != PAGE:
            continue
        pages += 1
        if t[i] - before > _SITTING_GAP:
            lone += 1
            together = 1
        else:
            # The page before is not alone, if it was the first one.
            lone -= together
            together = 0
        if t[i] - robots <= _SOON:
            announced += 1
            robots = before
        if flags[i] & REFERRED and facts.places[place[i]] == OWN:
            slot = np.int64(parent[i] & (size - 1))
            while stamps[slot] == stamp and seen[slot] != parent[i]:
                slot = (slot + 1) & (size - 1)
            hearsay += stamps[slot] != stamp or (parent[i] == page[i] and t[i] - before > _SITTING_GAP)
        slot = np.int64(page[i] & (size - 1))
        while stamps[slot] == stamp and seen[slot] != page[i]:
            slot = (slot + 1) & (size - 1)
        if stamps[slot] != stamp:
            stamps[slot] = stamp
            seen[slot] = page[i]
            different += 1
            rapid += t[i] - before <= _SECOND
        before = t[i]
        if facts.profile[shape[i]]:
            profiles += 1
            if last >= 0 and shape[last] == shape[i]:
                rising += order[i] > order[last]
                falling += order[i] < order[last]
            last = i
    out[_CLOSE_PAGES] = pages
    out[_DIFFERENT] = different
    out[_PROFILES] = profiles
    out[_RISING] = rising
    out[_FALLING] = falling
    out[_ANNOUNCED] = announced
    out[_HEARSAY] = hearsay
    out[_RAPID] = rapid
    out[_LONE] = lone


@Kernel
def _count_peaks(rows: Any, start: int, end: int, exact: bool, out: Any) -> None:
    """
    Find the most page visits in each of `SPANS`.

    The requests of one whole second are spread evenly over it, in their order.
    """
    t, kind = rows["t"], rows["kind"]
    recent = np.empty(end - start, np.int64)
    tails = np.zeros(len(_SPANS), np.int64)
    pages = 0
    i = start
    while i < end:
        j = i + 1
        while j < end and t[j] == t[i] and not exact:
            j += 1
        for k in range(i, j):
            if kind[k] != PAGE:
                continue
            at = t[i] + (k - i) * _SECOND // (j - i)
            recent[pages] = at
            pages += 1
            for s in range(len(_SPANS)):
                while at - recent[tails[s]] >= _SPANS[s]:
                    tails[s] += 1
                out[_PEAK + s] = max(out[_PEAK + s], pages - tails[s])
        i = j


@Kernel
def _count(rows: Any, bounds: Any, facts: SiteFacts, scratch: _Scratch, out: Any) -> None:
    """Count the figures of all sources, whose rows are between *bounds*."""
    for k in range(len(bounds) - 1):
        start, end = bounds[k], bounds[k + 1]
        _count_plainly(rows, start, end, facts, out[k])
        end = min(end, start + CLOSELY)
        out[k][_CLOSE_ROWS] = end - start
        out[k][_HUMAN_LIKE] = _human_like(rows, start, end)
        _count_times(rows, start, end, out[k])
        _count_agents(rows, start, end, k + 1, scratch, out[k])
        _count_pages(rows, start, end, k + 1, facts, scratch, out[k])
        _count_peaks(rows, start, end, facts.exact, out[k])


class Figures(msgspec.Struct, frozen=True):
    """
    The figures of sources: *sources* (ascending, if they are all of a log), *first*, *last*, *values* (`FIGURES`).

    *sessions* are their long sessions (place of the source, steps), *paths* the features of these (`path_features`).
    *who* and *windows* are the same for windows (`window_features`).
    """

    sources: NDArray[np.uint64]
    first: Ints
    last: Ints
    values: Ints
    sessions: Ints
    paths: Floats
    who: Ints
    windows: Floats

    def __getitem__(self, name: str) -> Ints:
        return self.values[:, FIGURES.index(name)]


def count(pieces: Iterable[Rows], facts: SiteFacts, *, compiled: bool = True) -> Figures:
    """
    Count the figures of every source in *pieces*. The rows of a source are together and sorted by time.

    *compiled*: use compiled functions, which pays off for very many rows.
    """
    found = [_NOTHING]
    last: np.uint64 | None = None
    for rows in _whole_sources(pieces):
        figures = _figures_of(rows, facts, compiled=compiled)
        if last is not None and last == figures.sources[0]:
            # More of a source that is too large for one piece: only what is a plain count, and its end.
            before = found[-1]
            before.values[-1, :_COUNTS] += figures.values[0, :_COUNTS]
            before.last[-1] = figures.last[0]
            figures = _without_first(figures)
        if len(figures.sources):
            found.append(figures)
        last = rows["source"][-1]
    return _concatenated(found)


def _figures_of(rows: Rows, facts: SiteFacts, *, compiled: bool) -> Figures:
    """Return the figures of the sources in *rows*: all rows of each, or at least those examined in detail."""
    bounds = np.concatenate(([0], np.flatnonzero(np.diff(rows["source"])) + 1, [len(rows)]))
    count, most = len(bounds) - 1, min(int(np.diff(bounds).max()), CLOSELY)
    slots = max(_LEAST_SLOTS, 2 << most.bit_length())
    values: Ints = np.zeros((count, len(FIGURES)), np.int64)
    scratch = _Scratch(
        np.zeros(slots, np.uint64), np.zeros(slots, np.int64), np.zeros(facts.agents, np.int64),
        np.zeros(facts.agents, np.int64),
    )  # fmt: skip
    data: Any = rows
    if compiled:
        _count.compiled(rows, bounds, facts, scratch, values)
    else:
        # Plain Python reads lists faster than arrays.
        data, bounds = {name: rows[name].tolist() for name in COLUMNS}, bounds.tolist()
        places, listing, profile = facts.places.tolist(), facts.listing.tolist(), facts.profile.tolist()
        facts = facts._replace(places=places, listing=listing, profile=profile)
        listed = values.tolist()
        _count(data, bounds, facts, _Scratch(*(column.tolist() for column in scratch)), listed)
        values = np.array(listed)
    pages = values[:, _CLOSE_PAGES]
    sessions, paths = path_features.sessions_of(data, bounds, pages, facts, compiled=compiled)
    who, windows = window_features.windows_of(data, bounds, pages, facts, compiled=compiled)
    first, last = np.array(bounds[:-1]), np.array(bounds[1:]) - 1
    return Figures(rows["source"][first], rows["t"][first], rows["t"][last], values, sessions, paths, who, windows)


_NOTHING = Figures(
    np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, len(FIGURES)), np.int64),
    np.zeros((0, 2), np.int64), np.zeros((0, path_features.WIDTH)), np.zeros((0, window_features.WHO), np.int64),
    np.zeros((0, window_features.WIDTH)),
)  # fmt: skip


def _without_first(figures: Figures) -> Figures:
    """Return *figures* without those of the first source."""
    later, others = figures.sessions[:, 0] > 0, figures.who[:, 0] > 0
    sessions, who = figures.sessions[later], figures.who[others]
    sessions[:, 0] -= 1
    who[:, 0] -= 1
    return Figures(
        figures.sources[1:], figures.first[1:], figures.last[1:], figures.values[1:], sessions, figures.paths[later],
        who, figures.windows[others],
    )  # fmt: skip


def _concatenated(parts: Sequence[Figures]) -> Figures:
    """Concatenate the figures of *parts*. Sessions and windows refer to sources by their place among all."""
    before = np.cumsum([0, *(len(part.sources) for part in parts)])
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in Figures.__struct_fields__}
    for name in ("sessions", "who"):
        columns[name][:, 0] += np.repeat(before[:-1], [len(getattr(part, name)) for part in parts])
    return Figures(**columns)


def join_figures(parts: Sequence[Figures]) -> Figures:
    """Join the figures of *parts* that share no source, sorted by source."""
    found = _concatenated([_NOTHING, *parts])
    order = np.argsort(found.sources, kind="stable")
    place = np.argsort(order, kind="stable")
    found.sessions[:, 0], found.who[:, 0] = place[found.sessions[:, 0]], place[found.who[:, 0]]
    sessions, who = (np.argsort(rows[:, 0], kind="stable") for rows in (found.sessions, found.who))
    return Figures(
        found.sources[order], found.first[order], found.last[order], found.values[order], found.sessions[sessions],
        found.paths[sessions], found.who[who], found.windows[who],
    )  # fmt: skip


def _whole_sources(pieces: Iterable[Rows]) -> Iterator[Rows]:
    """Yield the same rows, cut between sources, unless a source has more rows than are examined in detail anyway."""
    begun: list[Rows] = []
    size = 0
    for rows in pieces:
        if not len(rows):
            continue
        source = rows["source"]
        if begun and begun[-1]["source"][-1] != source[0]:
            yield join(begun)
            begun, size = [], 0
        # Where the last source of the piece begins: sorted within a piece.
        last = int(np.searchsorted(source, source[-1]))
        if last == 0 and size + len(rows) <= 2 * CLOSELY:
            begun.append(rows)
            size += len(rows)
            continue
        yield join([*begun, rows[: last or len(rows)]])
        begun, size = [rows[last:]] if last else [], len(rows) - last if last else 0
    if begun:
        yield join(begun)

"""
The state of one process: dictionaries, within a fixed number of bytes.

Who came last is remembered longest: when the budget is spent the visitor that has been silent for the longest is
forgotten first, and visitors whose visits have left every window are swept out as others come in. Blocks have a budget
of their own, so a flood of new addresses cannot wash a crawler's block away.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from threading import Lock

from hedgerow.core.decision import Block, ScoreUpdate, VisitorScore
from hedgerow.core.rate_limit import (
    PAGES,
    RateLimit,
    add_hit,
    count_hits,
    counted_series,
    drop_hit,
    series_of,
    updated_rate,
)
from hedgerow.core.state import ACCOUNT, CLEARANCE, StateQuery, StateReply, prefix_key
from hedgerow.core.visit import Kind
from hedgerow.policy.score import updated_score
from hedgerow.state.sqlite.journal import Journal

# What a remembered visitor costs in bytes, with some air (`bench/memory.py` measures it): the dictionary's slot and
# order and a lone time, and the key on top; what is added by a list of times; each time in it.
_LONE_COST = 178
_TRAIL_COST = 150
_SERIES_COST = 104
_TIME_COST = 9

_UNCOUNTED: tuple[int, ...] = ()
_STANDING_COST = 700
_TODAY_COST = 250
_ENTRY_COST = 1_000
_MOST_ENTRIES = 8
_SWEPT_AT_ONCE = 2


def _lone_cost(key: str) -> int:
    """What a key with a lone time costs: some 240 bytes for an address, more for an account with a long name."""
    return _LONE_COST + sys.getsizeof(key)


def _of_today(kind: Kind) -> int:
    """A page and a call count as a request of the day; what a page brings along does not."""
    return 1 if kind in {"page", "call"} else 0


class _Trail:
    """The times of one key's visits: a sorted array for each series that has any."""

    __slots__ = ("cost", "series")

    def __init__(self, key: str) -> None:
        self.series: list[array[float] | None] = [None, None, None, None]
        self.cost = _lone_cost(key) + _TRAIL_COST

    def newest(self) -> float:
        return max((hits[-1] for hits in self.series if hits), default=-float("inf"))


def _count(trail: _Trail | float | None, counted: tuple[int, ...], at: float, seconds: float) -> int:
    """How many visits of a trail, in the series *counted*, lie in the *seconds* that end at *at*."""
    if trail is None:
        return 0
    if isinstance(trail, float):
        return PAGES in counted and at - seconds < trail <= at
    total = 0
    for series in counted:
        if hits := trail.series[series]:
            total += count_hits(hits, at, seconds)
    return total


def _count_each(
    trail: _Trail | float | None, spans: Sequence[tuple[tuple[int, ...], float]], at: float
) -> tuple[int, ...]:
    """The same for each of *spans*: series and seconds."""
    if not isinstance(trail, _Trail):
        return tuple([_count(trail, counted, at, seconds) for counted, seconds in spans])
    counts = []
    for counted, seconds in spans:
        total = 0
        for series in counted:
            # As `count_hits`, without a call: most visits are counted here.
            if hits := trail.series[series]:
                newest = len(hits) if hits[-1] <= at else bisect_right(hits, at)
                total += newest - bisect_right(hits, at - seconds)
        counts.append(total)
    return tuple(counts)


class MemoryState:
    """
    Counters and blocks in this process.

    *memory* is the most bytes that counters may take, and *most_blocks* the most blocks kept. A visitor seen once is
    a lone number and costs some 240 bytes with its key; only one that comes again gets a list of times. What changes in
    blocks and standings is noted in *journal*. That somebody was blocked is remembered for *remember* seconds after the
    block's end, of at most *most_blocks*.
    """

    journal: Journal | None = None
    alone = 0

    def __init__(
        self,
        windows: Sequence[RateLimit],
        *,
        memory: int = 300_000_000,
        most_blocks: int = 100_000,
        remember: float = 0.0,
    ) -> None:
        self._lock = Lock()
        self._memory = memory
        self._most_blocks = most_blocks
        self._trails: OrderedDict[str, float | _Trail] = OrderedDict()
        self._blocks: OrderedDict[str, Block] = OrderedDict()
        self._strikes: dict[str, set[str]] = {}
        self._standings: OrderedDict[str, VisitorScore] = OrderedDict()
        self._today: OrderedDict[str, int] = OrderedDict()
        self._entries: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._day = 0
        self._site_rate = (0.0, 0.0)
        self._offences: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._remember = remember
        self.spent = 0
        """Bytes that the counters take now."""
        self.forgotten = 0
        """Visitors forgotten because the budget was spent."""
        self.use(windows)

    def use(self, windows: Sequence[RateLimit]) -> None:
        """Count for these windows from now on: settings were read again. What is remembered stays."""
        with self._lock:
            self._windows = tuple((w.by, counted_series(w.of), w.seconds) for w in windows)
            self._spans = tuple((counted, seconds) for _, counted, seconds in self._windows)
            # What a visitor has whose only visit is the page that it asks for now.
            self._first = tuple(int(PAGES in counted) for counted, _ in self._spans)
            self._by_network = any(w.by == "network" for w in windows)
            self._series = frozenset(s for w in windows for s in counted_series(w.of))
            self._keep = max((w.seconds for w in windows), default=0.0)
            self._most = max((w.count for w in windows), default=0) + 1

    def __len__(self) -> int:
        """How many keys have counters now."""
        return len(self._trails)

    def keep_in(self, journal: Journal) -> None:
        """Note what changes in blocks and standings in *journal*."""
        self.journal = journal

    def use_threads(self, run: object) -> None:
        """Do nothing: no answer takes long."""

    async def disconnect(self) -> None:
        """Do nothing: there is no connection."""

    def close(self) -> None:
        """Do nothing: there is no file."""

    def record_visit(self, query: StateQuery, counted_as: Kind | None = None) -> StateReply:
        with self._lock:
            if counted_as is None:
                return self._reply(query, _of_today(query.kind), 1)
            for key in self._keys(query):
                self._take_back(key, query.at, series_of(counted_as))
            return self._reply(query, _of_today(query.kind) - _of_today(counted_as), 0)

    def _reply(self, query: StateQuery, more: int, visits: int) -> StateReply:
        """Answer, with *more* requests counted for the day, and *visits* for the rate of the site."""
        visitor, prefix = query.visitor, query.prefix
        strikes = 0
        offences: tuple[tuple[str, int], ...] = ()
        score = self._standings.get(visitor) if self._standings else None
        today = self._count_today(query, more) if query.day and query.count else 0
        if self._blocks or self._offences:
            keys = (visitor, prefix_key(prefix), query.network)
            if not self._blocks.keys().isdisjoint(keys) and (block := self._block_of(keys, query.at)) is not None:
                return StateReply(block, _UNCOUNTED)
            if not self._offences.keys().isdisjoint(keys):
                offences = self._offences_of(keys, query.at)
            if visitor != prefix and prefix in self._strikes:
                strikes = self._count_strikes(prefix, query.at)
        counts = self._hit(query) if query.count else _UNCOUNTED
        rate = self._count_site(query.at, visits) if query.site_rate and query.count else 0.0
        return StateReply(None, counts, strikes, score, today, self._entries.get(visitor, ()), offences, rate)

    def _count_site(self, at: float, visits: int) -> float:
        rate, since = self._site_rate
        rate = updated_rate(rate, since, at, visits)
        self._site_rate = (rate, max(since, at))
        return rate

    def _count_today(self, query: StateQuery, more: int) -> int:
        """Count requests of this day; those of the day before are forgotten."""
        if query.day > self._day:
            self._day = query.day
            self._today.clear()
        count = self._today.pop(query.visitor, 0)
        if query.day == self._day:
            count += more
        self._today[query.visitor] = count
        if len(self._today) * _TODAY_COST > self._memory // 4:
            self._today.popitem(last=False)
        return count

    def update_score(self, change: ScoreUpdate) -> None:
        with self._lock:
            if change.entry:
                before = self._entries.get(change.key, ())
                self._entries[change.key] = (*before[1 - _MOST_ENTRIES :], change.entry)
                self._entries.move_to_end(change.key)
                if len(self._entries) * _ENTRY_COST > self._memory // 16:
                    self._entries.popitem(last=False)
            if change.weight or change.identity or change.cleared or change.codes:
                self._set_score(change.key, updated_score(self._standings.get(change.key), change))
                self._standings.move_to_end(change.key)
                if len(self._standings) * _STANDING_COST > self._memory // 4:
                    self._standings.popitem(last=False)
                    self.forgotten += 1

    def commit(self, block: Block) -> None:
        with self._lock:
            # Taken out and put back in, so that the order is that of the last offence. Whoever is blocked starts from
            # nothing when the block has run out or is forgiven.
            self._unblock(block.key)
            self._blocks[block.key] = block
            if self.journal is not None:
                self.journal.note_block(block.key, block)
            self._note_offence(block)
            self._forget(block.key)
            self._restart(block.key)
            if block.key == prefix_key(block.prefix):
                self._forget(block.prefix)
            if block.key.startswith((ACCOUNT, CLEARANCE)):
                self._strikes.setdefault(block.prefix, set()).add(block.key)
            if len(self._blocks) > self._most_blocks:
                self._unblock(next(iter(self._blocks)))

    def forgive(self, key: str) -> bool:
        with self._lock:
            self._offences.pop(key, None)
            known = self._standings.pop(key, None) is not None
            if known and self.journal is not None:
                self.journal.note_score(key, None)
            self._today.pop(key, None)
            return self._unblock(key) or known

    def blocks(self, at: float) -> Sequence[Block]:
        with self._lock:
            return [block for block in self._blocks.values() if block.until > at]

    def restore(self, blocks: Sequence[Block], scores: Sequence[tuple[str, VisitorScore]]) -> None:
        """Take over what was remembered before a restart."""
        for block in blocks:
            self.commit(block)
        with self._lock:
            for key, score in scores[-(self._memory // 4 // _STANDING_COST) :]:
                self._standings[key] = score

    def scores(self) -> Sequence[tuple[str, VisitorScore]]:
        with self._lock:
            return list(self._standings.items())

    def _block_of(self, keys: Sequence[str], at: float) -> Block | None:
        for key in keys:
            if key and (block := self._blocks.get(key)) is not None:
                if block.until > at:
                    return block
                self._unblock(key)
        return None

    def _unblock(self, key: str) -> bool:
        block = self._blocks.pop(key, None)
        if block is None:
            return False
        if self.journal is not None:
            self.journal.note_block(key, None)
        accounts = self._strikes.get(block.prefix)
        if accounts is not None:
            accounts.discard(key)
            if not accounts:
                del self._strikes[block.prefix]
        return True

    def _note_offence(self, block: Block) -> None:
        if self._remember:
            self._offences[block.key] = (block.offence, block.until + self._remember)
            self._offences.move_to_end(block.key)
            if len(self._offences) > self._most_blocks:
                self._offences.popitem(last=False)

    def _offences_of(self, keys: Sequence[str], at: float) -> tuple[tuple[str, int], ...]:
        found = []
        for key in keys:
            offence = self._offences.get(key)
            if offence is not None:
                if offence[1] > at:
                    found.append((key, offence[0]))
                else:
                    del self._offences[key]
        return tuple(found)

    def _count_strikes(self, prefix: str, at: float) -> int:
        for key in [k for k in self._strikes[prefix] if self._blocks[k].until <= at]:
            self._unblock(key)
        return len(self._strikes.get(prefix, ()))

    def _keys(self, query: StateQuery) -> Iterator[str]:
        """Whose visit it is: its visitor's, that of the accounts at its address if it has one, and its network's."""
        yield query.visitor
        if query.visitor != query.prefix:
            yield prefix_key(query.prefix)
        if query.network:
            yield query.network

    def _hit(self, query: StateQuery) -> tuple[int, ...]:
        """Count a visit, and give the counts of all windows; none where no window counts visits of its kind."""
        series = series_of(query.kind)
        if series not in self._series:
            return _UNCOUNTED
        self._hit_key(query.visitor, query.at, series)
        if query.visitor != query.prefix:
            self._hit_key(prefix_key(query.prefix), query.at, series)
        if query.network:
            self._hit_key(query.network, query.at, series)
        if self.spent > self._memory:
            self._make_room()
        return self._counts(query)

    def _hit_key(self, key: str, at: float, series: int) -> None:
        trail = self._trails.get(key)
        if trail is None:
            self._sweep(at)
            if series == PAGES:
                self._trails[key] = at
                self.spent += _lone_cost(key)
                return
            trail = self._trails[key] = _Trail(key)
            self.spent += trail.cost
        else:
            self._trails.move_to_end(key)
            if isinstance(trail, float):
                first = trail
                trail = self._trails[key] = _Trail(key)
                trail.series[PAGES] = array("d", (first,))
                trail.cost += _SERIES_COST + _TIME_COST
                self.spent += trail.cost - _lone_cost(key)
        hits = trail.series[series]
        if hits is None:
            hits = trail.series[series] = array("d")
            trail.cost += _SERIES_COST
            self.spent += _SERIES_COST
        before = len(hits)
        add_hit(hits, at, max_age=self._keep, max_hits=self._most)
        growth = (len(hits) - before) * _TIME_COST
        trail.cost += growth
        self.spent += growth

    def _take_back(self, key: str, at: float, series: int) -> None:
        trail = self._trails.get(key)
        if isinstance(trail, float):
            if series == PAGES and trail == at:
                self._forget(key)
        elif trail is not None and (hits := trail.series[series]):
            before = len(hits)
            drop_hit(hits, at)
            trail.cost -= (before - len(hits)) * _TIME_COST
            self.spent -= (before - len(hits)) * _TIME_COST

    def _counts(self, query: StateQuery) -> tuple[int, ...]:
        """
        One count for each window.

        A prefix's count is that of the visitor without an account plus that of all accounts there: kept apart, no visit
        is written twice for the common visitor who has none.
        """
        at, visitor, prefix, trails = query.at, query.visitor, query.prefix, self._trails
        own = trails.get(visitor)
        everyone = trails.get(prefix_key(prefix))
        if everyone is None and visitor == prefix and not self._by_network:
            return self._first if own == at else _count_each(own, self._spans, at)
        counts = []
        for by, counted, seconds in self._windows:
            if by == "visitor":
                counts.append(_count(own, counted, at, seconds))
            elif by == "prefix":
                alone = own if visitor == prefix else trails.get(prefix)
                counts.append(_count(alone, counted, at, seconds) + _count(everyone, counted, at, seconds))
            else:
                counts.append(_count(trails.get(query.network), counted, at, seconds))
        return tuple(counts)

    def _sweep(self, at: float) -> None:
        """Forget up to two visitors whose visits have left every window: as fast as new ones come, never a pause."""
        for _ in range(_SWEPT_AT_ONCE):
            oldest = next(iter(self._trails), None)
            if oldest is None:
                return
            trail = self._trails[oldest]
            newest = trail if isinstance(trail, float) else trail.newest()
            if newest > at - self._keep:
                return
            self._forget(oldest)

    def _make_room(self) -> None:
        while self.spent > self._memory and len(self._trails) > 1:
            self._forget(next(iter(self._trails)))
            self.forgotten += 1

    def _restart(self, key: str) -> None:
        """Who was blocked starts with no suspicion when the block has run out; its challenges are not forgotten."""
        score = self._standings.get(key)
        if score is not None:
            self._set_score(key, VisitorScore(at=score.at, day=score.day, challenges=score.challenges))

    def _set_score(self, key: str, score: VisitorScore) -> None:
        self._standings[key] = score
        if self.journal is not None:
            self.journal.note_score(key, score)

    def _forget(self, key: str) -> None:
        trail = self._trails.pop(key, None)
        if trail is not None:
            self.spent -= _lone_cost(key) if isinstance(trail, float) else trail.cost

"""
The state of one process, in dictionaries with a fixed budget of bytes.

If the budget is exceeded, the visitor that has been silent longest is forgotten. Visitors whose hits have left every
window are removed as new visitors come. Blocks have a budget of their own, so a flood of new addresses cannot remove
the block of a crawler.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from threading import Lock

from hedgerow.core.decision import Block, ScoreUpdate, VisitorScore
from hedgerow.core.rate_limit import PAGES, SERIES, RateLimit, add_hit, count_hits, drop_hit, updated_rate
from hedgerow.core.state import ACCOUNT, CLEARANCE, EVERYONE, StateQuery, StateReply
from hedgerow.core.visit import Kind
from hedgerow.policy.score import updated_score
from hedgerow.state.hit_times import DAILY_KINDS, ENTRY_BYTES, MAX_ENTRIES, SCORE_BYTES, TODAY_BYTES, UNCOUNTED, Counted
from hedgerow.state.sqlite.journal import Journal

# The memory of a visitor's counters, rounded up (`bench/memory.py` measures it): a dictionary entry with one time and
# without its key; what several times add; what each series adds; what each time adds.
_SINGLE_BYTES = 178
_SERIES_LIST_BYTES = 150
_SERIES_BYTES = 104
_TIME_BYTES = 9
_SWEPT_AT_ONCE = 2


def _single_bytes(key: str) -> int:
    """Return the memory of a key with a single time: about 240 bytes for an address, more for a long account name."""
    return _SINGLE_BYTES + sys.getsizeof(key)


class _HitSeries:
    """The hit times of one key: a sorted array for each series that has any."""

    __slots__ = ("cost", "series")

    def __init__(self, key: str) -> None:
        self.series: list[array[float] | None] = [None, None, None, None]
        self.cost = _single_bytes(key) + _SERIES_LIST_BYTES

    def newest(self) -> float:
        return max((hits[-1] for hits in self.series if hits), default=-float("inf"))


def _count(hits: _HitSeries | float | None, counted: tuple[int, ...], at: float, seconds: float) -> int:
    """Count the hits in the series *counted* within the *seconds* that end at *at*."""
    if hits is None:
        return 0
    if isinstance(hits, float):
        return PAGES in counted and at - seconds < hits <= at
    return sum(count_hits(times, at, seconds) for series in counted if (times := hits.series[series]))


def _count_each(
    hits: _HitSeries | float | None, spans: Sequence[tuple[tuple[int, ...], float]], at: float
) -> tuple[int, ...]:
    """Count the hits in each of *spans*: series and seconds."""
    if not isinstance(hits, _HitSeries):
        return tuple([_count(hits, counted, at, seconds) for counted, seconds in spans])
    counts = []
    for counted, seconds in spans:
        total = 0
        for series in counted:
            # `count_hits` without a call: most visits are counted here.
            if times := hits.series[series]:
                newest = len(times) if times[-1] <= at else bisect_right(times, at)
                total += newest - bisect_right(times, at - seconds)
        counts.append(total)
    return tuple(counts)


class MemoryState:
    """
    Counters, scores and blocks in this process.

    *memory* is the maximum of bytes for counters, *most_blocks* that of blocks. A visitor seen once is stored as a
    single number, which takes about 240 bytes with its key. Changes of blocks and scores go to *journal*. Offences are
    remembered for *remember* seconds after the end of the block.
    """

    journal: Journal | None = None
    alone = 0
    unavailable = False
    errors = 0

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
        self._remember = remember
        self._hits: OrderedDict[str, float | _HitSeries] = OrderedDict()
        self._blocks: OrderedDict[str, Block] = OrderedDict()
        self._strikes: dict[str, set[str]] = {}
        self._scores: OrderedDict[str, VisitorScore] = OrderedDict()
        self._today: OrderedDict[str, int] = OrderedDict()
        self._entries: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._offences: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._day = 0
        self._site_rate = (0.0, 0.0)
        self.bytes_used = 0
        self.forgotten = 0
        self.use_limits(windows)

    def use_limits(self, windows: Sequence[RateLimit]) -> None:
        counted = Counted(windows)
        with self._lock:
            self._windows, self._series = counted.windows, counted.series
            self._keep, self._most, self._by_network = counted.keep, counted.most, counted.by_network
            self._spans = tuple((series, seconds) for _, series, seconds in counted.windows)
            # The counts of a visitor whose only visit is the page that it requests now.
            self._first = tuple(int(PAGES in series) for series, _ in self._spans)

    def __len__(self) -> int:
        return len(self._hits)

    def use_journal(self, journal: Journal) -> None:
        self.journal = journal

    def use_threads(self, run: object) -> None:
        """Do nothing: no reply takes long."""

    async def disconnect(self) -> None:
        """Do nothing: there is no connection."""

    def close(self) -> None:
        """Do nothing: there is no file."""

    def record_visit(self, query: StateQuery, counted_as: Kind | None = None) -> StateReply:
        with self._lock:
            more = 1 if query.kind in DAILY_KINDS else 0
            if counted_as is None:
                return self._reply(query, more, 1)
            for key in self._keys(query.counted()):
                self._take_back(key, query.at, SERIES[counted_as])
            return self._reply(query, more - (counted_as in DAILY_KINDS), 0)

    def _reply(self, query: StateQuery, more: int, visits: int) -> StateReply:
        """Reply, and count *more* requests of the day and *visits* for the site's rate."""
        visitor, prefix = query.visitor, query.prefix
        strikes = 0
        offences: tuple[tuple[str, int], ...] = ()
        score = self._scores.get(visitor) if self._scores else None
        today = self._count_today(query, more) if query.day and query.count else 0
        if self._blocks or self._offences:
            keys = (visitor, prefix + EVERYONE, query.network)
            if not self._blocks.keys().isdisjoint(keys) and (block := self._block_of(keys, query.at)) is not None:
                return StateReply(block, UNCOUNTED)
            if not self._offences.keys().isdisjoint(keys):
                offences = self._offences_of(keys, query.at)
            if visitor != prefix and prefix in self._strikes:
                strikes = self._count_strikes(prefix, query.at)
        counts = self._hit(query.counted() if query.apart else query) if query.count else UNCOUNTED
        rate = self._count_site(query.at, visits) if query.site_rate and query.count else 0.0
        return StateReply(None, counts, strikes, score, today, self._entries.get(visitor, ()), offences, rate)

    def _count_site(self, at: float, visits: int) -> float:
        rate, since = self._site_rate
        rate = updated_rate(rate, since, at, visits)
        self._site_rate = (rate, max(since, at))
        return rate

    def _count_today(self, query: StateQuery, more: int) -> int:
        """Count requests of the day. Those of the day before are forgotten."""
        if query.day > self._day or query.day < self._day - 1:
            # Another day, or a clock that was ahead has been set right.
            self._day = query.day
            self._today.clear()
        name = query.daily or query.visitor
        count = self._today.pop(name, 0)
        if query.day == self._day:
            count += more
        self._today[name] = count
        if len(self._today) * TODAY_BYTES > self._memory // 4:
            self._today.popitem(last=False)
        return count

    def update_score(self, change: ScoreUpdate) -> None:
        with self._lock:
            key = change.key
            if change.entry:
                self._entries[key] = (*self._entries.get(key, ())[1 - MAX_ENTRIES :], change.entry)
                self._entries.move_to_end(key)
                if len(self._entries) * ENTRY_BYTES > self._memory // 16:
                    self._entries.popitem(last=False)
            if change.weight or change.identity or change.cleared or change.codes:
                self._set_score(key, updated_score(self._scores.get(key), change))
                self._scores.move_to_end(key)
                if len(self._scores) * SCORE_BYTES > self._memory // 4:
                    self._scores.popitem(last=False)
                    self.forgotten += 1

    def commit(self, block: Block) -> None:
        """Set a block. The visitor starts from zero when it ends, but its challenges stay counted."""
        key, prefix = block.key, block.prefix
        with self._lock:
            # Removed first, so that the order is that of the last offence.
            self._unblock(key)
            self._blocks[key] = block
            if self.journal is not None:
                self.journal.note_block(key, block)
            if self._remember:
                self._offences[key] = (block.offence, block.until + self._remember)
                self._offences.move_to_end(key)
                if len(self._offences) > self._most_blocks:
                    self._offences.popitem(last=False)
            self._forget(key)
            if (score := self._scores.get(key)) is not None:
                self._set_score(key, VisitorScore(at=score.at, day=score.day, challenges=score.challenges))
            if key == prefix + EVERYONE:
                self._forget(prefix)
            if key.startswith((ACCOUNT, CLEARANCE)):
                self._strikes.setdefault(prefix, set()).add(key)
            if len(self._blocks) > self._most_blocks:
                self._unblock(next(iter(self._blocks)))

    def forgive(self, key: str) -> bool:
        with self._lock:
            self._offences.pop(key, None)
            known = self._scores.pop(key, None) is not None
            if known and self.journal is not None:
                self.journal.note_score(key, None)
            self._today.pop(key, None)
            return self._unblock(key) or known

    def has_block(self, key: str) -> bool:
        return key in self._blocks

    def forget_blocks(self, query: StateQuery) -> None:
        """Remove the blocks of a visit, which another process has ended."""
        keys = (query.visitor, query.prefix + EVERYONE, query.network)
        if self._blocks and not self._blocks.keys().isdisjoint(keys):
            with self._lock:
                for key in keys:
                    self._unblock(key)

    def blocks(self, at: float) -> Sequence[Block]:
        with self._lock:
            return [block for block in self._blocks.values() if block.until > at]

    def check(self) -> str:
        return ""

    def restore(self, blocks: Sequence[Block], scores: Sequence[tuple[str, VisitorScore]]) -> None:
        for block in blocks:
            self.commit(block)
        with self._lock:
            self._scores.update(scores[-(self._memory // 4 // SCORE_BYTES) :])

    def scores(self) -> Sequence[tuple[str, VisitorScore]]:
        with self._lock:
            return list(self._scores.items())

    def look_up(self, keys: Sequence[str], at: float) -> tuple[list[Block], list[tuple[str, VisitorScore]]]:
        with self._lock:
            blocks = [block for key in keys if (block := self._blocks.get(key)) is not None and block.until > at]
            return blocks, [(key, score) for key in keys if (score := self._scores.get(key)) is not None]

    def _set_score(self, key: str, score: VisitorScore) -> None:
        self._scores[key] = score
        if self.journal is not None:
            self.journal.note_score(key, score)

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
        if (accounts := self._strikes.get(block.prefix)) is not None:
            accounts.discard(key)
            if not accounts:
                del self._strikes[block.prefix]
        return True

    def _offences_of(self, keys: Sequence[str], at: float) -> tuple[tuple[str, int], ...]:
        found = []
        for key in keys:
            if (offence := self._offences.get(key)) is not None:
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
        """Yield the keys for which a visit counts: visitor, the accounts at its address if it has one, network."""
        yield query.visitor
        if query.visitor != query.prefix:
            yield query.prefix + EVERYONE
        if query.network:
            yield query.network

    def _hit(self, query: StateQuery) -> tuple[int, ...]:
        """Count a visit, and return the counts of all windows, or nothing if no window counts its kind."""
        series = SERIES[query.kind]
        if series not in self._series:
            return UNCOUNTED
        # `_keys` without a generator: every visit is counted here.
        self._hit_key(query.visitor, query.at, series)
        if query.visitor != query.prefix:
            self._hit_key(query.prefix + EVERYONE, query.at, series)
        if query.network:
            self._hit_key(query.network, query.at, series)
        while self.bytes_used > self._memory and len(self._hits) > 1:
            self._forget(next(iter(self._hits)))
            self.forgotten += 1
        return self._counts(query)

    def _hit_key(self, key: str, at: float, series: int) -> None:
        hits = self._hits.get(key)
        if hits is None:
            self._sweep(at)
            if series == PAGES:
                self._hits[key] = at
                self.bytes_used += _single_bytes(key)
                return
            hits = self._hits[key] = _HitSeries(key)
            self.bytes_used += hits.cost
        else:
            self._hits.move_to_end(key)
            if isinstance(hits, float):
                first = hits
                hits = self._hits[key] = _HitSeries(key)
                hits.series[PAGES] = array("d", (first,))
                hits.cost += _SERIES_BYTES + _TIME_BYTES
                self.bytes_used += hits.cost - _single_bytes(key)
        times = hits.series[series]
        growth = 0
        if times is None:
            times = hits.series[series] = array("d")
            growth = _SERIES_BYTES
        before = len(times)
        if before and at >= times[-1] and before < self._most and times[0] > at - self._keep:
            # `add_hit` without a call: most visits are added here.
            times.append(at)
            growth += _TIME_BYTES
        else:
            add_hit(times, at, max_age=self._keep, max_hits=self._most)
            growth += (len(times) - before) * _TIME_BYTES
        hits.cost += growth
        self.bytes_used += growth

    def _take_back(self, key: str, at: float, series: int) -> None:
        hits = self._hits.get(key)
        if isinstance(hits, float):
            if series == PAGES and hits == at:
                self._forget(key)
        elif hits is not None and (times := hits.series[series]):
            before = len(times)
            drop_hit(times, at)
            hits.cost -= (before - len(times)) * _TIME_BYTES
            self.bytes_used -= (before - len(times)) * _TIME_BYTES

    def _counts(self, query: StateQuery) -> tuple[int, ...]:
        """
        Return one count for each window.

        The count of a prefix is that of the visitor without an account plus that of all accounts there. They are stored
        separately, so that no visit of an ordinary visitor without an account is stored twice.
        """
        at, visitor, prefix, hits = query.at, query.visitor, query.prefix, self._hits
        own = hits.get(visitor)
        everyone = hits.get(prefix + EVERYONE)
        if everyone is None and visitor == prefix and not self._by_network:
            return self._first if own == at else _count_each(own, self._spans, at)
        counts = []
        for by, counted, seconds in self._windows:
            if by == "visitor":
                counts.append(_count(own, counted, at, seconds))
            elif by == "prefix":
                alone = own if visitor == prefix else hits.get(prefix)
                counts.append(_count(alone, counted, at, seconds) + _count(everyone, counted, at, seconds))
            else:
                counts.append(_count(hits.get(query.network), counted, at, seconds))
        return tuple(counts)

    def _sweep(self, at: float) -> None:
        """Forget up to two visitors whose hits have left every window, as fast as new ones come."""
        for _ in range(_SWEPT_AT_ONCE):
            oldest = next(iter(self._hits), None)
            if oldest is None:
                return
            hits = self._hits[oldest]
            if (hits if isinstance(hits, float) else hits.newest()) > at - self._keep:
                return
            self._forget(oldest)

    def _forget(self, key: str) -> None:
        hits = self._hits.pop(key, None)
        if hits is not None:
            self.bytes_used -= _single_bytes(key) if isinstance(hits, float) else hits.cost

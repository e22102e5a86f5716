"""
The state of all workers of a machine, in an LMDB file of a fixed size.

A visit is one write transaction, so the next visit in any process sees its count. If a process is killed in the middle,
LMDB releases its lock and discards the transaction. Nothing is synced to disk: the file is created at each start, and
what must survive is in the journal.

    trails   key -> its hit times                      known    key -> block, score, entries, offences
    days     key -> requests of the day                order    part and number -> key, to drop the oldest of each part
    strikes  prefix and account -> end of the block    more     small stores (`shared_stores`) and totals
    changed  keys whose block or score is not yet in the journal
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Literal

import lmdb
import msgspec

from hedgerow.core.decision import Block, ScoreUpdate, VisitorScore
from hedgerow.core.rate_limit import SERIES, RateLimit
from hedgerow.core.state import ACCOUNT, CLEARANCE, StateQuery, StateReply, prefix_key
from hedgerow.core.visit import Kind
from hedgerow.errors import StoreError
from hedgerow.policy.score import updated_score
from hedgerow.state.hit_times import DAILY_KINDS, ENTRY_BYTES, MAX_ENTRIES, SCORE_BYTES, UNCOUNTED
from hedgerow.state.lmdb.counters import LmdbCounters, name_of
from hedgerow.state.sqlite.journal import SqliteJournal

_RESERVE_BYTES = 33_554_432
_NUMBER = struct.Struct(">Q")
_COUNT = struct.Struct("<qq")
_UNTIL = struct.Struct("<d")

Part = Literal[b"b", b"s", b"e", b"o"]
"""Block, score, entries, offence: each has an order and a limit of its own."""


class _Known(msgspec.Struct, array_like=True):
    """What is known about a key, and the number of the last change of each part."""

    key: str
    block: Block | None = None
    score: VisitorScore | None = None
    entries: tuple[str, ...] = ()
    offence: int = 0
    offence_until: float = 0.0
    numbers: dict[bytes, int] = {}


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Known)


def open_environment(path: Path, size: int) -> lmdb.Environment:
    """Open the file *path* of at most *size* bytes, or create it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return lmdb.open(
            str(path), map_size=size, subdir=False, sync=False, metasync=False, writemap=True, map_async=True,
            max_dbs=8, mode=0o600, max_readers=512,
        )  # fmt: skip
    except (OSError, lmdb.Error) as error:
        raise StoreError(f"cannot open the state {path}: {error}") from None


def remove_environment(path: Path) -> None:
    """Remove the files of the last start."""
    for each in (path, path.with_name(path.name + "-lock")):
        each.unlink(missing_ok=True)


class LmdbState:
    """
    Counters, scores and blocks in the file *path*, shared by all processes that open it.

    *memory*, *most_blocks* and *remember* are as for `MemoryState`. The file takes little more than twice *memory*.
    Each process must open it after the fork.
    """

    alone = 0
    unavailable = False
    errors = 0

    def __init__(
        self,
        path: Path,
        windows: Sequence[RateLimit],
        *,
        memory: int = 300_000_000,
        most_blocks: int = 100_000,
        remember: float = 0.0,
    ) -> None:
        self._environment = open_environment(path, 2 * memory + _RESERVE_BYTES)
        self._known, self._order, self._strikes, self._changed, self.more = (
            self._environment.open_db(name) for name in (b"known", b"order", b"strikes", b"changed", b"more")
        )
        self._counters = LmdbCounters(self._environment, windows, memory)
        self._most: dict[bytes, int] = {
            b"b": most_blocks, b"o": most_blocks,
            b"s": memory // 4 // SCORE_BYTES, b"e": memory // 16 // ENTRY_BYTES,
        }  # fmt: skip
        self._remember = remember
        self._lock = Lock()
        self._lost = 0
        self.use_limits = self._counters.use_limits

    @property
    def forgotten(self) -> int:
        return self._counters.forgotten + self._lost

    def __len__(self) -> int:
        with self.reading() as txn:
            return int(txn.stat(self._counters.database)["entries"])

    @property
    def bytes_used(self) -> int:
        with self.reading() as txn:
            return self._counters.size(txn)

    def use_threads(self, run: object) -> None:
        """Do nothing: no reply takes long."""

    async def disconnect(self) -> None:
        """Do nothing: there is no connection."""

    def close(self) -> None:
        self._environment.close()

    def use_journal(self, journal: SqliteJournal) -> None:
        """Report the changes of all processes to *journal*. If each reported its own, the order could be wrong."""
        journal.before_write = partial(self._report_changes, journal)

    def _report_changes(self, journal: SqliteJournal) -> None:
        with self.writing() as txn:
            keys = [key.decode("utf-8", "surrogateescape") for _, key in txn.cursor(self._changed)]
            txn.drop(self._changed, delete=False)
            changed = [self._get(txn, key) for key in keys]
        for known in changed:
            journal.note_block(known.key, known.block)
            journal.note_score(known.key, known.score)

    def _mark_changed(self, txn: lmdb.Transaction, key: str) -> None:
        txn.put(name_of(key), key.encode("utf-8", "surrogateescape"), db=self._changed)

    @contextlib.contextmanager
    def writing(self) -> Iterator[lmdb.Transaction]:
        """Open a write transaction. If the file is full, which the limits should prevent, all counters are dropped."""
        with self._lock:
            try:
                with self._environment.begin(write=True) as txn:
                    yield txn
            except lmdb.MapFullError:
                with self._environment.begin(write=True) as txn:
                    self._lost += txn.stat(self._counters.database)["entries"]
                    txn.drop(self._counters.database, delete=False)
                raise StoreError("the state was full, and has forgotten its counters; set memory higher") from None

    def reading(self) -> lmdb.Transaction:
        return self._environment.begin()

    # ---- The state

    def record_visit(self, query: StateQuery, counted_as: Kind | None = None) -> StateReply:
        more = 1 if query.kind in DAILY_KINDS else 0
        with self.writing() as txn:
            if counted_as is None:
                return self._reply(txn, query, more, 1)
            self._counters.take_back(txn, query.counted(), SERIES[counted_as])
            return self._reply(txn, query, more - (counted_as in DAILY_KINDS), 0)

    def commit(self, block: Block) -> None:
        with self.writing() as txn:
            self._commit(txn, block)

    def update_score(self, change: ScoreUpdate) -> None:
        with self.writing() as txn:
            known = self._get(txn, change.key)
            if change.entry:
                known.entries = (*known.entries, change.entry)[-MAX_ENTRIES:]
                self._renumber(txn, known, b"e")
            if change.weight or change.identity or change.cleared or change.codes:
                known.score = updated_score(known.score, change)
                self._renumber(txn, known, b"s")
                self._mark_changed(txn, change.key)
            self._put(txn, known)
            self._drop_oldest(txn, b"e")
            self._drop_oldest(txn, b"s")

    def forgive(self, key: str) -> bool:
        with self.writing() as txn:
            self._counters.forget_today(txn, key)
            known = self._get(txn, key)
            had_score = known.score is not None
            if had_score:
                self._clear(txn, known, b"s")
                self._mark_changed(txn, key)
            self._clear(txn, known, b"o")
            blocked = self._unblock(txn, known)
            self._put(txn, known)
            return blocked or had_score

    def blocks(self, at: float) -> Sequence[Block]:
        found = (known.block for known in self._in_order(b"b"))
        return [block for block in found if block is not None and block.until > at]

    def scores(self) -> Sequence[tuple[str, VisitorScore]]:
        return [(known.key, known.score) for known in self._in_order(b"s") if known.score is not None]

    def look_up(self, keys: Sequence[str], at: float) -> tuple[list[Block], list[tuple[str, VisitorScore]]]:
        with self.reading() as txn:
            found = [self._get(txn, key) for key in keys]
        blocks = [known.block for known in found if known.block is not None and known.block.until > at]
        return blocks, [(known.key, known.score) for known in found if known.score is not None]

    def check(self) -> str:
        return ""

    def restore(self, blocks: Sequence[Block], scores: Sequence[tuple[str, VisitorScore]]) -> None:
        with self.writing() as txn:
            for block in blocks:
                self._commit(txn, block)
            for key, score in scores[-self._most[b"s"] :]:
                known = self._get(txn, key)
                known.score = score
                self._renumber(txn, known, b"s")
                self._put(txn, known)

    # ---- Counting

    def _reply(self, txn: lmdb.Transaction, query: StateQuery, more: int, visits: int) -> StateReply:
        """Reply, and count *more* requests of the day and *visits* for the site's rate."""
        at, visitor, prefix = query.at, query.visitor, query.prefix
        today = self._counters.count_today(txn, query, more) if query.day and query.count else 0
        block, offences, own = self._known_of(txn, query)
        if block is not None:
            return StateReply(block, UNCOUNTED)
        strikes = self._count_strikes(txn, prefix, at) if visitor != prefix else 0
        score, entries = (own.score, own.entries) if own is not None else (None, ())
        counts = self._counters.count(txn, query.counted()) if self._counters.counts_kind(query) else UNCOUNTED
        rate = self._counters.count_site(txn, at, visits) if query.site_rate and query.count else 0.0
        return StateReply(None, counts, strikes, score, today, entries, offences, rate)

    # ---- What is known about a key

    def _get(self, txn: lmdb.Transaction, key: str) -> _Known:
        data = txn.get(name_of(key), db=self._known)
        return _DECODER.decode(data) if data is not None else _Known(key)

    def _put(self, txn: lmdb.Transaction, known: _Known) -> None:
        if known.block is None and known.score is None and not known.entries and not known.offence:
            txn.delete(name_of(known.key), db=self._known)
        else:
            txn.put(name_of(known.key), _ENCODER.encode(known), db=self._known)

    def _known_of(
        self, txn: lmdb.Transaction, query: StateQuery
    ) -> tuple[Block | None, tuple[tuple[str, int], ...], _Known | None]:
        """Return the block in force, the offences, and what is known about the visitor."""
        block, own, offences = None, None, []
        for key in (query.visitor, prefix_key(query.prefix), query.network):
            data = txn.get(name_of(key), db=self._known) if key else None
            if data is None:
                continue
            known = _DECODER.decode(data)
            if key == query.visitor:
                own = known
            ended = False
            if known.block is not None and block is None:
                if known.block.until > query.at:
                    block = known.block
                else:
                    ended = self._unblock(txn, known)
            if known.offence:
                if known.offence_until > query.at:
                    offences.append((key, known.offence))
                else:
                    self._clear(txn, known, b"o")
                    ended = True
            if ended:
                self._put(txn, known)
        return block, tuple(offences), own

    def _count_strikes(self, txn: lmdb.Transaction, prefix: str, at: float) -> int:
        count, ended = 0, []
        for _, value in entries_with_prefix(txn, self._strikes, name_of(prefix) + b"\0"):
            if _UNTIL.unpack(value[:8])[0] > at:
                count += 1
            else:
                ended.append(value[8:])
        for name in ended:
            data = txn.get(name, db=self._known)
            if data is not None:
                known = _DECODER.decode(data)
                self._unblock(txn, known)
                self._put(txn, known)
        return count

    def _commit(self, txn: lmdb.Transaction, block: Block) -> None:
        """Set a block. The visitor starts from zero when it ends, but its challenges stay counted."""
        known = self._get(txn, block.key)
        self._unblock(txn, known)
        known.block = block
        self._renumber(txn, known, b"b")
        self._mark_changed(txn, block.key)
        if self._remember:
            known.offence, known.offence_until = block.offence, block.until + self._remember
            self._renumber(txn, known, b"o")
        if (score := known.score) is not None:
            known.score = VisitorScore(at=score.at, day=score.day, challenges=score.challenges)
        self._put(txn, known)
        self._counters.forget(txn, block.key)
        if block.key == prefix_key(block.prefix):
            self._counters.forget(txn, block.prefix)
        if block.key.startswith((ACCOUNT, CLEARANCE)):
            txn.put(_strike_name(block), _UNTIL.pack(block.until) + name_of(block.key), db=self._strikes)
        self._drop_oldest(txn, b"b")
        self._drop_oldest(txn, b"o")

    def _unblock(self, txn: lmdb.Transaction, known: _Known) -> bool:
        if known.block is None:
            return False
        self._mark_changed(txn, known.key)
        txn.delete(_strike_name(known.block), db=self._strikes)
        self._clear(txn, known, b"b")
        return True

    # ---- The order of each part

    def _renumber(self, txn: lmdb.Transaction, known: _Known, part: Part) -> None:
        """Make this part of *known* the one that changed last."""
        before = known.numbers.get(part)
        if before is not None:
            txn.delete(part + _NUMBER.pack(before), db=self._order)
        else:
            self._add_total(txn, part, 1)
        number = _NUMBER.unpack(txn.get(b"number", default=_NUMBER.pack(0), db=self.more))[0] + 1
        txn.put(b"number", _NUMBER.pack(number), db=self.more)
        txn.put(part + _NUMBER.pack(number), name_of(known.key), db=self._order)
        known.numbers[part] = number

    def _add_total(self, txn: lmdb.Transaction, part: Part, more: int) -> int:
        """Add to the number of keys that have this part, and return it."""
        count = _COUNT.unpack(txn.get(b"count" + part, default=_COUNT.pack(0, 0), db=self.more))[0] + more
        if more:
            txn.put(b"count" + part, _COUNT.pack(count, 0), db=self.more)
        return int(count)

    def _clear(self, txn: lmdb.Transaction, known: _Known, part: Part) -> None:
        number = known.numbers.pop(part, None)
        if number is not None:
            txn.delete(part + _NUMBER.pack(number), db=self._order)
            self._add_total(txn, part, -1)
        if part == b"b":
            known.block = None
        elif part == b"s":
            known.score = None
        elif part == b"e":
            known.entries = ()
        else:
            known.offence, known.offence_until = 0, 0.0

    def _drop_oldest(self, txn: lmdb.Transaction, part: Part) -> None:
        """If too many keys have this part, clear it for the one that changed first."""
        if self._add_total(txn, part, 0) <= self._most[part]:
            return
        known = next(self._records(txn, part), None)
        if known is not None:
            if part == b"b":
                self._unblock(txn, known)
            else:
                self._clear(txn, known, part)
                self._lost += part == b"s"
            self._put(txn, known)

    def _in_order(self, part: Part) -> Iterator[_Known]:
        with self.reading() as txn:
            yield from self._records(txn, part)

    def _records(self, txn: lmdb.Transaction, part: Part) -> Iterator[_Known]:
        """Yield what is known about each key with this part, the one that changed first at the start."""
        for _, name in entries_with_prefix(txn, self._order, part):
            data = txn.get(name, db=self._known)
            if data is not None:
                yield _DECODER.decode(data)


def _strike_name(block: Block) -> bytes:
    digest = blake2b(block.key.encode("utf-8", "surrogateescape"), digest_size=16).digest()
    return name_of(block.prefix) + b"\0" + digest


def entries_with_prefix(txn: lmdb.Transaction, database: object, start: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of *database* whose keys begin with *start*, in order."""
    with txn.cursor(database) as cursor:
        found = cursor.set_range(start)
        while found and cursor.key().startswith(start):
            yield cursor.item()
            found = cursor.next()

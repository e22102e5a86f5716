"""
The state of all workers of a machine: LMDB, a file that they share, of a fixed size and never waited for.

A visit is one write transaction: what it counts, the next visit sees, in whatever process. A process that is killed in
the middle of one leaves nothing behind (LMDB's lock is taken over, and what was not committed is not there). Nothing is
synced: the file is made anew at each start, and what must outlive that is in the journal.

    trails   key -> the times of its visits            known    key -> block, standing, entries, offence
    days     key -> the day, and requests on it        order    sort and number -> key: the oldest of each sort goes
    strikes  prefix and account -> until when          more     sightings, lost welcomes, what workers have counted
    changed  key: its block or standing is not yet in the journal
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
from hedgerow.core.rate_limit import RateLimit, series_of, updated_rate
from hedgerow.core.state import ACCOUNT, CLEARANCE, StateQuery, StateReply, prefix_key
from hedgerow.core.visit import Kind
from hedgerow.errors import StoreError
from hedgerow.policy.score import updated_score
from hedgerow.state.lmdb.counters import LmdbCounters, name_of
from hedgerow.state.sqlite.journal import Journal, SqliteJournal

_ROOM = 33_554_432
_NUMBER = struct.Struct(">Q")
_DAY = struct.Struct("<qq")
_UNTIL = struct.Struct("<d")
_RATE = struct.Struct("<dd")
_STANDING_COST = 700
_TODAY_COST = 250
_ENTRY_COST = 1_000
_MOST_ENTRIES = 8
_UNCOUNTED: tuple[int, ...] = ()
_OF_A_DAY = frozenset({"page", "call"})

Sort = Literal[b"b", b"s", b"e", b"o"]
"""Block, standing, entries, offence: each has an order and a limit of its own."""


class _Known(msgspec.Struct, array_like=True):
    """What is known of a key, and the number of the last change of each part: who changed last is kept longest."""

    key: str
    block: Block | None = None
    score: VisitorScore | None = None
    entries: tuple[str, ...] = ()
    offence: int = 0
    offence_until: float = 0.0
    numbers: dict[bytes, int] = {}

    def is_empty(self) -> bool:
        return self.block is None and self.score is None and not self.entries and not self.offence


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Known)


def open_environment(path: Path, size: int) -> lmdb.Environment:
    """The file *path* of at most *size* bytes, made where there is none."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return lmdb.open(
            str(path), map_size=size, subdir=False, sync=False, metasync=False, writemap=True, map_async=True,
            max_dbs=8, mode=0o600, max_readers=512,
        )  # fmt: skip
    except (OSError, lmdb.Error) as error:
        raise StoreError(f"cannot open the state {path}: {error}") from None


def remove_environment(path: Path) -> None:
    """Remove what is left of the last start."""
    for each in (path, path.with_name(path.name + "-lock")):
        each.unlink(missing_ok=True)


class LmdbState:
    """
    Counters, blocks and standings in the file *path*, shared by all processes that open it.

    *memory*, *most_blocks* and *remember* as of `MemoryState`; the file takes no more than twice *memory* and some.
    Each process opens it for itself: not to be taken along through a fork.
    """

    def __init__(
        self,
        path: Path,
        windows: Sequence[RateLimit],
        *,
        memory: int = 300_000_000,
        most_blocks: int = 100_000,
        remember: float = 0.0,
    ) -> None:
        self._environment = open_environment(path, 2 * memory + _ROOM)
        self._known, self._days, self._order, self._strikes, self._changed, self.more = (
            self._environment.open_db(name) for name in (b"known", b"days", b"order", b"strikes", b"changed", b"more")
        )
        self._trails = LmdbCounters(self._environment, windows, memory)
        self._most: dict[bytes, int] = {
            b"b": most_blocks, b"o": most_blocks,
            b"s": memory // 4 // _STANDING_COST, b"e": memory // 16 // _ENTRY_COST,
        }  # fmt: skip
        self._most_days = memory // 4 // _TODAY_COST
        self._remember = remember
        self._lock = Lock()
        self._lost = 0

    def use(self, windows: Sequence[RateLimit]) -> None:
        """Count for these windows from now on: settings were read again. What is remembered stays."""
        self._trails.use(windows)

    alone = 0

    @property
    def forgotten(self) -> int:
        """Visitors that this process has forgotten because there was no room."""
        return self._trails.forgotten + self._lost

    def __len__(self) -> int:
        """How many keys have counters now."""
        with self._environment.begin() as txn:
            return int(txn.stat(self._trails.database)["entries"])

    @property
    def spent(self) -> int:
        """Bytes that the counters take now."""
        with self._environment.begin() as txn:
            return self._trails.size(txn)

    def close(self) -> None:
        self._environment.close()

    def keep_in(self, journal: SqliteJournal) -> None:
        """
        Have what changes noted in *journal*, by this process for all of them.

        What each process notes by itself could be written in another order than it happened.
        """
        journal.gather = partial(self._tell, journal)

    def _tell(self, journal: Journal) -> None:
        with self.writing() as txn:
            keys = [key.decode("utf-8", "surrogateescape") for _, key in txn.cursor(self._changed)]
            txn.drop(self._changed, delete=False)
            found = [(key, self._get(txn, name_of(key))) for key in keys]
        for key, known in found:
            journal.note_block(key, known.block if known is not None else None)
            journal.note_score(key, known.score if known is not None else None)

    def _note(self, txn: lmdb.Transaction, key: str) -> None:
        txn.put(name_of(key), key.encode("utf-8", "surrogateescape"), db=self._changed)

    @contextlib.contextmanager
    def writing(self) -> Iterator[lmdb.Transaction]:
        """
        One step that nobody sees half of.

        Where the file is full all counters go: the limits leave room, so that is the answer to what was not foreseen.
        """
        with self._lock:
            try:
                with self._environment.begin(write=True) as txn:
                    yield txn
            except lmdb.MapFullError:
                with self._environment.begin(write=True) as txn:
                    self._lost += txn.stat(self._trails.database)["entries"]
                    txn.drop(self._trails.database, delete=False)
                raise StoreError("the state was full, and has forgotten its counters; set memory higher") from None

    def reading(self) -> lmdb.Transaction:
        """What is there now, as of one moment."""
        return self._environment.begin()

    # ---- The state

    def record_visit(self, question: StateQuery) -> StateReply:
        with self.writing() as txn:
            return self._recall(txn, question, 1 if question.kind in _OF_A_DAY else 0, 1)

    def reclassify(self, question: StateQuery, claimed: Kind) -> StateReply:
        with self.writing() as txn:
            self._trails.take_back(txn, question, series_of(claimed))
            return self._recall(txn, question, (question.kind in _OF_A_DAY) - (claimed in _OF_A_DAY), 0)

    def commit(self, block: Block) -> None:
        with self.writing() as txn:
            self._commit(txn, block)

    def update_score(self, change: ScoreUpdate) -> None:
        with self.writing() as txn:
            name = name_of(change.key)
            known = self._get(txn, name) or _Known(change.key)
            if change.entry:
                known.entries = (*known.entries, change.entry)[-_MOST_ENTRIES:]
                self._renumber(txn, name, known, b"e")
            if change.weight or change.identity or change.cleared or change.codes:
                known.score = updated_score(known.score, change)
                self._renumber(txn, name, known, b"s")
                self._note(txn, change.key)
            self._put(txn, name, known)
            self._keep_within(txn, b"e")
            self._keep_within(txn, b"s")

    def forgive(self, key: str) -> bool:
        with self.writing() as txn:
            name = name_of(key)
            txn.delete(name, db=self._days)
            known = self._get(txn, name)
            if known is None:
                return False
            had = known.score is not None
            if had:
                self._lose(txn, known, b"s")
                self._note(txn, key)
            self._lose(txn, known, b"o")
            blocked = self._unblock(txn, known)
            self._put(txn, name, known)
            return blocked or had

    def blocks(self, at: float) -> Sequence[Block]:
        found = (known.block for known in self._in_order(b"b"))
        return [block for block in found if block is not None and block.until > at]

    def scores(self) -> Sequence[tuple[str, VisitorScore]]:
        return [(known.key, known.score) for known in self._in_order(b"s") if known.score is not None]

    def restore(self, blocks: Sequence[Block], scores: Sequence[tuple[str, VisitorScore]]) -> None:
        """Take over what was remembered before a restart."""
        with self.writing() as txn:
            for block in blocks:
                self._commit(txn, block)
            for key, score in scores[-self._most[b"s"] :]:
                name = name_of(key)
                known = self._get(txn, name) or _Known(key)
                known.score = score
                self._renumber(txn, name, known, b"s")
                self._put(txn, name, known)

    # ---- Counting

    def _recall(self, txn: lmdb.Transaction, question: StateQuery, more: int, visits: int) -> StateReply:
        """Answer, with *more* requests counted for the day, and *visits* for the rate of the site."""
        at, visitor, prefix = question.at, question.visitor, question.prefix
        today = self._count_today(txn, question, more) if question.day and question.count else 0
        block, offences, own = self._known_of(txn, question)
        if block is not None:
            return StateReply(block, _UNCOUNTED)
        strikes = self._count_strikes(txn, prefix, at) if visitor != prefix else 0
        score, entries = (own.score, own.entries) if own is not None else (None, ())
        counts = self._trails.count(txn, question) if self._trails.counts_kind(question) else _UNCOUNTED
        rate = self._count_site(txn, at, visits) if question.site_rate and question.count else 0.0
        return StateReply(None, counts, strikes, score, today, entries, offences, rate)

    def _count_site(self, txn: lmdb.Transaction, at: float, visits: int) -> float:
        rate, since = _RATE.unpack(txn.get(b"rate", default=_RATE.pack(0.0, 0.0), db=self.more))
        rate = updated_rate(rate, since, at, visits)
        txn.put(b"rate", _RATE.pack(rate, max(since, at)), db=self.more)
        return rate

    def _count_today(self, txn: lmdb.Transaction, question: StateQuery, more: int) -> int:
        """Count requests of this day; those of the day before are forgotten."""
        name = name_of(question.visitor)
        newest = _DAY.unpack(txn.get(b"day", default=_DAY.pack(0, 0), db=self.more))[0]
        if question.day > newest:
            txn.drop(self._days, delete=False)
            txn.put(b"day", _DAY.pack(question.day, 0), db=self.more)
            newest = question.day
        data = txn.get(name, db=self._days)
        count = _UNTIL.unpack(data)[0] if data is not None else 0.0
        if question.day == newest:
            count += more
        txn.put(name, _UNTIL.pack(count), db=self._days)
        if txn.stat(self._days)["entries"] > self._most_days:
            with txn.cursor(self._days) as cursor:
                if not cursor.set_range(name_of(question.visitor) + b"\0"):
                    cursor.first()
                cursor.delete()
        return int(count)

    # ---- What is known

    def _get(self, txn: lmdb.Transaction, name: bytes) -> _Known | None:
        data = txn.get(name, db=self._known)
        return _DECODER.decode(data) if data is not None else None

    def _put(self, txn: lmdb.Transaction, name: bytes, known: _Known) -> None:
        if known.is_empty():
            txn.delete(name, db=self._known)
        else:
            txn.put(name, _ENCODER.encode(known), db=self._known)

    def _known_of(
        self, txn: lmdb.Transaction, question: StateQuery
    ) -> tuple[Block | None, tuple[tuple[str, int], ...], _Known | None]:
        """The block in force, the offences, and what is known of the visitor."""
        block, own, offences = None, None, []
        for key in (question.visitor, prefix_key(question.prefix), question.network):
            name = name_of(key)
            data = txn.get(name, db=self._known) if key else None
            if data is None:
                continue
            known = _DECODER.decode(data)
            if key == question.visitor:
                own = known
            changed = False
            if known.block is not None and block is None:
                if known.block.until > question.at:
                    block = known.block
                else:
                    changed = self._unblock(txn, known)
            if known.offence:
                if known.offence_until > question.at:
                    offences.append((key, known.offence))
                else:
                    self._lose(txn, known, b"o")
                    changed = True
            if changed:
                self._put(txn, name, known)
        return block, tuple(offences), own

    def _count_strikes(self, txn: lmdb.Transaction, prefix: str, at: float) -> int:
        start, count, over = name_of(prefix) + b"\0", 0, []
        with txn.cursor(self._strikes) as cursor:
            there = cursor.set_range(start)
            while there and cursor.key().startswith(start):
                if _UNTIL.unpack(cursor.value()[:8])[0] > at:
                    count += 1
                else:
                    over.append(cursor.value()[8:])
                there = cursor.next()
        for name in over:
            known = self._get(txn, name)
            if known is not None:
                self._unblock(txn, known)
                self._put(txn, name, known)
        return count

    def _commit(self, txn: lmdb.Transaction, block: Block) -> None:
        # Whoever is blocked starts from nothing when the block has run out or is forgiven.
        name = name_of(block.key)
        known = self._get(txn, name) or _Known(block.key)
        self._unblock(txn, known)
        known.block = block
        self._renumber(txn, name, known, b"b")
        self._note(txn, block.key)
        if self._remember:
            known.offence, known.offence_until = block.offence, block.until + self._remember
            self._renumber(txn, name, known, b"o")
        if known.score is not None:
            before = known.score
            known.score = VisitorScore(at=before.at, day=before.day, challenges=before.challenges)
        self._put(txn, name, known)
        self._trails.forget(txn, block.key)
        if block.key == prefix_key(block.prefix):
            self._trails.forget(txn, block.prefix)
        if block.key.startswith((ACCOUNT, CLEARANCE)):
            txn.put(self._strike(block), _UNTIL.pack(block.until) + name, db=self._strikes)
        self._keep_within(txn, b"b")
        self._keep_within(txn, b"o")

    @staticmethod
    def _strike(block: Block) -> bytes:
        return (
            name_of(block.prefix)
            + b"\0"
            + blake2b(block.key.encode("utf-8", "surrogateescape"), digest_size=16).digest()
        )

    def _unblock(self, txn: lmdb.Transaction, known: _Known) -> bool:
        if known.block is None:
            return False
        self._note(txn, known.key)
        txn.delete(self._strike(known.block), db=self._strikes)
        self._lose(txn, known, b"b")
        return True

    # ---- The order of each sort

    def _renumber(self, txn: lmdb.Transaction, name: bytes, known: _Known, sort: Sort) -> None:
        """This part of *known* is the one that has changed last."""
        before = known.numbers.get(sort)
        if before is not None:
            txn.delete(sort + _NUMBER.pack(before), db=self._order)
        else:
            self._count_sort(txn, sort, 1)
        number = _NUMBER.unpack(txn.get(b"number", default=_NUMBER.pack(0), db=self.more))[0] + 1
        txn.put(b"number", _NUMBER.pack(number), db=self.more)
        txn.put(sort + _NUMBER.pack(number), name, db=self._order)
        known.numbers[sort] = number

    def _count_sort(self, txn: lmdb.Transaction, sort: Sort, more: int) -> int:
        count = _DAY.unpack(txn.get(b"count" + sort, default=_DAY.pack(0, 0), db=self.more))[0] + more
        if more:
            txn.put(b"count" + sort, _DAY.pack(count, 0), db=self.more)
        return int(count)

    def _lose(self, txn: lmdb.Transaction, known: _Known, sort: Sort) -> None:
        """This part of *known* is gone."""
        number = known.numbers.pop(sort, None)
        if number is not None:
            txn.delete(sort + _NUMBER.pack(number), db=self._order)
            self._count_sort(txn, sort, -1)
        if sort == b"b":
            known.block = None
        elif sort == b"s":
            known.score = None
        elif sort == b"e":
            known.entries = ()
        else:
            known.offence, known.offence_until = 0, 0.0

    def _keep_within(self, txn: lmdb.Transaction, sort: Sort) -> None:
        """Of too many the one that has changed first goes."""
        if self._count_sort(txn, sort, 0) <= self._most[sort]:
            return
        with txn.cursor(self._order) as cursor:
            if not cursor.set_range(sort) or not cursor.key().startswith(sort):
                return
            name = cursor.value()
        known = self._get(txn, name)
        if known is None:
            return
        if sort == b"b":
            self._unblock(txn, known)
        else:
            self._lose(txn, known, sort)
            self._lost += sort == b"s"
        self._put(txn, name, known)

    def _in_order(self, sort: Sort) -> Iterator[_Known]:
        with self._environment.begin() as txn, txn.cursor(self._order) as cursor:
            there = cursor.set_range(sort)
            while there and cursor.key().startswith(sort):
                known = self._get(txn, cursor.value())
                if known is not None:
                    yield known
                there = cursor.next()


def entries_with_prefix(txn: lmdb.Transaction, database: object, start: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The entries of *database* whose key begins with *start*, in the order of their keys."""
    with txn.cursor(database) as cursor:
        there = cursor.set_range(start)
        while there and cursor.key().startswith(start):
            yield cursor.item()
            there = cursor.next()

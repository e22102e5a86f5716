"""
The lists in SQLite, shared by all processes of a site: the command line writes, gates read along.

Every transaction that changes something has a number, and each row carries that of its last change; what is removed
leaves a row that says so, for an hour. A gate asks twice a second, in a thread of its own, whether the file has
changed (`PRAGMA data_version`, some microseconds), and takes in the rows with a higher number than it has seen. So a
change costs what was changed, not what is there, and no request ever waits for SQL.
"""

from __future__ import annotations

import contextlib
import logging
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from hedgerow.errors import StoreError
from hedgerow.policy.lists import Listing, ListName, Lists, Sort, network_text, parse_subject
from hedgerow.stores.asn import AsnFile

log = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    list TEXT NOT NULL, subject TEXT NOT NULL, sort TEXT NOT NULL, reason TEXT NOT NULL, author TEXT NOT NULL,
    since REAL NOT NULL, until REAL NOT NULL, change INTEGER NOT NULL, gone INTEGER NOT NULL,
    PRIMARY KEY (list, subject)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entries_change ON entries (change);
CREATE TABLE IF NOT EXISTS changes (number INTEGER PRIMARY KEY, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS purged (number INTEGER NOT NULL);
"""
_VERSION = 1
_COLUMNS = "list, subject, reason, author, since, until"
_PUT = (
    "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0) ON CONFLICT (list, subject) DO UPDATE SET "
    "reason = excluded.reason, author = excluded.author, since = excluded.since, until = excluded.until, "
    "change = excluded.change, gone = 0"
)
_LARGE = 64_000_000
_PATIENCE = 30.0
_ROWS_AT_ONCE = 200
_PAUSE = 0.5
_BREATH = 0.001
_HOUR = 3600.0
_KEPT_ENDED = 7 * 86_400.0


class Wanted(msgspec.Struct, frozen=True):
    """Which entries to read. *address* asks for those that hold it, *text* for a word of the reason."""

    list: ListName | None = None
    sort: Sort | None = None
    subject: str = ""
    address: str = ""
    author: str = ""
    text: str = ""
    in_force_at: float | None = None
    after: tuple[str, str] | None = None
    limit: int = -1


class ListStore(Protocol):
    """The entries of all lists, kept for good. Each call is one transaction."""

    def read(self, wanted: Wanted = ...) -> Iterator[Listing]:
        """Entries in the order of list and subject."""

    def add(self, listing: Listing) -> bool:
        """Whether it was new; what was there stays as it is. An entry that has ended is there no longer."""

    def put(self, listings: Iterable[Listing], *, replacing: str = "") -> int:
        """
        Take all entries, or none where the iterable raises; how many there were.

        What the author *replacing* had entered before and is not among them goes.
        """

    def remove(self, name: ListName, subject: str) -> bool: ...


class SqliteLists:
    """
    The entries in the SQLite file *path*, which the first write makes.

    *clock* says what time it is: ended entries do not stand in the way of new ones.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock

    # ---- Reading

    def read(self, wanted: Wanted | None = None) -> Iterator[Listing]:
        if not self.path.exists():
            return
        where, values = _conditions(wanted or Wanted())
        query = f"SELECT {_COLUMNS} FROM entries WHERE {where}"  # noqa: S608 - the values are bound
        with self._connected() as connection, _broken(self.path):
            for row in connection.execute(query, values):
                yield Listing(*row)

    def count(self, name: ListName, at: float) -> int:
        """How many entries of a list are in force."""
        if not self.path.exists():
            return 0
        query = "SELECT count(*) FROM entries WHERE list = ? AND gone = 0 AND (until = 0 OR until > ?)"
        with self._connected() as connection, _broken(self.path):
            return int(connection.execute(query, (name, at)).fetchone()[0])

    # ---- Writing

    def add(self, listing: Listing) -> bool:
        with self._changing() as (connection, number):
            query = "SELECT 1 FROM entries WHERE list = ? AND subject = ? AND gone = 0 AND (until = 0 OR until > ?)"
            if connection.execute(query, (listing.list, listing.subject, self._clock())).fetchone():
                return False
            connection.execute(_PUT, _row(listing, number))
            return True

    def put(self, listings: Iterable[Listing], *, replacing: str = "") -> int:
        count = 0

        def rows(number: int) -> Iterator[tuple[object, ...]]:
            nonlocal count
            for listing in listings:
                count += 1
                yield _row(listing, number)

        with self._changing() as (connection, number):
            connection.executemany(_PUT, rows(number))
            if replacing:
                query = "UPDATE entries SET gone = 1, change = ? WHERE author = ? AND gone = 0 AND change < ?"
                connection.execute(query, (number, replacing, number))
        return count

    def remove(self, name: ListName, subject: str) -> bool:
        with self._changing() as (connection, number):
            query = "UPDATE entries SET gone = 1, change = ? WHERE list = ? AND subject = ? AND gone = 0"
            return connection.execute(query, (number, name, subject)).rowcount > 0

    def purge(self) -> None:
        """Forget entries that ended a week ago, and what is said of those removed an hour ago."""
        if not self.path.exists():
            return
        now = self._clock()
        with self._changing() as (connection, number):
            ended = "UPDATE entries SET gone = 1, change = ? WHERE gone = 0 AND until > 0 AND until < ?"
            connection.execute(ended, (number, now - _KEPT_ENDED))
            old = connection.execute("SELECT max(number) FROM changes WHERE at < ?", (now - _HOUR,)).fetchone()[0]
            if old is not None:
                connection.execute("DELETE FROM entries WHERE gone = 1 AND change <= ?", (old,))
                connection.execute("DELETE FROM changes WHERE number <= ?", (old,))
                connection.execute("UPDATE purged SET number = max(number, ?)", (old,))

    # ---- The file

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with _broken(self.path):
            if not self.path.exists():
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                # Like key and ledger, for its owner alone.
                self.path.touch(mode=0o600)
            connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                connection.execute(f"PRAGMA journal_size_limit={_LARGE}")
                if not connection.execute("PRAGMA user_version").fetchone()[0]:
                    self._make_tables(connection)
                yield connection
            finally:
                connection.close()

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute("INSERT INTO purged VALUES (0)")
            connection.execute(f"PRAGMA user_version={_VERSION}")
        connection.execute("COMMIT")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[tuple[sqlite3.Connection, int]]:
        """A transaction and its number."""
        with self._connected() as connection:
            connection.execute(f"PRAGMA cache_size=-{_LARGE // 1000}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                last = connection.execute(
                    "SELECT max(ifnull((SELECT max(number) FROM changes), 0), number) FROM purged"
                ).fetchone()[0]
                connection.execute("INSERT INTO changes VALUES (?, ?)", (last + 1, self._clock()))
                yield connection, last + 1
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise


def _row(listing: Listing, number: int) -> tuple[object, ...]:
    return (
        listing.list, listing.subject, parse_subject(listing.subject).sort, listing.reason, listing.author,
        listing.since, listing.until, number,
    )  # fmt: skip


@contextlib.contextmanager
def _broken(path: Path) -> Iterator[None]:
    """What SQLite and the disk have to say, as one line."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise StoreError(f"the lists {path} are being written by another program; try again") from None
        raise StoreError(f"cannot use the lists {path}: {error}") from None
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot use the lists {path}: {error}") from None


def _conditions(wanted: Wanted) -> tuple[str, list[object]]:
    conditions, values = ["gone = 0"], list[object]()
    for column, value in (("list", wanted.list), ("sort", wanted.sort), ("subject", wanted.subject)):
        if value:
            conditions.append(f"{column} = ?")
            values.append(value)
    if wanted.author:
        conditions.append("author = ?")
        values.append(wanted.author)
    if wanted.text:
        conditions.append("instr(lower(reason), lower(?)) > 0")
        values.append(wanted.text)
    if wanted.address:
        holding = _holding(wanted.address)
        conditions.append(f"subject IN ({', '.join('?' * len(holding))})")
        values += holding
    if wanted.in_force_at is not None:
        conditions.append("(until = 0 OR until > ?)")
        values.append(wanted.in_force_at)
    if wanted.after is not None:
        conditions.append("(list, subject) > (?, ?)")
        values += wanted.after
    values.append(wanted.limit)
    return " AND ".join(conditions) + " ORDER BY list, subject LIMIT ?", values


def _holding(address: str) -> Sequence[str]:
    """Every network that holds an address or network, as one writes it."""
    subject = parse_subject(address)
    if not subject.version:
        return [subject.text]
    bits = 32 if subject.version == 4 else 128  # noqa: PLR2004 - IPv4
    return [
        network_text(subject.version, subject.start >> shift << shift, shift)
        for shift in range(subject.shift, bits + 1)
    ]


class Follower:
    """
    Keeps *lists* as the store has them, in a thread of its own, from the first `take` until `close`.

    *asn* is a MaxMind file that tells operators; it is opened again when it is replaced.
    """

    def __init__(self, store: SqliteLists, lists: Lists, *, asn: AsnFile | None = None) -> None:
        self.store = store
        self.lists = lists
        self._asn = asn
        self._seen = 0
        self._version: Any = None
        self._connection: sqlite3.Connection | None = None
        self._failing = False
        self._purged_at = -math.inf
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hedgerow-lists", daemon=True)

    def start(self) -> None:
        """Take in what is there, then keep looking."""
        self.take(at_once=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._disconnect()

    def _run(self) -> None:
        while not self._stop.wait(_PAUSE):
            try:
                self._purge()
                self.take()
            except Exception as error:  # noqa: BLE001 - whatever it is, the lists stay as they are, and we look again
                if not self._failing:
                    log.error("the lists cannot be read, they stay as they are: %s", error)  # noqa: TRY400
                self._failing = True
                self._disconnect()
            else:
                self._failing = False

    def _purge(self) -> None:
        now = time.monotonic()
        if now - self._purged_at > _HOUR:
            self._purged_at = now
            self.store.purge()

    def take(self, *, at_once: bool = False) -> None:
        """
        Take in what has changed since the last time.

        Much of it is taken in small pieces with pauses in between, in which requests are answered, but for the first
        time.
        """
        with self._lock:
            if self.store.path.exists():
                with _broken(self.store.path):
                    self._take_changes((lambda: None) if at_once else self._breathe)
            if self._asn is not None and (asn_of := self._asn.changed()) is not None:
                self.lists.use(asn_of)

    def _take_changes(self, pause: Callable[[], None]) -> None:
        connection = self._connect()
        version = connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:
            self._take(connection, pause)
            self._version = version

    def _breathe(self) -> None:
        if not self._stop.is_set():
            time.sleep(_BREATH)

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            # Through the store, which makes the tables where they are not yet there.
            with self.store._connected():  # noqa: SLF001 - of this module
                pass
            self._connection = sqlite3.connect(self.store.path, isolation_level=None, check_same_thread=False)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection, self._version = self._connection, None, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _take(self, connection: sqlite3.Connection, pause: Callable[[], None]) -> None:
        connection.execute("BEGIN")
        try:
            newest, purged = connection.execute(
                "SELECT ifnull((SELECT max(number) FROM changes), number), number FROM purged"
            ).fetchone()
            if self._seen < purged and self._seen:
                # Asleep for an hour: what was removed meanwhile is no longer told, so begin anew.
                self.lists.clear()
                self._seen = 0
            query = f"SELECT {_COLUMNS}, gone FROM entries WHERE change > ?"  # noqa: S608 - constants
            cursor = connection.execute(query, (self._seen,))
            taken = 0
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                for *row, gone in rows:
                    if gone:
                        self.lists.drop(row[0], row[1])
                    else:
                        self.lists.put(Listing(*row))
                taken += len(rows)
                pause()
        finally:
            connection.execute("COMMIT")
        if taken:
            self.lists.settle(_sometimes(pause))
        self._seen = max(newest, purged)


def _sometimes(pause: Callable[[], None], every: int = 50) -> Callable[[], None]:
    calls = 0

    def paused() -> None:
        nonlocal calls
        calls += 1
        if not calls % every:
            pause()

    return paused

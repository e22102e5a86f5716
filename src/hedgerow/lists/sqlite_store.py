"""
The store of lists in SQLite, shared by all processes of a machine: the command line writes, servers follow.

`PRAGMA data_version` says in a few microseconds whether the file has changed.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hedgerow.corrupt_files import one_at_a_time
from hedgerow.errors import StoreCorruptError, StoreError
from hedgerow.file_owner import create_private_file, make_directory
from hedgerow.lists.sql_store import BATCH_SIZE, ListChanges, ListStore, Row
from hedgerow.sqlite_file import is_corrupt, set_database_aside, transaction

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
_CACHE_BYTES = 64_000_000
_LOCK_TIMEOUT = 30.0


class SqliteLists(ListStore):
    """The entries in the SQLite file *path*, which the first write creates."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self.path = path

    def follow(self) -> SqliteListFeed:
        return SqliteListFeed(self)

    def execute(self, connection: sqlite3.Connection, query: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        return connection.execute(query, values)

    def _exists(self) -> bool:
        return self.path.exists()

    def _select(self, query: str, values: Sequence[object]) -> Iterator[Sequence[Any]]:
        with self.connected() as connection:
            yield from connection.execute(query, values)

    def _put_rows(self, connection: sqlite3.Connection, rows: Iterator[Row]) -> None:
        connection.executemany(self.put_query, rows)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self.connected() as connection:
            connection.execute(f"PRAGMA cache_size=-{_CACHE_BYTES // 1000}")
            with transaction(connection):
                yield connection

    @contextlib.contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """Connect to the file, which is created if it does not exist."""
        with _store_errors(self.path):
            if not self.path.exists():
                make_directory(self.path.parent)
                # Readable by its owner only, like the key and the ledger.
                create_private_file(self.path)
            connection = sqlite3.connect(
                self.path, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                connection.execute(f"PRAGMA journal_size_limit={_CACHE_BYTES}")
                if not connection.execute("PRAGMA user_version").fetchone()[0]:
                    self._make_tables(connection)
                yield connection
            finally:
                connection.close()

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        with transaction(connection):
            if not connection.execute("PRAGMA user_version").fetchone()[0]:
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
                connection.execute("INSERT INTO purged VALUES (0)")
                connection.execute(f"PRAGMA user_version={_VERSION}")


class SqliteListFeed:
    """Reports changes of the file of *store*, once it exists."""

    def __init__(self, store: SqliteLists) -> None:
        self._store = store
        self._connection: sqlite3.Connection | None = None
        self._version: Any = None

    @contextlib.contextmanager
    def since(self, seen: int) -> Iterator[ListChanges | None]:
        if not self._store.path.exists():
            yield None
            return
        with _store_errors(self._store.path):
            connection = self._connect()
            version = connection.execute("PRAGMA data_version").fetchone()[0]
            if version == self._version:
                yield None
                return
            connection.execute("BEGIN")
            try:
                yield self._store.changes_since(seen, connection, self._batches)
            finally:
                connection.execute("COMMIT")
            self._version = version

    def close(self) -> None:
        connection, self._connection, self._version = self._connection, None, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            # The store creates the tables if they do not exist yet.
            with self._store.connected():
                pass
            self._connection = sqlite3.connect(self._store.path, isolation_level=None, check_same_thread=False)
        return self._connection

    def _batches(self, query: str, values: Sequence[object]) -> Iterator[Sequence[Any]]:
        cursor = self._connect().execute(query, values)
        while rows := cursor.fetchmany(BATCH_SIZE):
            yield rows


def _is_sound(path: Path) -> bool:
    """Return whether another process has replaced the corrupt file meanwhile."""
    try:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except sqlite3.Error:
        return False


@contextlib.contextmanager
def _store_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            raise StoreError(f"the lists {path} are being written by another program; try again") from None
        if is_corrupt(error):
            with one_at_a_time(path.parent):
                if not _is_sound(path):
                    set_database_aside(path, "the file of the lists", error)
            raise StoreCorruptError(f"the lists {path} were corrupt; import or enter them again") from None
        raise StoreError(f"cannot use the lists {path}: {error}") from None

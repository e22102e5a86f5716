"""
Used challenges in a SQLite file, shared by all processes of a machine.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from pathlib import Path

from hedgerow.errors import StoreError

log = logging.getLogger(__name__)

_BUSY = 2.0


_PURGE_EVERY = 256


_SCHEMA = """
CREATE TABLE IF NOT EXISTS spent (id BLOB PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS spent_until ON spent (until);
CREATE TABLE IF NOT EXISTS floor (one INTEGER PRIMARY KEY CHECK (one = 1), until REAL NOT NULL);
INSERT OR IGNORE INTO floor VALUES (1, 0);
"""


class SqliteUsedChallenges:
    """At most some *most* challenges in the SQLite file *path*. Opened when the first is spent."""

    def __init__(self, path: Path, most: int = 100_000) -> None:
        self._path = path
        self._most = most
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._since_purge = 0

    def __len__(self) -> int:
        with self._lock:
            return int(self._open().execute("SELECT count(*) FROM spent").fetchone()[0])

    def mark_used(self, challenge: bytes, until: float, at: float) -> bool:
        """As promised; where the file cannot be written nothing is accepted."""
        if until <= at:
            return False
        try:
            with self._lock:
                return self._spend(self._open(), challenge, until, at)
        except (sqlite3.Error, StoreError) as error:
            log.error("challenges cannot be spent, so none counts: %s", error)  # noqa: TRY400
            return False

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            connection = sqlite3.connect(self._path, timeout=_BUSY, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode=WAL")
            # What a power failure forgets has expired before the machine is up again.
            connection.execute("PRAGMA synchronous=OFF")
            connection.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot open the spent challenges {self._path}: {error}") from None
        self._connection = connection
        return connection

    def _spend(self, connection: sqlite3.Connection, challenge: bytes, until: float, at: float) -> bool:
        # One statement: whoever inserts the row has spent it, in whatever process.
        first = connection.execute(
            "INSERT OR IGNORE INTO spent SELECT ?, ? WHERE ? > (SELECT until FROM floor)", (challenge, until, until)
        ).rowcount
        self._since_purge += 1
        if self._since_purge >= min(_PURGE_EVERY, self._most):
            self._since_purge = 0
            self._purge(connection, at)
        return first == 1

    def _purge(self, connection: sqlite3.Connection, at: float) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute("DELETE FROM spent WHERE until <= ?", (at,))
            over = connection.execute("SELECT count(*) FROM spent").fetchone()[0] - self._most
            if over > 0:
                row = connection.execute(
                    "SELECT until FROM spent ORDER BY until LIMIT 1 OFFSET ?", (over - 1,)
                ).fetchone()
                connection.execute("UPDATE floor SET until = max(until, ?)", row)
                connection.execute("DELETE FROM spent WHERE until <= ?", row)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

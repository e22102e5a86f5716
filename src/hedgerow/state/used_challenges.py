"""The used challenges of one process, in memory, and those of all processes of a machine, in a SQLite file."""

from __future__ import annotations

import heapq
import logging
import math
import sqlite3
import threading
from pathlib import Path

from hedgerow.errors import StoreError
from hedgerow.sqlite_file import is_corrupt, open_database, transaction

log = logging.getLogger(__name__)

_BUSY_TIMEOUT = 2.0
_PURGE_EVERY = 256
_SCHEMA = """
CREATE TABLE IF NOT EXISTS spent (id BLOB PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS spent_until ON spent (until);
CREATE TABLE IF NOT EXISTS floor (one INTEGER PRIMARY KEY CHECK (one = 1), until REAL NOT NULL);
INSERT OR IGNORE INTO floor VALUES (1, 0);
"""


class MemoryUsedChallenges:
    """At most *most* challenges. If there are more, no challenge that ends before the forgotten ones is accepted."""

    def __init__(self, most: int = 100_000) -> None:
        self._most = most
        self._used: set[bytes] = set()
        self._ends: list[tuple[float, bytes]] = []
        self._floor = -math.inf
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._used)

    def mark_used(self, challenge: bytes, until: float, at: float) -> bool:
        with self._lock:
            while self._ends and self._ends[0][0] <= at:
                self._used.discard(heapq.heappop(self._ends)[1])
            if until <= at or until <= self._floor or challenge in self._used:
                return False
            self._used.add(challenge)
            heapq.heappush(self._ends, (until, challenge))
            while len(self._used) > self._most:
                self._floor, soonest = heapq.heappop(self._ends)
                self._used.discard(soonest)
            return True

    def close(self) -> None:
        pass


class SqliteUsedChallenges:
    """About *most* challenges in the SQLite file *path*, which is opened when the first one is used."""

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
        """Return whether this is the first use. If the file cannot be written, no challenge is accepted."""
        if until <= at:
            return False
        try:
            with self._lock:
                try:
                    return self._insert(self._open(), challenge, until, at)
                except sqlite3.DatabaseError as error:
                    if not is_corrupt(error):
                        raise
                # Opening it again sets it aside.
                self._disconnect()
                return self._insert(self._open(check=True), challenge, until, at)
        except (sqlite3.Error, StoreError) as error:
            log.error("cannot mark challenges as used, so none is accepted: %s", error)  # noqa: TRY400
            return False

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self, *, check: bool = False) -> sqlite3.Connection:
        if self._connection is None:
            # Challenges that a power failure loses have expired before the machine runs again.
            self._connection = open_database(
                self._path, _SCHEMA, name="the used challenges", timeout=_BUSY_TIMEOUT, synchronous="OFF", mode=0o700,
                check=check,
            )  # fmt: skip
        return self._connection

    def _insert(self, connection: sqlite3.Connection, challenge: bytes, until: float, at: float) -> bool:
        # One statement, so that only one process can insert the row.
        first = connection.execute(
            "INSERT OR IGNORE INTO spent SELECT ?, ? WHERE ? > (SELECT until FROM floor)", (challenge, until, until)
        ).rowcount
        self._since_purge += 1
        if self._since_purge >= min(_PURGE_EVERY, self._most):
            self._since_purge = 0
            self._purge(connection, at)
        return first == 1

    def _purge(self, connection: sqlite3.Connection, at: float) -> None:
        with transaction(connection):
            connection.execute("DELETE FROM spent WHERE until <= ?", (at,))
            over = connection.execute("SELECT count(*) FROM spent").fetchone()[0] - self._most
            if over > 0:
                query = "SELECT until FROM spent ORDER BY until LIMIT 1 OFFSET ?"
                row = connection.execute(query, (over - 1,)).fetchone()
                connection.execute("UPDATE floor SET until = max(until, ?)", row)
                connection.execute("DELETE FROM spent WHERE until <= ?", row)

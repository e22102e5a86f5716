"""Pending sessions in the SQLite file of the state, so that they survive a restart. Written in batches."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hedgerow.errors import StoreError
from hedgerow.state.sqlite.journal import connect
from hedgerow.watch.models.panel import PanelRecord
from hedgerow.watch.snapshot import SnapshotChanges, WatchSnapshot

_SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (key BLOB PRIMARY KEY, at REAL NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ties (key BLOB PRIMARY KEY, at REAL NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS panels (kind TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS positions (ledger TEXT PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID;
"""
_MAX_AGE = 86_400.0


class SqliteSessions:
    """Stores sessions and link records of the last day, counted from the most recent one, and panel records."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        try:
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise StoreError(f"cannot open {path}: {error}") from None

    def read(self) -> WatchSnapshot:
        rows = self._connection.execute("SELECT key, value FROM sessions ORDER BY at").fetchall()
        ties = self._connection.execute("SELECT key, value FROM ties ORDER BY at").fetchall()
        sessions = [(key.decode("utf-8", "surrogateescape"), value) for key, value in rows]
        return WatchSnapshot(sessions, ties, read_records(self._connection))

    def position(self, ledger: str) -> int | None:
        """Return the last row of *ledger* that the sessions include, or None if unknown."""
        row = self._connection.execute("SELECT id FROM positions WHERE ledger = ?", (ledger,)).fetchone()
        return int(row[0]) if row is not None else None

    def write(
        self, changes: SnapshotChanges, records: Sequence[PanelRecord] = (), position: tuple[str, int] | None = None
    ) -> None:
        """
        Write changes and records in one transaction, so that a crash never leaves half of them.

        *position* names a ledger and its last row that the sessions include.
        """
        connection = self._connection
        sessions = {_encode(key): value for key, value in changes.sessions.items()}
        connection.execute("BEGIN IMMEDIATE")
        try:
            for table, changed in (("sessions", sessions), ("ties", changes.ties)):
                removed = [(key,) for key, value in changed.items() if value is None]
                updated = [(key, *value) for key, value in changed.items() if value is not None]
                connection.executemany(f"DELETE FROM {table} WHERE key = ?", removed)  # noqa: S608 - one of two constants
                connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", updated)  # noqa: S608
                latest = f"(SELECT max(at) FROM {table})"  # noqa: S608
                connection.execute(f"DELETE FROM {table} WHERE at < {latest} - ?", (_MAX_AGE,))  # noqa: S608
            encoded = [(record.kind, msgspec.json.encode(record)) for record in records]
            connection.executemany("INSERT OR REPLACE INTO panels VALUES (?, ?)", encoded)
            if position is not None:
                connection.execute("INSERT OR REPLACE INTO positions VALUES (?, ?)", position)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._connection.close()


def read_records(connection: sqlite3.Connection) -> list[PanelRecord]:
    """Return the stored panel records. Records written by another version are skipped."""
    records = []
    try:
        rows = connection.execute("SELECT value FROM panels ORDER BY kind").fetchall()
    except sqlite3.OperationalError:
        # No watch has written to this file yet.
        return []
    for (value,) in rows:
        with contextlib.suppress(msgspec.MsgspecError):
            records.append(msgspec.json.decode(value, type=PanelRecord))
    return records


def _encode(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")

"""Pending sessions in the SQLite file of the state, so that they outlive a restart. Written in batches."""

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
_KEPT_FOR = 86_400.0


class SqliteSessions:
    """
    Keeps the sessions and ties of those who were seen within the last day, counted from the last one that was; and what
    panels have recorded.
    """

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        try:
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise StoreError(f"cannot open {path}: {error}") from None

    def read(self) -> WatchSnapshot:
        """All that is kept, the oldest first."""
        rows = self._connection.execute("SELECT key, value FROM sessions ORDER BY at").fetchall()
        ties = self._connection.execute("SELECT key, value FROM ties ORDER BY at").fetchall()
        sessions = [(key.decode("utf-8", "surrogateescape"), value) for key, value in rows]
        return WatchSnapshot(sessions, ties, read_records(self._connection))

    def position(self, ledger: str) -> int | None:
        """Up to which row of *ledger* the sessions go, or None where nobody knows."""
        row = self._connection.execute("SELECT id FROM positions WHERE ledger = ?", (ledger,)).fetchone()
        return int(row[0]) if row is not None else None

    def write(
        self, changes: SnapshotChanges, records: Sequence[PanelRecord] = (), position: tuple[str, int] | None = None
    ) -> None:
        """
        Keep these, in one step: a crash leaves all of it or nothing.

        *position*: they go up to this row of that ledger, and no further.
        """
        connection = self._connection
        sessions = {_text(key): value for key, value in changes.sessions.items()}
        connection.execute("BEGIN IMMEDIATE")
        try:
            for table, changed in (("sessions", sessions), ("ties", changes.ties)):
                gone = [(key,) for key, value in changed.items() if value is None]
                kept = [(key, *value) for key, value in changed.items() if value is not None]
                connection.executemany(f"DELETE FROM {table} WHERE key = ?", gone)  # noqa: S608 - of two
                connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", kept)  # noqa: S608
                last = f"(SELECT max(at) FROM {table})"  # noqa: S608
                connection.execute(f"DELETE FROM {table} WHERE at < {last} - ?", (_KEPT_FOR,))  # noqa: S608
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
    """What panels have recorded; what another version wrote is left out."""
    found = []
    try:
        rows = connection.execute("SELECT value FROM panels ORDER BY kind").fetchall()
    except sqlite3.OperationalError:
        # No watch has ever written here.
        return []
    for (value,) in rows:
        with contextlib.suppress(msgspec.MsgspecError):
            found.append(msgspec.json.decode(value, type=PanelRecord))
    return found


def _text(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")

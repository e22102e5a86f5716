"""Pending sessions in the SQLite file of the state, so that they outlive a restart. Written in batches."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from hedgerow.errors import StoreError
from hedgerow.stores.journal import connect

_SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (key BLOB PRIMARY KEY, at REAL NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS positions (ledger TEXT PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID;
"""
_KEPT_FOR = 86_400.0


class SqliteSessions:
    """Keeps the sessions of those who were seen within the last day, counted from the last one that was."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        try:
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise StoreError(f"cannot open {path}: {error}") from None

    def read(self) -> Sequence[tuple[str, bytes]]:
        """All that are kept, the oldest first."""
        rows = self._connection.execute("SELECT key, value FROM sessions ORDER BY at")
        return [(key.decode("utf-8", "surrogateescape"), value) for key, value in rows]

    def position(self, ledger: str) -> int | None:
        """Up to which row of *ledger* the sessions go, or None where nobody knows."""
        row = self._connection.execute("SELECT id FROM positions WHERE ledger = ?", (ledger,)).fetchone()
        return int(row[0]) if row is not None else None

    def write(self, changed: Mapping[str, tuple[float, bytes] | None], position: tuple[str, int] | None = None) -> None:
        """
        Keep these: when each was last seen, and what it is; None: it is gone.

        *position*: they go up to this row of that ledger, and no further.
        """
        connection = self._connection
        gone = [(_text(key),) for key, value in changed.items() if value is None]
        kept = [(_text(key), *value) for key, value in changed.items() if value is not None]
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany("DELETE FROM sessions WHERE key = ?", gone)
            connection.executemany("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", kept)
            connection.execute("DELETE FROM sessions WHERE at < (SELECT max(at) FROM sessions) - ?", (_KEPT_FOR,))
            if position is not None:
                connection.execute("INSERT OR REPLACE INTO positions VALUES (?, ?)", position)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._connection.close()


def _text(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")

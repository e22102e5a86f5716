"""Pending sessions: what survives a restart of a watch, and its store in the SQLite file of the state."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from hedgerow.errors import StoreError
from hedgerow.markers.token import visitor_digest
from hedgerow.sqlite_file import transaction
from hedgerow.state.sqlite.journal import connect
from hedgerow.watch.models.panel import Difference, PanelRecord
from hedgerow.watch.sessions.path import PathSession
from hedgerow.watch.sessions.window import SessionWindow

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
        """Write everything in one transaction. *position* is the ledger and its last row that the sessions include."""
        connection = self._connection
        sessions = {key.encode("utf-8", "surrogateescape"): value for key, value in changes.sessions.items()}
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


class StoredSession(msgspec.Struct, frozen=True):
    """
    What the watch has stored about a visitor: its last session and its use of links, as bytes in hexadecimal.

    *comparisons* are judgements in which a shadow and the bundle in use differed.
    """

    latest: float
    pages: int
    session: str
    links: str
    comparisons: list[Difference]


def read_visitor(connection: sqlite3.Connection, visitor: str) -> StoredSession | None:
    """Return what is stored about one visitor, or None."""
    key, digest = visitor.encode("utf-8", "surrogateescape"), visitor_digest(visitor)
    try:
        row = connection.execute("SELECT at, value FROM sessions WHERE key = ?", (key,)).fetchone()
        tie = connection.execute("SELECT at, value FROM ties WHERE key = ?", (digest,)).fetchone()
    except sqlite3.OperationalError:
        # No watch has written to this file yet.
        return None
    found = [one for record in read_records(connection) for one in record.differences if one.visitor == visitor]
    if row is None and tie is None and not found:
        return None
    at, value = row or (0.0, b"")
    tie_at, links = tie or (0.0, b"")
    return stored_session(max(at, tie_at), value, links, found)


def stored_session(at: float, session: bytes, links: bytes, found: Sequence[Difference] = ()) -> StoredSession:
    pending = PendingSession.from_bytes(session)
    return StoredSession(at, pending.size if pending else 0, session.hex(), links.hex(), list(found))


def delete_visitor(connection: sqlite3.Connection, visitor: str) -> bool:
    """Delete what is stored about one visitor. Return whether there was anything."""
    if read_visitor(connection, visitor) is None:
        return False
    key, digest = visitor.encode("utf-8", "surrogateescape"), visitor_digest(visitor)
    # Overwrite the rows: deleted ones would stay readable in the file.
    connection.execute("PRAGMA secure_delete = ON")
    with transaction(connection):
        connection.execute("DELETE FROM sessions WHERE key = ?", (key,))
        connection.execute("DELETE FROM ties WHERE key = ?", (digest,))
        for record in read_records(connection):
            record.differences = [one for one in record.differences if one.visitor != visitor]
            connection.execute("REPLACE INTO panels VALUES (?, ?)", (record.kind, msgspec.json.encode(record)))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return True


_LENGTH = 2


class PendingSession(msgspec.Struct, gc=False, eq=False):
    """A visitor's *path* and *window*; None where the watch does not use it."""

    path: PathSession | None = None
    window: SessionWindow | None = None

    @property
    def latest(self) -> float:
        return self.path.latest if self.path is not None else self.window.latest if self.window is not None else 0.0

    @property
    def size(self) -> int:
        return max(self.path.size if self.path is not None else 0, self.window.size if self.window is not None else 0)

    def to_bytes(self) -> bytes:
        path = self.path.to_bytes() if self.path is not None else b""
        return len(path).to_bytes(_LENGTH, "big") + path + (self.window.to_bytes() if self.window is not None else b"")

    @classmethod
    def from_bytes(
        cls, data: bytes, paths: type[PathSession] = PathSession, windows: type[SessionWindow] = SessionWindow
    ) -> Self | None:
        """Return the session in *data*, or None if neither path nor window is valid."""
        end = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
        if len(data) < max(end, _LENGTH):
            return None
        path, window = paths.from_bytes(data[_LENGTH:end]), windows.from_bytes(data[end:])
        return cls(path, window) if path is not None or window is not None else None


class SnapshotChanges(NamedTuple):
    """Sessions by visitor and link records by visitor digest: (last seen, value), or None if removed."""

    sessions: Mapping[str, tuple[float, bytes] | None]
    ties: Mapping[bytes, tuple[float, bytes] | None]

    def __len__(self) -> int:
        return len(self.sessions) + len(self.ties)


class WatchSnapshot(NamedTuple):
    """Sessions and link records from before a restart, oldest first, and the records of the model panels."""

    sessions: Sequence[tuple[str, bytes]] = ()
    ties: Sequence[tuple[bytes, bytes]] = ()
    records: Sequence[PanelRecord] = ()

"""
What outlives a restart: blocks and standings, in a SQLite file beside the ledger.

The state is in memory; what changes in it is noted here, the last of each key, and written twice a second by a thread
of its own. At the start it is read back. What a crash loses is half a second.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import sqlite3
import threading
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from hedgerow.errors import StoreError
from hedgerow.recall import Standing
from hedgerow.verdict import Block

log = logging.getLogger(__name__)

_PAUSE = 0.5
_SCHEMA = """
CREATE TABLE IF NOT EXISTS blocks (key BLOB PRIMARY KEY, until REAL NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS standings (key BLOB PRIMARY KEY, at REAL NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
"""
_KEPT_FOR = 7 * 86_400.0

Table = Literal["blocks", "standings"]


class Journal(Protocol):
    """Takes down what changes in a state. None: it is gone."""

    def note_block(self, key: str, block: Block | None) -> None: ...

    def note_standing(self, key: str, standing: Standing | None) -> None: ...


class SqliteJournal:
    """Notes changes in the SQLite file *path*."""

    def __init__(self, path: Path) -> None:
        self._noted: dict[tuple[Table, str], Block | Standing | None] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failing = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            self._connection = sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot open {path}: {error}") from None
        self._thread = threading.Thread(target=self._run, name="hedgerow-journal", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def note_block(self, key: str, block: Block | None) -> None:
        with self._lock:
            self._noted["blocks", key] = block

    def note_standing(self, key: str, standing: Standing | None) -> None:
        with self._lock:
            self._noted["standings", key] = standing

    def read(self, at: float) -> tuple[list[Block], list[tuple[str, Standing]]]:
        """The blocks in force at *at*, and the standings of the last days; the rest is removed. The oldest first."""
        connection = self._connection
        connection.execute("DELETE FROM blocks WHERE until <= ?", (at,))
        connection.execute("DELETE FROM standings WHERE at <= ?", (at - _KEPT_FOR,))
        blocks = [
            msgspec.json.decode(value, type=Block)
            for (value,) in connection.execute("SELECT value FROM blocks ORDER BY until")
        ]
        standings = [
            (_key(key), msgspec.json.decode(value, type=Standing))
            for key, value in connection.execute("SELECT key, value FROM standings ORDER BY at")
        ]
        return blocks, standings

    def close(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self._connection.close()
            atexit.unregister(self.close)

    def _run(self) -> None:
        while not self._stop.wait(_PAUSE):
            self._write()
        self._write()

    def _write(self) -> None:
        with self._lock:
            noted, self._noted = self._noted, {}
        if not noted:
            return
        try:
            self._write_all(noted)
            self._failing = False
        except sqlite3.Error as error:
            if not self._failing:
                log.error("blocks and standings cannot be written: %s", error)  # noqa: TRY400
            self._failing = True
            with self._lock:
                # Tried again, and what has changed since wins.
                self._noted = {**noted, **self._noted}

    def _write_all(self, noted: dict[tuple[Table, str], Block | Standing | None]) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            for (table, key), value in noted.items():
                if value is None:
                    connection.execute(f"DELETE FROM {table} WHERE key = ?", (_text(key),))  # noqa: S608 - of two
                    continue
                moment = value.until if isinstance(value, Block) else value.at
                row = (_text(key), moment, msgspec.json.encode(value))
                connection.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", row)  # noqa: S608 - of two
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise


def _text(key: str) -> bytes:
    """A key as SQLite can keep it, whatever is in it."""
    return key.encode("utf-8", "surrogateescape")


def _key(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")

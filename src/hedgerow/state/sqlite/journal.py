"""
What outlives a restart: blocks, standings and campaigns, in a SQLite file beside the ledger.

The state is in memory; what changes in it is noted here, the last of each key, and written four times a second by a
thread of its own. At the start it is read back. What a crash loses is a quarter of a second.

The way back is here too: orders (an administrator's to forgive or to block, a watch's to change a standing) are put
into the same file, and every process that has it open carries them out at its next turn.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from hedgerow.core.decision import Block, Campaign, ScoreUpdate, VisitorScore
from hedgerow.errors import StoreError

log = logging.getLogger(__name__)

_PAUSE = 0.25
_SCHEMA = """
CREATE TABLE IF NOT EXISTS blocks (key BLOB PRIMARY KEY, until REAL NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS standings (key BLOB PRIMARY KEY, at REAL NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS campaigns (key BLOB PRIMARY KEY, at REAL NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orders (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL, block BLOB, change BLOB
);
"""
_KEPT_FOR = 7 * 86_400.0
_ORDERS_KEPT = 1000
_CHANGES_KEPT = 100_000

Table = Literal["blocks", "standings", "campaigns"]
Noted = Block | VisitorScore | Campaign | None


Obey = Callable[[str, Block | ScoreUpdate | None], None]
"""Carries an order out: a block for a key, a change of its standing, or, with None, that it is forgiven."""


class Journal(Protocol):
    """Takes down what changes in a state. None: it is gone."""

    def note_block(self, key: str, block: Block | None) -> None: ...

    def note_score(self, key: str, score: VisitorScore | None) -> None: ...

    def note_campaign(self, key: str, campaign: Campaign | None) -> None: ...


def connect(path: Path) -> sqlite3.Connection:
    """Open the file *path*, made where there is none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        connection = sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.executescript(_SCHEMA)
        if "change" not in {row[1] for row in connection.execute("PRAGMA table_info(orders)")}:
            connection.execute("ALTER TABLE orders ADD COLUMN change BLOB")
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot open {path}: {error}") from None
    return connection


def read(connection: sqlite3.Connection, at: float) -> tuple[list[Block], list[tuple[str, VisitorScore]]]:
    """The blocks in force at *at*, and the standings, the oldest first."""
    blocks = [
        msgspec.json.decode(value, type=Block)
        for (value,) in connection.execute("SELECT value FROM blocks WHERE until > ? ORDER BY until", (at,))
    ]
    scores = [
        (_key(key), msgspec.json.decode(value, type=VisitorScore))
        for key, value in connection.execute("SELECT key, value FROM standings ORDER BY at")
    ]
    return blocks, scores


def read_campaigns(connection: sqlite3.Connection) -> list[Campaign]:
    """The campaigns, the one that was seen last at the end."""
    rows = connection.execute("SELECT value FROM campaigns ORDER BY at")
    return [msgspec.json.decode(value, type=Campaign) for (value,) in rows]


def order_changes(connection: sqlite3.Connection, changes: Sequence[ScoreUpdate]) -> None:
    """Have standings changed by whoever runs: the word of a watch that is a process of its own."""
    rows = [(_text(change.key), msgspec.json.encode(change)) for change in changes]
    with _transaction(connection):
        connection.executemany("INSERT INTO orders (key, change) VALUES (?, ?)", rows)
        last = "(SELECT max(id) FROM orders)"
        connection.execute(f"DELETE FROM orders WHERE id <= {last} - ?", (_CHANGES_KEPT,))  # noqa: S608 - a constant


def order(connection: sqlite3.Connection, key: str, block: Block | None) -> bool:
    """
    Have *key* blocked, or forgiven: written down here, and carried out by whoever runs.

    False where there was nothing to forgive.
    """
    connection.execute("BEGIN IMMEDIATE")
    known = False
    for table in ("blocks", "standings"):
        gone = connection.execute(f"DELETE FROM {table} WHERE key = ?", (_text(key),))  # noqa: S608 - of two
        known = known or gone.rowcount > 0
    encoded = msgspec.json.encode(block) if block is not None else None
    if block is not None:
        connection.execute("INSERT INTO blocks VALUES (?, ?, ?)", (_text(key), block.until, encoded))
    if known or block is not None:
        connection.execute("INSERT INTO orders (key, block) VALUES (?, ?)", (_text(key), encoded))
        last = "(SELECT max(id) FROM orders)"
        connection.execute(
            f"DELETE FROM orders WHERE id <= {last} - ? AND change IS NULL",  # noqa: S608 - a constant
            (_ORDERS_KEPT,),
        )
    connection.execute("COMMIT")
    return known


class SqliteJournal:
    """Notes changes in the SQLite file *path*; *obey*, where it is set, carries out an administrator's orders."""

    obey: Obey | None = None
    gather: Callable[[], None] | None = None
    """Called before each writing, by a state that is asked what has changed instead of telling."""

    def __init__(self, path: Path) -> None:
        self._noted: dict[tuple[Table, str], Noted] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failing = False
        self._connection = connect(path)
        # What was ordered before is in the tables.
        self._obeyed: int = self._connection.execute("SELECT coalesce(max(id), 0) FROM orders").fetchone()[0]
        self._thread = threading.Thread(target=self._run, name="hedgerow-journal", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def note_block(self, key: str, block: Block | None) -> None:
        with self._lock:
            self._noted["blocks", key] = block

    def note_score(self, key: str, score: VisitorScore | None) -> None:
        with self._lock:
            self._noted["standings", key] = score

    def note_campaign(self, key: str, campaign: Campaign | None) -> None:
        with self._lock:
            self._noted["campaigns", key] = campaign

    def campaigns(self, at: float) -> list[Campaign]:
        """The campaigns of the last days; the rest is removed."""
        self._connection.execute("DELETE FROM campaigns WHERE at <= ?", (at - _KEPT_FOR,))
        return read_campaigns(self._connection)

    def read(self, at: float) -> tuple[list[Block], list[tuple[str, VisitorScore]]]:
        """The blocks in force at *at*, and the standings of the last days; the rest is removed. The oldest first."""
        connection = self._connection
        connection.execute("DELETE FROM blocks WHERE until <= ?", (at,))
        connection.execute("DELETE FROM standings WHERE at <= ?", (at - _KEPT_FOR,))
        return read(connection, at)

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
        """Write what was noted, and look for orders."""
        if self.obey is not None:
            self._carry_out(self.obey)
        if self.gather is not None:
            self.gather()
        with self._lock:
            noted, self._noted = self._noted, {}
        if not noted:
            return
        try:
            self._write_all(noted)
            self._failing = False
        except sqlite3.Error as error:
            if not self._failing:
                log.error("blocks, standings and campaigns cannot be written: %s", error)  # noqa: TRY400
            self._failing = True
            with self._lock:
                # Tried again, and what has changed since wins.
                self._noted = {**noted, **self._noted}

    def _carry_out(self, obey: Obey) -> None:
        orders = "SELECT id, key, block, change FROM orders WHERE id > ? ORDER BY id"
        try:
            for number, key, block, change in self._connection.execute(orders, (self._obeyed,)).fetchall():
                self._obeyed = number
                if change is not None:
                    obey(_key(key), msgspec.json.decode(change, type=ScoreUpdate))
                else:
                    obey(_key(key), msgspec.json.decode(block, type=Block) if block is not None else None)
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            log.error("an order cannot be read: %s", error)  # noqa: TRY400

    def _write_all(self, noted: dict[tuple[Table, str], Noted]) -> None:
        connection = self._connection
        with _transaction(connection):
            for (table, key), value in noted.items():
                if value is None:
                    connection.execute(f"DELETE FROM {table} WHERE key = ?", (_text(key),))  # noqa: S608 - of three
                    continue
                row = (_text(key), _moment(value), msgspec.json.encode(value))
                connection.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", row)  # noqa: S608 - of three


def _moment(value: Block | VisitorScore | Campaign) -> float:
    """By which time a row is kept or dropped."""
    if isinstance(value, Block):
        return value.until
    return value.at if isinstance(value, VisitorScore) else value.seen


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
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

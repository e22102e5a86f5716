"""
The journal: the blocks, scores and campaigns of a site in a SQLite file next to the ledger, for the next start.

The state reports each change, and a thread writes the last value of each key four times a second. So a crash loses at
most a quarter of a second.

Commands travel through the same file in the other direction: an operator blocks or forgives a key, and a separate watch
process changes scores. Every process that has the file open carries them out.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import msgspec

from hedgerow.core.decision import Block, Campaign, ScoreUpdate, VisitorScore
from hedgerow.errors import StoreError
from hedgerow.sqlite_file import is_corrupt, open_database, transaction

log = logging.getLogger(__name__)

DESCRIPTION = "the state"
_INTERVAL = 0.25
_SCHEMA = """
CREATE TABLE IF NOT EXISTS blocks (key BLOB PRIMARY KEY, until REAL NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS standings (key BLOB PRIMARY KEY, at REAL NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS campaigns (key BLOB PRIMARY KEY, at REAL NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orders (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL, block BLOB, change BLOB
);
"""
_MAX_AGE = 7 * 86_400.0
_MAX_COMMANDS = 1000
_MAX_SCORE_UPDATES = 100_000

T = TypeVar("T")
Table = Literal["blocks", "standings", "campaigns"]
Restored = tuple[list[Block], list[tuple[str, VisitorScore]]]
"""The blocks in force, and the scores by key, oldest first."""
OnCommand = Callable[[str, Block | ScoreUpdate | None], None]
"""Carries out a command for a key: sets a block, updates the score, or forgives the key (None)."""


class Journal(Protocol):
    """Receives the changes of a state. None means removed."""

    def note_block(self, key: str, block: Block | None) -> None: ...

    def note_score(self, key: str, score: VisitorScore | None) -> None: ...

    def note_campaign(self, key: str, campaign: Campaign | None) -> None: ...


def connect(path: Path) -> sqlite3.Connection:
    connection = open_database(path, _SCHEMA, name=DESCRIPTION, check=True)
    if "change" not in {row[1] for row in connection.execute("PRAGMA table_info(orders)")}:
        # Another process may add it at the same time.
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("ALTER TABLE orders ADD COLUMN change BLOB")
    return connection


def read(connection: sqlite3.Connection, at: float) -> Restored:
    """Return the blocks in force at *at*, and all scores."""
    blocks = connection.execute("SELECT key, value FROM blocks WHERE until > ? ORDER BY until", (at,))
    scores = connection.execute("SELECT key, value FROM standings ORDER BY at")
    return [block for _, block in _decoded(blocks, Block)], list(_decoded(scores, VisitorScore))


def _decoded(rows: Iterable[tuple[bytes, bytes]], kind: type[T]) -> Iterator[tuple[str, T]]:
    """Yield keys and values. Damaged rows, and those of another version, are skipped."""
    skipped = 0
    for key, value in rows:
        try:
            yield _decode_key(key), msgspec.json.decode(value, type=kind)
        except (msgspec.MsgspecError, TypeError, AttributeError):
            skipped += 1
    if skipped:
        log.error("%d rows of the state cannot be read and are ignored (%s)", skipped, kind.__name__)


def read_campaigns(connection: sqlite3.Connection) -> list[Campaign]:
    """Return the campaigns, the one seen last at the end."""
    rows = connection.execute("SELECT key, value FROM campaigns ORDER BY at")
    return [campaign for _, campaign in _decoded(rows, Campaign)]


def order_changes(connection: sqlite3.Connection, changes: Sequence[ScoreUpdate]) -> None:
    """Tell the running processes to update scores."""
    rows = [(_encode_key(change.key), msgspec.json.encode(change)) for change in changes]
    with transaction(connection):
        connection.executemany("INSERT INTO orders (key, change) VALUES (?, ?)", rows)
        _drop_old_commands(connection, _MAX_SCORE_UPDATES)


def order(connection: sqlite3.Connection, key: str, block: Block | None) -> bool:
    """Tell the running processes to block or forgive *key*, and return whether anything was known about it."""
    name = _encode_key(key)
    with transaction(connection):
        removed = [
            connection.execute(f"DELETE FROM {table} WHERE key = ?", (name,)).rowcount  # noqa: S608 - one of two
            for table in ("blocks", "standings")
        ]
        encoded = msgspec.json.encode(block) if block is not None else None
        if block is not None:
            connection.execute("INSERT INTO blocks VALUES (?, ?, ?)", (name, block.until, encoded))
        if any(removed) or block is not None:
            connection.execute("INSERT INTO orders (key, block) VALUES (?, ?)", (name, encoded))
            _drop_old_commands(connection, _MAX_COMMANDS, "AND change IS NULL")
    return any(removed)


def _drop_old_commands(connection: sqlite3.Connection, most: int, condition: str = "") -> None:
    query = f"DELETE FROM orders WHERE id <= (SELECT max(id) FROM orders) - ? {condition}"  # noqa: S608 - a constant
    connection.execute(query, (most,))


class SqliteJournal:
    """Writes changes to the SQLite file *path*, and calls *on_command*, if it is set, for each command."""

    on_command: OnCommand | None = None
    before_write: Callable[[], None] | None = None
    """Called before each write, for a state that collects its changes."""

    def __init__(self, path: Path) -> None:
        self._noted: dict[tuple[Table, str], Block | VisitorScore | Campaign | None] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failing = False
        self._path = path
        self.errors = 0
        """How often changes could not be written."""
        self._connection = connect(path)
        # Earlier commands are already in the tables.
        self._last_command = _last_command(self._connection)
        self._thread = threading.Thread(target=self._run, name="hedgerow-journal", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @property
    def failing(self) -> bool:
        """Whether changes wait because they cannot be written."""
        return self._failing

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
        """Return the campaigns of the last week, and delete older ones."""
        self._connection.execute("DELETE FROM campaigns WHERE at <= ?", (at - _MAX_AGE,))
        return read_campaigns(self._connection)

    def read(self, at: float) -> Restored:
        """Return the blocks in force at *at* and the scores of the last week, and delete the others."""
        self._connection.execute("DELETE FROM blocks WHERE until <= ?", (at,))
        self._connection.execute("DELETE FROM standings WHERE at <= ?", (at - _MAX_AGE,))
        return read(self._connection, at)

    def close(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self._connection.close()
            atexit.unregister(self.close)

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL):
            self._write()
        self._write()

    def _write(self) -> None:
        """Carry out new commands, and write the changes."""
        if self.on_command is not None:
            self._carry_out(self.on_command)
        if self.before_write is not None:
            self.before_write()
        with self._lock:
            noted, self._noted = self._noted, {}
        if not noted:
            return
        try:
            with transaction(self._connection):
                for (table, key), value in noted.items():
                    self._write_one(table, _encode_key(key), value)
            self._failing = False
        except sqlite3.Error as error:
            if not self._failing:
                log.error("cannot write blocks, scores and campaigns: %s", error)  # noqa: TRY400
            self._failing = True
            self.errors += 1
            with self._lock:
                # Try again later. Newer changes win.
                self._noted = {**noted, **self._noted}
            if is_corrupt(error):
                self._start_anew()

    def _start_anew(self) -> None:
        """Open the file again: a corrupt one is set aside by that."""
        with contextlib.suppress(StoreError):
            connection = connect(self._path)
            self._connection.close()
            self._connection, self._last_command = connection, _last_command(connection)

    def _write_one(self, table: Table, key: bytes, value: Block | VisitorScore | Campaign | None) -> None:
        if value is None:
            self._connection.execute(f"DELETE FROM {table} WHERE key = ?", (key,))  # noqa: S608 - one of three
            return
        # The time by which the row is kept or deleted.
        at = value.until if isinstance(value, Block) else value.at if isinstance(value, VisitorScore) else value.seen
        row = (key, at, msgspec.json.encode(value))
        self._connection.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", row)  # noqa: S608 - one of three

    def _carry_out(self, on_command: OnCommand) -> None:
        commands = "SELECT id, key, block, change FROM orders WHERE id > ? ORDER BY id"
        try:
            for number, key, block, change in self._connection.execute(commands, (self._last_command,)).fetchall():
                self._last_command = number
                if change is not None:
                    on_command(_decode_key(key), msgspec.json.decode(change, type=ScoreUpdate))
                else:
                    on_command(_decode_key(key), msgspec.json.decode(block, type=Block) if block is not None else None)
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            log.error("cannot read a command: %s", error)  # noqa: TRY400


def _last_command(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(id), 0) FROM orders").fetchone()[0])


def _encode_key(key: str) -> bytes:
    """Encode any key, even one that is not valid Unicode, for SQLite."""
    return key.encode("utf-8", "surrogateescape")


def _decode_key(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")

"""
The ledger in SQLite, written in one transaction per batch. If the disk is full, entries are dropped and counted.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from itertools import chain
from pathlib import Path

import msgspec

from hedgerow.core.ledger import Entry
from hedgerow.corrupt_files import one_at_a_time
from hedgerow.errors import StoreError
from hedgerow.ledger import minutes
from hedgerow.ledger.believed_time import BelievedTime
from hedgerow.ledger.pseudonyms import Hide, hide_in_text
from hedgerow.ledger.queue import QueuedLedger
from hedgerow.sqlite_file import is_corrupt, open_database, set_database_aside, transaction

log = logging.getLogger(__name__)

_DESCRIPTION = "the ledger"
_PURGE_INTERVAL = 3600.0
_DAY = 86400.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS visits (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, visitor TEXT NOT NULL, address TEXT NOT NULL, account TEXT NOT NULL,
    method TEXT NOT NULL, host TEXT NOT NULL, target TEXT NOT NULL, kind TEXT NOT NULL, referrer TEXT NOT NULL,
    user_agent TEXT NOT NULL, origin TEXT NOT NULL, prefetch INTEGER NOT NULL, bot TEXT NOT NULL,
    marker_kind TEXT, minted_for BLOB, parent BLOB, marker_target TEXT,
    asked TEXT NOT NULL, tampered INTEGER NOT NULL, linked BLOB NOT NULL,
    status INTEGER NOT NULL, action TEXT NOT NULL, code TEXT NOT NULL, evidence TEXT NOT NULL, ref TEXT NOT NULL,
    claim TEXT NOT NULL DEFAULT '', proof TEXT NOT NULL DEFAULT '', signs TEXT NOT NULL DEFAULT '',
    fingerprint TEXT NOT NULL DEFAULT '', observed TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS visits_at ON visits (at);
CREATE INDEX IF NOT EXISTS visits_ref ON visits (ref) WHERE ref <> '';
CREATE TABLE IF NOT EXISTS clock (id INTEGER PRIMARY KEY, confirmed REAL NOT NULL, jumped REAL NOT NULL);
"""
# After the columns of older versions were added.
_INDEXES = """
CREATE INDEX IF NOT EXISTS visits_visitor ON visits (visitor, at);
CREATE INDEX IF NOT EXISTS visits_stopped ON visits (at) WHERE action <> 'pass';
DROP INDEX IF EXISTS visits_bots;
CREATE INDEX IF NOT EXISTS visits_claims ON visits (at, bot, claim, proof) WHERE (bot <> '' OR claim <> '');
"""
# A ledger of an older version gets the counts of its last day, once more if an upgrade was cut off.
_FILL_MINUTES = """
INSERT OR REPLACE INTO minutes
    SELECT CAST(at / 60 AS INTEGER) * 60 AS m, action, CASE WHEN action = 'pass' THEN '' ELSE code END AS c, observed,
        count(*), sum(kind = 'page')
    FROM visits WHERE at > (SELECT max(at) FROM visits) - 86400 GROUP BY m, action, c, observed
"""
_MINUTES = """
CREATE TABLE IF NOT EXISTS minutes (
    minute INTEGER NOT NULL, action TEXT NOT NULL, code TEXT NOT NULL, observed TEXT NOT NULL,
    visits INTEGER NOT NULL, pages INTEGER NOT NULL, PRIMARY KEY (minute, action, code, observed)
) WITHOUT ROWID;
"""
COLUMNS = (
    "at", "visitor", "address", "account", "method", "host", "target", "kind", "referrer", "user_agent", "origin",
    "prefetch", "bot", "marker_kind", "minted_for", "parent", "marker_target", "asked", "tampered", "linked", "status",
    "action", "code", "evidence", "ref", "claim", "proof", "signs", "fingerprint", "observed",
)  # fmt: skip
"""The columns of a row; see `row_of`."""
_INTO = f"INSERT INTO visits ({', '.join(COLUMNS)}) VALUES"
_VALUES = f"({', '.join('?' * len(COLUMNS))})"
# Many rows per statement: between two statements Python switches to other threads and waits for its turn again.
_ROWS_PER_INSERT = 50
_INSERT = f"{_INTO} {_VALUES}"
_INSERT_MANY = f"{_INTO} {', '.join([_VALUES] * _ROWS_PER_INSERT)}"
_ADD_MINUTE = minutes.add("minutes", "?")
_VERSION = 4
# Columns that ledgers of older versions lack, in the order of the schema.
LATER_COLUMNS = ("claim", "proof", "signs", "fingerprint", "observed")


def _text(value: str) -> str:
    """Escape lone surrogates (undecodable bytes of a request), which SQLite cannot store."""
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def row_of(entry: Entry, hide: Hide | None = None) -> tuple[object, ...]:
    """Return the row of an entry, with the addresses as *hide* wants them stored."""
    visit, decision = entry.visit, entry.decision
    mark = visit.marker
    marker: tuple[object, ...] = (None, None, None, None)
    if mark is not None:
        # The generation needs no column of its own: for nearly all links it is 0.
        parent = mark.parent + bytes((mark.generation,)) if mark.generation else mark.parent
        marker = (mark.kind, mark.issued_to, parent, _text(mark.target))
    evidence = msgspec.json.encode(decision.evidence).decode() if decision.evidence else "[]"
    visitor, address = visit.visitor, visit.address
    if hide is not None:
        visitor, address, evidence = hide(visitor), hide(address), hide_in_text(evidence, hide)
    return (
        visit.at, _text(visitor), _text(address), _text(visit.account), _text(visit.method),
        _text(visit.host), _text(visit.target), visit.kind, _text(visit.referrer), _text(visit.user_agent),
        visit.origin, visit.prefetch, visit.bot, *marker, _text(visit.raw_target), visit.tampered,
        b"".join(visit.linked),
        entry.status, decision.action, decision.code, evidence, entry.reference,
        _text(visit.claim), visit.proof, " ".join(visit.anomalies), _text(visit.fingerprint),
        decision.observed,
    )  # fmt: skip


def _open(path: Path, *, may_replace: bool = True) -> sqlite3.Connection:
    """Open the file *path*, creating it or upgrading it to this version."""
    connection = open_database(path, "", name=_DESCRIPTION)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            connection.close()
            raise StoreError(
                f"the ledger {path} has version {version}, from a newer Hedgerow; this one supports {_VERSION}"
            )
        _convert_first_format(connection)
        connection.executescript(_SCHEMA)
        _add_columns(connection)
        connection.executescript(_INDEXES)
        if version < _VERSION:
            _add_minutes(connection)
    except sqlite3.Error as error:
        connection.close()
        if is_corrupt(error) and may_replace:
            with one_at_a_time(path.parent):
                with contextlib.suppress(StoreError):
                    # Another process may have replaced it meanwhile.
                    return _open(path, may_replace=False)
                set_database_aside(path, _DESCRIPTION, error)
                return _open(path, may_replace=False)
        raise StoreError(f"cannot open the ledger {path}: {error}") from None
    return connection


def _convert_first_format(connection: sqlite3.Connection) -> None:
    """Convert a ledger of the first format, which had other names for the fields of a marker."""
    if "marker_index" not in {row[1] for row in connection.execute("PRAGMA table_info(visits)")}:
        return
    same = (
        "id, at, visitor, address, account, method, host, target, kind, referrer, user_agent, origin, prefetch, bot, "
        "marker_kind, minted_for, status, action, code, evidence, ref"
    )
    connection.executescript(
        f"BEGIN IMMEDIATE; ALTER TABLE visits RENAME TO first; DROP INDEX visits_at; DROP INDEX visits_ref; {_SCHEMA} "  # noqa: S608
        f"INSERT INTO visits ({same}, parent, marker_target, asked, tampered, linked) "
        f"SELECT {same}, page, iif(marker_kind IS NULL, NULL, ''), '', 0, x'' FROM first; DROP TABLE first; COMMIT;"
    )


def _add_columns(connection: sqlite3.Connection) -> None:
    existing = {row[1] for row in connection.execute("PRAGMA table_info(visits)")}
    for name in LATER_COLUMNS:
        if name not in existing:
            with contextlib.suppress(sqlite3.OperationalError):
                # Another process may have added it in the meantime.
                connection.execute(f"ALTER TABLE visits ADD COLUMN {name} TEXT NOT NULL DEFAULT ''")


def _add_minutes(connection: sqlite3.Connection) -> None:
    """Add the table of counts, with those of the last day. Another process may do so at the same time."""
    with transaction(connection):
        if connection.execute("PRAGMA user_version").fetchone()[0] < _VERSION:
            connection.execute(_MINUTES)
            connection.execute(_FILL_MINUTES)
            connection.execute(f"PRAGMA user_version={_VERSION}")


def migrate(path: Path) -> tuple[int, int]:
    """Upgrade the ledger *path*, and return its old and new version. The gate does so by itself."""
    try:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            first = int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error as error:
        raise StoreError(f"cannot open the ledger {path}: {error}") from None
    _open(path).close()
    return first, _VERSION


class SqliteLedger(QueuedLedger):
    """Writes entries to the SQLite file *path* and keeps them for *keep_days*. *hide* changes the addresses."""

    def __init__(self, path: Path, *, keep_days: float = 30.0, queue: int = 100_000, hide: Hide | None = None) -> None:
        super().__init__(queue)
        self._hide = hide
        self._keep = keep_days * _DAY
        self._purged_at = 0.0
        self._path = path
        self._connection = _open(path)
        self._inode = path.stat().st_ino
        self._time = BelievedTime(*(self._connection.execute("SELECT confirmed, jumped FROM clock").fetchone() or ()))
        self._start()

    def _disconnect(self) -> None:
        self._connection.close()

    def _write_pending(self) -> None:
        for batch in self._batches():
            try:
                self._write(batch)
            except Exception as error:  # noqa: BLE001 - the writer thread must go on
                if not self.failing:
                    log.error("cannot write the ledger, entries are lost: %s", error)  # noqa: TRY400
                self.failing = True
                self.errors += 1
                self.lost += len(batch)
                if is_corrupt(error):
                    self._start_anew(error)
                return
            self.failing = False

    def _start_anew(self, error: Exception) -> None:
        """Set the corrupt file aside, unless another process has done so, and go on with a new one."""
        with contextlib.suppress(StoreError, OSError):
            with one_at_a_time(self._path.parent):
                if self._path.stat().st_ino == self._inode:
                    set_database_aside(self._path, _DESCRIPTION, error)
            self._connection.close()
            self._connection, self._inode = _open(self._path), self._path.stat().st_ino

    def _write(self, batch: list[Entry]) -> None:
        connection, hide = self._connection, self._hide
        rows = [row_of(entry, hide) for entry in batch]
        with transaction(connection):
            whole = len(batch) - len(batch) % _ROWS_PER_INSERT
            for at in range(0, whole, _ROWS_PER_INSERT):
                connection.execute(_INSERT_MANY, list(chain.from_iterable(rows[at : at + _ROWS_PER_INSERT])))
            connection.executemany(_INSERT, rows[whole:])
            connection.executemany(_ADD_MINUTE, minutes.count_minutes(rows, COLUMNS))
            newest = min(batch[-1].visit.at, self._time.now())
            # Also after a clock that was ahead has been set right.
            if abs(newest - self._purged_at) > _PURGE_INTERVAL:
                connection.execute("DELETE FROM visits WHERE at < ?", (newest - self._keep,))
                connection.execute("DELETE FROM minutes WHERE minute < ?", (newest - self._keep,))
                times = (self._time.confirmed, self._time.jumped)
                connection.execute("INSERT OR REPLACE INTO clock VALUES (1, ?, ?)", times)
                self._purged_at = newest
        self.written += len(batch)

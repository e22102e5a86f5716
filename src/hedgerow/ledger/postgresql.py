"""
The ledger in PostgreSQL, for all gates of a site: by COPY, partitioned by day, off the request path.

What PostgreSQL cannot take now goes to disk (`spool`) and is written when it can. Old days are dropped whole. The
tables are made by `hedgerow migrate`. A row has a number, and numbers are given before rows can be seen: who reads
along (`postgresql_reading`) waits by a lock for those who write.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from hedgerow.errors import StoreAwayError, StoreError
from hedgerow.ledger.queue import QueuedLedger
from hedgerow.ledger.spool import Row, Spool, new_name
from hedgerow.ledger.sqlite import row_of

log = logging.getLogger(__name__)

_AGAIN = 1.0
_DAY = 86_400.0
_PURGE_EVERY = 3600.0
_CONNECT = 3
_LOCK = 7_316_542
WRITING = 7_316_543
"""The number of the lock that all hold together who write rows."""

COLUMNS = (
    "at", "visitor", "address", "account", "method", "host", "target", "kind", "referrer", "user_agent", "origin",
    "prefetch", "bot", "marker_kind", "minted_for", "parent", "marker_target", "asked", "tampered", "linked", "status",
    "action", "code", "evidence", "ref", "claim", "proof", "signs", "fingerprint",
)  # fmt: skip

MIGRATIONS = (
    """
    CREATE SEQUENCE visits_id;
    CREATE TABLE visits (
        id bigint NOT NULL DEFAULT nextval('visits_id'), at double precision NOT NULL, visitor text NOT NULL,
        address text NOT NULL, account text NOT NULL, method text NOT NULL, host text NOT NULL, target text NOT NULL,
        kind text NOT NULL, referrer text NOT NULL, user_agent text NOT NULL, origin text NOT NULL,
        prefetch boolean NOT NULL, bot text NOT NULL, marker_kind text, minted_for bytea, parent bytea,
        marker_target text, asked text NOT NULL, tampered boolean NOT NULL, linked bytea NOT NULL,
        status integer NOT NULL, action text NOT NULL, code text NOT NULL, evidence text NOT NULL, ref text NOT NULL,
        claim text NOT NULL, proof text NOT NULL, signs text NOT NULL, fingerprint text NOT NULL,
        odd text NOT NULL DEFAULT ''
    ) PARTITION BY RANGE (at);
    CREATE INDEX visits_at ON visits (at);
    CREATE INDEX visits_ref ON visits (ref) WHERE ref <> '';
    """,
    """
    CREATE TABLE batches (name text PRIMARY KEY, written timestamptz NOT NULL DEFAULT now());
    """,
    """
    CREATE INDEX visits_number ON visits (id);
    """,
    """
    CREATE TABLE list_entries (
        list text COLLATE "C" NOT NULL, subject text COLLATE "C" NOT NULL, sort text NOT NULL, reason text NOT NULL,
        author text NOT NULL, since double precision NOT NULL, until double precision NOT NULL,
        change bigint NOT NULL, gone integer NOT NULL, PRIMARY KEY (list, subject)
    );
    CREATE INDEX list_entries_change ON list_entries (change);
    CREATE TABLE list_changes (number bigint PRIMARY KEY, at double precision NOT NULL);
    CREATE TABLE list_purged (number bigint NOT NULL);
    INSERT INTO list_purged VALUES (0);
    """,
)
"""What leads from each version to the next; the first makes version 1. Never changed, only added to."""

_COPY = f"COPY visits ({', '.join(COLUMNS)}, odd) FROM STDIN"


def connect(url: str) -> psycopg.Connection[Any]:
    """A connection; StoreError in one line, without the password, where there is none."""
    try:
        return psycopg.connect(url, connect_timeout=_CONNECT, application_name="hedgerow")
    except psycopg.Error as error:
        raise StoreAwayError(f"cannot reach PostgreSQL: {line_of(error)}") from None


def line_of(error: Exception) -> str:
    """What went wrong, in one line."""
    return " ".join(str(error).split())


def version_of(connection: psycopg.Connection[Any]) -> int:
    """The version of the tables; 0 where there are none."""
    row = connection.execute("SELECT to_regclass('hedgerow_schema')").fetchone()
    if row is None or row[0] is None:
        return 0
    found = connection.execute("SELECT version FROM hedgerow_schema").fetchone()
    return int(found[0]) if found is not None else 0


def migrate(url: str) -> tuple[int, int]:
    """Bring the tables to the version of this program: from which, to which. Each step is all or nothing."""
    with connect(url) as connection:
        first = version_of(connection)
        connection.rollback()
        _refuse_newer(first)
        for number, statements in enumerate(MIGRATIONS, 1):
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                if version_of(connection) >= number:
                    continue
                connection.execute(statements.encode())
                connection.execute("CREATE TABLE IF NOT EXISTS hedgerow_schema (version integer NOT NULL)")
                connection.execute("DELETE FROM hedgerow_schema")
                connection.execute("INSERT INTO hedgerow_schema VALUES (%s)", (number,))
    return first, len(MIGRATIONS)


def check(url: str) -> None:
    """Stop the start where the tables are not right; a PostgreSQL that is away is no reason not to start."""
    try:
        connection = connect(url)
    except StoreAwayError as error:
        log.warning("%s; rows wait on disk", error)
        return
    with connection:
        need_tables(connection)


def need_tables(connection: psycopg.Connection[Any]) -> None:
    """StoreError where the tables are not those of this version."""
    version = version_of(connection)
    connection.rollback()
    _refuse_newer(version)
    if version < len(MIGRATIONS):
        raise StoreError(
            f"the tables in PostgreSQL are of version {version}, this needs {len(MIGRATIONS)}: run hedgerow migrate"
        )


def _refuse_newer(version: int) -> None:
    if version > len(MIGRATIONS):
        raise StoreError(
            f"the tables in PostgreSQL are of version {version}, of a newer Hedgerow; this one knows {len(MIGRATIONS)}"
        )


def _plain(row: Row) -> tuple[object, ...]:
    """
    A row as PostgreSQL takes it, and what it could not take.

    Its texts hold no zero byte: a row that has one is kept as it is in the last column, and shown with a sign for it.
    """
    odd = {name: value for name, value in zip(COLUMNS, row, strict=True) if isinstance(value, str) and "\0" in value}
    if not odd:
        return (*row, "")
    shown = [value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value for value in row]
    return (*shown, msgspec.json.encode(odd).decode())


class PostgresLedger(QueuedLedger):
    """
    Writes entries to PostgreSQL at *url*, at most *queue* of them waiting; keeps *keep_days* days.

    What it cannot take goes to *folder*, at most *spool* bytes.
    """

    def __init__(
        self, url: str, folder: Path, *, keep_days: float = 30.0, queue: int = 100_000, spool: int = 1_000_000_000
    ) -> None:
        super().__init__(queue)
        self._url = url
        self._keep = keep_days * _DAY
        self.spool = Spool(folder, spool)
        self._connection: psycopg.Connection[Any] | None = None
        self._tried_at = -_AGAIN
        self._days: set[int] = set()
        self._purged_at = 0.0
        check(url)
        self._start()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _write_waiting(self) -> None:
        if self._empty_spool() and self.failing and self._open() is not None:
            self.failing = False
        for entries in self._batches():
            rows = [row_of(entry) for entry in entries]
            name = new_name()
            # Behind what waits already, so that rows come in their order.
            if not self.spool and self._write(name, rows):
                self.failing = False
            elif not self.spool.put(name, rows):
                if not self.failing:
                    log.error("the ledger cannot be written, nor kept on disk: entries are lost")
                self.failing = True
                self.lost += len(rows)

    def _empty_spool(self) -> bool:
        """Write what is on disk; true where nothing is left of it."""
        for name, rows, path in self.spool.batches():
            if not self._write(name, rows):
                return False
            self.spool.drop(path)
        return True

    def _write(self, name: str, rows: Sequence[Row]) -> bool:
        """Whether the rows are in the ledger now; those that it can never take are lost, and the rest is not."""
        if self._open() is None:
            return False
        try:
            self._copy(name, rows)
        except (psycopg.OperationalError, psycopg.InterfaceError, OSError) as error:
            self._lose(error)
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, the next entries must find a writer
            self._rollback()
            if len(rows) == 1:
                log.error("a row cannot be written to the ledger: %s", line_of(error))  # noqa: TRY400
                self.lost += 1
                return True
            return all(self._write(f"{name}-{number}", [row]) for number, row in enumerate(rows))
        return True

    def _copy(self, name: str, rows: Sequence[Row]) -> None:
        connection = self._connection
        assert connection is not None
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (WRITING,))
            first = connection.execute("INSERT INTO batches (name) VALUES (%s) ON CONFLICT DO NOTHING", (name,))
            if first.rowcount == 0:
                # Written before, and the answer was lost.
                return
            self._make_days(connection, {int(_moment(row) // _DAY) for row in rows})
            with connection.cursor().copy(_COPY) as copy:
                for row in rows:
                    copy.write_row(_plain(row))
        self.written += len(rows)
        newest = max(map(_moment, rows))
        if newest - self._purged_at > _PURGE_EVERY:
            self._purge(connection, newest)
            self._purged_at = newest

    def _make_days(self, connection: psycopg.Connection[Any], days: set[int]) -> None:
        for day in sorted(days - self._days):
            # Other gates begin the same day at the same time.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            statement = (
                f"CREATE TABLE IF NOT EXISTS visits_{_name(day)} PARTITION OF visits "
                f"FOR VALUES FROM ({day * _DAY!r}) TO ({(day + 1) * _DAY!r})"
            )
            connection.execute(statement.encode())
            self._days.add(day)

    def _purge(self, connection: psycopg.Connection[Any], newest: float) -> None:
        oldest = max(0, int((newest - self._keep) // _DAY))
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            for (table,) in connection.execute(
                "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'visits'::regclass"
            ).fetchall():
                day = table.rpartition("_")[2].strip('"')
                if day < _name(oldest):
                    connection.execute(f"DROP TABLE IF EXISTS visits_{day}".encode())
            connection.execute("DELETE FROM batches WHERE written < now() - interval '7 days'")
        self._days = {day for day in self._days if day >= oldest}

    def _open(self) -> psycopg.Connection[Any] | None:
        if self._connection is None:
            if time.monotonic() - self._tried_at < _AGAIN and not self._stop:
                return None
            self._tried_at = time.monotonic()
            try:
                self._connection = connect(self._url)
            except StoreError:
                return None
            self._days.clear()
            if self.spool:
                log.info("PostgreSQL answers again; rows on disk are written")
        return self._connection

    def _rollback(self) -> None:
        self._days.clear()
        if self._connection is not None:
            try:
                self._connection.rollback()
            except psycopg.Error as error:
                self._lose(error)

    def _lose(self, error: Exception) -> None:
        log.warning("PostgreSQL does not answer, rows wait on disk: %s", line_of(error))
        self._tried_at = time.monotonic()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _moment(row: Row) -> float:
    at = row[0]
    assert isinstance(at, float | int)
    return float(at)


def _name(day: int) -> str:
    """The day in the name of its table: 20271231; before 1970 and after 9999 nobody asks."""
    return f"{datetime.fromtimestamp(day * _DAY, UTC):%Y%m%d}"

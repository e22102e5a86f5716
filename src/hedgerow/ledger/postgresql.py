"""
The ledger in PostgreSQL, shared by all servers of a site: written with COPY, partitioned by day.

While PostgreSQL is unreachable, rows go to the spool on disk. Old days are dropped as whole partitions. `hedgerow
migrate` creates the tables. Row numbers are assigned before rows become visible, so readers wait for writers by a lock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import psycopg

from hedgerow.errors import StoreAwayError, StoreError
from hedgerow.ledger import minutes
from hedgerow.ledger.believed_time import BelievedTime
from hedgerow.ledger.pseudonyms import Hide
from hedgerow.ledger.queue import QueuedLedger
from hedgerow.ledger.sqlite import COLUMNS, row_of

log = logging.getLogger(__name__)

_RETRY_AFTER = 1.0
_DAY = 86_400.0
_PURGE_INTERVAL = 3600.0
_CONNECT_TIMEOUT = 3
_SCHEMA_LOCK = 7_316_542
WRITE_LOCK = 7_316_543
"""The advisory lock that all writers of rows share."""

MIGRATIONS = tuple(
    files("hedgerow").joinpath("data/postgresql", name).read_text("utf-8")
    for name in (
        "1_visits.sql",
        "2_batches.sql",
        "3_visits_number.sql",
        "4_lists.sql",
        "5_observed.sql",
        "6_minutes.sql",
    )
)
"""The statements from each version to the next. Entries are never changed, only added."""
OBSERVED_SINCE = 5
"""The version that added the column `observed`."""

MINUTES_SINCE = 6
"""The version that added the table `visit_minutes`."""
_ADD_MINUTE = minutes.add("visit_minutes", "%s")

_BATCH_SUFFIX = ".batch"
Row = tuple[object, ...]

_COPY = f"COPY visits ({', '.join(COLUMNS)}, odd) FROM STDIN"


def connect(url: str) -> psycopg.Connection[Any]:
    """Connect, or raise StoreError with one line that does not contain the password."""
    try:
        return psycopg.connect(url, connect_timeout=_CONNECT_TIMEOUT, application_name="hedgerow")
    except psycopg.Error as error:
        raise StoreAwayError(f"cannot reach PostgreSQL: {line_of(error)}") from None


def batches(
    connection: psycopg.Connection[Any], query: str, values: Sequence[object], size: int
) -> Iterator[list[tuple[Any, ...]]]:
    """
    Yield the rows of *query*, which may be millions, in batches of *size*.

    psycopg's own server-side cursor stays open if the server goes away while it is closed, and then warns. The cursor
    here is the server's alone: the end of the transaction closes it.
    """
    connection.execute(f"DECLARE batches CURSOR FOR {query}".encode(), values, prepare=False)
    while rows := connection.execute(f"FETCH {size} FROM batches".encode()).fetchall():
        yield rows
    connection.execute("CLOSE batches")


def line_of(error: Exception) -> str:
    return " ".join(str(error).split())


def version_of(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT to_regclass('hedgerow_schema')").fetchone()
    if row is None or row[0] is None:
        return 0
    row = connection.execute("SELECT version FROM hedgerow_schema").fetchone()
    return int(row[0]) if row is not None else 0


def migrate(url: str) -> tuple[int, int]:
    """Upgrade the tables, and return their old and new version. Each step is a transaction."""
    with connect(url) as connection:
        first = version_of(connection)
        connection.rollback()
        _refuse_newer(first)
        for number, statements in enumerate(MIGRATIONS, 1):
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
                if version_of(connection) >= number:
                    continue
                connection.execute(statements.encode())
                connection.execute("CREATE TABLE IF NOT EXISTS hedgerow_schema (version integer NOT NULL)")
                connection.execute("DELETE FROM hedgerow_schema")
                connection.execute("INSERT INTO hedgerow_schema VALUES (%s)", (number,))
    return first, len(MIGRATIONS)


def check(url: str) -> None:
    """Raise StoreError if the tables are not up to date. An unreachable PostgreSQL does not prevent the start."""
    try:
        connection = connect(url)
    except StoreAwayError as error:
        log.warning("%s; rows wait on disk", error)
        return
    with connection:
        need_tables(connection)


def need_tables(connection: psycopg.Connection[Any]) -> None:
    version = version_of(connection)
    connection.rollback()
    _refuse_newer(version)
    if version < len(MIGRATIONS):
        raise StoreError(
            f"the tables in PostgreSQL have version {version}, but this needs {len(MIGRATIONS)}: run hedgerow migrate"
        )


def _refuse_newer(version: int) -> None:
    if version > len(MIGRATIONS):
        raise StoreError(
            f"the tables in PostgreSQL have version {version}, from a newer Hedgerow; this one has {len(MIGRATIONS)}"
        )


def _without_nul(row: Row) -> tuple[object, ...]:
    """Replace NUL in texts, which PostgreSQL cannot store. The last column has the original values as JSON."""
    # Rows in the spool may be of an older version, without the last columns.
    row = (*row, *[""] * (len(COLUMNS) - len(row)))
    odd = {name: value for name, value in zip(COLUMNS, row, strict=True) if isinstance(value, str) and "\0" in value}
    if not odd:
        return (*row, "")
    replaced = [value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value for value in row]
    return (*replaced, msgspec.json.encode(odd).decode())


class Spool:
    """
    Batches of rows in *folder*, at most *max_bytes* in total, for the time in which PostgreSQL is unreachable.

    The unique name of a batch is stored with its rows. So a batch that is written again, after a crash or by two
    processes, is in the ledger once.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self.size = sum(path.stat().st_size for path in self._paths())

    def __bool__(self) -> bool:
        return any(self._paths())

    def put(self, name: str, rows: Sequence[Row]) -> bool:
        """Store a batch. Return False if it does not fit or cannot be written."""
        data = msgspec.msgpack.encode(rows)
        if self.size + len(data) > self._max_bytes:
            return False
        # The file name starts with the time, so that batches are read in order.
        path = self._folder / f"{time.time_ns():020d}-{name}{_BATCH_SUFFIX}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial = path.with_suffix(".half")
            partial.write_bytes(data)
            partial.replace(path)
        except OSError as error:
            log.error("cannot spool rows of the ledger to %s: %s", self._folder, error)  # noqa: TRY400
            return False
        self.size += len(data)
        return True

    def batches(self) -> Iterator[tuple[str, list[Row], Path]]:
        """Yield all batches, oldest first: name, rows, and the path for `drop`."""
        for path in sorted(self._paths()):
            try:
                rows = msgspec.msgpack.decode(path.read_bytes(), type=list[Row])
            except FileNotFoundError:
                # Another process has written it.
                continue
            except (OSError, msgspec.MsgspecError) as error:
                log.error("skipping %s, which cannot be read: %s", path, error)  # noqa: TRY400
                continue
            yield path.stem.partition("-")[2], rows, path

    def drop(self, path: Path) -> None:
        try:
            self.size = max(0, self.size - path.stat().st_size)
            path.unlink()
        except FileNotFoundError:
            pass

    def _paths(self) -> list[Path]:
        return list(self._folder.glob("*" + _BATCH_SUFFIX)) if self._folder.is_dir() else []


class PostgresLedger(QueuedLedger):
    """Writes entries to PostgreSQL and keeps them for *keep_days*. Up to *spool* bytes may wait in *folder*."""

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        keep_days: float = 30.0,
        queue: int = 100_000,
        spool: int = 1_000_000_000,
        hide: Hide | None = None,
    ) -> None:
        super().__init__(queue)
        self._hide = hide
        self._url = url
        self._keep = keep_days * _DAY
        self.spool = Spool(folder, spool)
        self._connection: psycopg.Connection[Any] | None = None
        self._tried_at = -_RETRY_AFTER
        self._days: set[int] = set()
        self._purged_at = 0.0
        self._time = BelievedTime()
        check(url)
        self._start()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _write_pending(self) -> None:
        if self._empty_spool() and self.failing and self._connected() is not None:
            self.failing = False
        for entries in self._batches():
            rows = [row_of(entry, self._hide) for entry in entries]
            name = uuid4().hex
            # After the rows in the spool, so that the order is kept.
            if not self.spool and self._write(name, rows):
                self.failing = False
            elif not self.spool.put(name, rows):
                if not self.failing:
                    log.error("cannot write the ledger, neither to PostgreSQL nor to disk: entries are lost")
                self.failing = True
                self.errors += 1
                self.lost += len(rows)

    def _empty_spool(self) -> bool:
        """Write the spooled rows. Return whether the spool is empty."""
        for name, rows, path in self.spool.batches():
            if not self._write(name, rows):
                return False
            self.spool.drop(path)
        return True

    def _write(self, name: str, rows: Sequence[Row]) -> bool:
        """Write rows, and return whether that is done. Rows that PostgreSQL rejects are lost one by one."""
        if self._connected() is None:
            return False
        try:
            self._copy(name, rows)
        except (psycopg.OperationalError, psycopg.InterfaceError, OSError) as error:
            self._drop_connection(error)
            return False
        except Exception as error:  # noqa: BLE001 - the writer thread must go on
            self._rollback()
            if len(rows) == 1:
                log.error("cannot write a row to the ledger: %s", line_of(error))  # noqa: TRY400
                self.lost += 1
                return True
            return all(self._write(f"{name}-{number}", [row]) for number, row in enumerate(rows))
        return True

    def _copy(self, name: str, rows: Sequence[Row]) -> None:
        connection = self._connection
        assert connection is not None
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (WRITE_LOCK,))
            inserted = connection.execute("INSERT INTO batches (name) VALUES (%s) ON CONFLICT DO NOTHING", (name,))
            if inserted.rowcount == 0:
                # Written before, but the reply was lost.
                return
            self._make_days(connection, {int(_time_of(row) // _DAY) for row in rows})
            with connection.cursor().copy(_COPY) as copy:
                for row in rows:
                    copy.write_row(_without_nul(row))
            counted = minutes.count_minutes(map(_without_nul, rows), COLUMNS)
            connection.cursor().executemany(_ADD_MINUTE.encode(), counted)
        self.written += len(rows)
        newest = min(max(map(_time_of, rows)), self._time.now())
        if abs(newest - self._purged_at) > _PURGE_INTERVAL:
            self._purge(connection, newest)
            self._purged_at = newest

    def _make_days(self, connection: psycopg.Connection[Any], days: set[int]) -> None:
        for day in sorted(days - self._days):
            # Other servers start the same day at the same time.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            statement = (
                f"CREATE TABLE IF NOT EXISTS visits_{_day_name(day)} PARTITION OF visits "
                f"FOR VALUES FROM ({day * _DAY!r}) TO ({(day + 1) * _DAY!r})"
            )
            connection.execute(statement.encode())
            self._days.add(day)

    def _purge(self, connection: psycopg.Connection[Any], newest: float) -> None:
        with connection.transaction():
            # The server's clock is another witness: of several machines, one may have been started with a wrong clock.
            row = connection.execute("SELECT extract(epoch FROM now())::float8").fetchone()
            assert row is not None
            oldest = max(0, int((min(newest, row[0]) - self._keep) // _DAY))
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            for (table,) in connection.execute(
                "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'visits'::regclass"
            ).fetchall():
                day = table.rpartition("_")[2].strip('"')
                if day < _day_name(oldest):
                    connection.execute(f"DROP TABLE IF EXISTS visits_{day}".encode())
            connection.execute("DELETE FROM visit_minutes WHERE minute < %s", (newest - self._keep,))
            connection.execute("DELETE FROM batches WHERE written < now() - interval '7 days'")
        self._days = {day for day in self._days if day >= oldest}

    def _connected(self) -> psycopg.Connection[Any] | None:
        if self._connection is None:
            if time.monotonic() - self._tried_at < _RETRY_AFTER and not self._stop:
                return None
            self._tried_at = time.monotonic()
            try:
                self._connection = connect(self._url)
            except StoreError:
                self.errors += 1
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
                self._drop_connection(error)

    def _drop_connection(self, error: Exception) -> None:
        log.warning("PostgreSQL does not answer, rows wait on disk: %s", line_of(error))
        self.errors += 1
        self._tried_at = time.monotonic()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _time_of(row: Row) -> float:
    at = row[0]
    assert isinstance(at, float | int)
    return float(at)


def _day_name(day: int) -> str:
    """Return the day as in the name of its table, such as 20271231."""
    return f"{datetime.fromtimestamp(day * _DAY, UTC):%Y%m%d}"

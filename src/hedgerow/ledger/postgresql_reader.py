"""Reading of the ledger in PostgreSQL. Needs the extra `postgresql`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict

from hedgerow.errors import StoreError
from hedgerow.ledger.postgresql import MINUTES_SINCE, OBSERVED_SINCE, WRITE_LOCK, batches, connect, line_of, version_of
from hedgerow.ledger.reader import BATCH_SIZE, LedgerReader, Row

_LOCK_TIMEOUT = "200ms"


class PostgresLedgerReader(LedgerReader):
    """The ledger at *url*. A lost connection is reopened by the next query."""

    position_function = "strpos"
    minutes_table = "visit_minutes"

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None
        self._final = 0
        try:
            parts = conninfo_to_dict(url)
        except psycopg.Error as error:
            # The error itself may contain the password.
            raise StoreError(
                "the URL of the ledger is invalid; write it like postgresql://user@host/database"
            ) from error
        self.name = f"in PostgreSQL, {parts.get('dbname', '')} at {parts.get('host', 'this machine')}"
        try:
            self.size = self._check_tables()
        except StoreError:
            self.close()
            raise

    def _check_tables(self) -> int:
        """Return the size of the tables, or raise StoreError if there are none."""
        with self._transaction() as connection:
            version = version_of(connection)
            if not version:
                raise StoreError(f"there is no ledger {self.name}: run hedgerow migrate with the site's settings")
        if version < OBSERVED_SINCE:
            self.missing_columns = frozenset({"observed"})
        if version < MINUTES_SINCE:
            self.minutes_table = ""
        sizes = "SELECT sum(pg_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'visits'::regclass"
        return int(self._value(sizes) or 0)

    def by_time(self, columns: Sequence[str], start: float = -math.inf) -> Iterator[Sequence[Row]]:
        # A cursor takes no parameters. This is a number.
        condition = f"WHERE at >= {start:f}" if math.isfinite(start) else ""
        query = f"SELECT {self._select_list(columns)}, odd FROM visits {condition} ORDER BY at, id"  # noqa: S608
        # A separate connection: its transaction lasts as long as the iteration.
        with self._store_errors(), closing(connect(self._url)) as connection:
            for batch in batches(connection, query, (), BATCH_SIZE):
                yield [_restored(columns, row) for row in batch]

    def newest(self) -> int:
        with self._transaction() as connection:
            try:
                connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
                # Writers share the lock. Once it is acquired, all assigned numbers are written or never will be.
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (WRITE_LOCK,))
            except psycopg.errors.LockNotAvailable:
                # A writer takes long. The last final number is still valid.
                return self._final
            self._final = int(self._value("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM visits_id") or 0)
        return self._final

    def after(self, number: int, columns: Sequence[str]) -> Sequence[Row]:
        final = self.newest()
        if final <= number:
            return []
        condition = f"WHERE id > ? AND id <= ? ORDER BY id LIMIT {BATCH_SIZE}"
        return self._rows(["id", *columns], condition, number, final)

    def count_pages(self, visitor: str) -> int:
        return super().count_pages(visitor.replace("\0", "\N{REPLACEMENT CHARACTER}"))

    def find_stopped(self, visitor: str, columns: Sequence[str]) -> Row | None:
        return super().find_stopped(visitor.replace("\0", "\N{REPLACEMENT CHARACTER}"), columns)

    def last_visits(self, visitor: str, limit: int, columns: Sequence[str]) -> Sequence[Row]:
        return super().last_visits(visitor.replace("\0", "\N{REPLACEMENT CHARACTER}"), limit, columns)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _value(self, query: str, *values: object) -> Any:
        with self._transaction() as connection:
            row = connection.execute(query.replace("?", "%s").encode(), values).fetchone()
        return row[0] if row is not None else None

    def _all(self, query: str, *values: object) -> Sequence[Row]:
        with self._transaction() as connection:
            return connection.execute(query.replace("?", "%s").encode(), values).fetchall()

    def _rows(self, columns: Sequence[str], condition: str, *values: object) -> Sequence[Row]:
        query = f"SELECT {self._select_list(columns)}, odd FROM visits {condition}".replace("?", "%s")  # noqa: S608 - constants
        with self._transaction() as connection:
            return [_restored(columns, row) for row in connection.execute(query.encode(), values)]

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Open a transaction, which may be nested."""
        if self._connection is None:
            self._connection = connect(self._url)
        try:
            with self._store_errors(), self._connection.transaction():
                yield self._connection
        except StoreError:
            if self._connection is not None and self._connection.broken:
                self.close()
            raise

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise StoreError(f"cannot read the ledger {self.name}: {line_of(error)}") from None


def _restored(names: Sequence[str], row: Sequence[Any]) -> Row:
    """Restore the texts with NUL, which are in the last column (see `postgresql`)."""
    *values, odd = row
    if not odd:
        return values
    originals = msgspec.json.decode(odd)
    return [originals.get(name, value) for name, value in zip(names, values, strict=True)]

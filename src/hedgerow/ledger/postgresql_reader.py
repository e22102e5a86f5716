"""The ledger in PostgreSQL, as it is read. Needs the extra `postgresql`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict

from hedgerow.errors import StoreError
from hedgerow.ledger.postgresql import WRITING, connect, line_of, version_of
from hedgerow.ledger.reader import PAGES, ROWS, Row

_PATIENCE = "200ms"


class PostgresLedgerReader:
    """The ledger at *url*. A connection that was lost is made anew at the next question."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None
        self._final = 0
        try:
            parts = conninfo_to_dict(url)
        except psycopg.Error as error:
            # Without what is wrong with it: that may be the password.
            raise StoreError(
                "the address of the ledger cannot be understood; write postgresql://user@host/database"
            ) from error
        self.name = f"in PostgreSQL, {parts.get('dbname', '')} at {parts.get('host', 'this machine')}"
        try:
            self.size = self._look()
        except StoreError:
            self.close()
            raise

    def _look(self) -> int:
        """How large the tables are; StoreError where there are none."""
        with self._asking() as connection:
            if not version_of(connection):
                raise StoreError(f"there is no ledger {self.name}: run hedgerow migrate with the site's settings")
        sizes = "SELECT sum(pg_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'visits'::regclass"
        return int(self._one(sizes) or 0)

    def oldest(self) -> float | None:
        at: float | None = self._one("SELECT at FROM visits ORDER BY at, id LIMIT 1")
        return at

    def span(self) -> int:
        return int(self._one("SELECT max(id) - min(id) + 1 FROM visits") or 1)

    def by_time(self, columns: Sequence[str]) -> Iterator[Sequence[Row]]:
        query = f"SELECT {', '.join(columns)}, odd FROM visits ORDER BY at, id"  # noqa: S608 - names of ours
        # A connection of its own: its transaction lasts as long as somebody reads.
        with self._broken(), closing(connect(self._url)) as connection, connection.cursor("hedgerow") as cursor:
            cursor.execute(query.encode())
            while some := cursor.fetchmany(ROWS):
                yield [_restored(columns, row) for row in some]

    def newest(self) -> int:
        with self._asking() as connection:
            try:
                connection.execute(f"SET LOCAL lock_timeout = '{_PATIENCE}'")
                # Who writes holds it, too: once we have it all numbers that were given are written, or never will be.
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (WRITING,))
            except psycopg.errors.LockNotAvailable:
                # Somebody takes long. What was final before is so still.
                return self._final
            self._final = int(self._one("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM visits_id") or 0)
        return self._final

    def after(self, number: int, columns: Sequence[str]) -> Sequence[Row]:
        final = self.newest()
        if final <= number:
            return []
        names = ["id", *columns]
        query = f"SELECT {', '.join(names)}, odd FROM visits WHERE id > %s AND id <= %s ORDER BY id LIMIT {ROWS}"  # noqa: S608
        with self._asking() as connection:
            return [_restored(names, row) for row in connection.execute(query.encode(), (number, final))]

    def find(self, reference: str, columns: Sequence[str]) -> Row | None:
        query = f"SELECT {', '.join(columns)}, odd FROM visits WHERE ref = %s"  # noqa: S608 - names of ours
        with self._asking() as connection:
            row = connection.execute(query.encode(), (reference,)).fetchone()
        return _restored(columns, row) if row is not None else None

    def count_pages(self, visitor: str) -> int:
        shown = visitor.replace("\0", "\N{REPLACEMENT CHARACTER}")
        return int(self._one(f"SELECT count(*) FROM visits WHERE visitor = %s AND {PAGES}", shown))  # noqa: S608

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _one(self, query: str, *values: object) -> Any:
        with self._asking() as connection:
            row = connection.execute(query.encode(), values).fetchone()
        return row[0] if row is not None else None

    @contextmanager
    def _asking(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction, which may be part of another."""
        if self._connection is None:
            self._connection = connect(self._url)
        try:
            with self._broken(), self._connection.transaction():
                yield self._connection
        except StoreError:
            if self._connection is not None and self._connection.broken:
                self.close()
            raise

    @contextmanager
    def _broken(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise StoreError(f"cannot read the ledger {self.name}: {line_of(error)}") from None


def _restored(names: Sequence[str], row: Sequence[Any]) -> Row:
    """A row as it was written: what PostgreSQL could not take is in its last column (see `postgresql`)."""
    *values, odd = row
    if not odd:
        return values
    as_it_was = msgspec.json.decode(odd)
    return [as_it_was.get(name, value) for name, value in zip(names, values, strict=True)]

"""
The store of lists in PostgreSQL, shared by all servers of a site. Needs the extra `postgresql`.

`hedgerow migrate` creates the tables. Writers wait for each other, so that changes become visible in the order of their
numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from typing import Any

import psycopg

from hedgerow.errors import StoreError
from hedgerow.ledger.postgresql import batches, connect, line_of, need_tables
from hedgerow.lists.sql_store import BATCH_SIZE, ListChanges, ListStore, Row

_LOCK = 7_316_544
_COLUMNS = "list, subject, sort, reason, author, since, until, change"
_Connection = psycopg.Connection[Any]


class PostgresLists(ListStore):
    """The entries in PostgreSQL at *url*."""

    entries, changes, purged = "list_entries", "list_changes", "list_purged"
    position_function = "strpos"

    def __init__(self, url: str, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._url = url

    def follow(self) -> PostgresListFeed:
        return PostgresListFeed(self, self.connect())

    def connect(self) -> _Connection:
        """Connect, and check that the tables are up to date."""
        connection = connect(self._url)
        try:
            need_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def execute(self, connection: _Connection, query: str, values: Sequence[object] = ()) -> psycopg.Cursor[Any]:
        return connection.execute(query.replace("?", "%s").encode(), values)

    def _exists(self) -> bool:
        return True

    def _select(self, query: str, values: Sequence[object]) -> Iterator[Sequence[Any]]:
        with _store_errors(), closing(self.connect()) as connection:
            yield from chain.from_iterable(_batches(connection, query, values))

    def _put_rows(self, connection: _Connection, rows: Iterator[Row]) -> None:
        query = f"CREATE TEMP TABLE incoming ON COMMIT DROP AS SELECT {_COLUMNS} FROM {self.entries} LIMIT 0"  # noqa: S608
        self.execute(connection, query)
        self.execute(connection, "ALTER TABLE incoming ADD COLUMN place bigint GENERATED ALWAYS AS IDENTITY")
        with connection.cursor().copy(f"COPY incoming ({_COLUMNS}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        query = (
            f"INSERT INTO {self.entries} SELECT DISTINCT ON (list, subject) {_COLUMNS}, 0 FROM incoming "  # noqa: S608
            f"ORDER BY list, subject, place DESC {self.on_conflict}"
        )
        self.execute(connection, query)

    @contextmanager
    def _transaction(self) -> Iterator[_Connection]:
        with _store_errors(), closing(self.connect()) as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            yield connection


class PostgresListFeed:
    """Reports changes over a *connection* that stays open."""

    def __init__(self, store: PostgresLists, connection: _Connection) -> None:
        self._store = store
        self._connection = connection
        self._seen: tuple[int, int] | None = None
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

    @contextmanager
    def since(self, seen: int) -> Iterator[ListChanges | None]:
        connection = self._connection
        with _store_errors(), connection.transaction():
            numbers = self._store.numbers(connection)
            if numbers == self._seen:
                yield None
                return
            yield self._store.changes_since(seen, connection, lambda query, values: _batches(connection, query, values))
        self._seen = numbers

    def close(self) -> None:
        self._connection.close()


def _batches(connection: _Connection, query: str, values: Sequence[object]) -> Iterator[list[Any]]:
    return batches(connection, query.replace("?", "%s"), values, BATCH_SIZE)


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise StoreError(f"cannot use the lists in PostgreSQL: {line_of(error)}") from None

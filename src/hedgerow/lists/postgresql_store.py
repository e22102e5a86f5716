"""
The lists in PostgreSQL, shared by all gates of a site on however many machines. Needs the extra `postgresql`.

The tables are made by `hedgerow migrate`. Who changes something waits for who does so just now: numbers are given in
the order in which changes can be seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from typing import Any

import psycopg

from hedgerow.errors import StoreError
from hedgerow.ledger.postgresql import connect, line_of, need_tables
from hedgerow.lists.follower import ListChanges
from hedgerow.lists.sql_store import ROWS_AT_ONCE, Row, SqlLists

_LOCK = 7_316_544
_COLUMNS = "list, subject, sort, reason, author, since, until, change"


class PostgresLists(SqlLists):
    """The entries in PostgreSQL at *url*."""

    entries, changes, purged = "list_entries", "list_changes", "list_purged"
    within = "strpos"

    def __init__(self, url: str, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._url = url

    def follow(self) -> PostgresListFeed:
        return PostgresListFeed(self, self.connect())

    def connect(self) -> psycopg.Connection[Any]:
        """A connection to tables that are right."""
        connection = connect(self._url)
        try:
            need_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_there(self) -> bool:
        return True

    def _rows(self, query: str, values: Sequence[object]) -> Iterator[Sequence[Any]]:
        with _broken(), closing(self.connect()) as connection:
            yield from chain.from_iterable(fetched(connection, query, values))

    @contextmanager
    def _asking(self) -> Iterator[_Asking]:
        with _broken(), closing(self.connect()) as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            yield _Asking(connection)


class PostgresListFeed:
    """Asks by a *connection* that stays open."""

    def __init__(self, store: PostgresLists, connection: psycopg.Connection[Any]) -> None:
        self._store = store
        self._connection = connection
        self._seen: tuple[int, int] | None = None
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

    @contextmanager
    def since(self, seen: int) -> Iterator[ListChanges | None]:
        with _broken(), self._connection.transaction():
            numbers = self._store.numbers(_Asking(self._connection))
            if numbers == self._seen:
                yield None
                return
            yield self._store.changes_since(
                seen, _Asking(self._connection), lambda query, values: fetched(self._connection, query, values)
            )
        self._seen = numbers

    def close(self) -> None:
        self._connection.close()


class _Asking:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, query: str, values: Sequence[object] = ()) -> psycopg.Cursor[Any]:
        return self._connection.execute(query.replace("?", "%s").encode(), values)

    def put_all(self, rows: Iterator[Row]) -> None:
        table = PostgresLists.entries
        self.execute(f"CREATE TEMP TABLE incoming ON COMMIT DROP AS SELECT {_COLUMNS} FROM {table} LIMIT 0")  # noqa: S608
        self.execute("ALTER TABLE incoming ADD COLUMN place bigint GENERATED ALWAYS AS IDENTITY")
        with self._connection.cursor().copy(f"COPY incoming ({_COLUMNS}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        self.execute(
            f"INSERT INTO {table} SELECT DISTINCT ON (list, subject) {_COLUMNS}, 0 FROM incoming "  # noqa: S608
            f"ORDER BY list, subject, place DESC {PostgresLists.replacing}"
        )


def fetched(
    connection: psycopg.Connection[Any], query: str, values: Sequence[object]
) -> Iterator[Sequence[Sequence[Any]]]:
    """Rows as they come, some at a time: there may be millions."""
    with connection.cursor("hedgerow_lists") as cursor:
        cursor.execute(query.replace("?", "%s").encode(), values)
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            yield rows


@contextmanager
def _broken() -> Iterator[None]:
    """What PostgreSQL has to say, as one line."""
    try:
        yield
    except psycopg.Error as error:
        raise StoreError(f"cannot use the lists in PostgreSQL: {line_of(error)}") from None

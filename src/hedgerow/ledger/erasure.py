"""Deletes the visits of one visitor from a ledger, in SQLite or PostgreSQL, while other processes go on writing."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing

from hedgerow.core.ledger import POSTGRESQL_SCHEMES
from hedgerow.errors import StoreError
from hedgerow.ledger.reader import of_names

_TIMEOUT = 30.0


def delete_visits(where: str, names: Collection[str]) -> int:
    """Delete the visits in the ledger *where* whose visitor or address is one of *names*. Return how many."""
    query = f"DELETE FROM visits WHERE {of_names(names)}"  # noqa: S608 - only placeholders
    return (_in_postgresql if where.startswith(POSTGRESQL_SCHEMES) else _in_sqlite)(where, query, [*names, *names])


def _in_sqlite(path: str, query: str, values: list[str]) -> int:
    try:
        with closing(sqlite3.connect(path, timeout=_TIMEOUT)) as connection:
            # Overwrite the rows: deleted ones would stay readable in the file.
            connection.execute("PRAGMA secure_delete = ON")
            with connection:
                deleted = connection.execute(query, values).rowcount
            if deleted:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return deleted
    except sqlite3.Error as error:
        raise StoreError(f"cannot change the ledger {path}: {error}") from None


def _in_postgresql(url: str, query: str, values: list[str]) -> int:
    import psycopg

    from hedgerow.ledger.postgresql import connect, line_of

    try:
        with closing(connect(url)) as connection, connection.transaction():
            return connection.execute(query.replace("?", "%s").encode(), values).rowcount
    except psycopg.Error as error:
        raise StoreError(f"cannot change the ledger: {line_of(error)}") from None

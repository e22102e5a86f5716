"""A table store that answers in SQLite's SQL: the oracle of `LocalStore`, and the queries that Spark is asked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.tables.figures import Figures, SiteFacts, count
from hedgerow.report.tables.queries import SERIES, Columns, SqlQueries
from hedgerow.report.tables.rows import COLUMNS, ROW, Rows, sort_rows

_SIGN = 1 << 63


class SqlStore(SqlQueries):
    """Rows in a table of SQLite, in which sources are numbers with a sign: those from 2 ** 63 on come first."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute(f"CREATE TABLE rows ({', '.join(COLUMNS)}, number)")
        self._connection.execute("CREATE TABLE chosen (source)")
        columns = [rows[name].astype(np.int64) for name in COLUMNS]
        values = zip(*(column.tolist() for column in columns), range(len(rows)), strict=True)
        self._connection.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * (len(COLUMNS) + 1))})", values)

    def close(self) -> None:
        self._connection.close()

    def ask(self, query: str, parameters: list[Any] | None = None) -> Columns:
        cursor = self._connection.execute(query.replace("//", "/"), [_signed(value) for value in parameters or []])
        names = [name for name, *_ in cursor.description]
        columns = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
        found = {name: np.array(column, np.int64) for name, column in zip(names, columns, strict=True)}
        return {
            name: column.view(ROW[name]) if name in {"source", "page"} else column for name, column in found.items()
        }

    def ask_about(self, sources: NDArray[np.uint64], query: str, parameters: list[Any] | None = None) -> Columns:
        self._connection.execute("DELETE FROM chosen")
        self._connection.executemany("INSERT INTO chosen VALUES (?)", [(_signed(one),) for one in sources.tolist()])
        return self.ask(query, parameters)

    def series(self, origin: int, step: int) -> Columns:
        return self.ask(SERIES, [origin, step])

    def count(self, facts: SiteFacts) -> Figures:
        return count([sort_rows(self._rows)], facts, compiled=False)


def _signed(value: int) -> int:
    return value - 2 * _SIGN if value >= _SIGN else value


@contextmanager
def sql_store(rows: Rows) -> Iterator[SqlStore]:
    store = SqlStore(rows)
    try:
        yield store
    finally:
        store.close()

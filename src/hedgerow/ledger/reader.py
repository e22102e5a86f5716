"""
Reading of ledgers, for replays, reports, training, the watch and the lookup of references.

`LedgerReader` is the protocol for both databases, and `open_ledger_reader` chooses by name. Readers never write. Other
processes may write at the same time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from hedgerow.errors import StoreError
from hedgerow.ledger.sqlite import LATER_COLUMNS

Row = Sequence[Any]

BATCH_SIZE = 1000

PASSED_PAGES = "kind = 'page' AND action = 'pass'"
_SCHEMES = ("postgresql", "postgres")


class LedgerReader(Protocol):
    """
    A ledger for reading. Raises StoreError if it cannot be read.

    *name* is its name in messages, without a password. *size* is its approximate size in bytes.
    """

    name: str
    size: int

    def oldest(self) -> float | None:
        """Return the time of the first visit, None if the ledger is empty."""

    def span(self) -> int:
        """Return the approximate number of rows, at least 1."""

    def by_time(self, columns: Sequence[str]) -> Iterator[Sequence[Row]]:
        """Yield all rows ordered by time, in batches."""

    def newest(self) -> int:
        """Return the highest final row number: no row with a lower one can appear later."""

    def after(self, number: int, columns: Sequence[str]) -> Sequence[Row]:
        """Return the next final rows after *number*, ordered by number, which is each row's first value."""

    def find(self, reference: str, columns: Sequence[str]) -> Row | None:
        """Return the visit with *reference*."""

    def count_pages(self, visitor: str) -> int:
        """Return how many pages of the ledger the visitor received."""

    def close(self) -> None: ...


def is_url(where: str) -> bool:
    """Return whether *where* is the URL of a PostgreSQL database and not a file."""
    return where.partition("://")[0] in _SCHEMES and "://" in where


def short_name(where: str) -> str:
    """Return the name of a log file, ledger file or database, without a password."""
    return urlsplit(where).path.strip("/") or "postgresql" if is_url(where) else Path(where).name


def open_ledger_reader(where: str) -> LedgerReader:
    """Open the ledger *where*: a file, or a URL that starts with postgresql://."""
    if not is_url(where):
        return SqliteLedgerReader(where)
    try:
        from hedgerow.ledger.postgresql_reader import PostgresLedgerReader
    except ModuleNotFoundError as error:
        raise StoreError(f"a ledger in PostgreSQL needs {error.name}: pip install 'hedgerow[postgresql]'") from None
    return PostgresLedgerReader(where)


class SqliteLedgerReader:
    """The ledger in the file *path*, of this version or an older one."""

    def __init__(self, path: str) -> None:
        self.name = path
        with self._store_errors():
            self.size = Path(path).stat().st_size
            self._connection = sqlite3.connect(
                f"file:{quote(path)}?mode=ro", uri=True, timeout=10.0, check_same_thread=False
            )
            self._connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
            try:
                existing = {row[1] for row in self._connection.execute("PRAGMA table_info(visits)")}
            except BaseException:
                self._connection.close()
                raise
        self._missing_columns = {name for name in LATER_COLUMNS if name not in existing}

    def oldest(self) -> float | None:
        row = self._execute("SELECT at FROM visits ORDER BY at, id LIMIT 1").fetchone()
        return row[0] if row and isinstance(row[0], float) else None

    def span(self) -> int:
        # Two separate queries use the index. One query for both would scan the table.
        first, last = "SELECT min(id) FROM visits", "SELECT max(id) FROM visits"
        return int(self._execute(f"SELECT ({last}) - ({first}) + 1").fetchone()[0] or 1)

    def by_time(self, columns: Sequence[str]) -> Iterator[Sequence[Row]]:
        rows = self._execute(f"SELECT {self._select_list(columns)} FROM visits ORDER BY at, id")  # noqa: S608
        while True:
            with self._store_errors():
                batch = rows.fetchmany(BATCH_SIZE)
            if not batch:
                return
            yield batch

    def newest(self) -> int:
        return int(self._execute("SELECT coalesce(max(id), 0) FROM visits").fetchone()[0])

    def after(self, number: int, columns: Sequence[str]) -> Sequence[Row]:
        query = f"SELECT id, {self._select_list(columns)} FROM visits WHERE id > ? ORDER BY id LIMIT {BATCH_SIZE}"  # noqa: S608
        with self._store_errors():
            return self._execute(query, number).fetchall()

    def find(self, reference: str, columns: Sequence[str]) -> Row | None:
        query = f"SELECT {self._select_list(columns)} FROM visits WHERE ref = ?"  # noqa: S608
        found: Row | None = self._execute(query, reference).fetchone()
        return found

    def count_pages(self, visitor: str) -> int:
        query = f"SELECT count(*) FROM visits WHERE visitor = ? AND {PASSED_PAGES}"  # noqa: S608
        return int(self._execute(query, visitor).fetchone()[0])

    def close(self) -> None:
        self._connection.close()

    def _select_list(self, columns: Sequence[str]) -> str:
        return ", ".join("''" if name in self._missing_columns else name for name in columns)

    def _execute(self, query: str, *values: object) -> sqlite3.Cursor:
        with self._store_errors():
            return self._connection.execute(query, values)

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise StoreError(f"cannot read the ledger {self.name}: {reason}") from None

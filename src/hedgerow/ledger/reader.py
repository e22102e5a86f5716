"""
Ledgers as they are read: by replays, reports, training, a watch that reads along, and whoever asks for a reference.

One protocol (`LedgerReader`), whatever engine it is in; `open_ledger_reader` tells by its name. Nothing is written, and
other processes may be writing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from hedgerow.errors import StoreError

Row = Sequence[Any]

ROWS = 1000
"""Rows that are read at a time."""

PAGES = "kind = 'page' AND action = 'pass'"
_SCHEMES = ("postgresql", "postgres")
_LATER_COLUMNS = ("claim", "proof", "signs", "fingerprint")


class LedgerReader(Protocol):
    """
    A ledger. StoreError where it cannot be read.

    *name* is how it is called in a message, without a password. *size* is how large it is in bytes, roughly.
    """

    name: str
    size: int

    def oldest(self) -> float | None:
        """The time of the first visit; None where there is none."""

    def span(self) -> int:
        """About how many rows there are; never 0."""

    def by_time(self, columns: Sequence[str]) -> Iterator[Sequence[Row]]:
        """All rows in the order of time, some at a time."""

    def newest(self) -> int:
        """The highest number that is final: no row with a lower one can still come."""

    def after(self, number: int, columns: Sequence[str]) -> Sequence[Row]:
        """The next rows behind *number*, in the order of their numbers, which come first in each; final ones only."""

    def find(self, reference: str, columns: Sequence[str]) -> Row | None:
        """The visit that was given *reference*."""

    def count_pages(self, visitor: str) -> int:
        """How many pages the visitor was given, as far as the ledger goes back."""

    def close(self) -> None: ...


def is_url(where: str) -> bool:
    """Whether a ledger is in PostgreSQL, and not a file."""
    return where.partition("://")[0] in _SCHEMES and "://" in where


def short_name(where: str) -> str:
    """A log or ledger in a word: a file's name, or that of the database; never a password."""
    return urlsplit(where).path.strip("/") or "postgresql" if is_url(where) else Path(where).name


def open_ledger_reader(where: str) -> LedgerReader:
    """The ledger *where*: a file, or an address that begins with postgresql://."""
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
        with self._broken():
            self.size = Path(path).stat().st_size
            self._connection = sqlite3.connect(
                f"file:{quote(path)}?mode=ro", uri=True, timeout=10.0, check_same_thread=False
            )
            self._connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
            try:
                there = {row[1] for row in self._connection.execute("PRAGMA table_info(visits)")}
            except BaseException:
                self._connection.close()
                raise
        # A ledger of an older version has no column for these.
        self._lacking = {name for name in _LATER_COLUMNS if name not in there}

    def oldest(self) -> float | None:
        row = self._ask("SELECT at FROM visits ORDER BY at, id LIMIT 1").fetchone()
        return row[0] if row and isinstance(row[0], float) else None

    def span(self) -> int:
        # Asked for one by one, first and last are found at once; together they would cost a whole scan.
        first, last = "SELECT min(id) FROM visits", "SELECT max(id) FROM visits"
        return int(self._ask(f"SELECT ({last}) - ({first}) + 1").fetchone()[0] or 1)

    def by_time(self, columns: Sequence[str]) -> Iterator[Sequence[Row]]:
        rows = self._ask(f"SELECT {self._named(columns)} FROM visits ORDER BY at, id")  # noqa: S608
        while True:
            with self._broken():
                some = rows.fetchmany(ROWS)
            if not some:
                return
            yield some

    def newest(self) -> int:
        return int(self._ask("SELECT coalesce(max(id), 0) FROM visits").fetchone()[0])

    def after(self, number: int, columns: Sequence[str]) -> Sequence[Row]:
        query = f"SELECT id, {self._named(columns)} FROM visits WHERE id > ? ORDER BY id LIMIT {ROWS}"  # noqa: S608
        with self._broken():
            return self._ask(query, number).fetchall()

    def find(self, reference: str, columns: Sequence[str]) -> Row | None:
        query = f"SELECT {self._named(columns)} FROM visits WHERE ref = ?"  # noqa: S608
        found: Row | None = self._ask(query, reference).fetchone()
        return found

    def count_pages(self, visitor: str) -> int:
        query = f"SELECT count(*) FROM visits WHERE visitor = ? AND {PAGES}"  # noqa: S608
        return int(self._ask(query, visitor).fetchone()[0])

    def close(self) -> None:
        self._connection.close()

    def _named(self, columns: Sequence[str]) -> str:
        return ", ".join("''" if name in self._lacking else name for name in columns)

    def _ask(self, query: str, *values: object) -> sqlite3.Cursor:
        with self._broken():
            return self._connection.execute(query, values)

    @contextmanager
    def _broken(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise StoreError(f"cannot read the ledger {self.name}: {reason}") from None

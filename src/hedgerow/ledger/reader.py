"""
Reading of ledgers, for replays, reports, training, the watch and the lookup of references.

`open_ledger_reader` chooses the database by name. Readers never write. Other processes may write at the same time.
"""

from __future__ import annotations

import math
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from hedgerow.core.ledger import POSTGRESQL_SCHEMES
from hedgerow.core.visit import BY_PROGRAM, ELSEWHERE
from hedgerow.errors import StoreError
from hedgerow.ledger.minutes import StepCount
from hedgerow.ledger.people_days import VisitorPages
from hedgerow.ledger.sqlite import LATER_COLUMNS

Row = Sequence[Any]

BATCH_SIZE = 1000
_BUDGET_CODES = ("k1", "k2", "k1-scripts", "k2-scripts", "k1-network")
"""Evidence that somebody read many pages, and nothing else."""


class LedgerReader(ABC):
    """
    A ledger for reading. Raises StoreError if it cannot be read.

    *name* is its name in messages, without a password. *size* is its approximate size in bytes.
    """

    name: str
    size: int
    missing_columns: frozenset[str] = frozenset()
    """Columns that the ledger lacks because it is of an older version. They read as empty text."""
    position_function = "instr"
    minutes_table = "minutes"
    """The table of `count_steps`; empty if the ledger is of an older version, without it."""

    def oldest(self) -> float | None:
        """Return the time of the first visit, None if the ledger is empty."""
        at = self._value("SELECT at FROM visits ORDER BY at, id LIMIT 1")
        return at if isinstance(at, float) else None

    def span(self) -> int:
        """Return the approximate number of rows, at least 1."""
        # Two separate queries use the index. One query for both would scan the table.
        first, last = "SELECT min(id) FROM visits", "SELECT max(id) FROM visits"
        return int(self._value(f"SELECT ({last}) - ({first}) + 1") or 1)

    def count_pages(self, visitor: str) -> int:
        """Return how many pages of the ledger the visitor received."""
        received = "action = 'pass'"
        if "observed" not in self.missing_columns:
            received = f"({received} OR observed <> '')"
        query = f"SELECT count(*) FROM visits WHERE visitor = ? AND kind = 'page' AND {received}"  # noqa: S608
        return int(self._value(query, visitor))

    def pages_of_visitors(self, start: float, end: float) -> Sequence[VisitorPages]:
        """Return what each visitor read from *start* to *end*, without programs, verified bots and other sites."""
        observed = "''" if "observed" in self.missing_columns else "observed"
        signs = "''" if "signs" in self.missing_columns else "signs"
        codes = ", ".join(f"'{code}'" for code in _BUDGET_CODES)
        query = (
            f"SELECT visitor, address, sum(CASE WHEN action = 'pass' OR {observed} <> '' THEN 1 ELSE 0 END), "  # noqa: S608
            f"max(CASE WHEN code = 'suspect' OR (action <> 'pass' AND code NOT IN ({codes})) THEN 1 ELSE 0 END) "
            f"FROM visits WHERE at >= ? AND at < ? AND kind = 'page' AND bot = '' "
            f"AND {self.position_function}({signs}, '{BY_PROGRAM}') = 0 "
            f"AND {self.position_function}({signs}, '{ELSEWHERE}') = 0 GROUP BY visitor, address"
        )
        rows = self._all(query, start, end)
        return [VisitorPages(visitor, address, int(pages), bool(bad)) for visitor, address, pages, bad in rows]

    def listed_pages(self, start: float, end: float) -> Sequence[Row]:
        """Return address, account, code and number of the pages from *start* to *end* that a list decided on."""
        return self._all(
            "SELECT address, account, code, count(*) FROM visits WHERE at >= ? AND at < ? AND kind = 'page' "
            "AND code IN ('list-white', 'list-black') GROUP BY address, account, code",
            start, end,
        )  # fmt: skip

    def bot_claims(self, start: float) -> Sequence[Row]:
        """Return bot, claim, proof and number of the visits since *start* by clients that name a bot or are one."""
        claim, proof = ("''" if name in self.missing_columns else name for name in ("claim", "proof"))
        query = (
            f"SELECT bot, {claim}, {proof}, count(*) FROM visits "  # noqa: S608
            f"WHERE at >= ? AND (bot <> '' OR {claim} <> '') GROUP BY bot, {claim}, {proof}"
        )
        return self._all(query, start)

    def count_steps(self, start: float, end: float, step: int) -> Sequence[StepCount]:
        """Return the visits from *start* to *end* by steps of *step* seconds and by decision, in order of time."""
        if not self.minutes_table:
            return ()
        query = (
            f"SELECT minute / {step:d} * {step:d} AS start, action, observed, sum(visits), sum(pages) "  # noqa: S608
            f"FROM {self.minutes_table} WHERE minute >= ? AND minute < ? GROUP BY 1, action, observed ORDER BY 1"
        )
        return [
            StepCount(at, action, observed, int(visits), int(pages))
            for at, action, observed, visits, pages in self._all(query, start, end)
        ]

    def last_stopped(self, limit: int, columns: Sequence[str]) -> Sequence[Row]:
        """Return the last visits that did not pass, or would not have passed, the latest first."""
        return self._rows(columns, f"WHERE action <> 'pass' ORDER BY at DESC LIMIT {limit:d}")

    def last_visits(self, visitor: str, limit: int, columns: Sequence[str]) -> Sequence[Row]:
        """Return the last visits of *visitor*, the latest first."""
        return self._rows(columns, f"WHERE visitor = ? ORDER BY at DESC LIMIT {limit:d}", visitor)

    def find(self, reference: str, columns: Sequence[str]) -> Row | None:
        """Return the visit with *reference*."""
        # The second condition is that of the index: without it SQLite reads the whole ledger.
        return next(iter(self._rows(columns, "WHERE ref = ? AND ref <> ''", reference)), None)

    def find_stopped(self, visitor: str, columns: Sequence[str]) -> Row | None:
        """Return the last visit of *visitor* that did not pass, or would not have passed."""
        rows = self._rows(columns, "WHERE visitor = ? AND action <> 'pass' ORDER BY at DESC, id DESC LIMIT 1", visitor)
        return next(iter(rows), None)

    def visits_of(self, names: Collection[str], columns: Sequence[str]) -> Sequence[Row]:
        """Return the visits whose visitor or address is one of *names*, in the order of time."""
        return self._rows(columns, f"WHERE {of_names(names)} ORDER BY at, id", *names, *names)

    def _select_list(self, columns: Sequence[str]) -> str:
        return ", ".join("''" if name in self.missing_columns else name for name in columns)

    @abstractmethod
    def by_time(self, columns: Sequence[str], start: float = -math.inf) -> Iterator[Sequence[Row]]:
        """Yield the rows since *start* ordered by time, in batches."""

    @abstractmethod
    def newest(self) -> int:
        """Return the highest final row number: no row with a lower one can appear later."""

    @abstractmethod
    def after(self, number: int, columns: Sequence[str]) -> Sequence[Row]:
        """Return the next final rows after *number*, ordered by number, which is each row's first value."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _value(self, query: str, *values: object) -> Any:
        """Return the first value of the first row, or None. Placeholders are question marks."""

    @abstractmethod
    def _all(self, query: str, *values: object) -> Sequence[Row]:
        """Return all rows of a query. Placeholders are question marks."""

    @abstractmethod
    def _rows(self, columns: Sequence[str], condition: str, *values: object) -> Sequence[Row]: ...


def of_names(names: Collection[str]) -> str:
    """Return the condition for rows whose visitor or address is one of *names*, which are its values, twice."""
    places = ", ".join("?" * len(names))
    return f"(visitor IN ({places}) OR address IN ({places}))"


def short_name(where: str) -> str:
    """Return the name of a log file, ledger file or database, without a password."""
    if where.startswith(POSTGRESQL_SCHEMES):
        return urlsplit(where).path.strip("/") or "postgresql"
    return Path(where).name


def open_ledger_reader(where: str) -> LedgerReader:
    """Open the ledger *where*: a file, or a URL that starts with postgresql://."""
    if not where.startswith(POSTGRESQL_SCHEMES):
        return SqliteLedgerReader(where)
    try:
        from hedgerow.ledger.postgresql_reader import PostgresLedgerReader
    except ModuleNotFoundError as error:
        raise StoreError(f"a ledger in PostgreSQL needs {error.name}: pip install 'hedgerow[postgresql]'") from None
    return PostgresLedgerReader(where)


class SqliteLedgerReader(LedgerReader):
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
        self.missing_columns = frozenset(LATER_COLUMNS) - existing
        if not self._value("SELECT count(*) FROM sqlite_master WHERE name = 'minutes'"):
            self.minutes_table = ""

    def by_time(self, columns: Sequence[str], start: float = -math.inf) -> Iterator[Sequence[Row]]:
        query = f"SELECT {self._select_list(columns)} FROM visits WHERE at >= ? ORDER BY at, id"  # noqa: S608
        rows = self._execute(query, start)
        while True:
            with self._store_errors():
                batch = rows.fetchmany(BATCH_SIZE)
            if not batch:
                return
            yield batch

    def newest(self) -> int:
        return int(self._value("SELECT coalesce(max(id), 0) FROM visits"))

    def after(self, number: int, columns: Sequence[str]) -> Sequence[Row]:
        return self._rows(["id", *columns], f"WHERE id > ? ORDER BY id LIMIT {BATCH_SIZE}", number)

    def close(self) -> None:
        self._connection.close()

    def _value(self, query: str, *values: object) -> Any:
        row = self._execute(query, *values).fetchone()
        return row[0] if row is not None else None

    def _all(self, query: str, *values: object) -> Sequence[Row]:
        with self._store_errors():
            return self._execute(query, *values).fetchall()

    def _rows(self, columns: Sequence[str], condition: str, *values: object) -> Sequence[Row]:
        with self._store_errors():
            query = f"SELECT {self._select_list(columns)} FROM visits {condition}"  # noqa: S608 - constants
            return self._execute(query, *values).fetchall()

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

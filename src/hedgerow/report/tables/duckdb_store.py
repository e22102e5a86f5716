"""
DuckDB store: the rows of a log in DuckDB, in a file of their own that goes away with them; questions are its SQL.

The rows of a source are all in one of several tables, so that each is small enough to be sorted in memory; what is
larger DuckDB sorts on disk, within the limit it is given. The view `rows` is all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hedgerow.errors import StoreError
from hedgerow.logs.dialect import Dialect
from hedgerow.logs.reader import ReadCounts
from hedgerow.report.shape.autocorrelation import Levels
from hedgerow.report.shape.features import Features, features
from hedgerow.report.shape.series import Counts, SeriesPlan
from hedgerow.report.tables.figures import Figures, Kinds, count, together
from hedgerow.report.tables.ingest import Progress, read
from hedgerow.report.tables.jit import M1
from hedgerow.report.tables.queries import SERIES, Columns, SqlQueries
from hedgerow.report.tables.row_builder import COLUMNS, RowBuilder, Rows
from hedgerow.report.tables.temp_dir import TempDir

_TYPES = {
    np.uint64: "UBIGINT", np.int64: "BIGINT", np.uint32: "UINTEGER", np.uint16: "USMALLINT", np.uint8: "UTINYINT",
}  # fmt: skip
_AT_ONCE = 1 << 20
_PARTS = 16
_ROWS_TOGETHER = 200_000


class DuckdbStore(SqlQueries):
    """
    Rows of numbers (`COLUMNS`), with *memory* bytes for all that is done with them.

    To be closed: then nothing of it is left. *directory* is where the file lies; the system's place for such where none
    is given.
    """

    def __init__(self, *, memory: int, directory: Path | None = None) -> None:
        self._place = TempDir(directory)
        try:
            self._connection = duckdb.connect(self._place.path / "rows.duckdb")
        except (OSError, duckdb.Error) as error:
            raise StoreError(f"no room for the tables: {error}; name another place by TMPDIR") from None
        self._run("SET memory_limit = ?", [f"{memory // 1_000_000}MB"])
        self._run("SET temp_directory = ?", [str(self._place.path / "sorted")])
        self._run("SET threads = ?", [os.cpu_count() or 1])
        self._run("SET enable_progress_bar = false")
        # Rows are written once and read twice: to press them together costs more than it saves.
        self._run("SET force_compression = 'uncompressed'")
        columns = ", ".join(f"{name} {_TYPES[kind]}" for name, kind in COLUMNS.items())
        for part in range(_PARTS):
            self._run(f"CREATE TABLE rows_{part} ({columns})")
        # Those of one source are in one table, so this number has their order.
        each = [f"SELECT *, rowid AS number FROM rows_{part}" for part in range(_PARTS)]  # noqa: S608 - constants
        everything = " UNION ALL ".join(each)
        self._run(f"CREATE VIEW rows AS {everything}")
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="hedgerow-rows")
        self._inserting: Future[None] | None = None
        self._waiting: list[list[Rows]] = [[] for _ in range(_PARTS)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._beside.shutdown(cancel_futures=True)
        self._connection.close()
        self._place.close()

    def read(
        self, paths: Sequence[str], numbering: RowBuilder, progress: Progress | None, dialect: Dialect
    ) -> ReadCounts:
        return read(paths, self, numbering, progress, dialect)

    def count(self, kinds: Kinds) -> Figures:
        with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="hedgerow-count") as pool:
            return together(list(pool.map(lambda part: count(part, kinds), self.sorted_rows())))

    def series(self, origin: int, step: int) -> Columns:
        return self.ask(f"{SERIES} ORDER BY ALL", [origin, step])

    def features(self, counts: Counts, plan: SeriesPlan, levels: Levels, least: int) -> Features:
        return features(counts, plan, levels=levels, least=least)

    def add(self, rows: Rows) -> None:
        """Add *rows* behind those that are there; those of one source stay in this order."""
        part = (rows["source"] * M1 >> np.uint64(60)).astype(np.uint8)
        order = np.argsort(part, kind="stable")
        ends = np.searchsorted(part[order], np.arange(_PARTS + 1))
        columns = {name: rows[name][order] for name in COLUMNS}
        for number, waiting in enumerate(self._waiting):
            if ends[number] < ends[number + 1]:
                waiting.append({name: column[ends[number] : ends[number + 1]] for name, column in columns.items()})
            if sum(len(one["source"]) for one in waiting) >= _ROWS_TOGETHER:
                self._flush(number)

    def _flush(self, number: int) -> None:
        waiting = self._waiting[number]
        if not waiting:
            return
        joined = {name: np.concatenate([one[name] for one in waiting]) for name in COLUMNS}
        waiting.clear()
        # One at a time, beside whoever makes the next rows.
        self._settle()
        self._inserting = self._beside.submit(self._insert, number, pa.table(joined))

    def _insert(self, number: int, table: pa.Table) -> None:
        self._connection.register("added", table)
        self._run(f"INSERT INTO rows_{number} SELECT * FROM added")  # noqa: S608 - a number
        self._connection.unregister("added")

    def _settle(self) -> None:
        """Wait for the rows that are on their way."""
        waited, self._inserting = self._inserting, None
        if waited is not None:
            waited.result()

    def ask(self, query: str, parameters: list[Any] | None = None) -> Columns:
        """The columns of the answer."""
        self._flush_all()
        try:
            found: Columns = self._connection.execute(query, parameters or []).fetchnumpy()
        except duckdb.Error as error:
            raise StoreError(f"the tables cannot be made: {_first_line(error)}") from None
        return found

    def ask_about(self, sources: NDArray[np.uint64], query: str, parameters: list[Any] | None = None) -> Columns:
        """The same; *sources* are the table `chosen`."""
        self._connection.register("chosen", pa.table({"source": sources}))
        try:
            return self.ask(query, parameters)
        finally:
            self._connection.unregister("chosen")

    def sorted_rows(self) -> list[Iterator[Rows]]:
        """
        All rows in several parts, a source in one of them: those of one source together and by time; of the same time
        as they came. A source may go on in the next piece. Each part may be taken in a thread of its own.
        """
        self._flush_all()
        return [self._sorted(part) for part in range(_PARTS)]

    def _sorted(self, part: int) -> Iterator[Rows]:
        query = f"SELECT {', '.join(COLUMNS)} FROM rows_{part} ORDER BY source, t, rowid"  # noqa: S608 - constants
        try:
            with self._connection.cursor() as beside:
                for batch in beside.sql(query).to_arrow_reader(_AT_ONCE):
                    if batch.num_rows:
                        yield {name: batch.column(k).to_numpy(zero_copy_only=False) for k, name in enumerate(COLUMNS)}
        except duckdb.Error as error:
            raise StoreError(f"the tables cannot be made: {_first_line(error)}") from None

    def _flush_all(self) -> None:
        for number in range(_PARTS):
            self._flush(number)
        self._settle()

    def _run(self, query: str, parameters: list[Any] | None = None) -> None:
        try:
            self._connection.execute(query, parameters or [])
        except duckdb.Error as error:
            raise StoreError(f"the tables cannot be made: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]

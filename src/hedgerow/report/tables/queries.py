"""
Queries: the questions that a report asks about the rows of a log, and their answers in SQL.

`LocalStore` answers them without SQL. The SQL is standard but for `//`, whole division, which has another sign in every
dialect: `SqlQueries.ask` replaces it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.logs.dialect import Dialect
from hedgerow.logs.reader import ReadCounts
from hedgerow.report.shape.autocorrelation import Levels
from hedgerow.report.shape.features import Features
from hedgerow.report.shape.series import Counts, SeriesPlan
from hedgerow.report.tables.figures import Figures, SiteFacts
from hedgerow.report.tables.ingest import Progress
from hedgerow.report.tables.row_builder import RowBuilder

Columns = dict[str, NDArray[Any]]

DAY = 86_400_000_000
"""In microseconds."""

SERIES = "SELECT source, bin, count(*) AS n FROM (SELECT source, (t - ?) // ? AS bin FROM rows) GROUP BY source, bin"
"""Requests by source and interval; parameters: from when on, and how long an interval is, in microseconds."""

_SERIES_OF = """
SELECT source, bin, count(*) AS n FROM (
  SELECT source, (t - ?) // ? AS bin FROM rows WHERE source IN (SELECT source FROM chosen)
) GROUP BY source, bin ORDER BY source, bin
"""

_HOSTS = """
WITH pages AS (SELECT DISTINCT page FROM rows WHERE kind = 0 AND status < 400),
led AS (
  SELECT place, parent, count(*) FILTER (WHERE kind = 2) AS assets FROM rows WHERE place > 1 GROUP BY place, parent
)
SELECT place, sum(assets) AS assets, count(*) FILTER (WHERE parent <> ?) AS parents,
  count(*) FILTER (WHERE parent <> ? AND page IS NOT NULL) AS there
FROM led LEFT JOIN pages ON parent = page GROUP BY place ORDER BY place
"""

_GROUPS = """
SELECT shape FROM rows WHERE kind = 0 AND status < 400 GROUP BY shape HAVING count(DISTINCT page) >= ?
"""

_LEADS = """
SELECT lead, count(DISTINCT page) AS pages, count(DISTINCT parent) AS parents FROM rows
WHERE kind = 0 AND place IN ({places}) GROUP BY lead
"""

_DAYS = """
SELECT n, count(*) AS days, count(*) FILTER (WHERE NOT automatic) AS ordinary FROM (
  SELECT source, count(*) AS n, source IN (SELECT source FROM chosen) AS automatic
  FROM rows WHERE kind < 2 GROUP BY source, t // 86400000000
) GROUP BY n ORDER BY n
"""

_FIRST_PAGES = """
SELECT source, t, page, shape, status, flags FROM (
  SELECT *, row_number() OVER (PARTITION BY source ORDER BY t, number) AS nth FROM rows
  WHERE kind < 2 AND source IN (SELECT source FROM chosen)
) WHERE nth <= ? ORDER BY source, t, number
"""


class TableStore(Protocol):
    """What holds the rows of a log and answers queries about them. Times are microseconds."""

    def read(
        self, paths: Sequence[str], builder: RowBuilder, progress: Progress | None, dialect: Dialect
    ) -> ReadCounts:
        """Read all of *paths*; LogError where one of them cannot be read at all."""

    def hosts(self, first_page: int) -> Columns:
        """
        By the number of a referring host (*place*, rising): *assets* that it led to, how many different pages it led
        from (*parents*; but the first page, which every site has), and how many of those were asked for here (*there*).
        """

    def groups(self, least: int) -> NDArray[Any]:
        """The shapes of at least so many different pages that were there."""

    def leads(self, places: Sequence[int]) -> Columns:
        """By shape of the page that led to pages (*lead*), of those at *places*: different *pages* and *parents*."""

    def count(self, facts: SiteFacts) -> Figures:
        """The figures of every source."""

    def series(self, origin: int, step: int) -> Columns:
        """By *source* and *bin*, in this order: how many requests (*n*) it sent in each *step* from *origin* on."""

    def series_of(self, sources: NDArray[np.uint64], origin: int, step: int) -> Columns:
        """What `series` says of *sources* only."""

    def features(self, counts: Counts, plan: SeriesPlan, levels: Levels, least: int) -> Features:
        """The features of every source with at least *least* requests. *counts* are what `series` gave last."""

    def days(self, automatic: NDArray[np.uint64]) -> Columns:
        """
        Days of sources by how many pages and calls they asked for (*n*, rising): how many *days*, and how many of them
        are *ordinary*, of sources that are not *automatic*. Days begin at midnight UTC.
        """

    def first_pages(self, sources: NDArray[np.uint64], most: int) -> Columns:
        """
        The first pages and calls of *sources*, at most so many of each, by *source* and *t*; with *page*, *shape*,
        *status* and *flags*.
        """

    def close(self) -> None: ...


class SqlQueries(ABC):
    """A store that answers queries in SQL."""

    @abstractmethod
    def ask(self, query: str, parameters: list[Any] | None = None) -> Columns:
        """The columns of the answer."""

    @abstractmethod
    def ask_about(self, sources: NDArray[np.uint64], query: str, parameters: list[Any] | None = None) -> Columns:
        """The columns of the answer to a query in which *sources* are the table `chosen`."""

    def hosts(self, first_page: int) -> Columns:
        return self.ask(_HOSTS, [first_page, first_page])

    def groups(self, least: int) -> NDArray[Any]:
        return self.ask(_GROUPS, [least])["shape"]

    def leads(self, places: Sequence[int]) -> Columns:
        return self.ask(_LEADS.format(places=", ".join(map(str, places))))

    def series_of(self, sources: NDArray[np.uint64], origin: int, step: int) -> Columns:
        return self.ask_about(sources, _SERIES_OF, [origin, step])

    def days(self, automatic: NDArray[np.uint64]) -> Columns:
        return self.ask_about(automatic, _DAYS)

    def first_pages(self, sources: NDArray[np.uint64], most: int) -> Columns:
        return self.ask_about(sources, _FIRST_PAGES, [most])

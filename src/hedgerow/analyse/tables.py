"""
Tables: a log as the rest of the report sees it, one row of figures for each source.

Which host is the site's own, which pages are listings and which groups of pages are large is found from the log itself:

- A host is the site's own where most of the pages that it leads from are pages that were asked for here. Where there is
  none such it is the one that most assets came from: a page's images and styles name it. Where a log names its virtual
  hosts, those are the site's own.
- A group is large where its pages are many: at least `LARGE` different ones. These are a forum's topics, a shop's
  articles, a network's profiles: what a crawler is after.
- A listing is a page that leads to many others: pages of its shape led to at least `LEADS` different pages each, on
  average.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from hedgerow.analyse.counting import FOREIGN, OWN, Figures, Kinds, count, together
from hedgerow.analyse.describing import PAGE, digest
from hedgerow.analyse.numbering import Numbering
from hedgerow.analyse.reading import Progress, read
from hedgerow.analyse.scanning import OTHER_CLIENT
from hedgerow.analyse.store import SERIES, Store
from hedgerow.logs.dialect import AS_IT_IS, By, Dialect
from hedgerow.logs.reader import Tally
from hedgerow.shape.autocorrelation import Levels
from hedgerow.shape.features import FINE, Features, Fine, features, shares
from hedgerow.shape.series import Counts, Plan

_HOSTS = """
WITH pages AS (SELECT DISTINCT page FROM rows WHERE kind = 0 AND status < 400),
led AS (SELECT place, parent, count(*) FILTER (WHERE kind = 2) AS assets FROM rows WHERE place > 1 GROUP BY ALL)
SELECT place, sum(assets) AS assets, count(*) FILTER (WHERE parent <> ?) AS parents,
  count(*) FILTER (WHERE parent <> ? AND page IS NOT NULL) AS there
FROM led LEFT JOIN pages ON parent = page GROUP BY place ORDER BY place
"""
"""By host: assets that it led to, pages that it led from (but the first page, which every site has), and how many of
those were asked for here."""

_DAYS = """
SELECT n, count(*) AS days, count(*) FILTER (WHERE NOT automatic) AS ordinary FROM (
  SELECT source, count(*) AS n, source IN (SELECT source FROM chosen) AS automatic
  FROM rows WHERE kind < 2 GROUP BY source, t // 86400000000
) GROUP BY n ORDER BY n
"""

LARGE = 20
LEADS = 10
_WITH_REFERRERS, _WITHOUT_REFERRERS = {"combined", "vhost-combined", "ledger"}, {"common", "vhost-common", "alb"}
_MICROSECONDS = 1_000_000
_LEAST_LEADING = 20
_LEAST_PARENTS = 3


class Holds(Protocol):
    """
    What holds the rows of a log and is asked about them.

    Queries are written so that DuckDB and Spark SQL both take them; only the sign `//` of whole division is DuckDB's.
    """

    def read(self, paths: Sequence[str], numbering: Numbering, progress: Progress | None, dialect: Dialect) -> Tally:
        """Read all of *paths*; LogError where one of them cannot be read at all."""

    def ask(self, query: str, parameters: list[Any] | None = None) -> dict[str, NDArray[Any]]:
        """The columns of the answer."""

    def ask_about(
        self, sources: NDArray[np.uint64], query: str, parameters: list[Any] | None = None
    ) -> dict[str, NDArray[Any]]:
        """The same; *sources* are the table `chosen`."""

    def approximately(self, key: str, columns: Sequence[str], where: str) -> dict[str, NDArray[Any]]:
        """By *key*, about how many different values each of *columns* has in the rows *where* something holds."""

    def count(self, kinds: Kinds) -> Figures:
        """The figures of every source."""

    def series(self, origin: int, step: int) -> dict[str, NDArray[Any]]:
        """By *source* and *bin*, in this order: how many requests (*n*) it sent in each *step* from *origin* on."""

    def features(self, counts: Counts, plan: Plan, levels: Levels, least: int) -> Features:
        """The features of every source with at least *least* requests. *counts* are what `series` gave last."""

    def close(self) -> None: ...


class _Local(Store):
    """The rows on this machine."""

    def read(self, paths: Sequence[str], numbering: Numbering, progress: Progress | None, dialect: Dialect) -> Tally:
        return read(paths, self, numbering, progress, dialect)

    def count(self, kinds: Kinds) -> Figures:
        with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="hedgerow-count") as pool:
            return together(list(pool.map(lambda part: count(part, kinds), self.sorted_rows())))

    def series(self, origin: int, step: int) -> dict[str, NDArray[Any]]:
        return self.ask(f"{SERIES} ORDER BY ALL", [origin, step])

    def features(self, counts: Counts, plan: Plan, levels: Levels, least: int) -> Features:
        return features(counts, plan, levels=levels, least=least)


class Tables:
    """
    The tables of some logs. To be closed. The rows are on this machine, unless *store* holds them elsewhere.
    *hide_agents*: no user agent tells the sessions of a source apart.

    *sources* are names, sorted by number (IPv4 addresses by their value, then all others as they came); all arrays are
    in that order. *tally* says what was read. Times are seconds since 1970.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        memory: int,
        hosts: Sequence[str] = (),
        progress: Progress | None = None,
        dialect: Dialect = AS_IT_IS,
        store: Holds | None = None,
        hide_agents: bool = False,
    ) -> None:
        self._hide_agents = hide_agents
        self.numbering = Numbering(dialect.by)
        self._counted: dict[float, tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = {}
        self.store: Holds = store or _Local(memory=memory)
        try:
            self.tally: Tally = self.store.read(paths, self.numbering, progress, dialect)
            self.hosts = self._own_hosts([host.lower() for host in hosts])
            """The site's own hosts."""
            self.figures = self._count()
        except BaseException:
            self.store.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.close()

    @cached_property
    def sources(self) -> list[str]:
        return [self.numbering.name(source) for source in self.figures.sources.tolist()]

    @property
    def by(self) -> By:
        """What a source is."""
        return self.numbering.by

    @cached_property
    def addresses(self) -> list[str]:
        """An address of each source: the first that it had."""
        found = list(self.sources)
        others = int(np.searchsorted(self.figures.sources, OTHER_CLIENT))
        found[others:] = map(self.numbering.address, self.figures.sources[others:].tolist())
        return found

    @property
    def tells_referrers(self) -> bool:
        """Whether the lines of the log say where visits come from: by their format, or because one of them does."""
        forms = set(self.tally.formats)
        return bool(forms & _WITH_REFERRERS or (forms - _WITHOUT_REFERRERS and any(self.numbering.places.texts)))

    @property
    def requests(self) -> NDArray[np.int64]:
        return self.figures["requests"]

    @property
    def first(self) -> NDArray[np.float64]:
        return self.figures.first / _MICROSECONDS

    @property
    def last(self) -> NDArray[np.float64]:
        return self.figures.last / _MICROSECONDS

    @property
    def origin(self) -> float:
        """The first request of any source: where all series begin."""
        return float(self.first.min()) if len(self.figures.sources) else 0.0

    @property
    def span(self) -> float:
        """Seconds from the first request to the last."""
        return float(self.last.max()) - self.origin if len(self.figures.sources) else 0.0

    def bins(self, interval_s: float) -> int:
        """How many intervals of so many seconds the log has."""
        return int(self.span // interval_s) + 1

    def series(self, interval_s: float, which: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """
        Requests in each interval from `origin` on: a row for each source, or for each of *which* (their places among
        the sources, rising). Dense: ask for as many at once as there is room for.
        """
        chosen = np.arange(len(self.figures.sources)) if which is None else np.asarray(which, np.int64)
        dense = np.zeros((len(chosen), self.bins(interval_s)))
        place, bins, requests = self.sparse(interval_s)
        wanted = np.full(len(self.figures.sources), -1, np.int64)
        wanted[chosen] = np.arange(len(chosen))
        row = wanted[place]
        there = row >= 0
        dense[row[there], bins[there]] = requests[there]
        return dense

    def days(self, automatic: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """
        Source-days by how many pages and calls they asked for: how many, so many requests, and how many of them are of
        sources that are not *automatic*. Days begin at midnight UTC.
        """
        found = self.store.ask_about(
            self.figures.sources[automatic],
            _DAYS,
        )
        return tuple(found[name].astype(np.int64) for name in ("days", "n", "ordinary"))  # type: ignore[return-value]

    def sparse(self, interval_s: float) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The place of a source, the number of an interval, the requests; no row where there were none."""
        if interval_s not in self._counted:
            step, origin = round(interval_s * _MICROSECONDS), round(self.origin * _MICROSECONDS)
            found = self.store.series(origin, step)
            place = np.searchsorted(self.figures.sources, found["source"])
            self._counted = {interval_s: (place, found["bin"].astype(np.int64), found["n"].astype(np.int64))}
        return self._counted[interval_s]

    def counts(self, plan: Plan) -> Counts:
        """Requests by source and interval."""
        rows, bins, values = self.sparse(plan.interval)
        return Counts(rows, np.clip(bins, 0, plan.bins - 1), values.astype(np.float64), len(self.figures.sources))

    def features(self, counts: Counts, plan: Plan, *, levels: Levels, least: int) -> Features:
        """The shape of the traffic of each source with at least *least* requests; *counts* are those of *plan*."""
        found = self.store.features(counts, plan, levels, least)
        if len(found.sources):
            fine = Fine(*(self.figures[name].astype(np.float64) for name in FINE))
            found.rows[:, -len(FINE) :] = shares(fine, counts.totals)[found.sources]
        return found

    def _own_hosts(self, given: list[str]) -> list[str]:
        if given:
            return given
        if self.numbering.hosts:
            return sorted(self.numbering.hosts)
        first_page = int(digest(np.frombuffer(b"/", np.uint8), 0, 1))
        found = self.store.ask(_HOSTS, [first_page, first_page])
        own = found["place"][(found["parents"] >= _LEAST_PARENTS) & (2 * found["there"] >= found["parents"])].tolist()
        if not own and len(found["place"]):
            own = found["place"][np.argmax(found["assets"])].reshape(1).tolist()
        return sorted(self.numbering.places.texts[place].decode("latin-1") for place in own)

    def _count(self) -> Figures:
        numbering = self.numbering
        own = {host.encode("latin-1", "replace") for host in self.hosts}
        places = np.array([OWN if text in own else FOREIGN for text in numbering.places.texts], np.uint8)
        shapes = self.store.approximately("shape", ["page"], f"kind = {PAGE} AND status < 400")
        profile = np.zeros(len(numbering.shapes), np.bool_)
        profile[shapes["shape"][shapes["page"] >= LARGE]] = True
        profile[:2] = False
        return self.store.count(
            Kinds(
                exact=self.tally.exact,
                agents=len(numbering.agents),
                places=places,
                listing=self._listings(places),
                profile=profile,
                hidden=self._hide_agents,
            )
        )

    def _listings(self, places: NDArray[np.uint8]) -> NDArray[np.bool_]:
        listing = np.zeros(len(self.numbering.shapes), np.bool_)
        own = np.flatnonzero(places == OWN).tolist()
        if own:
            here = ", ".join(map(str, own))
            found = self.store.approximately("lead", ["page", "parent"], f"kind = {PAGE} AND place IN ({here})")
            many = (found["page"] >= LEADS * found["parent"]) & (found["page"] >= _LEAST_LEADING)
            listing[found["lead"][many]] = True
            listing[:2] = False
        return listing

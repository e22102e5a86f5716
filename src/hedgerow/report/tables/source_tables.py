"""
Source tables: a log as the rest of the report sees it, one row of figures for each source.

The log itself shows the site's own hosts, its listings and its large groups of pages:

- A referring host is the site's own if most of its pages were requested here. Without such a host it is the referrer of
  most assets: a page's images and styles name it. If most lines name a virtual host, these are the site's own, except
  rare ones: a client may ask for any host.
- A group is large if it has at least `LARGE` distinct pages. These are the topics of a forum, the articles of a shop,
  the profiles of a network: what a crawler is after.
- A listing leads to many pages: pages of its shape led to at least `LEADS` distinct pages each, on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hedgerow.logs.dialect import DEFAULT_DIALECT, Dialect, SourceKey
from hedgerow.logs.reader import ReadCounts
from hedgerow.report.shape.autocorrelation import Levels
from hedgerow.report.shape.features import FINE, Features, Fine, shares
from hedgerow.report.shape.series import Counts, SeriesPlan
from hedgerow.report.tables.figures import FOREIGN, OWN, Figures, SiteFacts
from hedgerow.report.tables.ingest import Progress
from hedgerow.report.tables.line_parser import OTHER_CLIENT
from hedgerow.report.tables.local_store import LocalStore
from hedgerow.report.tables.queries import TableStore
from hedgerow.report.tables.row_builder import RowBuilder

LARGE = 20
LEADS = 10
_WITH_REFERRERS, _WITHOUT_REFERRERS = {"combined", "vhost-combined", "ledger"}, {"common", "vhost-common", "alb"}
_MICROSECONDS = 1_000_000
_LEAST_LEADING = 20
_LEAST_PARENTS = 3
_LEAST_ASKED = 0.001


class Tables:
    """
    The tables of some logs, on this machine unless *store* holds the rows elsewhere. To be closed.

    *sources* are names, sorted by number (IPv4 addresses by value, then others by arrival); all arrays have this order.
    *read_counts* counts the lines that were read. Times are seconds since 1970. *hide_agents*: user agents do not
    separate sessions.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        memory: int,
        hosts: Sequence[str] = (),
        progress: Progress | None = None,
        dialect: Dialect = DEFAULT_DIALECT,
        store: TableStore | None = None,
        hide_agents: bool = False,
    ) -> None:
        self._hide_agents = hide_agents
        self.builder = RowBuilder(dialect.by)
        self.store: TableStore = store or LocalStore(memory=memory)
        try:
            self.read_counts: ReadCounts = self.store.read(paths, self.builder, progress, dialect)
            self.hosts = self._own_hosts([host.lower() for host in hosts])
            """The site's own hosts, the busiest first."""
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
        return self.builder.names(self.figures.sources)

    @property
    def by(self) -> SourceKey:
        """What a source is."""
        return self.builder.by

    @cached_property
    def addresses(self) -> list[str]:
        """An address of each source: the first that it had."""
        found = list(self.sources)
        others = int(np.searchsorted(self.figures.sources, OTHER_CLIENT))
        found[others:] = map(self.builder.address, self.figures.sources[others:].tolist())
        return found

    @property
    def tells_referrers(self) -> bool:
        """Whether the lines of the log say where visits come from: by their format, or because one of them does."""
        forms = set(self.read_counts.formats)
        return bool(forms & _WITH_REFERRERS or (forms - _WITHOUT_REFERRERS and any(self.builder.places.texts)))

    @cached_property
    def renewed(self) -> NDArray[np.float64]:
        """The share of each source's page visits that begin a session; nan where nothing can be said."""
        return self.builder.cookies.renewed(self.figures.sources, self.figures["pages"])

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

    def days(self, automatic: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """
        Source-days by how many pages and calls they asked for: how many, so many requests, and how many of them are of
        sources that are not *automatic*. Days begin at midnight UTC.
        """
        found = self.store.days(self.figures.sources[automatic])
        return tuple(found[name].astype(np.int64) for name in ("days", "n", "ordinary"))  # type: ignore[return-value]

    def sparse(self, interval_s: float) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The place of a source, the number of an interval, the requests; no row where there were none."""
        step, origin = round(interval_s * _MICROSECONDS), round(self.origin * _MICROSECONDS)
        found = self.store.series(origin, step)
        return self.places(found["source"]), found["bin"].astype(np.int64), found["n"].astype(np.int64)

    def places(self, source: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The places of *source*, numbers that rise, among the sources."""
        begins = np.ones(len(source), np.bool_)
        begins[1:] = source[1:] != source[:-1]
        different = np.searchsorted(self.figures.sources, source[begins])
        return np.repeat(different, np.diff(np.append(np.flatnonzero(begins), len(source))))

    def counts(self, plan: SeriesPlan) -> Counts:
        """Requests by source and interval."""
        rows, bins, values = self.sparse(plan.interval)
        return Counts(rows, np.clip(bins, 0, plan.bins - 1), values.astype(np.float64), len(self.figures.sources))

    def features(self, counts: Counts, plan: SeriesPlan, *, levels: Levels, least: int) -> Features:
        """The shape of the traffic of each source with at least *least* requests; *counts* are those of *plan*."""
        found = self.store.features(counts, plan, levels, least)
        if len(found.sources):
            fine = Fine(*(self.figures[name].astype(np.float64) for name in FINE))
            found.rows[:, -len(FINE) :] = shares(fine, counts.totals)[found.sources]
        return found

    def _own_hosts(self, given: list[str]) -> list[str]:
        if given:
            return given
        named = self.builder.hosts
        if 2 * named.total() >= self.read_counts.parsed > 0:
            often = [(-lines, host) for host, lines in named.items() if lines >= _LEAST_ASKED * named.total()]
            return [host for _, host in sorted(often)]
        found = self.store.hosts(self.builder.key.digest(b"/"))
        own = np.flatnonzero((found["parents"] >= _LEAST_PARENTS) & (2 * found["there"] >= found["parents"]))
        if not len(own) and len(found["place"]):
            own = np.argmax(found["assets"]).reshape(1)
        texts = [self.builder.places.texts[place].decode("latin-1") for place in found["place"].tolist()]
        # A host is the site's own with and without www.
        known = {texts[k].removeprefix("www.") for k in own.tolist()}
        own = np.flatnonzero([text.removeprefix("www.") in known for text in texts])
        names = [texts[k] for k in own.tolist()]
        busy = zip((-found["assets"][own]).tolist(), (-found["parents"][own]).tolist(), names, strict=True)
        return [name for *_, name in sorted(busy)]

    def _count(self) -> Figures:
        builder = self.builder
        own = {host.encode("latin-1", "replace") for host in self.hosts}
        places = np.array([OWN if text in own else FOREIGN for text in builder.places.texts], np.uint8)
        profile = np.zeros(len(builder.shapes), np.bool_)
        profile[self.store.groups(LARGE)] = True
        profile[:2] = False
        return self.store.count(
            SiteFacts(
                exact=self.read_counts.exact,
                agents=len(builder.agents),
                places=places,
                listing=self._listings(places),
                profile=profile,
                hidden=self._hide_agents,
            )
        )

    def _listings(self, places: NDArray[np.uint8]) -> NDArray[np.bool_]:
        listing = np.zeros(len(self.builder.shapes), np.bool_)
        own = np.flatnonzero(places == OWN).tolist()
        if own:
            found = self.store.leads(own)
            many = (found["pages"] >= LEADS * found["parents"]) & (found["pages"] >= _LEAST_LEADING)
            listing[found["lead"][many]] = True
            listing[:2] = False
        return listing

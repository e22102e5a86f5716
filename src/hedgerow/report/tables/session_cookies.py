"""
Kept: which sessions the sources of a log came with, where it tells of any.

Who takes a site's cookie comes back with it; who does not is given a new one with each request. So the page visits of a
source that begin a session are those that name none, and one for each session that it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.visit import Visit

_MOST = 2_000_000
_HARDLY_ANY = 0.1

Told = dict[int, tuple[int, list[bytes]]]
"""By source: its page visits that name a session, and the different ones."""


class SessionCookies:
    """The sessions of page visits, by the number of their source; only so many of them, then nothing is told."""

    def __init__(self, most: int = _MOST) -> None:
        self._named: dict[int, int] = {}
        self._different: dict[int, set[bytes]] = {}
        self._left = most

    def note(self, visits: Sequence[Visit], sources: Iterable[int]) -> None:
        """Learn of *visits*, which are of *sources*."""
        for visit, source in zip(visits, sources, strict=True):
            if visit.linked and visit.kind == "page":
                self._add(source, 1, visit.linked[:1])

    def add(self, told: Told) -> None:
        """Learn what was learned of another part of the log."""
        for source, (named, different) in told.items():
            self._add(source, named, different)

    @property
    def told(self) -> Told:
        return {source: (named, sorted(self._different[source])) for source, named in self._named.items()}

    def renewed(self, sources: NDArray[np.uint64], pages: NDArray[np.int64]) -> NDArray[np.float64]:
        """
        The share of the page visits of each of *sources* that begin a session; *pages* are how many there are.

        nan where nothing can be said: of nobody, where hardly any page visit comes with a session that came before.
        """
        named = np.array([self._named.get(source, 0) for source in sources.tolist()], np.int64)
        different = np.array([len(self._different.get(source, ())) for source in sources.tolist()], np.int64)
        if self._left < 0 or (named - different).sum() <= _HARDLY_ANY * pages.sum():
            return np.full(len(sources), np.nan)
        return np.where(pages, (pages - named + different) / np.maximum(pages, 1), np.nan)

    def _add(self, source: int, named: int, different: Iterable[bytes]) -> None:
        if self._left < 0:
            return
        known = self._different.setdefault(source, set())
        before = len(known)
        known.update(different)
        self._left -= len(known) - before
        self._named[source] = self._named.get(source, 0) + named

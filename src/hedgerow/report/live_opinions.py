"""
Live: what two detectors of the live engine say of the sources of a log, by the same limits and the same weights.

Density decides on its own, as it does at the gate. Headers never do: of a log's sources only the user agent and the
version of HTTP are known, and what is odd about them is said and not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.rate_limit import RateLimit
from hedgerow.detectors.header_anomalies import WEIGHTS
from hedgerow.report.declared_bots import DeclaredBots
from hedgerow.report.evidence_columns import Findings, one_each
from hedgerow.report.tables.figures import SPANS, Figures
from hedgerow.request.header_anomalies import find_anomalies

_SURE = 0.999
_TOLD_BY_A_LOG = ("automation", "browser-http", "no-agent", "odd-agent", "program")
_AS_USUAL = {b"accept": b"text/html", b"accept-language": b"en", b"accept-encoding": b"gzip"}
"""What a log does not tell, as any browser sends it."""


class RateLimitOpinion:
    """
    Who was over a limit of request density at its busiest.

    Of *windows* those count that are about one visitor and are as long as one in which page visits were counted
    (`SPANS`). Where a window is about all requests, only the pages among them are known: it is exceeded later.
    """

    detector, codes = "density", ("density-visitor",)

    def __init__(self, figures: Figures, windows: Sequence[RateLimit]) -> None:
        self._over: list[tuple[RateLimit, NDArray[np.bool_]]] = [
            (window, figures[f"peak_{SPANS.index(window.seconds)}"] > window.count)
            for window in windows
            if window.by == "visitor" and window.of != "prefetches" and window.seconds in SPANS
        ]
        self.probability: NDArray[np.float64] = np.full(len(figures.sources), np.nan)
        for _, over in self._over:
            self.probability[over] = _SURE
        self.speaks: NDArray[np.bool_] = ~np.isnan(self.probability)

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        texts = [""] * len(some)
        # The first of them is said.
        for window, over in reversed(self._over):
            for k in np.flatnonzero(over[some]).tolist():
                texts[k] = f"More than {window.count} pages in {window.seconds:g} seconds."
        return one_each(np.ones(len(some)), texts)


class HeaderOpinion:
    """What is odd about a source's user agent, and about a browser of today that speaks HTTP/1.0 all the time."""

    detector, codes = "headers", _TOLD_BY_A_LOG

    def __init__(self, figures: Figures, declared: DeclaredBots) -> None:
        self._declared = declared
        self._old: NDArray[np.bool_] = figures["old_http"] == figures["requests"]
        self.probability: NDArray[np.float64] = np.full(len(figures.sources), np.nan)

    @cached_property
    def _signs(self) -> tuple[list[list[int]], NDArray[np.int64]]:
        """
        Sorts of sources, as places in *codes* what is odd about each; and the sort of each source.

        Most sources have a user agent that others have, too: one of each is asked about.
        """
        _, first, sort = np.unique(2 * self._declared.agents + self._old, return_index=True, return_inverse=True)
        return [_signs(self._declared.agent(source), bool(self._old[source])) for source in first.tolist()], sort

    @cached_property
    def speaks(self) -> NDArray[np.bool_]:
        signs, sort = self._signs
        return np.array([bool(found) for found in signs], np.bool_)[sort]

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        signs, sort = self._signs
        found = [signs[one] for one in sort[some].tolist()]
        kinds = [kind for each in found for kind in each]
        weights, texts = zip(*[WEIGHTS[self.codes[kind]] for kind in kinds], strict=True) if kinds else ((), ())
        whom = np.repeat(np.arange(len(some)), [len(each) for each in found])
        return Findings(whom, np.array(kinds, np.int64), np.array(weights, np.float64), texts)


def _signs(agent: str, old: bool) -> list[int]:
    fields = {b"user-agent": agent.encode("latin-1", "replace")} | _AS_USUAL
    signs = find_anomalies(fields, scheme="http", host="", version="1.0" if old else "1.1")
    return [_TOLD_BY_A_LOG.index(code) for code in signs if code in _TOLD_BY_A_LOG]

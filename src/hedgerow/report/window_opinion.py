"""
Windows: what the model of the sliding window (`sessions.window`) says of the sources of a log, as the watch would ask
it: at 27 page visits, and again whenever 27 others have come.

All windows are asked about at once. Those of a source are weighed together: by the mean of their probabilities.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.state import ACCOUNT, CLEARANCE
from hedgerow.logs.fields import SESSION
from hedgerow.report.declared_bots import FALSE, PROGRAM, VERIFIED, DeclaredBots
from hedgerow.report.evidence_columns import Findings, one_each
from hedgerow.report.path_opinion import probabilities
from hedgerow.report.tables.line_parser import OTHER_CLIENT
from hedgerow.report.tables.source_tables import Tables
from hedgerow.watch.models.bundle import Bundle
from hedgerow.watch.sessions.window import WINDOW_FEATURES

_AGENTS = {PROGRAM: "agent_unknown", FALSE: "agent_false", VERIFIED: "agent_true"}
_LEAST, _MOST = 27, 40


class WindowOpinion:
    """The opinion of *bundle* on each source that has a window; *declared* is None where user agents are hidden."""

    detector, codes = "window", ("window-suspect",)

    def __init__(self, tables: Tables, bundle: Bundle, declared: DeclaredBots | None) -> None:
        figures = tables.figures
        count = len(figures.sources)
        source = figures.who[:, 0]
        found = probabilities(bundle, _rows(tables, declared), figures.windows[:, 0].astype(np.int64))
        each, crawls = found
        self._told: NDArray[np.int64] = np.bincount(source, minlength=count)
        self._crawls: NDArray[np.int64] = np.bincount(source[crawls], minlength=count)
        """How many windows each source has, and how many of them are a crawler's."""
        self._surest: NDArray[np.float64] = np.full(count, -np.inf)
        np.maximum.at(self._surest, source, each)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.bincount(source, weights=each, minlength=count) / self._told
        self.probability: NDArray[np.float64] = mean
        self.speaks: NDArray[np.bool_] = self._crawls > 0

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        counts = zip(self._crawls[some].tolist(), self._told[some].tolist(), strict=True)
        texts = [
            f"{crawls} of {told} windows of {_LEAST} to {_MOST} page visits are like a crawler's, by pauses, sessions "
            "and referrers."
            for crawls, told in counts
        ]
        return one_each(self._surest[some], texts)


def _rows(tables: Tables, declared: DeclaredBots | None) -> NDArray[np.float64]:
    """The features of all windows, with what is known only now: what user agents declare, and who has a name."""
    figures = tables.figures
    rows = figures.windows.copy()
    if not len(rows):
        return rows
    source, agent, visits = figures.who.T
    if declared is not None:
        # Of a source the user agent that made most of its requests speaks, here as elsewhere.
        share = np.where(agent == figures["agent"][source], visits / rows[:, 0], 0.0)
        for state, name in _AGENTS.items():
            rows[:, WINDOW_FEATURES.index(name)] = np.where(declared.state[source] == state, share, 0.0)
    # Who is known by an account or a session has sent a cookie, or as much as one.
    places = np.unique(source[figures.sources[source] >= OTHER_CLIENT])
    known = [k for k in places.tolist() if tables.sources[k].startswith((ACCOUNT, CLEARANCE, SESSION))]
    named = np.isin(source, known)
    for name, value in (("cookie_absent", 0.0), ("cookie_good", 1.0), ("cookies", 1.0)):
        rows[named, WINDOW_FEATURES.index(name)] = value
    return rows

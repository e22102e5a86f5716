"""
Opinions of trained models: paths through the site, sliding windows of page visits, and the shape of traffic over time.

Paths and windows are judged by the models of the live engine. In a log the referrer stands for the parent page, and
windows are judged when the watch would do so: at 27 page visits, and again after each 27 others. A model is asked about
all rows of a stage at once. The opinion on a source is the mean of the probabilities of its sessions or windows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.state import ACCOUNT, CLEARANCE
from hedgerow.logs.fields import SESSION
from hedgerow.report.live_opinions import DeclaredBots
from hedgerow.report.shape.classifiers import INPUTS, ShapeModels, load
from hedgerow.report.shape.series import plan_of
from hedgerow.report.shape.vote import EIGHT_FEATURES, MAJORITY, classify, richest, words
from hedgerow.report.source_labels import FALSE, PROGRAM, VERIFIED, Findings, one_each
from hedgerow.report.tables.figures import Figures
from hedgerow.report.tables.line_parser import OTHER_CLIENT
from hedgerow.report.tables.source_tables import Tables
from hedgerow.watch.models.bundle import Bundle, Stage
from hedgerow.watch.models.inference import Branches, Linear, Namer, Trees
from hedgerow.watch.sessions.window import WINDOW_FEATURES

_SENTENCES = {
    "depth-first": "It follows links like a crawler that goes into the depth first.",
    "width-first": "It follows links like a crawler that takes all links of a page before it goes on.",
    "random-like": "It follows links like a crawler, in no order that a person would take.",
    "suspect": "It follows links like a crawler.",
}
_IDENTITIES = tuple(_SENTENCES)
_LONGEST_EXPONENT = 500.0
_EVEN = 0.5


class _Nodes(NamedTuple):
    """
    Decision trees as arrays: the root of each tree, and the feature (below 0: leaf), threshold and so on of each node.
    """

    roots: Any
    feature: Any
    threshold: Any
    left: Any
    right: Any
    value: Any


def _tree_scores(rows: NDArray[np.float64], trees: _Nodes, offset: float) -> NDArray[np.float64]:
    """What `Trees.score` gives for each row. Numbers are compared in single precision, as there."""
    rows = rows.astype(np.float32).astype(np.float64)
    roots, feature, threshold, left, right, value = map(np.array, trees)
    found = np.full(len(rows), offset)
    for root in roots:
        node = np.full(len(rows), root)
        on_way = np.arange(len(rows))
        while len(on_way := on_way[feature[node[on_way]] >= 0]):
            here = node[on_way]
            goes_left = rows[on_way, feature[here]] <= threshold[here]
            node[on_way] = np.where(goes_left, left[here], right[here])
        found += value[node]
    return found


def scores(stage: Stage, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the scores of many rows by the model of one stage."""
    model = stage.model
    if isinstance(model, Linear):
        logs, means, scales = (
            np.array(part) for part in (model.scaling.logs, model.scaling.means, model.scaling.scales)
        )
        brought = np.where(logs, np.log1p(np.maximum(rows, 0.0)), rows)
        return np.asarray((brought / scales - means / scales) @ np.array(model.weights) + model.offset, np.float64)
    if not isinstance(model, Trees):
        return np.array([model.score(row) for row in rows.tolist()])
    nodes = _Nodes(model.roots, model.feature, model.threshold, model.left, model.right, model.value)
    return _tree_scores(rows, nodes, model.offset)


def _identities(kinds: Namer | None, rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the place in `_IDENTITIES` of the crawler that each row resembles, by *kinds*."""
    if kinds is None:
        return np.full(len(rows), _IDENTITIES.index("suspect"))
    if not isinstance(kinds, Branches):
        names = map(kinds.name, rows.tolist())
    else:
        # Its leaves have classes where those of other trees have values.
        classes = tuple(map(float, kinds.kind))
        nodes = _Nodes((0,), kinds.feature, kinds.threshold, kinds.left, kinds.right, classes)
        names = map(kinds.names.__getitem__, _tree_scores(rows, nodes, 0.0).astype(np.int64).tolist())
    return np.array([_IDENTITIES.index(name) for name in names], np.int64)


def _stages(bundle: Bundle, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the stage that judges a session of each size: the last one that needs no more steps."""
    return np.searchsorted(np.array([stage.size for stage in bundle.stages]), sizes, side="right") - 1


def probabilities(
    bundle: Bundle, rows: NDArray[np.float64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """
    Return for each row, of a given number of visits, the probability of a crawler, and whether it exceeds the threshold
    of its stage.

    The probability is nan if there are too few visits for any stage.
    """
    chosen = _stages(bundle, sizes)
    each, crawls = np.full(len(sizes), np.nan), np.zeros(len(sizes), np.bool_)
    for number, stage in enumerate(bundle.stages):
        here = np.flatnonzero(chosen == number)
        if len(here):
            found = scores(stage, rows[here, : len(bundle.features)])
            exponent = np.clip(stage.slope * found + stage.intercept, -_LONGEST_EXPONENT, _LONGEST_EXPONENT)
            each[here] = 1 / (1 + np.exp(-exponent))
            crawls[here] = found > stage.threshold
    return each, crawls


class PathOpinion:
    """
    The opinion of *bundle* on each source that has a session of at least ten steps.

    As in the watch, a session is a crawler's from the threshold of its stage on. Below that, it may speak for a person
    but not for a crawler.
    """

    detector, codes = "path", tuple(f"path-{identity}" for identity in _IDENTITIES)

    def __init__(self, figures: Figures, bundle: Bundle) -> None:
        self._bundle = bundle
        self._sessions, self._paths = figures.sessions, figures.paths
        self._each, self.crawls = probabilities(bundle, self._paths, self._sessions[:, 1])
        """How probable each session is a crawler's, and which are one's by the stage's own threshold."""
        count = len(figures.sources)
        crawls = np.flatnonzero(self.crawls)
        source = self._sessions[crawls, 0]
        order = np.lexsort((crawls, -self._each[crawls], source))
        first = np.flatnonzero(np.diff(source[order], prepend=-1))
        self._surest: NDArray[np.int64] = np.full(count, -1)
        """Of each source that has any of a crawler the session that is surest one's; of equals the first."""
        self._surest[source[order[first]]] = crawls[order[first]]
        self.speaks: NDArray[np.bool_] = np.bincount(source, minlength=count) > 0
        session_count = np.bincount(self._sessions[:, 0], minlength=count)
        with np.errstate(invalid="ignore", divide="ignore"):
            capped = np.where(self.crawls, self._each, np.minimum(self._each, _EVEN))
            mean = np.bincount(self._sessions[:, 0], weights=capped, minlength=count) / session_count
        self.probability: NDArray[np.float64] = mean

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        surest = self._surest[some]
        rows = self._paths[surest, : len(self._bundle.features)]
        chosen, kind = _stages(self._bundle, self._sessions[surest, 1]), np.zeros(len(some), np.int64)
        for number, stage in enumerate(self._bundle.stages):
            here = np.flatnonzero(chosen == number)
            kind[here] = _identities(stage.kinds, rows[here])
        texts = [_SENTENCES[_IDENTITIES[one]] for one in kind.tolist()]
        return Findings(np.arange(len(some)), kind, self._each[surest], texts)


_AGENTS = {PROGRAM: "agent_unknown", FALSE: "agent_false", VERIFIED: "agent_true"}
_LEAST, _MOST = 27, 40


class WindowOpinion:
    """The opinion of *bundle* on each source that has a window. *declared* is None if user agents are hidden."""

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
            f"{crawls} of {total} windows of {_LEAST} to {_MOST} page visits are like a crawler's, by pauses, sessions "
            "and referrers."
            for crawls, total in counts
        ]
        return one_each(self._surest[some], texts)


def _rows(tables: Tables, declared: DeclaredBots | None) -> NDArray[np.float64]:
    """Return the features of all windows, completed by what user agents declare and which sources have a name."""
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
    # A client that is known by an account or a session has sent a cookie, or something that serves as one.
    places = np.unique(source[figures.sources[source] >= OTHER_CLIENT])
    known = [k for k in places.tolist() if tables.sources[k].startswith((ACCOUNT, CLEARANCE, SESSION))]
    named = np.isin(source, known)
    for name, value in (("cookie_absent", 0.0), ("cookie_good", 1.0), ("cookies", 1.0)):
        rows[named, WINDOW_FEATURES.index(name)] = value
    return rows


class ShapeOpinion:
    """
    The vote of three classifiers on each source with enough requests. A log of less than two days gets no opinion.

    *bundle* has the classifiers; None stands for those of Hedgerow. *paper*: the paper's eight features and plain
    majority decide, instead of all features and a threshold that hardly any person exceeds.
    """

    detector, codes = "shape", ("shape-crawler",)

    def __init__(self, tables: Tables, bundle: ShapeModels | None = None, *, paper: bool = False) -> None:
        size = len(tables.figures.sources)
        self.plan = plan_of(tables.origin, tables.origin + tables.span)
        self.counts = tables.counts(self.plan)
        self.probability: NDArray[np.float64] = np.full(size, np.nan)
        self.speaks: NDArray[np.bool_] = np.zeros(size, np.bool_)
        self._reasons: dict[int, str] = {}
        self.rules: list[str] = []
        """The rules in words, where they were asked."""
        bundle = bundle or load()
        self.similarity = bundle.similarity
        """k of algorithm 1, for campaigns."""
        self.night = bundle.night
        """How deep the day of a crowd is at the least."""
        self.least = bundle.least
        """The fewest requests of a source that has a shape."""
        found = tables.features(self.counts, self.plan, levels=bundle.levels, least=bundle.least)
        if not len(found.sources) or not found.comparable:
            return
        name = EIGHT_FEATURES if paper and EIGHT_FEATURES in bundle.models else richest(found, bundle)
        verdicts = classify(found, bundle, model=name)
        self.rules = [words(rule, INPUTS[name]) for rule in bundle.models[name].rules.rules]
        self.probability[found.sources] = verdicts.scores
        is_crawler = np.array([label == "crawler" for label in verdicts.labels], np.bool_)
        if paper:
            is_crawler = verdicts.votes >= MAJORITY
        self.speaks[found.sources] = is_crawler
        self._reasons = {int(found.sources[k]): verdicts.reasons[k] for k in np.flatnonzero(is_crawler).tolist()}

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        return one_each(self.probability[some], [self._reasons[source] for source in some.tolist()])

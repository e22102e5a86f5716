"""
Paths: what the models of the live engine say of the sessions in a log, the referrer standing for the parent.

One model is asked for all sessions of a stage at once. The sessions of a source are weighed together: by the mean of
their probabilities.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.evidence_columns import Findings
from hedgerow.report.tables.figures import Figures
from hedgerow.report.tables.jit import Kernel
from hedgerow.watch.models.bundle import Bundle, Stage
from hedgerow.watch.models.inference import Branches, Linear, Namer, Trees

_SENTENCES = {
    "depth-first": "It follows links like a crawler that goes into the depth first.",
    "width-first": "It follows links like a crawler that takes all links of a page before it goes on.",
    "random-like": "It follows links like a crawler, in no order that a person would take.",
    "suspect": "It follows links like a crawler.",
}
_IDENTITIES = tuple(_SENTENCES)
_LONGEST_EXPONENT = 500.0
_EVEN = 0.5
_FEW_STEPS = 300_000
"""Sessions times trees up to which compiled functions are not worth it."""


class _Nodes(NamedTuple):
    """Decision trees: where each begins, and of each node the feature (below 0: none), the threshold and so on."""

    roots: Any
    feature: Any
    threshold: Any
    left: Any
    right: Any
    value: Any


@Kernel
def _add_scores(rows: Any, trees: _Nodes, scores: Any) -> None:
    """Add what `Trees.score` says of each row to *scores*."""
    for k in range(len(rows)):
        row = rows[k]
        for root in trees.roots:
            node = root
            while trees.feature[node] >= 0:
                goes_left = row[trees.feature[node]] <= trees.threshold[node]
                node = trees.left[node] if goes_left else trees.right[node]
            scores[k] += trees.value[node]


def _tree_scores(rows: NDArray[np.float64], trees: _Nodes, offset: float) -> NDArray[np.float64]:
    """What `Trees.score` says of each row; numbers are compared in single precision, as there."""
    rows, found = rows.astype(np.float32).astype(np.float64), np.full(len(rows), offset)
    if len(rows) * len(trees.roots) > _FEW_STEPS:
        _add_scores.compiled(rows, _Nodes(*map(np.array, trees)), found)
    else:
        listed = found.tolist()
        _add_scores(rows.tolist(), trees, listed)
        found = np.array(listed)
    return found


def scores(stage: Stage, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores of many rows by the model of one stage."""
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
    """Which crawler each of many rows is like, by *kinds*: places in `_IDENTITIES`."""
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
    """Which stage is asked about a session of so many steps: the last one that has no more."""
    return np.searchsorted(np.array([stage.size for stage in bundle.stages]), sizes, side="right") - 1


def probabilities(
    bundle: Bundle, rows: NDArray[np.float64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """
    Of each row, of so many visits, how probable a crawler's it is, and whether it is one by its stage's threshold; nan
    where there are too few visits for any stage.
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

    As in the watch, a session is held to be a crawler's from the threshold of its stage on; below that it may speak for
    a person, but for no crawler.
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
        told = np.bincount(self._sessions[:, 0], minlength=count)
        with np.errstate(invalid="ignore", divide="ignore"):
            said = np.where(self.crawls, self._each, np.minimum(self._each, _EVEN))
            mean = np.bincount(self._sessions[:, 0], weights=said, minlength=count) / told
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

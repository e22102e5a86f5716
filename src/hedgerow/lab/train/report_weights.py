"""
Learning: thresholds, weights and trust, from logs whose sources are labelled.

Where nobody has labelled them they label themselves: who declares itself a program is a crawler; who declares nothing,
and in most of its sittings brings assets along and often says where it comes from, is held to be a person. That is a
makeshift: it knows nothing of crawlers in disguise, and what it calls a person looks like one by two of the figures
that are learned. Labels of one's own (`--labels`) are better.

Every log is left out once, and judged by what the others have taught: those figures stand in the provenance.

How far the other opinions are trusted beside the manner is not learned: between a handful of logs what would be learned
depends on which of them teach more than on anything else. Each counts for a quarter of what it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import ModelError
from hedgerow.report.browsing_features import LACKING, LEAST_PAGES, Steps, figures_of
from hedgerow.report.browsing_features import NAMES as MANNERS
from hedgerow.report.declared_bots import NOTHING, DeclaredBots
from hedgerow.report.heuristics import NAMES, Thresholds, Votes, measures
from hedgerow.report.path_opinion import PathOpinion
from hedgerow.report.report_model import ReportModel
from hedgerow.report.source_labels import HeuristicsOpinion, log_odds
from hedgerow.report.tables.source_tables import Tables
from hedgerow.report.window_opinion import WindowOpinion
from hedgerow.request.bots import Bots
from hedgerow.watch.models.bundle import Bundle

TRUST = {"manner": 1.0, "heuristics": 0.25, "path": 0.25, "window": 0.25, "shape": 0.25}
_AT_MOST = {"revisits", "parameters"}
_LEAST_OF_EACH = 5
_LEAST_GAIN = 0.1
_ROUNDS, _RATE, _MOST_EDGES = 100, 0.1, 64


class Lesson(NamedTuple):
    """The labelled sources of one log: which are *crawlers*, and what is known of each."""

    name: str
    crawlers: NDArray[np.bool_]
    measures: NDArray[np.float64]
    manner: NDArray[np.float64]
    path: NDArray[np.float64]
    window: NDArray[np.float64]
    chosen: NDArray[np.int64]
    figures: Any
    renewed: NDArray[np.float64]


def lesson(
    name: str, tables: Tables, bots: Bots, paths: Bundle, windows: Bundle, labels: Mapping[str, str] | None = None
) -> Lesson:
    """What *tables* teach; *paths* and *windows* judge theirs. *labels* are "person" or anything else by source."""
    figures = tables.figures
    if labels is not None:
        told = [labels.get(source) for source in tables.sources]
        crawler = np.array([label not in {None, "person"} for label in told], np.bool_)
        person = np.array([label == "person" for label in told], np.bool_)
    else:
        declared = DeclaredBots(tables, bots)
        crawler = declared.state != NOTHING
        person = ~crawler & (2 * figures["human_like"] > figures["closely"]) & (figures["agent"] != 0)
    chosen = np.flatnonzero((crawler | person) & (figures["pages"] >= LEAST_PAGES))
    path = PathOpinion(figures, paths).probability[chosen]
    window = WindowOpinion(tables, windows, None).probability[chosen]
    return Lesson(
        name, crawler[chosen], measures(figures, tables.renewed)[chosen], figures_of(figures)[chosen], path, window,
        chosen, figures, tables.renewed,
    )  # fmt: skip


def learn(lessons: Sequence[Lesson]) -> ReportModel:
    """A model of all *lessons*, with figures of each log judged by the others."""
    model = _fit(lessons)
    counts = {one.name: (int(one.crawlers.sum()), int((~one.crawlers).sum())) for one in lessons}
    told: dict[str, Any] = {"logs": {name: {"crawlers": a, "people": b} for name, (a, b) in counts.items()}}
    if len(lessons) > 1:
        told["left_out"] = {}
        for k, one in enumerate(lessons):
            others = [*lessons[:k], *lessons[k + 1 :]]
            if one.crawlers.any() and not one.crawlers.all():
                told["left_out"][one.name] = quality(one.crawlers, odds(_fit(others), one))
    return msgspec.structs.replace(model, provenance=told)


def odds(model: ReportModel, one: Lesson) -> NDArray[np.float64]:
    """What *model* says of the sources of a lesson, but for the shape of their traffic."""
    votes = Votes(one.figures, model.thresholds, ignore_agents=True, renewed=one.renewed)
    told = {
        "manner": 1 / (1 + np.exp(-model.manner[""].odds(one.manner))),
        "heuristics": HeuristicsOpinion(votes).probability[one.chosen],
        "path": one.path,
        "window": one.window,
    }
    return np.asarray(sum(model.trust[name] * log_odds(said) for name, said in told.items()), np.float64)


def quality(crawlers: NDArray[np.bool_], found: NDArray[np.float64]) -> dict[str, float]:
    """Crawlers and people that are right at the middle, the area under ROC, and recall at 1 % false positives."""
    yes, no = found[crawlers], found[~crawlers]
    above = np.searchsorted(np.sort(no), yes, side="left") + np.searchsorted(np.sort(no), yes, side="right")
    limit = np.sort(no)[min(len(no) - 1, int(np.ceil(0.99 * (len(no) - 1))))]
    rates = {
        "crawlers_right": np.mean(yes >= 0),
        "people_right": np.mean(no < 0),
        "area": np.mean(above) / 2 / len(no),
        "recall_at_1_percent": np.mean(yes > limit),
    }
    return {name: round(float(rate), 4) for name, rate in rates.items()}


def _fit(lessons: Sequence[Lesson]) -> ReportModel:
    crawlers = np.concatenate([one.crawlers for one in lessons])
    if min(crawlers.sum(), (~crawlers).sum()) < _LEAST_OF_EACH:
        raise ModelError(f"these logs have fewer than {_LEAST_OF_EACH} labelled crawlers or people; name more of them")
    thresholds = _thresholds(np.concatenate([one.measures for one in lessons]), crawlers)
    rows = np.concatenate([one.manner for one in lessons])
    # Within each log crawlers and people weigh the same together; a log with four times as many sources twice as much.
    each = np.concatenate([_balanced(one.crawlers) * len(one.crawlers) ** 0.5 for one in lessons])
    manner = {
        what: _boosted(rows, crawlers, each, without=[MANNERS.index(name) for name in names])
        for what, names in LACKING.items()
    }
    return ReportModel(thresholds, manner, TRUST)


def _balanced(yes: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.asarray(np.where(yes, 0.5 / max(1, yes.sum()), 0.5 / max(1, (~yes).sum())), np.float64)


def _thresholds(found: NDArray[np.float64], crawlers: NDArray[np.bool_]) -> Thresholds:
    """For each heuristic the limit at which crawlers and people differ most; where they hardly do it stays."""
    learned: dict[str, float] = {}
    for k, name in enumerate(NAMES):
        known = ~np.isnan(found[:, k])
        values, yes = found[known, k], crawlers[known]
        if min(yes.sum(), (~yes).sum()) < _LEAST_OF_EACH:
            continue
        limits = np.unique(values)
        sign = -1 if name in _AT_MOST else 1
        rates = [
            (np.mean(sign * values[yes] >= sign * limit) - np.mean(sign * values[~yes] >= sign * limit))
            for limit in limits
        ]
        if max(rates) >= _LEAST_GAIN:
            learned[name] = round(float(limits[int(np.argmax(rates))]), 4)
    return Thresholds(**learned)  # type: ignore[arg-type]


def _boosted(
    rows: NDArray[np.float64], yes: NDArray[np.bool_], each: NDArray[np.float64], *, without: Sequence[int]
) -> Steps:
    """
    Functions of steps by boosting (Friedman 2001): one step at a time, where it tells most of what is still wrong, and
    a tenth of it each time. *each* is what each row weighs; the columns *without* are not looked at.
    """
    figure, edge, below = _candidates(rows, without)
    each = each / each.mean()
    score = np.zeros(len(rows))
    found: list[tuple[int, float, float, float]] = []
    weight = each @ below
    for _ in range(_ROUNDS):
        p = 1 / (1 + np.exp(-score))
        wrong, spread = each * (yes - p), each * p * (1 - p)
        left, right = wrong @ below, wrong @ ~below
        best = int(np.argmax(left**2 / weight + right**2 / (each.sum() - weight)))
        low = _RATE * left[best] / (spread @ below[:, best])
        high = _RATE * right[best] / (spread @ ~below[:, best])
        score += np.where(below[:, best], low, high)
        found.append((int(figure[best]), float(edge[best]), float(low), float(high)))
    return _summed(found, rows, each)


def _candidates(
    rows: NDArray[np.float64], without: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """Where steps may be: the figure, the edge, and which rows are not above it; enough are on both sides of each."""
    figures, edges, below = [], [], []
    for k in range(rows.shape[1]):
        if k in without:
            continue
        for edge in np.unique(np.quantile(rows[:, k], np.linspace(0, 1, _MOST_EDGES + 1)[:-1])).tolist():
            under = rows[:, k] <= edge
            if _LEAST_OF_EACH <= under.sum() <= len(rows) - _LEAST_OF_EACH:
                figures.append(k)
                # Half way to the next: as it stands in a file it may be rounded.
                edges.append((rows[under, k].max() + rows[~under, k].min()) / 2)
                below.append(under)
    if not below:
        raise ModelError("the sources of these logs are all alike; name logs with crawlers and people in them")
    return np.array(figures), np.array(edges), np.column_stack(below)


def _summed(
    found: Sequence[tuple[int, float, float, float]], rows: NDArray[np.float64], each: NDArray[np.float64]
) -> Steps:
    """All steps of each figure as one function, which adds nothing on average."""
    edges, values, offset = [], [], 0.0
    for k in range(rows.shape[1]):
        mine = [(edge, low, high) for figure, edge, low, high in found if figure == k]
        cuts = sorted({edge for edge, _, _ in mine})
        place = {cut: n for n, cut in enumerate(cuts)}
        heights = np.array(
            [sum(low if n <= place[edge] else high for edge, low, high in mine) for n in range(len(cuts) + 1)]
        )
        mean = float(np.average(heights[np.searchsorted(np.array(cuts), rows[:, k])], weights=each))
        edges.append(tuple(round(cut, 6) for cut in cuts))
        values.append(tuple(round(float(height) - mean, 6) for height in heights))
        offset += mean
    return Steps(tuple(edges), tuple(values), round(offset, 6))

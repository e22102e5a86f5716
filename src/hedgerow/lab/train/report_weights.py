"""
Training of the report model (thresholds, weights and trust) from logs with labelled sources.

Without labels, sources label themselves. A source that declares itself a program is a crawler. A source that declares
nothing, loads assets in most sessions and often sends referrers is taken for a person. That is a workaround: it misses
crawlers in disguise, and its "people" look like people by two of the features that are learned. Your own labels
(`--labels`) are better.

Every log is held out once and classified by a model of the others. These figures are in the provenance.

The trust in the other opinions, relative to browsing features, is not learned: with a handful of logs it would depend
mostly on the choice of logs. Each counts for a quarter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import ModelError
from hedgerow.report.heuristics import (
    BROWSING_FIGURES,
    LACKING,
    LEAST_PAGES,
    NAMES,
    HeuristicsOpinion,
    ReportModel,
    Steps,
    Thresholds,
    Votes,
    figures_of,
    measures,
)
from hedgerow.report.live_opinions import DeclaredBots
from hedgerow.report.model_opinions import PathOpinion, WindowOpinion
from hedgerow.report.source_labels import NOTHING, log_odds
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots
from hedgerow.watch.models.bundle import Bundle

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

TRUST = {"manner": 1.0, "heuristics": 0.25, "path": 0.25, "window": 0.25, "shape": 0.25}
_UPPER_LIMITS = {"revisits", "parameters"}
_MIN_SOURCES = 5
_MIN_GAIN = 0.1
_ROUNDS, _RATE, _MAX_EDGES = 100, 0.1, 64


class TrainingLog(NamedTuple):
    """The labelled sources of one log: which are *crawlers*, and their features and opinions."""

    name: str
    crawlers: Flags
    measures: Floats
    manner: Floats
    path: Floats
    window: Floats
    chosen: NDArray[np.int64]
    figures: Any
    renewed: Floats


def training_log(
    name: str, tables: Tables, bots: Bots, paths: Bundle, windows: Bundle, labels: Mapping[str, str] | None = None
) -> TrainingLog:
    """Return the labelled sources of *tables*. *paths* and *windows* are the bundles for their opinions."""
    figures = tables.figures
    if labels is not None:
        labels_of_sources = [labels.get(source) for source in tables.sources]
        crawler = np.array([label not in {None, "person"} for label in labels_of_sources], np.bool_)
        person = np.array([label == "person" for label in labels_of_sources], np.bool_)
    else:
        declared = DeclaredBots(tables, bots)
        crawler = declared.state != NOTHING
        person = ~crawler & (2 * figures["human_like"] > figures["closely"]) & (figures["agent"] != 0)
    chosen = np.flatnonzero((crawler | person) & (figures["pages"] >= LEAST_PAGES))
    path = PathOpinion(figures, paths).probability[chosen]
    window = WindowOpinion(tables, windows, None).probability[chosen]
    return TrainingLog(
        name, crawler[chosen], measures(figures, tables.renewed)[chosen], figures_of(figures)[chosen], path, window,
        chosen, figures, tables.renewed,
    )  # fmt: skip


def train_report_model(logs: Sequence[TrainingLog]) -> ReportModel:
    """Train a model on all *logs*; the provenance has the quality on each log, held out."""
    model = _fit(logs)
    counts = {log.name: (int(log.crawlers.sum()), int((~log.crawlers).sum())) for log in logs}
    provenance: dict[str, Any] = {"logs": {name: {"crawlers": a, "people": b} for name, (a, b) in counts.items()}}
    if len(logs) > 1:
        provenance["left_out"] = {}
        for k, log in enumerate(logs):
            other_logs = [*logs[:k], *logs[k + 1 :]]
            if log.crawlers.any() and not log.crawlers.all():
                provenance["left_out"][log.name] = quality(log.crawlers, odds(_fit(other_logs), log))
    return msgspec.structs.replace(model, provenance=provenance)


def odds(model: ReportModel, log: TrainingLog) -> Floats:
    """Return the log-odds that *model* gives the sources of a log, without the opinion on traffic shape."""
    votes = Votes(log.figures, model.thresholds, ignore_agents=True, renewed=log.renewed)
    opinions = {
        "manner": 1 / (1 + np.exp(-model.manner[""].odds(log.manner))),
        "heuristics": HeuristicsOpinion(votes).probability[log.chosen],
        "path": log.path,
        "window": log.window,
    }
    return np.asarray(
        sum(model.trust[name] * log_odds(probability) for name, probability in opinions.items()), np.float64
    )


def quality(crawlers: Flags, log_odds_: Floats) -> dict[str, float]:
    """Return the shares classified right, the area under ROC, and recall at 1 % false positives."""
    crawler_odds, person_odds = log_odds_[crawlers], log_odds_[~crawlers]
    above = np.searchsorted(np.sort(person_odds), crawler_odds, side="left") + np.searchsorted(
        np.sort(person_odds), crawler_odds, side="right"
    )
    limit = np.sort(person_odds)[min(len(person_odds) - 1, int(np.ceil(0.99 * (len(person_odds) - 1))))]
    rates = {
        "crawlers_right": np.mean(crawler_odds >= 0),
        "people_right": np.mean(person_odds < 0),
        "area": np.mean(above) / 2 / len(person_odds),
        "recall_at_1_percent": np.mean(crawler_odds > limit),
    }
    return {name: round(float(rate), 4) for name, rate in rates.items()}


def _fit(logs: Sequence[TrainingLog]) -> ReportModel:
    crawlers = np.concatenate([log.crawlers for log in logs])
    if min(crawlers.sum(), (~crawlers).sum()) < _MIN_SOURCES:
        raise ModelError(f"these logs have fewer than {_MIN_SOURCES} labelled crawlers or people; name more of them")
    thresholds = _thresholds(np.concatenate([log.measures for log in logs]), crawlers)
    rows = np.concatenate([log.manner for log in logs])
    # In each log, crawlers and people have the same total weight. A log with four times the sources weighs twice.
    weights = np.concatenate([_balanced(log.crawlers) * len(log.crawlers) ** 0.5 for log in logs])
    manner = {
        without: _boosted(rows, crawlers, weights, without=[BROWSING_FIGURES.index(name) for name in names])
        for without, names in LACKING.items()
    }
    return ReportModel(thresholds, manner, TRUST)


def _balanced(yes: Flags) -> Floats:
    return np.asarray(np.where(yes, 0.5 / max(1, yes.sum()), 0.5 / max(1, (~yes).sum())), np.float64)


def _thresholds(values_by_source: Floats, crawlers: Flags) -> Thresholds:
    """Return, for each heuristic, the limit that separates crawlers and people best; the default if none does."""
    learned: dict[str, float] = {}
    for k, name in enumerate(NAMES):
        known = ~np.isnan(values_by_source[:, k])
        values, is_crawler = values_by_source[known, k], crawlers[known]
        if min(is_crawler.sum(), (~is_crawler).sum()) < _MIN_SOURCES:
            continue
        limits = np.unique(values)
        sign = -1 if name in _UPPER_LIMITS else 1
        rates = [
            (np.mean(sign * values[is_crawler] >= sign * limit) - np.mean(sign * values[~is_crawler] >= sign * limit))
            for limit in limits
        ]
        if max(rates) >= _MIN_GAIN:
            learned[name] = round(float(limits[int(np.argmax(rates))]), 4)
    # In a log whose people met no dead link, a single one would make a crawler.
    learned["errors"] = max(learned.get("errors", 0.0), Thresholds().errors)
    return Thresholds(**learned)  # type: ignore[arg-type]


def _boosted(rows: Floats, is_crawler: Flags, weights: Floats, *, without: Sequence[int]) -> Steps:
    """Fit step functions by boosting (Friedman 2001): each round adds a tenth of the best step."""
    figure, edge, below = _candidates(rows, without)
    weights = weights / weights.mean()
    score = np.zeros(len(rows))
    steps: list[tuple[int, float, float, float]] = []
    weight = weights @ below
    for _ in range(_ROUNDS):
        p = 1 / (1 + np.exp(-score))
        error, spread = weights * (is_crawler - p), weights * p * (1 - p)
        left, right = error @ below, error @ ~below
        best = int(np.argmax(left**2 / weight + right**2 / (weights.sum() - weight)))
        low = _RATE * left[best] / (spread @ below[:, best])
        high = _RATE * right[best] / (spread @ ~below[:, best])
        score += np.where(below[:, best], low, high)
        steps.append((int(figure[best]), float(edge[best]), float(low), float(high)))
    return _summed(steps, rows, weights)


def _candidates(rows: Floats, without: Sequence[int]) -> tuple[NDArray[np.int64], Floats, Flags]:
    """Return possible steps (feature, edge, rows below) with enough rows on both sides."""
    figures, edges, below = [], [], []
    for k in range(rows.shape[1]):
        if k in without:
            continue
        for edge in np.unique(np.quantile(rows[:, k], np.linspace(0, 1, _MAX_EDGES + 1)[:-1])).tolist():
            is_below = rows[:, k] <= edge
            if _MIN_SOURCES <= is_below.sum() <= len(rows) - _MIN_SOURCES:
                figures.append(k)
                # Half way to the next value, because it is rounded in the file.
                edges.append((rows[is_below, k].max() + rows[~is_below, k].min()) / 2)
                below.append(is_below)
    if not below:
        raise ModelError("the sources of these logs are too similar; name logs with crawlers and people")
    return np.array(figures), np.array(edges), np.column_stack(below)


def _summed(steps: Sequence[tuple[int, float, float, float]], rows: Floats, weights: Floats) -> Steps:
    """Return all steps of each feature as one function with mean 0."""
    edges, values, offset = [], [], 0.0
    for k in range(rows.shape[1]):
        own_steps = [(edge, low, high) for figure, edge, low, high in steps if figure == k]
        cuts = sorted({edge for edge, _, _ in own_steps})
        index = {cut: n for n, cut in enumerate(cuts)}
        heights = np.array(
            [sum(low if n <= index[edge] else high for edge, low, high in own_steps) for n in range(len(cuts) + 1)]
        )
        mean = float(np.average(heights[np.searchsorted(np.array(cuts), rows[:, k])], weights=weights))
        edges.append(tuple(round(cut, 6) for cut in cuts))
        values.append(tuple(round(float(height) - mean, 6) for height in heights))
        offset += mean
    return Steps(tuple(edges), tuple(values), round(offset, 6))

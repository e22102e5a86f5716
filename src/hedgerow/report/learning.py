"""
Learning: thresholds, weights and trust, from logs whose sources are labelled.

Where nobody has labelled them they label themselves: who declares itself a program is a crawler; who declares nothing,
brings assets along and mostly says where it comes from is held to be a person. That is a makeshift: it knows nothing of
crawlers in disguise, and what it calls a person looks like one by two of the figures that are learned. Labels of one's
own (`--labels`) are better.

Every log is left out once, and judged by what the others have taught: those figures stand in the provenance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.analyse.tables import Tables
from hedgerow.errors import ModelError
from hedgerow.identity.bots import Bots
from hedgerow.models.bundle import Bundle
from hedgerow.report.declared import NOTHING, Declared
from hedgerow.report.heuristics import NAMES, Thresholds, Votes, measures
from hedgerow.report.judging import ByHeuristics, log_odds
from hedgerow.report.manner import LEAST_PAGES, Weights, figures_of
from hedgerow.report.model import Model
from hedgerow.report.paths import ByPath
from hedgerow.report.windows import ByWindow

TRUSTED = ("heuristics", "manner", "path", "window")
_AT_MOST = {"revisits", "parameters"}
_LEAST_OF_EACH = 5
_RIDGE = 1.0
_LEAST_GAIN = 0.1
_ROUNDS = 50
_LEAST_ASSETS, _LEAST_REQUESTS, _LEAST_REFERRED = 2, 3, 0.3


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
        declared = Declared(tables, bots)
        crawler = declared.state != NOTHING
        referred = figures["own"] + figures["foreign"] >= _LEAST_REFERRED * figures["pages"]
        person = ~crawler & referred & (figures["assets"] >= _LEAST_ASSETS) & (figures["agent"] != 0)
        person &= figures["requests"] >= _LEAST_REQUESTS
    chosen = np.flatnonzero((crawler | person) & (figures["pages"] >= LEAST_PAGES))
    path = ByPath(figures, paths).probability[chosen]
    window = ByWindow(tables, windows, None).probability[chosen]
    return Lesson(
        name, crawler[chosen], measures(figures)[chosen], figures_of(figures)[chosen], path, window, chosen, figures
    )


def learn(lessons: Sequence[Lesson]) -> Model:
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


def odds(model: Model, one: Lesson) -> NDArray[np.float64]:
    """What *model* says of the sources of a lesson."""
    return np.asarray(_opinions(model, one) @ [model.trust[name] for name in TRUSTED] + model.offset, np.float64)


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


def _fit(lessons: Sequence[Lesson]) -> Model:
    crawlers = np.concatenate([one.crawlers for one in lessons])
    if min(crawlers.sum(), (~crawlers).sum()) < _LEAST_OF_EACH:
        raise ModelError(f"these logs have fewer than {_LEAST_OF_EACH} labelled crawlers or people; name more of them")
    thresholds = _thresholds(np.concatenate([one.measures for one in lessons]), crawlers)
    manner = _logistic(np.concatenate([one.manner for one in lessons]), crawlers)
    model = Model(thresholds, manner, dict.fromkeys(TRUSTED, 1.0))
    told = np.concatenate([_opinions(model, one) for one in lessons])
    trust = _logistic(told, crawlers)
    factors = np.maximum(np.array(trust.weights) / np.array(trust.scales), 0.0)
    # One that was learned to speak against itself is not listened to.
    centre = float(np.array(trust.means) @ factors)
    return Model(
        thresholds,
        manner,
        {name: round(float(factor), 6) for name, factor in zip(TRUSTED, factors, strict=True)},
        round(trust.offset - centre, 6),
    )


def _opinions(model: Model, one: Lesson) -> NDArray[np.float64]:
    """The odds of each opinion, in the order of `TRUSTED`; 0 where it has none."""
    votes = Votes(one.figures, model.thresholds, ignore_agents=True)
    heuristics = log_odds(ByHeuristics(votes).probability[one.chosen])
    manner = log_odds(1 / (1 + np.exp(-model.manner.odds(one.manner))))
    return np.column_stack([heuristics, manner, log_odds(one.path), log_odds(one.window)])


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


def _logistic(rows: NDArray[np.float64], yes: NDArray[np.bool_]) -> Weights:
    """Logistic regression with a small ridge; crawlers and people weigh the same together, however many they are."""
    means, scales = rows.mean(0), rows.std(0)
    scales = np.where(scales > 0, scales, 1.0)
    design = np.column_stack([(rows - means) / scales, np.ones(len(rows))])
    each = np.where(yes, 0.5 / yes.sum(), 0.5 / (~yes).sum()) * len(rows)
    ridge = np.eye(design.shape[1]) * _RIDGE
    ridge[-1, -1] = 1e-6
    weights = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        p = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        gradient = design.T @ (each * (yes - p)) - ridge @ weights
        curvature = (design * (each * p * (1 - p))[:, None]).T @ design + ridge
        weights += np.linalg.solve(curvature, gradient)
    return Weights(_rounded(means), _rounded(scales), _rounded(weights[:-1]), round(float(weights[-1]), 6))


def _rounded(numbers: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(round(float(number), 6) for number in numbers)

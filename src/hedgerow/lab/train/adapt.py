"""
Adapts the bundle that comes with Hedgerow to the visitors of a site.

The models go on from those that are shipped: a few small trees correct them for the people and crawlers of the site.
Simulated people and crawlers are among the samples, so that the models do not forget what the site has not seen. People
and crawlers weigh the same in total, however few the one or the other are.

A threshold is never lower than the shipped one, so a visitor that resembles nobody in the samples is suspected no more
often than before. All held-out people of the site are below it, except for the share that the budget allows.

All figures are of nested cross-validation: neither the model nor the thresholds have seen the visitor that is judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sklearn

from hedgerow.lab.train import learners
from hedgerow.lab.train.fit import (
    BUDGET,
    FOLDS,
    Fit,
    calibrate,
    fold_of,
    folds_of,
    metrics_of,
    people_bins,
    recipe_of,
    rounded,
    truth_of,
)
from hedgerow.lab.train.samples import LOG, PERSON, Sample
from hedgerow.lab.train.thresholds import StageBudget, allocate_budget
from hedgerow.watch.models.bundle import FORMAT, Bundle, Stage, digest
from hedgerow.watch.models.inference import Scorer, Trees

MAX_LOSS = 0.05
"""The share of crawlers that a new bundle may miss in addition. One that misses more is of no use."""

_MAX_WEIGHT = 5.0
"""What a visitor of the site weighs at most, compared with a simulated one of the same class."""
_OUTER = 1_000_003
"""Added to the seed, so that the outer folds of nested cross-validation are other ones."""


class Judged(NamedTuple):
    """A sample, and whether it is held to be a crawler's."""

    sample: Sample
    flagged: bool


class Adapted(NamedTuple):
    """A bundle for the site, and how it judges visitors that it has not seen, in nested cross-validation."""

    bundle: Bundle
    judged: list[Judged]


class _Fitted(NamedTuple):
    """The model of a stage, the held-out scores of its samples, and its threshold."""

    model: Scorer
    scores: list[float]
    part: StageBudget


def adapt(
    samples: Sequence[Sample],
    *,
    recipe: str = "boosted",
    start: Bundle | None,
    sizes: Sequence[int],
    budget: float = BUDGET,
    seed: int = 1,
    provenance: Mapping[str, Any] | None = None,
) -> Adapted:
    """
    Train a bundle on *samples*, those of the site (source `LOG`) and simulated ones, going on from *start*.

    There is a stage for each of *sizes*. A window has only one, to which all samples belong. Without *start*, or where
    it has no trees, the models begin anew.
    """
    rows_at = {size: [s for s in samples if s.size == size or recipe == "window"] for size in sizes}
    adapter = _Adapter(recipe, start, learners.NU if recipe == "pathmarker" else budget, seed)
    features_input, names, _, fit_namer = recipe_of(recipe, seed, ())
    nested = adapter.judge_unseen(rows_at)
    stages, metrics, judged = [], {}, []
    for size, one in adapter.fit(rows_at).items():
        rows, (scores, flagged) = rows_at[size], nested[size]
        slope, intercept = calibrate(one.scores, truth_of(rows))
        bins = people_bins(rows, len(names))
        stage = Stage(size, one.model, one.part.threshold, slope, intercept, one.part.share, fit_namer(rows), bins)
        stages.append(stage)
        folds = [_outer_fold(row, seed) for row in rows]
        measured = metrics_of(rows, scores, stage, folds, fit_namer, flagged=np.array(flagged))
        metrics[str(size)] = {**measured, "interval": "95 %, Wilson; nested cross-validation by visitor"}
        judged += [Judged(row, bool(flag)) for row, flag in zip(rows, flagged, strict=True)]
    origin = {"start": f"{start.name} ({digest(start)})"} if start is not None else {}
    whole = {"scikit-learn": sklearn.__version__, "seed": seed, "recipe": recipe, **origin, **(provenance or {})}
    bundle = Bundle(FORMAT, recipe, features_input, names, adapter.budget, tuple(stages), whole, metrics)
    return Adapted(rounded(bundle), judged)


@dataclass(frozen=True)
class _Adapter:
    recipe: str
    start: Bundle | None
    budget: float
    seed: int

    def judge_unseen(self, rows_at: Mapping[int, Sequence[Sample]]) -> dict[int, tuple[list[float], list[bool]]]:
        """
        Return score and judgement of every sample, by models and thresholds that have not seen its visitor.

        For each of five parts, models are fitted and thresholds chosen on the other four, as for the whole.
        """
        results = {size: ([0.0] * len(rows), [False] * len(rows)) for size, rows in rows_at.items()}
        folds_at = {size: [_outer_fold(row, self.seed) for row in rows] for size, rows in rows_at.items()}
        for fold in range(FOLDS):
            others = {
                size: [row for row, its in zip(rows, folds_at[size], strict=True) if its != fold]
                for size, rows in rows_at.items()
            }
            for size, one in self.fit(others).items():
                scores, flagged = results[size]
                unseen = [at for at, its in enumerate(folds_at[size]) if its == fold]
                for at, score in zip(unseen, _scores(one.model, [rows_at[size][at] for at in unseen]), strict=True):
                    scores[at], flagged[at] = score, score > one.part.threshold
        return results

    def fit(self, rows_at: Mapping[int, Sequence[Sample]]) -> dict[int, _Fitted]:
        """Fit the model of each stage, and choose its threshold by held-out scores."""
        scored = {size: (rows, self._held_out(rows, self._fit_at(size))) for size, rows in rows_at.items()}
        if self.recipe == "pathmarker":
            parts = [StageBudget(0.0, self.budget)] * len(scored)
        else:
            parts = [
                part._replace(threshold=max(part.threshold, self._least_threshold(size)))
                for size, part in zip(scored, allocate_budget(scored, self.budget), strict=True)
            ]
        return {
            size: _Fitted(self._fit_at(size)(rows), scores, part)
            for (size, (rows, scores)), part in zip(scored.items(), parts, strict=True)
        }

    def _held_out(self, rows: Sequence[Sample], fit: Fit[Scorer]) -> list[float]:
        scores, folds = [0.0] * len(rows), folds_of(rows, self.seed)
        for fold in sorted(set(folds)):
            model = fit([row for row, its in zip(rows, folds, strict=True) if its != fold])
            unseen = [at for at, its in enumerate(folds) if its == fold]
            for at, score in zip(unseen, _scores(model, [rows[at] for at in unseen]), strict=True):
                scores[at] = score
        return scores

    def _fit_at(self, size: int) -> Fit[Scorer]:
        if self.recipe == "pathmarker":
            return recipe_of(self.recipe, self.seed, ())[2]
        stage = self._start_at(size)
        if stage is not None and isinstance(stage.model, Trees):
            trees = stage.model
            return lambda rows: learners.continue_trees(
                learners.matrix(rows), truth_of(rows), trees, self.seed, balanced_weights(rows)
            )[0]
        return lambda rows: learners.fit_trees(
            learners.matrix(rows), truth_of(rows), self.seed, balanced_weights(rows)
        )[0]

    def _least_threshold(self, size: int) -> float:
        stage = self._start_at(size)
        return stage.threshold if stage is not None else -np.inf

    def _start_at(self, size: int) -> Stage | None:
        stages = self.start.stages if self.start is not None else ()
        return next((stage for stage in stages if stage.size == size), None)


def _scores(model: Scorer, rows: Sequence[Sample]) -> list[float]:
    if isinstance(model, Trees) and rows:
        scores: list[float] = learners.tree_scores(model, learners.matrix(rows)).tolist()
        return scores
    return [model.score(row.features) for row in rows]


def _outer_fold(sample: Sample, seed: int) -> int:
    return fold_of(sample.visitor, seed + _OUTER)


def balanced_weights(samples: Sequence[Sample]) -> learners.Matrix:
    """
    Return weights with which people and crawlers weigh the same in total, whatever their numbers.

    Within each, the visitors of the site weigh as much as simulated ones in total, but each at most five times as much
    as a simulated one: a handful of visitors must not decide alone.
    """
    groups = [(sample.label == PERSON, sample.source == LOG) for sample in samples]
    counts = Counter(groups)
    weights = {}
    for is_person in (True, False):
        own, others = counts[is_person, True], counts[is_person, False]
        weights[is_person, True] = min(others / own, _MAX_WEIGHT) if own and others else 1.0
        weights[is_person, False] = 1.0
        total = sum(weights[is_person, is_own] * counts[is_person, is_own] for is_own in (True, False))
        for is_own in (True, False):
            weights[is_person, is_own] *= len(groups) / 2 / total if total else 0.0
    return np.array([weights[group] for group in groups])


class Comparison(NamedTuple):
    """How many people of the site the new bundle and the current one suspect, and how many crawlers they find."""

    people: int
    suspected: int
    suspected_by_current: int
    crawlers: int
    found: int
    found_by_current: int

    @property
    def fault(self) -> str:
        """Why the new bundle is worse than the current one; "" if it is not."""
        if self.suspected > self.suspected_by_current:
            return (
                f"it suspects {self.suspected} of the site's {self.people} people, the current bundle "
                f"{self.suspected_by_current}"
            )
        if self.found < self.found_by_current - MAX_LOSS * self.crawlers:
            return (
                f"it finds {self.found} of {self.crawlers} crawlers, the current bundle {self.found_by_current}; "
                "perhaps crawlers are among the people of the ledger"
            )
        return ""


def compare(judged: Sequence[Judged], current: Bundle) -> Comparison:
    """
    Compare how visitors were judged in nested cross-validation with how *current* judges them.

    A visitor is suspected if any of its sessions is, at any length. Simulated people are not compared.
    """
    width = len(current.features)
    by_new: dict[tuple[bool, str], bool] = {}
    by_current: dict[tuple[bool, str], bool] = {}
    for sample, flagged in judged:
        key = sample.label == PERSON, sample.visitor
        if key[0] and sample.source != LOG:
            continue
        suspects = current.judge(sample.features[:width], sample.size).identity != PERSON
        by_new[key] = by_new.get(key, False) or flagged
        by_current[key] = by_current.get(key, False) or suspects
    counts = []
    for is_person in (True, False):
        chosen = [key for key in by_new if key[0] == is_person]
        counts += [len(chosen), sum(by_new[key] for key in chosen), sum(by_current[key] for key in chosen)]
    return Comparison(*counts)

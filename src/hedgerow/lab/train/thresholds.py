"""
Thresholds of the stages of a bundle, which share one budget of false positives.

Mostly the same people are misclassified after ten visits and after twenty. Separate shares for each stage, as if errors
were independent, would leave most of the budget unused. So errors are counted jointly: the
algorithm chooses which sessions of people may be misclassified, and each threshold is the highest score of the others.
It chooses those whose sacrifice finds most crawlers, and finds them early.

All scores are held out: they are of models that have not seen the visitor. The evaluation data are not used here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.lab.train.samples import PERSON, Sample

EARLY = 20
"""A crawler found within this many visits is found early."""

_MAX_PER_STEP = 5
_NO_SCORE = -np.inf

Scores = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class StageBudget(NamedTuple):
    """A *threshold*, and the *share* of people that this stage misclassifies first (in the worst source)."""

    threshold: float
    share: float


class _Sessions(NamedTuple):
    """Scores by session (row) and stage (column), the source of each session, and whether it is its visitor's first."""

    scores: Scores
    sources: list[str]
    first: Flags


def allocate_budget(
    stages: Mapping[int, tuple[Sequence[Sample], Sequence[float]]], budget: float, held_out_logs: Sequence[str] = ()
) -> list[StageBudget]:
    """
    Return threshold and share of each stage. *stages* maps session lengths to samples and their scores.

    No source of people may have more than *budget* of its sessions above a threshold; *held_out_logs* are one source.
    """
    people, crawlers = _sessions(stages, held_out_logs, people=True), _sessions(stages, held_out_logs, people=False)
    early = np.array([size <= EARLY for size in stages])
    sacrificed = _choose(people, crawlers, early, budget)
    thresholds = people.scores[~sacrificed].max(axis=0)
    return [StageBudget(float(one), share) for one, share in zip(thresholds, _shares(people, thresholds), strict=True)]


def _sessions(
    stages: Mapping[int, tuple[Sequence[Sample], Sequence[float]]], held_out_logs: Sequence[str], *, people: bool
) -> _Sessions:
    rows: dict[tuple[str, str, int], int] = {}
    for samples, _ in stages.values():
        for sample in samples:
            if (sample.label == PERSON) is people:
                rows.setdefault((sample.source, sample.visitor, sample.number), len(rows))
    scores = np.full((len(rows), len(stages)), _NO_SCORE)
    for column, (samples, stage_scores) in enumerate(stages.values()):
        for sample, score in zip(samples, stage_scores, strict=True):
            if (sample.label == PERSON) is people:
                scores[rows[sample.source, sample.visitor, sample.number], column] = score
    sources = ["logs" if source in held_out_logs else source if people else "" for source, _, _ in rows]
    return _Sessions(scores, sources, np.array([number == 0 for _, _, number in rows]))


def _choose(people: _Sessions, crawlers: _Sessions, early: Flags, budget: float) -> Flags:
    """
    Return the sessions of people that may be misclassified.

    Step by step, at some stage, the session with the highest score is given up, or up to five at once. Each step takes
    the choice that finds most for its part of the budget.
    """
    _, source_of = np.unique(people.sources, return_inverse=True)
    allowed = (budget * np.bincount(source_of)).astype(np.int64)
    sacrificed = np.zeros(len(source_of), np.bool_)
    value = _value(people.scores.max(axis=0), crawlers, early)
    while True:
        best, chosen, best_value = 0.0, sacrificed, value
        used_before = np.bincount(source_of[sacrificed], minlength=len(allowed))
        for column in range(people.scores.shape[1]):
            highest = np.argsort(-np.where(sacrificed, _NO_SCORE, people.scores[:, column]), kind="stable")
            for count in range(1, _MAX_PER_STEP + 1):
                candidate = sacrificed.copy()
                candidate[highest[:count]] = True
                used = np.bincount(source_of[candidate], minlength=len(allowed))
                thresholds = people.scores[~candidate].max(axis=0, initial=_NO_SCORE)
                if (used > allowed).any() or not np.isfinite(thresholds).all():
                    break
                cost = ((used - used_before) / np.maximum(allowed, 1)).max()
                new_value = _value(thresholds, crawlers, early)
                if (new_value - value) / cost > best:
                    best, chosen, best_value = (new_value - value) / cost, candidate, new_value
        if best <= 0:
            return sacrificed
        sacrificed, value = chosen, best_value


def _value(thresholds: Scores, crawlers: _Sessions, early: Flags) -> float:
    """Return the share of crawler sessions found, plus that of first sessions found early, summed over sources."""
    found = crawlers.scores > thresholds
    sources = np.array(crawlers.sources)
    total = 0.0
    for source in dict.fromkeys(crawlers.sources):
        in_source = sources == source
        total += found[in_source].any(axis=1).mean()
        if early.any() and crawlers.first[in_source].any():
            total += found[in_source & crawlers.first][:, early].any(axis=1).mean()
    return total


def _shares(people: _Sessions, thresholds: Scores) -> list[float]:
    errors = people.scores > thresholds
    first = errors & (errors.cumsum(axis=1) == 1)
    sources = np.array(people.sources)
    each = [first[sources == source].mean(axis=0) for source in dict.fromkeys(people.sources)]
    return [float(share) for share in max(each, key=lambda shares: shares.sum())]

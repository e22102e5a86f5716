"""
Thresholds: how the stages of a bundle share one budget of false positives.

A person who is taken for a crawler at ten visits is mostly the one who is taken for one at twenty, too: a share for
each stage, as if their errors had nothing to do with each other, leaves most of the budget unspent. So errors are
counted jointly. Who may be got wrong is chosen, session by session, and every threshold stands at the highest score of
those who may not. Chosen are those without whom most crawlers are found, and found early.

All scores are held out: of models that have not seen the visitor. The data that judge a bundle have no part in this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.lab.train.samples import PERSON, Sample

EARLY = 20
"""Visits within which a crawler is known early."""

_AT_ONCE = 5
_NOT_ASKED = -np.inf

Scores = npt.NDArray[np.float64]


class SpentBudget(NamedTuple):
    """
    What one stage has of the budget: its *threshold*, and the *share* of people that it is the first to get wrong, of
    the source of people that most are wrong of.
    """

    threshold: float
    share: float


class _Sessions(NamedTuple):
    """Scores, one row a session and one column a stage; where each is from; and whether it is a visitor's first."""

    scores: Scores
    sources: list[str]
    first: npt.NDArray[np.bool_]


def share_out(
    stages: Mapping[int, tuple[Sequence[Sample], Sequence[float]]], budget: float, apart: Sequence[str] = ()
) -> list[SpentBudget]:
    """
    The thresholds of *stages*: for each number of visits its rows and their scores.

    Of no source of people more than *budget* may be above any of them, all logs in *apart* being one source.
    """
    people, crawlers = _sessions(stages, apart, people=True), _sessions(stages, apart, people=False)
    early = np.array([size <= EARLY for size in stages])
    given_up = _choose(people, crawlers, early, budget)
    thresholds = people.scores[~given_up].max(axis=0)
    return [SpentBudget(float(one), share) for one, share in zip(thresholds, _shares(people, thresholds), strict=True)]


def _sessions(
    stages: Mapping[int, tuple[Sequence[Sample], Sequence[float]]], apart: Sequence[str], *, people: bool
) -> _Sessions:
    rows: dict[tuple[str, str, int], int] = {}
    for samples, _ in stages.values():
        for sample in samples:
            if (sample.label == PERSON) is people:
                rows.setdefault((sample.source, sample.visitor, sample.number), len(rows))
    found = np.full((len(rows), len(stages)), _NOT_ASKED)
    for column, (samples, scores) in enumerate(stages.values()):
        for sample, score in zip(samples, scores, strict=True):
            if (sample.label == PERSON) is people:
                found[rows[sample.source, sample.visitor, sample.number], column] = score
    sources = ["logs" if source in apart else source if people else "" for source, _, _ in rows]
    return _Sessions(found, sources, np.array([number == 0 for _, _, number in rows]))


def _choose(
    people: _Sessions, crawlers: _Sessions, early: npt.NDArray[np.bool_], budget: float
) -> npt.NDArray[np.bool_]:
    """
    Whom to get wrong. Step by step: at some stage the one with the highest score, or up to five at once, wherever most
    is found for what it takes of the budget.
    """
    sources = np.array(people.sources)
    allowed = {source: int(budget * count) for source, count in Counter(people.sources).items()}
    given_up = np.zeros(len(sources), np.bool_)
    worth = _worth(people.scores.max(axis=0), crawlers, early)
    while True:
        best, chosen, reached = 0.0, given_up, worth
        for column in range(people.scores.shape[1]):
            highest = np.argsort(-np.where(given_up, _NOT_ASKED, people.scores[:, column]), kind="stable")
            for count in range(1, _AT_ONCE + 1):
                tried = given_up.copy()
                tried[highest[:count]] = True
                spent = {source: int(tried[sources == source].sum()) for source in allowed}
                left = people.scores[~tried].max(axis=0, initial=_NOT_ASKED)
                if any(spent[source] > most for source, most in allowed.items()) or not np.isfinite(left).all():
                    break
                cost = max(
                    (spent[source] - int(given_up[sources == source].sum())) / max(most, 1)
                    for source, most in allowed.items()
                )
                gain = (_worth(left, crawlers, early) - worth) / cost
                if gain > best:
                    best, chosen, reached = gain, tried, _worth(left, crawlers, early)
        if best <= 0:
            return given_up
        given_up, worth = chosen, reached


def _worth(thresholds: Scores, crawlers: _Sessions, early: npt.NDArray[np.bool_]) -> float:
    """The share of crawlers' sessions that are found, and that of first ones found early; logs weigh like the rest."""
    found = crawlers.scores > thresholds
    sources = np.array(crawlers.sources)
    total = 0.0
    for source in dict.fromkeys(crawlers.sources):
        its = sources == source
        total += found[its].any(axis=1).mean()
        if early.any() and crawlers.first[its].any():
            total += found[its & crawlers.first][:, early].any(axis=1).mean()
    return total


def _shares(people: _Sessions, thresholds: Scores) -> list[float]:
    wrong = people.scores > thresholds
    first = wrong & (wrong.cumsum(axis=1) == 1)
    sources = np.array(people.sources)
    each = [first[sources == source].mean(axis=0) for source in dict.fromkeys(people.sources)]
    return [float(share) for share in max(each, key=lambda shares: shares.sum())]

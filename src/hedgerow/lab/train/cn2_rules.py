"""
Rules: CN2 (Clark and Niblett 1989; unordered, by Clark and Boswell 1991), over features with thresholds.

For each class the best rule is looked for by a beam of conjunctions, valued by its Laplace accuracy; what it covers is
taken away, and so on until no rule is worth it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.shape.classifiers import ClassifierRule, ClassifierRules, Condition

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_BEAM = 5
_MOST_CONDITIONS = 3
_MOST_RULES = 8
_LEAST_COVERED = 8
_LEAST_ACCURACY = 0.75
_CUTS = 12


def fit_rules(rows: Floats, crawlers: Flags) -> ClassifierRules:
    """The rules for crawlers and for people. Both classes weigh the same, however many there are of each."""
    conditions = _conditions(rows)
    held = np.array([condition.holds(rows) for condition in conditions])
    balance = float((~crawlers).sum()) / max(float(crawlers.sum()), 1.0)
    found: list[ClassifierRule] = []
    for wanted in (True, False):
        found += _of_class(conditions, held, crawlers, wanted=wanted, balance=balance)
    return ClassifierRules(tuple(found), balance)


def _conditions(rows: Floats) -> list[Condition]:
    found = []
    for column in range(rows.shape[1]):
        values = np.unique(np.quantile(rows[:, column], np.linspace(0.04, 0.96, _CUTS)))
        found += [Condition(column, above, float(f"{limit:.4g}")) for limit in values for above in (True, False)]
    return found


def _of_class(
    conditions: list[Condition], held: Flags, crawlers: Flags, *, wanted: bool, balance: float
) -> list[ClassifierRule]:
    mine = crawlers == wanted
    weights = np.where(crawlers, balance, 1.0)
    left = mine.copy()
    held_weights = held.astype(np.float64)
    found: list[ClassifierRule] = []
    while left.sum() >= _LEAST_COVERED and len(found) < _MOST_RULES:
        best = _best(held_weights, weights * left, weights * ~mine)
        if best is None:
            break
        covered = held[list(best)].all(axis=0)
        if (covered & left).sum() < _LEAST_COVERED:
            break
        chosen = tuple(conditions[number] for number in sorted(best))
        found.append(
            ClassifierRule(chosen, wanted, float((covered & crawlers).sum()), float((covered & ~crawlers).sum()))
        )
        left &= ~covered
    return found


def _best(held: Floats, mine: Floats, others: Floats) -> tuple[int, ...] | None:
    """The conjunction with the highest Laplace accuracy; of equals the one that was found first, the shortest."""
    best: tuple[float, tuple[int, ...]] | None = None
    beam: list[tuple[int, ...]] = [()]
    for _ in range(_MOST_CONDITIONS):
        grown: dict[tuple[int, ...], float] = {}
        for rule in beam:
            inside = held[list(rule)].prod(axis=0) if rule else np.ones(held.shape[1])
            right, wrong = held @ (mine * inside), held @ (others * inside)
            value = (right + 1.0) / (right + wrong + 2.0)
            value[right < _LEAST_COVERED] = 0.0
            for number in np.argsort(-value, kind="stable")[:_BEAM].tolist():
                key = tuple(sorted({*rule, number}))
                if len(key) > len(rule):
                    grown[key] = float(value[number])
        ranked = sorted(grown.items(), key=lambda item: (-item[1], item[0]))[:_BEAM]
        if not ranked:
            break
        if best is None or ranked[0][1] > best[0] + 1e-9:
            best = (ranked[0][1], ranked[0][0])
        beam = [key for key, _ in ranked]
    return best[1] if best is not None and best[0] >= _LEAST_ACCURACY else None

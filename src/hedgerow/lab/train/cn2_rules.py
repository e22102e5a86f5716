"""
CN2 rule induction (Clark and Niblett 1989; unordered, Clark and Boswell 1991), over features with thresholds.

For each class, a beam search finds the conjunction with the best Laplace accuracy. The covered rows are removed, and
the search is repeated until no rule is good enough.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.shape.classifiers import ClassifierRule, ClassifierRules, Condition

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_BEAM = 5
_MAX_CONDITIONS = 3
_MAX_RULES = 8
_MIN_COVERED = 8
_MIN_ACCURACY = 0.75
_CUTS = 12


def fit_rules(rows: Floats, crawlers: Flags) -> ClassifierRules:
    """Return rules for crawlers and for people. Both classes have the same total weight."""
    conditions = _conditions(rows)
    held = np.array([condition.holds(rows) for condition in conditions])
    balance = float((~crawlers).sum()) / max(float(crawlers.sum()), 1.0)
    rules: list[ClassifierRule] = []
    for is_crawler in (True, False):
        rules += _class_rules(conditions, held, crawlers, is_crawler=is_crawler, balance=balance)
    return ClassifierRules(tuple(rules), balance)


def _conditions(rows: Floats) -> list[Condition]:
    conditions = []
    for column in range(rows.shape[1]):
        values = np.unique(np.quantile(rows[:, column], np.linspace(0.04, 0.96, _CUTS)))
        conditions += [Condition(column, above, float(f"{limit:.4g}")) for limit in values for above in (True, False)]
    return conditions


def _class_rules(
    conditions: list[Condition], held: Flags, crawlers: Flags, *, is_crawler: bool, balance: float
) -> list[ClassifierRule]:
    in_class = crawlers == is_crawler
    weights = np.where(crawlers, balance, 1.0)
    uncovered = in_class.copy()
    held_weights = held.astype(np.float64)
    rules: list[ClassifierRule] = []
    while uncovered.sum() >= _MIN_COVERED and len(rules) < _MAX_RULES:
        best = _best(held_weights, weights * uncovered, weights * ~in_class)
        if best is None:
            break
        covered = held[list(best)].all(axis=0)
        if (covered & uncovered).sum() < _MIN_COVERED:
            break
        chosen = tuple(conditions[number] for number in sorted(best))
        rules.append(
            ClassifierRule(chosen, is_crawler, float((covered & crawlers).sum()), float((covered & ~crawlers).sum()))
        )
        uncovered &= ~covered
    return rules


def _best(held: Floats, mine: Floats, others: Floats) -> tuple[int, ...] | None:
    """Return the conjunction with the highest Laplace accuracy, the shortest of equals; None if none is good enough."""
    best: tuple[float, tuple[int, ...]] | None = None
    beam: list[tuple[int, ...]] = [()]
    for _ in range(_MAX_CONDITIONS):
        grown: dict[tuple[int, ...], float] = {}
        for rule in beam:
            covered = held[list(rule)].prod(axis=0) if rule else np.ones(held.shape[1])
            right, wrong = held @ (mine * covered), held @ (others * covered)
            value = (right + 1.0) / (right + wrong + 2.0)
            value[right < _MIN_COVERED] = 0.0
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
    return best[1] if best is not None and best[0] >= _MIN_ACCURACY else None

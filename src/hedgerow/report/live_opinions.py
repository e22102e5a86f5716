"""
What the live engine's detectors say about the sources of a log, with the same limits and weights (`ReportRule`).

A detector whose evidence is enough at the gate decides here as well. Lighter evidence is shown and does not count: too
little of a request is in a log.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.decision import Evidence
from hedgerow.detectors.registry import registry
from hedgerow.detectors.spec import ReportRule, SettingsTables
from hedgerow.report.declared_bots import DeclaredBots
from hedgerow.report.evidence_columns import Findings
from hedgerow.report.tables.figures import Figures

_SURE = 0.999
_ENOUGH = 1.0


class DetectorOpinion:
    """
    What a detector says about each source, in evidence of the group *detector*.

    *judged* is the evidence about each kind of source, and *kinds* the kind of each source.
    """

    def __init__(
        self, detector: str, codes: Sequence[str], judged: Sequence[Sequence[Evidence]], kinds: NDArray[np.int64]
    ) -> None:
        self.detector, self.codes = detector, tuple(codes)
        self._judged = [[e for e in evidence if e.detector == detector] for evidence in judged]
        self._kinds = kinds
        sure = [_SURE if sum(e.weight for e in evidence) >= _ENOUGH else np.nan for evidence in self._judged]
        self.probability: NDArray[np.float64] = np.array(sure, np.float64)[kinds]
        self.speaks: NDArray[np.bool_] = np.array([bool(evidence) for evidence in self._judged], np.bool_)[kinds]

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        judged = [self._judged[kind] for kind in self._kinds[some].tolist()]
        found = [one for evidence in judged for one in evidence]
        whom = np.repeat(np.arange(len(some)), [len(evidence) for evidence in judged])
        kinds = np.array([self.codes.index(one.code) for one in found], np.int64)
        weights = np.array([one.weight for one in found], np.float64)
        return Findings(whom, kinds, weights, [one.text for one in found])


def detector_opinions(
    figures: Figures, declared: DeclaredBots | None, settings: SettingsTables
) -> dict[str, DetectorOpinion]:
    """
    Return the opinions of all detectors that have something to say about this log, by group of evidence.

    *declared* tells user agents, or is None where they are ignored; detectors that need them then say nothing.
    """
    columns = {"http_1_0": figures["old_http"] == figures["requests"]}
    if declared is not None:
        columns["user_agent"] = declared.agents
    opinions: dict[str, DetectorOpinion] = {}
    for spec, rule in registry().report_rules(settings):
        if "user_agent" in rule.columns and declared is None:
            continue
        values = [columns[name] if name in columns else figures[name] for name in rule.columns]
        first, kinds = _distinct(values, len(figures.sources))
        judged = [_judge(rule, source, values, declared) for source in first.tolist()]
        groups = {one.detector for evidence in judged for one in evidence}
        for group in sorted(groups):
            codes = [code.code for code in spec.codes if code.group == group]
            opinions[group] = DetectorOpinion(group, codes, judged, kinds)
    return opinions


def _distinct(columns: Sequence[NDArray[np.int64]], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first source of each kind, where sources of one kind agree in all *columns*; and each one's kind."""
    kinds = np.zeros(size, np.int64)
    first = np.zeros(min(size, 1), np.int64)
    for column in columns:
        _, numbers = np.unique(column, return_inverse=True)
        _, first, kinds = np.unique(kinds * (len(column) + 1) + numbers, return_index=True, return_inverse=True)
    return first, kinds


def _judge(
    rule: ReportRule, source: int, values: Sequence[NDArray[np.int64]], declared: DeclaredBots | None
) -> Sequence[Evidence]:
    return rule.judge(*[
        declared.agent(source) if name == "user_agent" and declared is not None else column[source].item()
        for name, column in zip(rule.columns, values, strict=True)
    ])  # fmt: skip

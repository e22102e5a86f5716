"""Shapes: what the shape of a source's traffic over time says (`shape`), as one opinion among the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.evidence_columns import Findings, one_each
from hedgerow.report.shape.model_file import INPUTS, ShapeModels, load
from hedgerow.report.shape.series import plan_of
from hedgerow.report.shape.vote import classify, richest, words
from hedgerow.report.tables.source_tables import Tables


class ShapeOpinion:
    """
    The vote of three classifiers on each source with enough requests; in a log of less than two days on nobody.

    *bundle* has what they have learned; without, the one that comes with Hedgerow.
    """

    detector, codes = "shape", ("shape-crawler",)

    def __init__(self, tables: Tables, bundle: ShapeModels | None = None) -> None:
        size = len(tables.figures.sources)
        self.plan = plan_of(tables.origin, tables.origin + tables.span)
        self.counts = tables.counts(self.plan)
        self.probability: NDArray[np.float64] = np.full(size, np.nan)
        self.speaks: NDArray[np.bool_] = np.zeros(size, np.bool_)
        self._reasons: dict[int, str] = {}
        self.rules: list[str] = []
        """The rules in words, where they were asked."""
        bundle = bundle or load()
        self.similarity = bundle.similarity
        """k of algorithm 1, for campaigns."""
        self.night = bundle.night
        """How deep the day of a crowd is at the least."""
        found = tables.features(self.counts, self.plan, levels=bundle.levels, least=bundle.least)
        if not len(found.sources) or not found.comparable:
            return
        name = richest(found, bundle)
        verdicts = classify(found, bundle, model=name)
        self.rules = [words(rule, INPUTS[name]) for rule in bundle.models[name].rules.rules]
        self.probability[found.sources] = verdicts.scores
        told = np.array([label == "crawler" for label in verdicts.labels], np.bool_)
        self.speaks[found.sources] = told
        self._reasons = {int(found.sources[k]): verdicts.reasons[k] for k in np.flatnonzero(told).tolist()}

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        return one_each(self.probability[some], [self._reasons[source] for source in some.tolist()])

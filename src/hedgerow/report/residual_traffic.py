"""
Crowd: all who are not held to be crawlers or good bots, taken together (`shape.rhythm`).

Of a scraper that is spread over a million addresses, each with a page or two, no single one can be told. But all of
them together do not sleep.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.report.shape.daily_rhythm import DailyRhythm, rhythm
from hedgerow.report.shape.series import HALF_HOUR
from hedgerow.report.shape_opinion import ShapeOpinion
from hedgerow.report.source_labels import PERSON, UNKNOWN, SourceLabels

_MOST_BINS = 20 * 366 * 48
"""Twenty years: what claims to be longer has times that are wrong."""


class ResidualTraffic(NamedTuple):
    """How many *sources* and *requests* are the crowd's, and its rhythm."""

    sources: int
    requests: int
    rhythm: DailyRhythm

    @property
    def text(self) -> str:
        """What is to be said of it; "" where nothing is known."""
        if self.rhythm.crawl is None:
            return ""
        who = f"The {self.sources:,} sources that are not held to be crawlers or good bots, taken together:"
        hides = " A crawler that is spread over many sources may hide among them." if self.rhythm.crawl else ""
        return f"{who} {self.rhythm.text[0].lower()}{self.rhythm.text[1:]}{hides}"


def residual_traffic(judgements: SourceLabels, shapes: ShapeOpinion) -> ResidualTraffic | None:
    """The crowd of a log; None where its series are not in half-hours, or too long to be true."""
    plan, counts = shapes.plan, shapes.counts
    if plan.interval != HALF_HOUR or plan.bins > _MOST_BINS:
        return None
    inside = np.isin(judgements.label, (PERSON, UNKNOWN))
    mine = inside[counts.rows]
    series = np.bincount(counts.bins[mine], counts.values[mine], plan.bins)
    return ResidualTraffic(int(inside.sum()), int(series.sum()), rhythm(series, shapes.night))

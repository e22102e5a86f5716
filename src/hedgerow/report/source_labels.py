"""
Source labels: the opinions about a source become one score and one label.

An opinion is a probability that the source is a crawler, with the evidence for it. The log odds of all opinions are
added, each multiplied by its trust. Two opinions that agree give more certainty than one; an opinion that does not know
changes nothing. Evidence is handled in columns: asking for each source alone would take far longer than finding it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.decision import Evidence
from hedgerow.report.shape.series import HALF_HOUR, Counts, DailyRhythm, SeriesPlan, rhythm

Label = Literal["crawler", "person", "good-bot", "unknown"]
LABELS: tuple[Label, ...] = ("crawler", "person", "good-bot", "unknown")
CRAWLER, PERSON, GOOD_BOT, UNKNOWN = range(4)

NOTHING, PROGRAM, FALSE, VERIFIED = range(4)
"""What a source declares: nothing; that it is a program; a bot that it is not; a bot that it is, as was verified."""

LEAST_PAGES = 5
"""Page visits from which on a source is judged."""

REASONS = (
    "",
    "It made too few requests to tell.",
    "Only one kind of evidence speaks for a crawler.",
    "It browses like a person, but faster than one.",
    "It asks for no pages, and for too little else to tell.",
    "It made too few requests for the models of this method: containment limits it.",
)
"""Why a source is unknown."""

FEW, ONE_GROUND, TOO_FAST, NO_PAGES, CONTAINED = range(1, len(REASONS))

SUREST = 0.999
_EVEN = 0.5
_HALFWAY = 0.5
_NEARLY = 1e-6
_MAX_BINS = 20 * 366 * 48
"""Twenty years. A log that claims to span more has wrong times."""


class Findings(NamedTuple):
    """
    Evidence about many sources, one row for each piece.

    *whom*: position among the requested sources. *kind*: position in the codes of the opinion, or in the kinds of all
    opinions (`SourceLabels`).
    """

    whom: NDArray[np.int64]
    kind: NDArray[np.int64]
    weight: NDArray[np.float64]
    text: Sequence[str]


def one_each(weight: NDArray[np.float64], text: Sequence[str]) -> Findings:
    """Return one piece of evidence for each source, all of the first kind."""
    return Findings(np.arange(len(text)), np.zeros(len(text), np.int64), weight, text)


def rounded(values: NDArray[np.float64], digits: int) -> NDArray[np.float64]:
    """
    Return what Python's `round` gives for each of *values* (0 to 1).

    Numpy rounds some values near the middle of two results wrongly, so Python rounds those.
    """
    scale = 10**digits
    scaled = values * scale
    found = np.asarray(np.rint(scaled) / scale, np.float64)
    doubtful = np.flatnonzero(np.abs(scaled - np.floor(scaled) - _HALFWAY) < _NEARLY)
    found[doubtful] = [round(value, digits) for value in values[doubtful].tolist()]
    return found


class Opinion(Protocol):
    """
    An opinion about all sources: the probability of a crawler, nan if unknown.

    *speaks* marks the sources with evidence; `evidence` is not asked about others. The evidence has *detector* and one
    of *codes*.
    """

    @property
    def detector(self) -> str: ...

    @property
    def codes(self) -> Sequence[str]: ...

    @property
    def probability(self) -> NDArray[np.float64]: ...

    @property
    def speaks(self) -> NDArray[np.bool_]: ...

    def evidence(self, some: NDArray[np.int64]) -> Findings: ...


def log_odds(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of the odds, 0 where the probability is unknown."""
    p = np.clip(np.where(np.isnan(probability), 0.5, probability), 1 - SUREST, SUREST)
    return np.asarray(np.log(p / (1 - p)), np.float64)


class SourceLabels:
    """
    *score* and *label* (a place in `LABELS`) of each source, and the evidence for them, which is of *kinds*.

    The log odds of each opinion are multiplied by its *trust* (default 1) and added. *declared* is what each source
    declares. *activity* (a place in `activity.KINDS`), *reason* (a place in `REASONS`) and *grounds* (columns as in
    `label_rules.GROUNDS`) are set by `label_rules`, which may change labels.
    """

    def __init__(
        self,
        pages: NDArray[np.int64],
        opinions: Mapping[str, Opinion],
        declared: NDArray[np.int8] | None,
        *,
        trust: Mapping[str, float],
    ) -> None:
        self._opinions = opinions
        self.kinds = sorted({(opinion.detector, code) for opinion in opinions.values() for code in opinion.codes})
        """The detector and the code of whatever may be found."""
        odds = np.zeros(len(pages))
        known = np.zeros(len(pages), np.bool_)
        for name, opinion in opinions.items():
            odds += trust.get(name, 1.0) * log_odds(opinion.probability)
            known |= ~np.isnan(opinion.probability)
        self.score: NDArray[np.float64] = np.where(known, 1 / (1 + np.exp(-np.clip(odds, -30, 30))), 0.5)
        self.label: NDArray[np.int8] = np.where(self.score >= _EVEN, CRAWLER, PERSON).astype(np.int8)
        self.label[~known | (pages < LEAST_PAGES)] = UNKNOWN
        self.activity: NDArray[np.int8] = np.zeros(len(pages), np.int8)
        self.reason: NDArray[np.int8] = np.zeros(len(pages), np.int8)
        self.grounds: NDArray[np.bool_] = np.zeros((len(pages), 0), np.bool_)
        if declared is not None:
            self.label[declared == VERIFIED] = GOOD_BOT
            self.label[(declared != NOTHING) & (declared != VERIFIED)] = CRAWLER
            self.score[declared == FALSE] = 1.0

    def findings(self, some: NDArray[np.int64]) -> Findings:
        """Return the evidence about the sources at the places *some*, in this order, heaviest first."""
        found = [self._findings(opinion, some) for opinion in self._opinions.values()]
        whom = np.concatenate([one.whom for one in found])
        kind = np.concatenate([one.kind for one in found])
        weight = rounded(np.concatenate([one.weight for one in found]), 3)
        text = [sentence for one in found for sentence in one.text]
        order = np.lexsort((kind, -weight, whom))
        return Findings(whom[order], kind[order], weight[order], [text[k] for k in order.tolist()])

    def _findings(self, opinion: Opinion, some: NDArray[np.int64]) -> Findings:
        """Return the evidence of one opinion, unsorted."""
        spoken = np.flatnonzero(opinion.speaks[some])
        whom, kind, weight, text = opinion.evidence(some[spoken])
        kinds = np.array([self.kinds.index((opinion.detector, code)) for code in opinion.codes])
        return Findings(spoken[whom], kinds[kind], weight, text)

    def evidence(self, some: NDArray[np.int64]) -> Iterator[list[Evidence]]:
        """Yield the evidence about each source at the places *some*, heaviest first."""
        whom, kind, weight, text = self.findings(some)
        kinds = (self.kinds[k] for k in kind.tolist())
        found = [Evidence(*one, *more) for one, *more in zip(kinds, weight.tolist(), text, strict=True)]
        for begin, end in pairwise(np.searchsorted(whom, np.arange(len(some) + 1)).tolist()):
            yield found[begin:end]


class ResidualTraffic(NamedTuple):
    """
    All sources that are neither crawlers nor good bots together: how many, their requests, and their daily rhythm.

    A scraper that is spread over a million addresses, with a page or two each, cannot be recognised by any single
    address. But all of them together do not sleep.
    """

    sources: int
    requests: int
    rhythm: DailyRhythm

    @property
    def text(self) -> str:
        """A sentence about it, "" if nothing is known."""
        if self.rhythm.crawl is None:
            return ""
        who = f"The {self.sources:,} sources that are not held to be crawlers or good bots, taken together:"
        hides = " A crawler that is spread over many sources may hide among them." if self.rhythm.crawl else ""
        return f"{who} {self.rhythm.text[0].lower()}{self.rhythm.text[1:]}{hides}"


def residual_traffic(labels: SourceLabels, counts: Counts, plan: SeriesPlan, night: float) -> ResidualTraffic | None:
    """Return the residual traffic of a log, or None if its series are not in half-hours or are implausibly long."""
    if plan.interval != HALF_HOUR or plan.bins > _MAX_BINS:
        return None
    inside = np.isin(labels.label, (PERSON, UNKNOWN))
    mine = inside[counts.rows]
    series = np.bincount(counts.bins[mine], counts.values[mine], plan.bins)
    return ResidualTraffic(int(inside.sum()), int(series.sum()), rhythm(series, night))

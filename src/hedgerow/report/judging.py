"""
Judging: opinions about a source become one score and one label.

An opinion is a probability that the source is a crawler, with the evidence it rests on. Opinions are added as odds,
each as far as it is trusted: two that agree are surer than one, and one that does not know changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.declared import FALSE, NOTHING, VERIFIED, Declared
from hedgerow.report.heuristics import NAMES, YES, Votes
from hedgerow.verdict import Evidence

Label = Literal["crawler", "person", "good-bot", "unknown"]
LABELS: tuple[Label, ...] = ("crawler", "person", "good-bot", "unknown")
CRAWLER, PERSON, GOOD_BOT, UNKNOWN = range(4)

LEAST_PAGES = 5
"""Page visits from which on a source is judged."""

_SUREST = 0.999
_EVEN = 0.5


class Opinion(Protocol):
    """
    What one way of looking says about all sources; nan where it says nothing.

    *speaks*: of which there is evidence. They are few, and a report tells of very many.
    """

    @property
    def probability(self) -> NDArray[np.float64]: ...

    @property
    def speaks(self) -> NDArray[np.bool_]: ...

    def evidence(self, source: int) -> Sequence[Evidence]: ...


class ByHeuristics:
    """The vote of the seven heuristics."""

    def __init__(self, votes: Votes) -> None:
        self._votes = votes
        # Rule of succession: two of three is less sure than four of six.
        self.probability: NDArray[np.float64] = np.where(votes.said > 1, (votes.yes + 0.5) / (votes.said + 1), np.nan)
        self.speaks: NDArray[np.bool_] = votes.yes > 0

    def evidence(self, source: int) -> Sequence[Evidence]:
        votes = self._votes
        said = int(votes.said[source])
        return [
            Evidence("heuristics", NAMES[k], round(1 / said, 3), votes.sentence(source, k))
            for k, vote in enumerate(votes.votes[source].tolist())
            if vote == YES
        ]


class ByDeclaration:
    """What a source says of itself: who says it is a program is one."""

    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        self.probability: NDArray[np.float64] = np.where(declared.state == NOTHING, np.nan, _SUREST)
        self.probability[declared.state == VERIFIED] = np.nan
        self.speaks: NDArray[np.bool_] = declared.state != NOTHING

    def evidence(self, source: int) -> Sequence[Evidence]:
        found = self._declared.evidence(source)
        return [found] if found else []


def log_odds(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logarithm of the odds; 0 where nothing is said."""
    p = np.clip(np.where(np.isnan(probability), 0.5, probability), 1 - _SUREST, _SUREST)
    return np.asarray(np.log(p / (1 - p)), np.float64)


class _Speaking(dict[int, list[Opinion]]):
    """By the bits of `Judgements.spoken` those of *opinions* that are meant."""

    def __init__(self, opinions: list[Opinion]) -> None:
        super().__init__()
        self._opinions = opinions

    def __missing__(self, bits: int) -> list[Opinion]:
        found = self[bits] = [opinion for k, opinion in enumerate(self._opinions) if bits >> k & 1]
        return found


class Judgements:
    """
    *score* and *label* (a place in `LABELS`) of each source, and the evidence behind them.

    The odds of each opinion are multiplied by how far it is trusted (*trust*, 1 where that does not say) and added.
    """

    def __init__(
        self,
        pages: NDArray[np.int64],
        opinions: Mapping[str, Opinion],
        declared: Declared | None,
        *,
        trust: Mapping[str, float],
    ) -> None:
        self._opinions = opinions
        self._speaking = _Speaking(list(opinions.values()))
        odds = np.zeros(len(pages))
        known = np.zeros(len(pages), np.bool_)
        for name, opinion in opinions.items():
            odds += trust.get(name, 1.0) * log_odds(opinion.probability)
            known |= ~np.isnan(opinion.probability)
        self.score: NDArray[np.float64] = np.where(known, 1 / (1 + np.exp(-np.clip(odds, -30, 30))), 0.5)
        self.label: NDArray[np.int8] = np.where(self.score >= _EVEN, CRAWLER, PERSON).astype(np.int8)
        self.label[~known | (pages < LEAST_PAGES)] = UNKNOWN
        if declared is not None:
            self.label[declared.state == VERIFIED] = GOOD_BOT
            self.label[(declared.state != NOTHING) & (declared.state != VERIFIED)] = CRAWLER
            self.score[declared.state == FALSE] = 1.0

    @cached_property
    def spoken(self) -> NDArray[np.int64]:
        """Which opinions have evidence of each source: a bit for each of them, in their order; 0 where none has."""
        bits = np.zeros(len(self.score), np.int64)
        for k, opinion in enumerate(self._opinions.values()):
            bits |= opinion.speaks.astype(np.int64) << k
        return bits

    def evidence(self, source: int) -> list[Evidence]:
        """What speaks about a source, the weightiest first."""
        found = [one for opinion in self._speaking[int(self.spoken[source])] for one in opinion.evidence(source)]
        return sorted(found, key=lambda e: (-e.weight, e.detector, e.code))

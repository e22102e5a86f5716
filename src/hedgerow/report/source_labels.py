"""
Judging: opinions about a source become one score and one label.

An opinion is a probability that the source is a crawler, with the evidence it rests on. Opinions are added as odds,
each as far as it is trusted: two that agree are surer than one, and one that does not know changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.decision import Evidence
from hedgerow.report.declared_bots import FALSE, NOTHING, PROGRAM, VERIFIED, DeclaredBots
from hedgerow.report.evidence_columns import Findings, rounded
from hedgerow.report.heuristics import NAMES, YES, Votes

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

    *speaks*: of which there is evidence; about others `evidence` is not asked. They are few, and a report tells of very
    many. The evidence bears *detector* and one of *codes*.
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


class HeuristicsOpinion:
    """The vote of the seven heuristics."""

    detector, codes = "heuristics", NAMES

    def __init__(self, votes: Votes) -> None:
        self._votes = votes
        # Rule of succession: two of three is less sure than four of six.
        self.probability: NDArray[np.float64] = np.where(votes.said > 1, (votes.yes + 0.5) / (votes.said + 1), np.nan)
        self.speaks: NDArray[np.bool_] = votes.yes > 0

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        votes = self._votes
        whom, kind = np.nonzero(votes.votes[some] == YES)
        who = some[whom]
        return Findings(whom, kind, 1 / votes.said[who], votes.sentences(who, kind))


class DeclarationOpinion:
    """What a source says of itself: who says it is a program is one."""

    detector, codes = "declared", ("declared-bot", "false-bot", "verified-bot")
    _KINDS: Mapping[int, int] = {PROGRAM: 0, FALSE: 1, VERIFIED: 2}

    def __init__(self, declared: DeclaredBots) -> None:
        self._declared = declared
        self.probability: NDArray[np.float64] = np.where(declared.state == NOTHING, np.nan, _SUREST)
        self.probability[declared.state == VERIFIED] = np.nan
        self.speaks: NDArray[np.bool_] = declared.state != NOTHING

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        state = self._declared.state[some]
        kind = np.array([self._KINDS[one] for one in state.tolist()], np.int64)
        weight = np.where(state == VERIFIED, 0.0, 1.0)
        return Findings(np.arange(len(some)), kind, weight, list(map(self._declared.sentence, some.tolist())))


def log_odds(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logarithm of the odds; 0 where nothing is said."""
    p = np.clip(np.where(np.isnan(probability), 0.5, probability), 1 - _SUREST, _SUREST)
    return np.asarray(np.log(p / (1 - p)), np.float64)


class SourceLabels:
    """
    *score* and *label* (a place in `LABELS`) of each source, and the evidence behind them, which has *kinds*.

    The odds of each opinion are multiplied by how far it is trusted (*trust*, 1 where that does not say) and added.
    """

    def __init__(
        self,
        pages: NDArray[np.int64],
        opinions: Mapping[str, Opinion],
        declared: DeclaredBots | None,
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
        if declared is not None:
            self.label[declared.state == VERIFIED] = GOOD_BOT
            self.label[(declared.state != NOTHING) & (declared.state != VERIFIED)] = CRAWLER
            self.score[declared.state == FALSE] = 1.0

    def findings(self, some: NDArray[np.int64]) -> Findings:
        """What speaks about the sources at the places *some*: in their turn, of each the weightiest first."""
        found = [self._findings(opinion, some) for opinion in self._opinions.values()]
        whom = np.concatenate([one.whom for one in found])
        kind = np.concatenate([one.kind for one in found])
        weight = rounded(np.concatenate([one.weight for one in found]), 3)
        text = [sentence for one in found for sentence in one.text]
        order = np.lexsort((kind, -weight, whom))
        return Findings(whom[order], kind[order], weight[order], [text[k] for k in order.tolist()])

    def _findings(self, opinion: Opinion, some: NDArray[np.int64]) -> Findings:
        """The same by one of the opinions, as it comes."""
        spoken = np.flatnonzero(opinion.speaks[some])
        whom, kind, weight, text = opinion.evidence(some[spoken])
        kinds = np.array([self.kinds.index((opinion.detector, code)) for code in opinion.codes])
        return Findings(spoken[whom], kinds[kind], weight, text)

    def evidence(self, some: NDArray[np.int64]) -> Iterator[list[Evidence]]:
        """What speaks about each of the sources at the places *some*, the weightiest first."""
        whom, kind, weight, text = self.findings(some)
        kinds = (self.kinds[k] for k in kind.tolist())
        found = [Evidence(*one, *more) for one, *more in zip(kinds, weight.tolist(), text, strict=True)]
        for begin, end in pairwise(np.searchsorted(whom, np.arange(len(some) + 1)).tolist()):
            yield found[begin:end]

"""
Heuristics: PubCrawl's seven, for each source, and the majority's vote.

    errors       many of its requests are answered by an error
    revisits     it hardly ever comes back to a page
    referrer     its page visits come from nowhere, or from listings
    cookies      it begins a new session with each page
    unbalanced   of several user agents one makes more than 99 % of its requests
    parameters   it hardly ever asks for a page with a query, where others of the site do
    order        it takes pages in the order of the alphabet

The paper names listings and profiles of one social network; here listings and large groups of pages are found from the
log (`analyse.tables`). A heuristic that nothing can be said about has no vote: cookies where the log tells of none
(`analyse.kept`), order where too few pages of a group follow each other. User agents that are hidden have no vote
either.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.report.tables.figures import Figures

NAMES = ("errors", "revisits", "referrer", "cookies", "unbalanced", "parameters", "order")
YES, NO, ABSTAINED = 1, 0, -1


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    From where on a heuristic says crawler. Shares, from 0 to 1.

    *errors*, *referrer*, *cookies*, *unbalanced*, *order*: at least this share. *revisits*, *parameters*: at most this
    share. *least_pages* page visits are wanted of a source, and *least_pairs* pages that follow another of their group.
    """

    errors: float = 0.2
    revisits: float = 0.1
    referrer: float = 0.9
    cookies: float = 0.9
    unbalanced: float = 0.99
    parameters: float = 0.01
    order: float = 0.8
    least_pages: int = 5
    least_pairs: int = 10


def measures(figures: Figures, renewed: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """
    What the heuristics are about, a column each (`NAMES`); nan where nothing can be said.

    The share of errors among requests; of visits to a page it had seen before, of those without referrer or from a
    listing, and of those with a query, among page visits; of the most frequent user agent, where there are several; of
    steps up, among those up or down the alphabet. *renewed* is the share of page visits that begin a session.
    """
    pages = figures["pages"].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        rising, falling = figures["rising"], figures["falling"]
        found = np.column_stack(
            [
                figures["errors"] / figures["requests"],
                1 - figures["different"] / np.where(figures["close_pages"], figures["close_pages"], np.nan),
                (figures["unreferred"] + figures["listed"]) / np.where(pages, pages, np.nan),
                np.full(len(pages), np.nan) if renewed is None else renewed,
                np.where(figures["agents"] > 1, figures["agent_requests"] / figures["closely"], np.nan),
                figures["parameters"] / np.where(pages, pages, np.nan),
                np.maximum(rising, falling) / np.where(rising + falling, rising + falling, np.nan),
            ]
        )
    return np.asarray(found, np.float64)


class Votes:
    """
    What each heuristic says of each source: *votes* (`YES`, `NO`, `ABSTAINED`), by *thresholds*.

    *ignore_agents* hides user agents; *referrers* says that the log has any; *renewed*: see `measures`.
    """

    def __init__(
        self,
        figures: Figures,
        thresholds: Thresholds,
        *,
        ignore_agents: bool = False,
        referrers: bool = True,
        renewed: NDArray[np.float64] | None = None,
    ) -> None:
        self.thresholds = thresholds
        self.measures = measures(figures, renewed)
        limits = np.array([getattr(thresholds, name) for name in NAMES])
        at_most = np.array([name in {"revisits", "parameters"} for name in NAMES])
        with np.errstate(invalid="ignore"):
            yes = np.where(at_most, self.measures <= limits, self.measures >= limits)
        votes = np.where(np.isnan(self.measures), ABSTAINED, yes).astype(np.int8)
        votes[figures["pages"] < thresholds.least_pages, 1:] = ABSTAINED
        votes[figures["requests"] < thresholds.least_pages, 0] = ABSTAINED
        votes[figures["rising"] + figures["falling"] < thresholds.least_pairs, NAMES.index("order")] = ABSTAINED
        if not referrers:
            votes[:, NAMES.index("referrer")] = ABSTAINED
        # Where nobody's pages have a query it says nothing that a source's have none.
        if figures["parameters"].sum() < thresholds.parameters * figures["pages"].sum():
            votes[:, NAMES.index("parameters")] = ABSTAINED
        if ignore_agents:
            votes[:, NAMES.index("unbalanced")] = ABSTAINED
        self.votes = votes
        self.said: NDArray[np.int64] = (votes != ABSTAINED).sum(1)
        """How many heuristics have a vote on each source."""
        self.yes: NDArray[np.int64] = (votes == YES).sum(1)
        """How many say crawler."""

    @property
    def crawlers(self) -> NDArray[np.bool_]:
        """Where the majority of those that have a vote says crawler."""
        return 2 * self.yes > self.said

    def sentences(self, source: NDArray[np.int64], heuristic: NDArray[np.int64]) -> list[str]:
        """What was found of each source by the heuristic beside it, for a person."""
        return list(map(_sentence, heuristic.tolist(), self.measures[source, heuristic].tolist()))

    def in_words(self) -> Iterator[tuple[str, str, int, int, int]]:
        """Each heuristic, when it says crawler, and on how many sources it says so, says no, and has no vote."""
        for k, name in enumerate(NAMES):
            limit = f"{getattr(self.thresholds, name) * 100:g} %"
            counts = [int((self.votes[:, k] == vote).sum()) for vote in (YES, NO, ABSTAINED)]
            words = _WORDS[name].format(limit=limit, least_pairs=self.thresholds.least_pairs)
            yield name, words, counts[0], counts[1], counts[2]


@lru_cache(maxsize=1 << 14)
def _sentence(heuristic: int, share: float) -> str:
    return _SENTENCES[NAMES[heuristic]].format(share=f"{share:.0%}".replace("%", " %"))


_SENTENCES = {
    "errors": "{share} of its requests were answered by an error.",
    "revisits": "Only {share} of its page visits were to a page that it had seen before.",
    "referrer": "{share} of its page visits came from nowhere, or from a listing.",
    "cookies": "{share} of its page visits began a new session.",
    "unbalanced": "It has several user agents, and one of them made {share} of its requests.",
    "parameters": "Only {share} of its page visits had a query.",
    "order": "It took {share} of the pages of a group in the order of the alphabet.",
}

_WORDS = {
    "errors": "At least {limit} of its requests are answered by an error.",
    "revisits": "At most {limit} of its page visits are to a page that it has seen before.",
    "referrer": "At least {limit} of its page visits come from nowhere, or from a listing.",
    "cookies": "At least {limit} of its page visits begin a new session, on a site where others keep theirs.",
    "unbalanced": "It has several user agents, and one of them makes at least {limit} of its requests.",
    "parameters": "At most {limit} of its page visits have a query, on a site where others' have.",
    "order": "Of at least {least_pairs} pages that follow another of their group, {limit} are in alphabetic order.",
}

"""
Opinions from what sources did: PubCrawl's seven heuristics with a majority vote, and a learned sum of browsing
features.

    errors       many requests are answered by an error
    revisits     it hardly ever returns to a page
    referrer     its page visits have no referrer, or come from listings
    cookies      it begins a new session with each page
    unbalanced   one of several user agents makes more than 99 % of its requests
    parameters   it hardly ever asks for a page with a query, on a site where others do
    order        it takes pages in alphabetical order

The paper names listings and profiles of one social network; here the log shows listings and large groups of pages
(`source_tables`). A heuristic without data abstains: cookies if the log has no sessions, order if too few pages of a
group follow each other, and whatever needs hidden user agents. `ReportModel` holds the numbers of both in one file,
with the trust in each opinion. `hedgerow train heuristics` makes another one from labelled logs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import DECODE_ERRORS, ModelError
from hedgerow.report.source_labels import Findings
from hedgerow.report.tables.figures import Figures

NAMES = ("errors", "revisits", "referrer", "cookies", "unbalanced", "parameters", "order")
YES, NO, ABSTAINED = 1, 0, -1


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    Limits from which on a heuristic votes for a crawler, as shares from 0 to 1.

    *errors*, *referrer*, *cookies*, *unbalanced*, *order*: at least this share. *revisits*, *parameters*: at most this
    share. A source needs *least_pages* page visits, and *least_pairs* pages that follow another page of their group.
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
    Return the measure of each heuristic as a column (`NAMES`), nan if unknown.

    The share of errors among what the visitor itself asked for; among page visits the shares of repeated pages, of
    visits without referrer or from a listing, and of pages with a query; the share of the most frequent of several user
    agents; the share of ascending steps among steps in the alphabet. *renewed* is the share of page visits that begin a
    session.
    """
    pages = figures["pages"].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        rising, falling = figures["rising"], figures["falling"]
        found = np.column_stack(
            [
                figures["faults"] / np.where(figures["asked"], figures["asked"], np.nan),
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
    The *votes* (`YES`, `NO`, `ABSTAINED`) of each heuristic on each source, by *thresholds*.

    *ignore_agents* hides user agents. *referrers* is true if the log has referrers. *renewed*: see `measures`.
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
        votes[figures["asked"] < thresholds.least_pages, 0] = ABSTAINED
        votes[figures["rising"] + figures["falling"] < thresholds.least_pairs, NAMES.index("order")] = ABSTAINED
        if not referrers:
            votes[:, NAMES.index("referrer")] = ABSTAINED
        # Where nobody's pages have a query it says nothing that a source's have none.
        if figures["parameters"].sum() < thresholds.parameters * figures["pages"].sum():
            votes[:, NAMES.index("parameters")] = ABSTAINED
        if ignore_agents:
            votes[:, NAMES.index("unbalanced")] = ABSTAINED
        self.votes = votes
        self.cast: NDArray[np.int64] = (votes != ABSTAINED).sum(1)
        """How many heuristics have a vote on each source."""
        self.yes: NDArray[np.int64] = (votes == YES).sum(1)
        """How many say crawler."""

    @property
    def crawlers(self) -> NDArray[np.bool_]:
        """Which sources are crawlers by the majority of votes."""
        return 2 * self.yes > self.cast

    def sentences(self, source: NDArray[np.int64], heuristic: NDArray[np.int64]) -> list[str]:
        """Return a sentence for each source and the heuristic at the same position."""
        return list(map(_sentence, heuristic.tolist(), self.measures[source, heuristic].tolist()))

    def in_words(self) -> Iterator[tuple[str, str, int, int, int]]:
        """Yield each heuristic with its rule in words, and how many sources it votes for, against, and not at all."""
        for k, name in enumerate(NAMES):
            limit = f"{getattr(self.thresholds, name) * 100:g} %"
            counts = [int((self.votes[:, k] == vote).sum()) for vote in (YES, NO, ABSTAINED)]
            words = _WORDS[name].format(limit=limit, least_pairs=self.thresholds.least_pairs)
            yield name, words, counts[0], counts[1], counts[2]


class HeuristicsOpinion:
    detector, codes = "heuristics", NAMES

    def __init__(self, votes: Votes) -> None:
        self._votes = votes
        # Rule of succession: two of three is less sure than four of six.
        self.probability: NDArray[np.float64] = np.where(votes.cast > 1, (votes.yes + 0.5) / (votes.cast + 1), np.nan)
        self.speaks: NDArray[np.bool_] = votes.yes > 0

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        votes = self._votes
        whom, kind = np.nonzero(votes.votes[some] == YES)
        who = some[whom]
        return Findings(whom, kind, 1 / votes.cast[who], votes.sentences(who, kind))


@lru_cache(maxsize=1 << 14)
def _sentence(heuristic: int, share: float) -> str:
    return _SENTENCES[NAMES[heuristic]].format(share=f"{share:.0%}".replace("%", " %"))


_SENTENCES = {
    "errors": "{share} of the pages and calls it asked for were answered by an error.",
    "revisits": "Only {share} of its page visits were to a page that it had seen before.",
    "referrer": "{share} of its page visits came from nowhere, or from a listing.",
    "cookies": "{share} of its page visits began a new session.",
    "unbalanced": "It has several user agents, and one of them made {share} of its requests.",
    "parameters": "Only {share} of its page visits had a query.",
    "order": "It took {share} of the pages of a group in the order of the alphabet.",
}

_WORDS = {
    "errors": "At least {limit} of the pages and calls it asks for are answered by an error.",
    "revisits": "At most {limit} of its page visits are to a page that it has seen before.",
    "referrer": "At least {limit} of its page visits come from nowhere, or from a listing.",
    "cookies": "At least {limit} of its page visits begin a new session, on a site where others keep theirs.",
    "unbalanced": "It has several user agents, and one of them makes at least {limit} of its requests.",
    "parameters": "At most {limit} of its page visits have a query, on a site where others' have.",
    "order": "Of at least {least_pairs} pages that follow another of their group, {limit} are in alphabetic order.",
}


BROWSING_FIGURES = (
    "assets", "unreferred", "own", "heads", "robots", "errors", "calls", "old_http", "pages_a_day", "pages_a_minute",
    "brought",
)  # fmt: skip
"""
Assets for each page (logarithm); shares of page visits without a referrer and from a page of the site; the share of
requests for headers only; of what the visitor itself asked for, the shares of errors and calls; the share of HTTP/1.0;
requests for robots.txt for each page, at most one (people look at it, too, but once); page visits on a day with any,
and the most in a minute (logarithms); assets for each page that say which page of the site they are for (logarithm).
"""
LEAST_PAGES = 5
LACKING = {"": (), "assets": ("assets", "brought"), "referrers": ("unreferred", "own", "brought")}
"""What a log may lack, and which figures say nothing then."""

_MOST_SHOWN = 2
_LEAST_SHOWN = 0.5
_HARDLY_ANY = 0.01


class Steps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    A sum of step functions, one for each figure. A sum above 0 means a crawler.

    A figure adds its first value up to its first edge, its second value up to the next edge, and so on; so there is one
    value more than *edges*.
    """

    edges: tuple[tuple[float, ...], ...] = ()
    values: tuple[tuple[float, ...], ...] = ()
    offset: float = 0.0

    def parts(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what each figure adds."""
        columns = [
            np.array(values)[np.searchsorted(np.array(edges), rows[:, k])]
            for k, (edges, values) in enumerate(zip(self.edges, self.values, strict=True))
        ]
        return np.column_stack(columns)

    def odds(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.parts(rows).sum(1) + self.offset, np.float64)

    @property
    def is_sound(self) -> bool:
        """True if there is a valid function for each figure."""
        return len(self.edges) == len(self.values) == len(BROWSING_FIGURES) and all(
            len(values) == len(edges) + 1 and list(edges) == sorted(edges)
            for edges, values in zip(self.edges, self.values, strict=True)
        )


def figures_of(figures: Figures) -> NDArray[np.float64]:
    pages, requests, asked = (np.maximum(figures[name], 1) for name in ("pages", "requests", "asked"))
    return np.column_stack(
        [
            np.log1p(figures["assets"] / pages),
            figures["unreferred"] / pages,
            figures["own"] / pages,
            figures["heads"] / requests,
            np.minimum(figures["robots"] / pages, 1.0),
            figures["faults"] / asked,
            np.maximum(figures["asked"] - figures["pages"], 0) / asked,
            figures["old_http"] / requests,
            np.log1p(figures["close_pages"] / np.maximum(figures["days"], 1)),
            np.log1p(figures["peak_2"]),
            np.log1p(figures["brought"] / pages),
        ]
    )


def lacking(figures: Figures, *, referrers: bool) -> str | None:
    """
    Return what a log lacks, as a key of `LACKING`, or None if it lacks everything. *referrers*: its lines have them.

    A log lacks what hardly any of its sources has, whoever has how much: one who fetches a file a thousand times shows
    nothing of browsers. Assets may be on another host, a cache may answer for them, and a site may let browsers send no
    referrers. Where nobody has either, there may be nobody who would, so nothing can be said.
    """
    visitors = figures["pages"] > 0
    least = _HARDLY_ANY * np.count_nonzero(visitors)
    # Calls and beacons may be any number; they say nothing about the share of assets.
    assets = np.count_nonzero(visitors & (figures["assets"] > 0)) >= max(least, 1)
    linked = referrers and np.count_nonzero(visitors & (figures["own"] > 0)) >= max(least, 1)
    if assets:
        return "" if linked else "referrers"
    return "assets" if linked else None


class BrowsingOpinion:
    """
    The opinion on each source with page visits, with evidence from five visits on. *steps* are by what a log lacks.
    """

    detector, codes = "manner", tuple(f"manner-{name.replace('_', '-')}" for name in BROWSING_FIGURES)

    def __init__(self, figures: Figures, steps: Mapping[str, Steps], *, referrers: bool = True) -> None:
        rows = figures_of(figures)
        self._rows = rows
        self._parts = np.zeros_like(rows)
        self.probability: NDArray[np.float64] = np.full(len(rows), np.nan)
        missing = lacking(figures, referrers=referrers)
        if missing is not None:
            self._parts = steps[missing].parts(rows)
            # Of fewer visits it is the less sure.
            sure = np.minimum(figures["pages"] / LEAST_PAGES, 1.0)
            probability = 1 / (1 + np.exp(-sure * (self._parts.sum(1) + steps[missing].offset)))
            self.probability = np.where(figures["pages"] > 0, probability, np.nan)
        # nan is not.
        self.speaks: NDArray[np.bool_] = (figures["pages"] >= LEAST_PAGES) & (self.probability > 0.5)  # noqa: PLR2004

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        """Return what spoke most for a crawler."""
        parts = self._parts[some]
        strongest = np.argsort(-parts, axis=1, kind="stable")[:, :_MOST_SHOWN]
        whom, turn = np.nonzero(np.take_along_axis(parts, strongest, 1) > _LEAST_SHOWN)
        kind, who = strongest[whom, turn], some[whom]
        texts = list(map(_browsing_sentence, kind.tolist(), self._rows[who, kind].tolist()))
        return Findings(whom, kind, self.probability[who], texts)


@lru_cache(maxsize=1 << 14)
def _browsing_sentence(figure: int, value: float) -> str:
    name = BROWSING_FIGURES[figure]
    share = f"{value:.0%}".replace("%", " %")
    if name == "robots":
        return "It asked for robots.txt." if value else "It did not ask for robots.txt."
    return _BROWSING_SENTENCES[name].format(share=share, number=np.expm1(value))


_BROWSING_SENTENCES = {
    "assets": "It brought {number:.1f} images, styles and scripts along with each page.",
    "unreferred": "{share} of its page visits say nothing of where they come from.",
    "own": "{share} of its page visits come from a page of the site.",
    "heads": "{share} of its requests want headers only.",
    "errors": "{share} of the pages and calls it asked for were answered by an error.",
    "calls": "{share} of what it asked for are no pages.",
    "old_http": "{share} of its requests are in HTTP/1.0.",
    "pages_a_day": "It asked for {number:.0f} pages on a day.",
    "brought": "It brought {number:.1f} images, styles and scripts along with each page that name the page.",
    "pages_a_minute": "It asked for at most {number:.0f} pages in a minute.",
}


MODEL_FORMAT = "hedgerow-report-2"


class ReportModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    *manner* has functions for each kind of log (`LACKING`), *trust* a factor for the odds of each opinion. *provenance*
    says what the model was trained on and how good it was on other logs.
    """

    thresholds: Thresholds
    manner: Mapping[str, Steps]
    trust: Mapping[str, float]
    format: str = MODEL_FORMAT
    provenance: dict[str, Any] = {}


def load_model(path: Path | None = None) -> ReportModel:
    """Load the model in the file *path*, or the model of Hedgerow."""
    where = files("hedgerow.data") / "models" / "report.json" if path is None else path
    try:
        found = msgspec.json.decode(where.read_bytes(), type=ReportModel)
    except (OSError, *DECODE_ERRORS) as error:
        raise ModelError(f"{str(where)!r} is no model of a report: {error}") from None
    fits = found.manner.keys() == LACKING.keys() and all(steps.is_sound for steps in found.manner.values())
    if found.format != MODEL_FORMAT or not fits:
        raise ModelError(f"{str(where)!r} is not of this version; make one by hedgerow train heuristics")
    return found


def encode_model(model: ReportModel) -> bytes:
    return msgspec.json.format(msgspec.json.encode(model, order="deterministic"), indent=1) + b"\n"

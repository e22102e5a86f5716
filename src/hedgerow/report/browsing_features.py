"""
Manner: how a source goes about the site, in eleven figures that need no user agent.

A browser brings the images and styles of a page along and says where it comes from; a crawler wants pages, asks for
robots.txt, and comes from nowhere. None of this is proof; together, weighed by what labelled logs have shown, it tells
most sources with as few as five page visits.

Each figure adds what a function of steps says of it: the first image counts for much, the hundredth for nothing more.
Where a log has no assets at all, or no referrers, as many have not, nobody is held to lack them: then other functions
are asked, which were learned without; and where it has neither, there is no opinion.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.report.evidence_columns import Findings
from hedgerow.report.tables.figures import Figures

NAMES = (
    "assets", "unreferred", "own", "heads", "robots", "errors", "calls", "old_http", "pages_a_day", "pages_a_minute",
    "brought",
)  # fmt: skip
"""
Assets for each page (logarithm); shares of page visits without a referrer and from a page of the site; shares of
requests for headers only, answered by an error, that are calls, in HTTP/1.0; requests for robots.txt for each page, at
most one (people look at it, too, but once); page visits on a day with any, and the most in a minute (logarithms);
assets for each page that say which page of the site they are for (logarithm).
"""
LEAST_PAGES = 5
LACKING = {"": (), "assets": ("assets", "brought"), "referrers": ("unreferred", "own", "brought")}
"""What a log may lack, and which figures say nothing then."""

_MOST_SHOWN = 2
_LEAST_SHOWN = 0.5
_HARDLY_ANY = 0.01


class Steps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    A sum of functions of steps, one for each figure; above 0 it speaks for a crawler.

    A figure adds the first of its *values* up to its first edge, the second up to the next, and so on; so it has one
    value more than *edges*.
    """

    edges: tuple[tuple[float, ...], ...] = ()
    values: tuple[tuple[float, ...], ...] = ()
    offset: float = 0.0

    def parts(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """What each figure adds."""
        columns = [
            np.array(values)[np.searchsorted(np.array(edges), rows[:, k])]
            for k, (edges, values) in enumerate(zip(self.edges, self.values, strict=True))
        ]
        return np.column_stack(columns)

    def odds(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.parts(rows).sum(1) + self.offset, np.float64)

    @property
    def is_sound(self) -> bool:
        """Whether there is a function for each of the figures, and each is one."""
        return len(self.edges) == len(self.values) == len(NAMES) and all(
            len(values) == len(edges) + 1 and list(edges) == sorted(edges)
            for edges, values in zip(self.edges, self.values, strict=True)
        )


def figures_of(figures: Figures) -> NDArray[np.float64]:
    """The eleven figures of each source."""
    pages, requests = np.maximum(figures["pages"], 1), np.maximum(figures["requests"], 1)
    return np.column_stack(
        [
            np.log1p(figures["assets"] / pages),
            figures["unreferred"] / pages,
            figures["own"] / pages,
            figures["heads"] / requests,
            np.minimum(figures["robots"] / pages, 1.0),
            figures["errors"] / requests,
            figures["calls"] / requests,
            figures["old_http"] / requests,
            np.log1p(figures["close_pages"] / np.maximum(figures["days"], 1)),
            np.log1p(figures["peak_2"]),
            np.log1p(figures["brought"] / pages),
        ]
    )


def lacking(figures: Figures, *, referrers: bool) -> str | None:
    """
    What a log lacks, as in `LACKING`; None where it lacks all that tells. *referrers* says that its lines have them.

    Where there are no assets but somebody follows links, they lie elsewhere. Where nobody does either, nobody is there
    who would want them.
    """
    assets = figures["assets"].sum() >= _HARDLY_ANY * figures["requests"].sum()
    if not referrers:
        return "referrers" if assets else None
    return "" if assets or figures["own"].sum() < _HARDLY_ANY * figures["pages"].sum() else "assets"


class BrowsingOpinion:
    """
    The opinion on each source that has page visits, with reasons from five on; *steps* are by what a log lacks, which
    may be *referrers*.
    """

    detector, codes = "manner", tuple(f"manner-{name.replace('_', '-')}" for name in NAMES)

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
            told = 1 / (1 + np.exp(-sure * (self._parts.sum(1) + steps[missing].offset)))
            self.probability = np.where(figures["pages"] > 0, told, np.nan)
        # nan is not.
        self.speaks: NDArray[np.bool_] = (figures["pages"] >= LEAST_PAGES) & (self.probability > 0.5)  # noqa: PLR2004

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        """What spoke most for a crawler, as the whole does."""
        parts = self._parts[some]
        strongest = np.argsort(-parts, axis=1, kind="stable")[:, :_MOST_SHOWN]
        whom, turn = np.nonzero(np.take_along_axis(parts, strongest, 1) > _LEAST_SHOWN)
        kind, who = strongest[whom, turn], some[whom]
        texts = list(map(_sentence, kind.tolist(), self._rows[who, kind].tolist()))
        return Findings(whom, kind, self.probability[who], texts)


@lru_cache(maxsize=1 << 14)
def _sentence(figure: int, value: float) -> str:
    name = NAMES[figure]
    share = f"{value:.0%}".replace("%", " %")
    if name == "robots":
        return "It asked for robots.txt." if value else "It did not ask for robots.txt."
    return _SENTENCES[name].format(share=share, number=np.expm1(value))


_SENTENCES = {
    "assets": "It brought {number:.1f} images, styles and scripts along with each page.",
    "unreferred": "{share} of its page visits say nothing of where they come from.",
    "own": "{share} of its page visits come from a page of the site.",
    "heads": "{share} of its requests want headers only.",
    "errors": "{share} of its requests were answered by an error.",
    "calls": "{share} of its requests are no pages and no parts of pages.",
    "old_http": "{share} of its requests are in HTTP/1.0.",
    "pages_a_day": "It asked for {number:.0f} pages on a day.",
    "brought": "It brought {number:.1f} images, styles and scripts along with each page that name the page.",
    "pages_a_minute": "It asked for at most {number:.0f} pages in a minute.",
}

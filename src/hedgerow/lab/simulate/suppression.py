"""
The suppression experiment: what marked links cost crawlers (PathMarker 2019, figures 6 and 7).

Two measurements, repeated on newly drawn sites. Figure 6: while one worker finds its first 100 new pages, what share of
all requests of a crew return a new page? Figure 7: how many more requests than pages does a crew need for a share of
the site? The reference is a crawler that recognises pages, which needs one request per page.

`docs/suppression.md` describes how we interpret the paper where it leaves a choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from statistics import fmean, variance
from typing import Any

import msgspec

from hedgerow.lab.simulate.crawl import CrawlMemory, Order, SimulatedCrawl, crawl, draw_site

# The first 100 pages of one worker are few, so one crawl says little and costs little.
_SINGLE_CRAWLS = 25

# The numbers in the paper's text. Of its other figures it only says "less than half" at 100 workers.
PAPER_WASTE = 0.082
PAPER_EXTRA = {0.5: 1.43, 0.95: 27.81}

_CURVE = tuple(percent / 100 for percent in range(1, 101))
_DIGITS = 6


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """
    The parameters of the experiment; the defaults are those of the paper.

    *deviation* defaults to a third of the pages. *crews* are the numbers of workers of figure 6, and *first_pages* its
    first new pages. *workers* and *fractions* belong to figure 7. *order* and *memory* are our interpretation of the
    paper, which does not give the number of repeats.
    """

    pages: int = 10_000
    links: int = 100
    fixed: int = 20
    deviation: float | None = None
    crews: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100)
    first_pages: int = 100
    workers: int = 10
    fractions: tuple[float, ...] = (0.5, 0.95)
    order: Order = "random"
    memory: CrawlMemory = "crew"
    repeats: int = 20
    seed: int = 1

    @property
    def spread(self) -> float:
        """The standard deviation of the popularity of links, in pages."""
        return self.deviation if self.deviation is not None else max(1, self.pages // 3)

    @property
    def summary(self) -> str:
        repeats = "1 repeat" if self.repeats == 1 else f"{self.repeats:,} repeats"
        return (
            f"{self.pages:,} pages, {self.links:,} links each, {self.fixed:,} of them fixed; {self.order} order, "
            f"pages known to the {self.memory}; {repeats}, seed {self.seed}"
        )

    @property
    def like_the_paper(self) -> bool:
        """Whether site and measurements are those of the paper, so that its numbers can be compared."""
        free = ("crews", "fractions", "order", "memory", "repeats", "seed")
        paper = Parameters(**{name: getattr(self, name) for name in free})
        return msgspec.structs.replace(self, deviation=None) == paper and self.spread == paper.spread

    def faults(self) -> list[str]:
        """Return all faults, one line each, with the names of the command-line options."""
        minimum = {"pages": 1, "links": 1, "fixed": 0, "first_pages": 1, "workers": 1, "repeats": 1, "seed": 0}
        faults = [
            f"--{name.replace('_', '-')} is at least {limit}, not {value}"
            for name, limit in minimum.items()
            if (value := getattr(self, name)) < limit
        ]
        if self.fixed > min(self.links, self.pages):
            faults.append(f"--fixed is at most --links and --pages, not {self.fixed}")
        if self.first_pages > self.pages:
            faults.append(f"--first-pages is at most --pages, not {self.first_pages}")
        if not 0 < self.spread < math.inf:
            faults.append(f"--deviation is more than 0, not {self.spread:g}")
        faults += [f"--crews are at least 1, not {crew}" for crew in self.crews if crew < 1]
        faults += [f"--fraction is more than 0 and at most 1, not {f:g}" for f in self.fractions if not 0 < f <= 1]
        return faults


class Estimate(msgspec.Struct, frozen=True):
    """A mean and the margin of its 95 % interval (normal distribution). A single repeat has no margin."""

    mean: float
    margin: float | None


def estimate(values: Sequence[float]) -> Estimate:
    """
    Return the mean of *values* with its margin.

    >>> estimate([1.0, 3.0])
    Estimate(mean=2.0, margin=1.96)
    """
    mean = fmean(values)
    if len(values) == 1:
        return Estimate(mean, None)
    return Estimate(mean, 1.96 * math.sqrt(variance(values, mean) / len(values)))


class Suppression(msgspec.Struct, frozen=True):
    """
    The results.

    *waste* is the share of one worker's requests that returned nothing new. *efficiency* is the number of new pages per
    request for each crew. *extra* is the number of requests beyond one per page for each fraction of the site (1.43:
    143 % more), or None if a repeat did not reach it. *curve* is the same for all fractions that every repeat reached.
    """

    parameters: Parameters
    waste: Estimate
    efficiency: dict[int, Estimate]
    extra: dict[float, Estimate | None]
    curve: list[tuple[float, Estimate]]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON output: means only, rounded, so that it does not depend on the platform's arithmetic."""
        extra = {f: estimate and round(estimate.mean, _DIGITS) for f, estimate in self.extra.items()}
        return {
            "single_worker_waste": round(self.waste.mean, _DIGITS),
            "efficiency_by_workers": {str(n): round(estimate.mean, _DIGITS) for n, estimate in self.efficiency.items()},
            "extra_requests": {f"{fraction:g}": share for fraction, share in extra.items()},
            "parameters": msgspec.to_builtins(self.parameters) | {"deviation": self.parameters.spread},
        }


def suppress(parameters: Parameters, *, after_each: Callable[[], None] = lambda: None) -> Suppression:
    """Run the experiment. Each repeat has its own seed, so that further repeats do not change the first ones."""
    if faults := parameters.faults():
        raise ValueError("; ".join(faults))
    repeats = []
    for n in range(parameters.repeats):
        repeats.append(_repeat(parameters, Random(f"{parameters.seed}/{n}")))  # noqa: S311 - not secret
        after_each()
    waste, efficiency, crawls = zip(*repeats, strict=True)
    crews = zip(*efficiency, strict=True)
    fractions = sorted({*parameters.fractions, *(f for f in _CURVE if f <= max(parameters.fractions))})
    reached = ((f, _extra(parameters, crawls, f)) for f in fractions)
    return Suppression(
        parameters=parameters,
        waste=estimate(waste),
        efficiency={crew: estimate(values) for crew, values in zip(parameters.crews, crews, strict=True)},
        extra={f: _extra(parameters, crawls, f) for f in parameters.fractions},
        curve=[(f, extra) for f, extra in reached if extra is not None],
    )


def _repeat(parameters: Parameters, rng: Random) -> tuple[float, list[float], SimulatedCrawl]:
    """Return the results on one site: waste of one worker, efficiency of each crew, and the long crawl."""
    pages, links, fixed = parameters.pages, parameters.links, parameters.fixed
    site = draw_site(rng, pages=pages, links=links, fixed=fixed, deviation=parameters.spread)
    crawl_site = partial(crawl, site, rng, order=parameters.order, memory=parameters.memory)
    singles = [crawl_site(workers=1, pages=parameters.first_pages) for _ in range(_SINGLE_CRAWLS)]
    single = math.fsum(alone.efficiency for alone in singles) / len(singles)
    # The paper's "fixed time period": every worker of a crew makes as many requests as a single worker needs.
    period = round(sum(alone.requests for alone in singles) / len(singles))
    efficiency = [
        single if crew == 1 else crawl_site(workers=crew, rounds=period).efficiency for crew in parameters.crews
    ]
    fraction = max(parameters.fractions)
    return 1 - single, efficiency, crawl_site(workers=parameters.workers, pages=_pages(parameters, fraction))


def _extra(parameters: Parameters, crawls: Iterable[SimulatedCrawl], fraction: float) -> Estimate | None:
    pages = _pages(parameters, fraction)
    extras = [extra for crawl in crawls if (extra := crawl.extra_requests(pages)) is not None]
    return estimate(extras) if len(extras) == parameters.repeats else None


def _pages(parameters: Parameters, fraction: float) -> int:
    """Return at least that fraction of the pages. Rounding first makes 0.07 of 100 pages 7 and not 8."""
    return math.ceil(round(fraction * parameters.pages, 9))

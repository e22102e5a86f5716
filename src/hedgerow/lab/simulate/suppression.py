"""
The suppression experiment: what marked links cost crawlers (PathMarker 2019, figures 6 and 7).

Two measurements, over and over on freshly drawn sites. Figure 6: in the time in which one worker finds its first 100
new pages, how many of all requests of a crew bring a new page? Figure 7: how many more requests than pages does a crew
need for a share of the site? A crawler that can tell links apart needs as many requests as pages: it is the measure.

`docs/suppression.md` says how the paper was read where it leaves a choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import msgspec

from hedgerow.lab.simulate.crawl import CrawlMemory, Order, SimulatedCrawl, crawl
from hedgerow.lab.simulate.site import Site, draw_site

# One worker's first 100 pages are few: a single crawl of it says little, and costs little.
_SINGLE_CRAWLS = 25

# What the paper's text gives as numbers; of the rest of its figures it says only "less than half" at 100 workers.
PAPER_WASTE = 0.082
PAPER_EXTRA = {0.5: 1.43, 0.95: 27.81}

_CURVE = tuple(percent / 100 for percent in range(1, 101))
_DIGITS = 6


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """
    The experiment; the defaults are the paper's.

    *deviation* is a third of the pages where it is None. *crews* are the numbers of workers of figure 6 and
    *first_pages* its first new pages; *workers* and *fractions* belong to figure 7. *order* and *memory* are how the
    paper was read. The paper does not say how often it repeated anything.
    """

    pages: int = 10_000
    links: int = 100
    fixed: int = 20
    deviation: float | None = None
    crews: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100)
    first_pages: int = 100
    workers: int = 10
    fractions: tuple[float, ...] = (0.5, 0.95)
    order: Order = Order.RANDOM
    memory: CrawlMemory = CrawlMemory.CREW
    repeats: int = 20
    seed: int = 1

    @property
    def spread(self) -> float:
        """The standard deviation of the links' popularity, in pages."""
        return self.deviation if self.deviation is not None else max(1, self.pages // 3)

    @property
    def summary(self) -> str:
        """In one line, for people."""
        repeats = "1 repeat" if self.repeats == 1 else f"{self.repeats:,} repeats"
        return (
            f"{self.pages:,} pages, {self.links:,} links each, {self.fixed:,} of them fixed; {self.order} order, "
            f"pages known to the {self.memory}; {repeats}, seed {self.seed}"
        )

    @property
    def like_the_paper(self) -> bool:
        """Whether the paper's own numbers can stand beside these: same site, same measurements, however it was read."""
        read = {name: getattr(self, name) for name in ("crews", "fractions", "order", "memory", "repeats", "seed")}
        return (
            msgspec.structs.replace(self, deviation=None) == Parameters(**read) and self.spread == Parameters().spread
        )

    def faults(self) -> list[str]:
        """Everything that is wrong, one line each, in the words of the command line."""
        lowest = {"pages": 1, "links": 1, "fixed": 0, "first_pages": 1, "workers": 1, "repeats": 1, "seed": 0}
        found = [
            f"--{name.replace('_', '-')} is at least {least}, not {value}"
            for name, least in lowest.items()
            if (value := getattr(self, name)) < least
        ]
        if self.fixed > min(self.links, self.pages):
            found.append(f"--fixed is at most --links and --pages, not {self.fixed}")
        if self.first_pages > self.pages:
            found.append(f"--first-pages is at most --pages, not {self.first_pages}")
        if not 0 < self.spread < math.inf:
            found.append(f"--deviation is more than 0, not {self.spread:g}")
        found += [f"--crews are at least 1, not {crew}" for crew in self.crews if crew < 1]
        found += [f"--fraction is more than 0 and at most 1, not {f:g}" for f in self.fractions if not 0 < f <= 1]
        return found


class Estimate(msgspec.Struct, frozen=True):
    """
    A mean over the repeats, and how far to either side its 95 % confidence interval goes.

    The interval is that of the normal distribution, a little narrow below 20 repeats; after a single one there is none.
    """

    mean: float
    margin: float | None


def estimate(values: Sequence[float]) -> Estimate:
    """
    The mean of *values* with its interval.

    >>> estimate([1.0, 3.0])
    Estimate(mean=2.0, margin=1.96)
    """
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Estimate(mean, None)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return Estimate(mean, 1.96 * math.sqrt(variance / count))


class Suppression(msgspec.Struct, frozen=True):
    """
    What was measured.

    *waste* is the share of one worker's requests that brought nothing new. *efficiency* is, for each crew, its new
    pages for each request. *extra* is, for each fraction of the site, how many more requests than pages it took
    (1.43: 143 % more), or None where some repeat never came there; *curve* is the same for the whole way, as far as all
    came.
    """

    parameters: Parameters
    waste: Estimate
    efficiency: dict[int, Estimate]
    extra: dict[float, Estimate | None]
    curve: list[tuple[float, Estimate]]

    def to_json(self) -> dict[str, Any]:
        """What `--json` writes: means only, rounded, so that the last bit of a platform's arithmetic is not in it."""
        extra = {f: found and round(found.mean, _DIGITS) for f, found in self.extra.items()}
        return {
            "single_worker_waste": round(self.waste.mean, _DIGITS),
            "efficiency_by_workers": {str(n): round(found.mean, _DIGITS) for n, found in self.efficiency.items()},
            "extra_requests": {f"{fraction:g}": share for fraction, share in extra.items()},
            "parameters": msgspec.to_builtins(self.parameters) | {"deviation": self.parameters.spread},
        }


class _Repeat(msgspec.Struct):
    """One site: the waste of one worker, the efficiency of each crew, and the long crawl."""

    waste: float
    efficiency: list[float]
    long: SimulatedCrawl


def suppress(parameters: Parameters, *, after_each: Callable[[], None] = lambda: None) -> Suppression:
    """
    Run the experiment, and call *after_each* after each repeat, for a progress bar.

    A repeat has a seed of its own, so that more repeats add to the first ones and do not change them.
    """
    if faults := parameters.faults():
        raise ValueError("; ".join(faults))
    repeats = []
    for n in range(parameters.repeats):
        chance = Random(f"{parameters.seed}/{n}")  # noqa: S311 - nothing here is secret
        repeats.append(_repeat(parameters, chance))
        after_each()
    waste = estimate([repeat.waste for repeat in repeats])
    crews = zip(*(repeat.efficiency for repeat in repeats), strict=True)
    crawls = [repeat.long for repeat in repeats]
    way = sorted({*parameters.fractions, *(f for f in _CURVE if f <= max(parameters.fractions))})
    reached = ((f, _extra(parameters, crawls, f)) for f in way)
    return Suppression(
        parameters=parameters,
        waste=waste,
        efficiency={crew: estimate(found) for crew, found in zip(parameters.crews, crews, strict=True)},
        extra={f: _extra(parameters, crawls, f) for f in parameters.fractions},
        curve=[(f, found) for f, found in reached if found is not None],
    )


def _repeat(parameters: Parameters, chance: Random) -> _Repeat:
    site = draw_site(
        chance,
        pages=parameters.pages,
        links=parameters.links,
        fixed=parameters.fixed,
        deviation=parameters.spread,
    )
    singles = [_crawl(parameters, site, chance, workers=1, pages=parameters.first_pages) for _ in range(_SINGLE_CRAWLS)]
    single = math.fsum(alone.efficiency for alone in singles) / len(singles)
    # The paper's "fixed time period": every worker of a crew makes as many requests as a worker alone needs.
    period = round(sum(alone.requests for alone in singles) / len(singles))
    return _Repeat(
        waste=1 - single,
        efficiency=[
            single if crew == 1 else _crawl(parameters, site, chance, workers=crew, rounds=period).efficiency
            for crew in parameters.crews
        ],
        long=_crawl(
            parameters,
            site,
            chance,
            workers=parameters.workers,
            pages=_pages(parameters, max(parameters.fractions)),
        ),
    )


def _crawl(
    parameters: Parameters,
    site: Site,
    chance: Random,
    *,
    workers: int,
    pages: int | None = None,
    rounds: int | None = None,
) -> SimulatedCrawl:
    order, memory = parameters.order, parameters.memory
    return crawl(site, chance, workers=workers, order=order, memory=memory, pages=pages, rounds=rounds)


def _extra(parameters: Parameters, crawls: Iterable[SimulatedCrawl], fraction: float) -> Estimate | None:
    pages = _pages(parameters, fraction)
    found = [extra for crawl in crawls if (extra := crawl.extra_requests(pages)) is not None]
    return estimate(found) if len(found) == parameters.repeats else None


def _pages(parameters: Parameters, fraction: float) -> int:
    """At least that fraction of the site. Rounded first: 0.07 of 100 pages are 7 and not, by a last bit, 8."""
    return math.ceil(round(fraction * parameters.pages, 9))

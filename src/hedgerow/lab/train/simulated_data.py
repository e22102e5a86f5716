"""Bundles from simulated people and crawlers; the bundles of the package are trained on these."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from hedgerow.lab.train.fit import BUDGET, train
from hedgerow.lab.train.samples import Sample, draw_crawlers, draw_people, draw_sites, samples_of, windows_of
from hedgerow.lab.train.simulated_people import people_statistics
from hedgerow.lab.train.walks import Walk
from hedgerow.watch.models.bundle import Bundle


class Size(NamedTuple):
    sites: int = 40
    people: int = 4000
    crawlers: int = 3000


def draw_walks(seed: int, size: Size) -> list[Walk]:
    """
    Draw walks of two long sessions each; the same seed gives the same walks.

    The second session of a crawl is in the middle of it, where parents are not visible, and differs from a first one.
    """
    rng = Random(f"hedgerow {seed}")  # noqa: S311 - not secret
    sites = draw_sites(rng, size.sites)
    return [
        *draw_people(rng, sites, size.people, long_sessions=2),
        *draw_crawlers(rng, sites, size.crawlers, long_sessions=2),
    ]


def path_rows(walks: list[Walk]) -> list[Sample]:
    return [sample for walk in walks for sample in samples_of(walk)]


def train_simulated(
    recipe: str,
    *,
    seed: int = 1,
    budget: float = BUDGET,
    size: Size | None = None,
    after: Callable[[str], None] = lambda _: None,
) -> Bundle:
    """Train a bundle on simulated walks. *after* gets a line after each step."""
    size = size or Size()
    walks = draw_walks(seed, size)
    after(f"{len(walks):,} walks drawn")
    rng = Random(f"windows {seed}")  # noqa: S311 - not secret
    samples = windows_of(walks, rng) if recipe == "window" else path_rows(walks)
    after(f"{len(samples):,} rows")
    provenance = {
        "people": f"{size.people} by the generator; {people_statistics().source}",
        "crawlers": f"{size.crawlers} simulated: depth-first, breadth-first and random-like, with many delays",
        "sites": size.sites,
    }
    return train(samples, recipe=recipe, budget=budget, seed=seed, provenance=provenance)

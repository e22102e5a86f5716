"""Simulated: people and crawlers enough for a bundle, all drawn. What comes with the package is made of these."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from hedgerow.lab.train.fit import BUDGET, train
from hedgerow.lab.train.samples import Sample, draw_crawlers, draw_people, draw_sites, samples_of, windows_of
from hedgerow.lab.train.simulated_people import fitted
from hedgerow.lab.train.walks import Walk
from hedgerow.watch.models.bundle import Bundle


class Size(NamedTuple):
    """How many sites, people and crawlers are drawn."""

    sites: int = 40
    people: int = 4000
    crawlers: int = 3000


def draw_walks(seed: int, size: Size) -> list[Walk]:
    """
    Same seed, same walks. Two long sessions each: the second of a crawl is in the middle of it, where parents are out
    of sight, and looks like no first one.
    """
    chance = Random(f"hedgerow {seed}")  # noqa: S311 - repeatable, not secret
    sites = draw_sites(chance, size.sites)
    return [
        *draw_people(chance, sites, size.people, long_sessions=2),
        *draw_crawlers(chance, sites, size.crawlers, long_sessions=2),
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
    """A bundle from simulated walks. *after* is told what has been done."""
    size = size or Size()
    walks = draw_walks(seed, size)
    after(f"{len(walks):,} walks drawn")
    chance = Random(f"windows {seed}")  # noqa: S311 - likewise
    samples = windows_of(walks, chance) if recipe == "window" else path_rows(walks)
    after(f"{len(samples):,} rows")
    told = {
        "people": f"{size.people} by the generator; {fitted().source}",
        "crawlers": f"{size.crawlers} simulated: depth-first, breadth-first and random-like, with many delays",
        "sites": size.sites,
    }
    return train(samples, recipe=recipe, budget=budget, seed=seed, provenance=told)

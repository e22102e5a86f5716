"""
Simulated sites and visitors, and bundles from them; the bundles of the package are trained on these.

A site is a link graph. Pages are numbers, and page 0 is the home page. Half of the sites have random links (those of
the suppression paper), the others are forums of boards and threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from hedgerow.lab.simulate.crawl import Site, draw_site
from hedgerow.lab.train.fit import BUDGET, train
from hedgerow.lab.train.samples import PATH_LENGTHS, PERSON, Sample, Walk, samples_of, windows_of
from hedgerow.lab.train.simulated_crawlers import TRAINING_CRAWLERS, Crawler, crawl, varied
from hedgerow.lab.train.simulated_people import COMPANIONS, SimulatedPerson, people_statistics
from hedgerow.watch.models.bundle import Bundle
from hedgerow.watch.sessions.path import LONG, PathLengths

_MAX_ORDERED_LOOSENESS = 16


def random_site(rng: Random) -> Site:
    """Return a site of random links: 200 to 4,000 pages with 10 to 80 links each."""
    pages = int(10 ** rng.uniform(2.3, 3.6))
    links = rng.randint(10, 80)
    return draw_site(rng, pages=pages, links=links, fixed=links // rng.randint(3, 8), deviation=pages / 3)


def forum_site(rng: Random) -> Site:
    """
    Return a forum: a home page, boards, threads, and pages of threads.

    Every page links to the home page and to all boards, a page of a board to its threads and its next page. A thread
    links to its board, its next page and a few other threads.
    """
    boards = rng.randint(3, 15)
    links: list[list[int]] = [list(range(1, boards + 1))]
    everywhere = [0, *range(1, boards + 1)]
    links.extend([] for _ in range(boards))
    threads: list[int] = []
    for board in range(1, boards + 1):
        at = board
        for _ in range(rng.randint(1, 8)):
            links[at].extend(everywhere)
            for _ in range(rng.randint(10, 30)):
                thread = len(links)
                links.append([*everywhere, at])
                links[at].append(thread)
                threads.append(thread)
                for _ in range(min(int(rng.expovariate(1.0)), 10)):
                    links[-1].append(len(links))
                    links.append([*everywhere, board, thread])
            next_page = len(links)
            links.append([])
            links[at].append(next_page)
            at = next_page
        links[at].extend(everywhere)
    for thread in threads:
        links[thread].extend(rng.choices(threads, k=rng.randint(0, 5)))
    return tuple(tuple(dict.fromkeys(page)) for page in links)


def draw_assets(rng: Random) -> float:
    """Draw the number of assets per page of a site. One site in four has none: they are on another host."""
    return 0.0 if rng.random() < 0.25 else math.exp(rng.gauss(1.8, 0.8))  # noqa: PLR2004 - a share


def draw_sites(rng: Random, count: int) -> list[Site]:
    """Draw sites to train on: half random sites, half forums."""
    return [(random_site if number % 2 else forum_site)(rng) for number in range(count)]


def draw_people(
    rng: Random, sites: list[Site], count: int, *, long_sessions: int = 1, marked: bool | None = None, name: str = ""
) -> list[Walk]:
    """Draw walks of *count* people, half of them on sites with marked links unless *marked* is given."""
    walks = []
    for number in range(count):
        site_number = rng.randrange(len(sites))
        has_markers = rng.random() < 0.5 if marked is None else marked  # noqa: PLR2004 - evenly
        person = SimulatedPerson(rng, marked=has_markers, assets=draw_assets(rng), companions=rng.choice(COMPANIONS))
        strides = tuple(person.walk(sites[site_number], pages=LONG * long_sessions))
        walks.append(Walk(f"{name}person-{number}", PERSON, "generator", f"{name}{site_number}", strides))
    return walks


def draw_crawlers(
    rng: Random,
    sites: list[Site],
    count: int,
    *,
    crawlers: tuple[Crawler, ...] = TRAINING_CRAWLERS,
    long_sessions: int = 1,
    marked: bool | None = None,
    vary: bool = True,
    name: str = "",
) -> list[Walk]:
    """Draw walks of *count* crawlers, of each of *crawlers* in turn. With *vary* their configurations differ."""
    walks = []
    for number in range(count):
        crawler = crawlers[number % len(crawlers)]
        site_number = rng.randrange(len(sites))
        has_markers = rng.random() < 0.5 if marked is None else marked  # noqa: PLR2004 - evenly
        assets = draw_assets(rng)
        crawling = varied(crawler, rng) if vary else crawler
        strides = crawl(
            sites[site_number],
            crawling,
            rng,
            pages=LONG * long_sessions,
            marked=has_markers,
            assets=assets,
            companions=rng.choice(COMPANIONS),
        )
        # Without parents and markers no order is visible, nor if the crawler takes any of many links.
        ordered = (crawling.parents or has_markers) and crawling.loose < _MAX_ORDERED_LOOSENESS
        label = crawling.label if ordered else "random-like"
        visitor = f"{name}{crawler.name}-{number}"
        walks.append(Walk(visitor, label, crawler.name, f"{name}{site_number}", tuple(strides)))
    return walks


class Size(NamedTuple):
    sites: int = 40
    people: int = 4000
    crawlers: int = 3000


def draw_walks(seed: int | str, size: Size, long_sessions: int = 2) -> list[Walk]:
    """Draw walks of two long sessions: in the middle of a crawl, parents are not visible."""
    rng = Random(f"hedgerow {seed}")  # noqa: S311 - not secret
    sites = draw_sites(rng, size.sites)
    people = draw_people(rng, sites, size.people, long_sessions=long_sessions)
    return people + draw_crawlers(rng, sites, size.crawlers, long_sessions=long_sessions)


def path_rows(walks: list[Walk], lengths: PathLengths = PATH_LENGTHS) -> list[Sample]:
    return [sample for walk in walks for sample in samples_of(walk, None, lengths)]


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

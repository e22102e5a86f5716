"""Training samples: the features of sessions at each length, from simulated walks, logs and ledgers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import NamedTuple

from hedgerow.core.visit import Visit
from hedgerow.lab.simulate.site import Site
from hedgerow.lab.train.simulated_crawlers import TRAINING_CRAWLERS, Crawler, crawl, varied
from hedgerow.lab.train.simulated_people import COMPANIONS, SimulatedPerson
from hedgerow.lab.train.site_graphs import forum_site, random_site
from hedgerow.lab.train.walks import Walk, add_stride, digest
from hedgerow.watch.sessions.path import LONG, PREFIXES, PathSession, step_of
from hedgerow.watch.sessions.window import SESSION_GAP, Access, Agent, SessionWindow

PERSON = "person"
LOG = "log"
"""The source of samples from a site's own log."""

_MAX_ORDERED_LOOSENESS = 16


class Sample(NamedTuple):
    """
    The features of a visitor's session when it had *size* visits, and the visitor's true identity.

    *number* counts the visitor's long sessions from 0.
    """

    visitor: str
    label: str
    source: str
    site: str
    number: int
    size: int
    features: tuple[float, ...]


def samples_of(walk: Walk, sizes: tuple[int, ...] = PREFIXES) -> Iterator[Sample]:
    """Yield the samples of one walk: all its long sessions, at each of *sizes*."""
    for number, strides in enumerate(walk.sessions()):
        session = PathSession()
        for stride in strides:
            add_stride(session, stride)
            if session.size in sizes:
                yield Sample(
                    walk.visitor, walk.label, walk.source, walk.site, number, session.size, session.all_features()
                )


def draw_assets(rng: Random) -> float:
    """Draw the number of assets per page of a site. One site in four has none: they are on another host."""
    return 0.0 if rng.random() < 0.25 else math.exp(rng.gauss(1.8, 0.8))  # noqa: PLR2004 - a share


def draw_sites(rng: Random, count: int) -> list[Site]:
    """Draw sites to train on: half random sites, half forums."""
    return [(random_site if number % 2 else forum_site)(rng) for number in range(count)]


def draw_people(
    rng: Random, sites: list[Site], count: int, *, long_sessions: int = 1, marked: bool | None = None, name: str = ""
) -> list[Walk]:
    """
    Draw walks of *count* people with *long_sessions* long sessions each.

    Half of them are on sites with marked links, unless *marked* is given.
    """
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
    """
    Draw walks of *count* crawlers, of each of *crawlers* in turn.

    Long sessions after the first are in the middle of a crawl. With *vary*, some have several workers, send no
    referrer, or use a browser.
    """
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
        walks.append(
            Walk(f"{name}{crawler.name}-{number}", label, crawler.name, f"{name}{site_number}", tuple(strides))
        )
    return walks


def visits_to_samples(
    visits: Iterable[Visit],
    label_of: Callable[[Visit], str],
    *,
    host: str = "",
    source: str = LOG,
    sizes: tuple[int, ...] = PREFIXES,
) -> list[Sample]:
    """
    Return the samples of a log or ledger: one session for each visitor, labelled by *label_of*.

    A visit for which *label_of* returns "" is skipped.
    """
    sessions: dict[str, PathSession] = {}
    numbers: dict[str, int] = defaultdict(int)
    samples = []
    for visit in visits:
        label = label_of(visit)
        if not label:
            continue
        session = sessions.get(visit.visitor)
        if session is None:
            session = sessions[visit.visitor] = PathSession()
        step = step_of(visit, host)
        if step is None:
            session.add_side_request()
            continue
        if session.full:
            numbers[visit.visitor] += 1
        session.add(*step)
        if session.size in sizes:
            number = numbers[visit.visitor]
            samples.append(Sample(visit.visitor, label, source, source, number, session.size, session.all_features()))
    return samples


def windows_of(walks: Iterable[Walk], rng: Random) -> list[Sample]:
    """
    Return the samples for the window of 27 to 40 visits: of the first long session of each walk, at 27 and at 54 pages.

    A window that has just begun differs from one that has slid, and a model must know both. Properties that a walk does
    not contain are drawn. Half of the sites set cookies; nine of ten people keep theirs, and four of ten crawlers. Half
    of the crawlers send no referrer. One person in fifty has a second address. The user agent is a browser's, except
    for three crawlers in ten and one person in a hundred.
    """
    return [row for walk in walks for pages, row in windows_along(walk, rng) if pages <= LONG]


def windows_along(walk: Walk, rng: Random) -> Iterator[tuple[int, Sample]]:
    """
    Yield the samples of a walk for the window, whenever 27 pages have come, with the number of pages so far.

    Properties that a walk does not contain are drawn as in `windows_of`.
    """
    window = SessionWindow()
    number = 0
    for pages, access in enumerate(_accesses(walk, rng), 1):
        window.add(access)
        if window.is_due:
            window.fresh = 0
            features = window.features()
            yield pages, Sample(walk.visitor, walk.label, walk.source, walk.site, number, window.size, features)
            number += 1


def _accesses(walk: Walk, rng: Random) -> Iterator[Access]:
    person = walk.label == PERSON
    keeps_cookies = rng.random() < 0.5 and rng.random() < (0.9 if person else 0.4)  # noqa: PLR2004 - shares
    has_second_address = person and rng.random() < 0.02  # noqa: PLR2004 - likewise
    sends_referrer = person or rng.random() < 0.5  # noqa: PLR2004 - likewise
    is_unusual = rng.random() < (0.01 if person else 0.3)
    agent: Agent = rng.choice(("absent", "unknown", "unknown", "false")) if is_unusual else "browser"
    last_at = -math.inf
    session_number = 0
    for stride in walk.strides:
        session_number += stride.at - last_at > SESSION_GAP
        last_at = stride.at
        cookie = b"cookie" if keeps_cookies and stride is not walk.strides[0] else b""
        is_entry = stride.parent is None
        is_foreign = person and is_entry and rng.random() < 0.5  # noqa: PLR2004 - a share
        yield Access(
            at=stride.at,
            address=f"192.0.2.{1 + (has_second_address and session_number % 2)}",
            session=cookie or b"address",
            page=digest(stride.page),
            referrer=None if stride.parent is None else digest(stride.parent),
            referred="foreign" if is_foreign else "absent" if is_entry or not sends_referrer else "own",
            cookie=cookie,
            cookie_state="good" if cookie else "absent",
            agent=agent,
        )

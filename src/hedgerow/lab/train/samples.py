"""
Rows: what models are fitted to. Walks become rows at each number of visits; simulated ones are drawn here, too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import NamedTuple

from hedgerow.core.visit import Visit
from hedgerow.lab.simulate.site import Site
from hedgerow.lab.train.simulated_crawlers import SIX, Crawler, crawl, varied
from hedgerow.lab.train.simulated_people import COMPANIONS, SimulatedPerson
from hedgerow.lab.train.site_graphs import drawn, forum
from hedgerow.lab.train.walks import Walk, digest, take
from hedgerow.watch.sessions.path import LONG, PREFIXES, PathSession, step_of
from hedgerow.watch.sessions.window import SESSION_GAP, Access, Agent, SessionWindow

PERSON = "person"
LOG = "log"
"""The source of rows that are a site's own."""

_MANY = 16


class Sample(NamedTuple):
    """
    One row: the features of a visitor's session when it had *size* visits, and what the visitor truly is.

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
    """The rows of one walk: all its long sessions, at each of *sizes*."""
    for number, strides in enumerate(walk.sessions()):
        session = PathSession()
        for stride in strides:
            take(session, stride)
            if session.size in sizes:
                yield Sample(
                    walk.visitor, walk.label, walk.source, walk.site, number, session.size, session.all_features()
                )


def draw_assets(chance: Random) -> float:
    """How many assets come with a page of a site: none at one in four, where they are elsewhere."""
    return 0.0 if chance.random() < 0.25 else math.exp(chance.gauss(1.8, 0.8))  # noqa: PLR2004 - a share


def draw_sites(chance: Random, count: int) -> list[Site]:
    """Sites to train on: half drawn, half forums."""
    return [(drawn if number % 2 else forum)(chance) for number in range(count)]


def draw_people(
    chance: Random, sites: list[Site], count: int, *, long_sessions: int = 1, marked: bool | None = None, name: str = ""
) -> list[Walk]:
    """
    Walks of *count* people, each of *long_sessions* long sessions.

    Half of them are on sites with marked links, unless *marked* says otherwise.
    """
    walks = []
    for number in range(count):
        place = chance.randrange(len(sites))
        has_markers = chance.random() < 0.5 if marked is None else marked  # noqa: PLR2004 - evenly
        person = SimulatedPerson(
            chance, marked=has_markers, assets=draw_assets(chance), companions=chance.choice(COMPANIONS)
        )
        strides = tuple(person.walk(sites[place], pages=LONG * long_sessions))
        walks.append(Walk(f"{name}person-{number}", PERSON, "generator", f"{name}{place}", strides))
    return walks


def draw_crawlers(
    chance: Random,
    sites: list[Site],
    count: int,
    *,
    crawlers: tuple[Crawler, ...] = SIX,
    long_sessions: int = 1,
    marked: bool | None = None,
    vary: bool = True,
    name: str = "",
) -> list[Walk]:
    """
    Walks of *count* crawlers, in turn of each of *crawlers*.

    With more than one long session those after the first are as they come: in the middle of a crawl. *vary*: some
    have several workers, send no referrer, or drive a browser.
    """
    walks = []
    for number in range(count):
        crawler = crawlers[number % len(crawlers)]
        place = chance.randrange(len(sites))
        has_markers = chance.random() < 0.5 if marked is None else marked  # noqa: PLR2004 - evenly
        assets = draw_assets(chance)
        crawling = varied(crawler, chance) if vary else crawler
        strides = crawl(
            sites[place],
            crawling,
            chance,
            pages=LONG * long_sessions,
            marked=has_markers,
            assets=assets,
            companions=chance.choice(COMPANIONS),
        )
        # A crawl without parents and markers has no order that could be seen, nor has one that takes any of many links.
        ordered = (crawling.parents or has_markers) and crawling.loose < _MANY
        label = crawling.label if ordered else "random-like"
        walks.append(Walk(f"{name}{crawler.name}-{number}", label, crawler.name, f"{name}{place}", tuple(strides)))
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
    The rows of a log or ledger: one session for each visitor, labelled by what *label_of* says of its last visit.

    Where *label_of* gives "" the visit is left out.
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


def windows_of(walks: Iterable[Walk], chance: Random) -> list[Sample]:
    """
    The rows of walks for the window of 27 to 40 visits, those of the first long session of each, as the watch asks: at
    27 pages and at 54. A window that has just begun is not like one that has slid; a model must know both.

    What a walk does not tell is drawn. Half of the sites give cookies; nine of ten people keep theirs, and four of ten
    crawlers. Half of the crawlers send no referrer. One person in fifty has a second address. A user agent is a
    browser's, but for three crawlers in ten, which say what they are or nothing at all, and one person in a hundred.
    """
    return [row for walk in walks for pages, row in windows_along(walk, chance) if pages <= LONG]


def windows_along(walk: Walk, chance: Random) -> Iterator[tuple[int, Sample]]:
    """
    The rows of a walk for the window as the watch asks it, whenever 27 pages have come, and after how many pages in
    all. What a walk does not tell is drawn as in `windows_of`.
    """
    window = SessionWindow()
    number = 0
    for pages, access in enumerate(_accesses(walk, chance), 1):
        window.add(access)
        if window.is_due:
            window.fresh = 0
            features = window.features()
            yield pages, Sample(walk.visitor, walk.label, walk.source, walk.site, number, window.size, features)
            number += 1


def _accesses(walk: Walk, chance: Random) -> Iterator[Access]:
    person = walk.label == PERSON
    keeps = chance.random() < 0.5 and chance.random() < (0.9 if person else 0.4)  # noqa: PLR2004 - shares
    roams = person and chance.random() < 0.02  # noqa: PLR2004 - likewise
    referring = person or chance.random() < 0.5  # noqa: PLR2004 - likewise
    odd = chance.random() < (0.01 if person else 0.3)
    agent: Agent = chance.choice(("absent", "unknown", "unknown", "false")) if odd else "browser"
    last = -math.inf
    sitting = 0
    for stride in walk.strides:
        sitting += stride.at - last > SESSION_GAP
        last = stride.at
        cookie = b"cookie" if keeps and stride is not walk.strides[0] else b""
        entry = stride.parent is None
        foreign = person and entry and chance.random() < 0.5  # noqa: PLR2004 - a share
        yield Access(
            at=stride.at,
            address=f"192.0.2.{1 + (roams and sitting % 2)}",
            session=cookie or b"address",
            page=digest(stride.page),
            referrer=None if stride.parent is None else digest(stride.parent),
            referred="foreign" if foreign else "absent" if entry or not referring else "own",
            cookie=cookie,
            cookie_state="good" if cookie else "absent",
            agent=agent,
        )

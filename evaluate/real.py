"""
The real logs, as walks with labels. They stand beside the checkout (../shared/data) or where HEDGEROW_DATA says.

A visitor is an address with one user agent. The user agent is used for the label and hidden from every detector.
"crawler" is who names itself one; "person" is only a likeness: no declared bot, and most of its visits in sessions (30
minutes apart) of at least 3 requests with at least 2 assets, 1 page and 30 % with a referrer. All others are left out.

Many of those are plainly scanners and comment spammers all the same. A *reader* is one of them who got errors for at
most one page in twenty and never asked for xmlrpc.php, which no browser does. Neither is among the features of any
model.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import os
import re
import tarfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from hedgerow.core.address import prefix_of
from hedgerow.core.request_kind import kind_of
from hedgerow.core.visit import Visit
from hedgerow.lab.train.samples import PERSON
from hedgerow.lab.train.simulated_people import fitted, quantile
from hedgerow.lab.train.walks import Stride, Walk
from hedgerow.logs.formats import seconds_of
from hedgerow.logs.reader import LogReader
from hedgerow.markers.token import page_digest
from hedgerow.watch.sessions.path import LONG, step_of

HERE = Path(__file__).parent
DATA = Path(os.environ.get("HEDGEROW_DATA", HERE.parents[1] / "shared" / "data"))
LOGS = {
    "sparkdeveloper": "sparkdeveloper_2016-02_2016-03.log.xz",
    "almhuette": "almhuette-raith_2020-12_2021-04.log.xz",
    "french": "french-site_2009-03_2009-04.log.xz",
}
"""The logs whose times are sound and that have people in them."""

SESSION_GAP = 1800.0
CRAWLER = "crawler"
LEAST_PAGES = 10
NOT_CRAWLERS = re.compile("jetmon", re.IGNORECASE)
"""Monitors, which ask for one page for ever."""


MOST_ERRORS = 0.05


class Log(NamedTuple):
    """
    One log: the *walks* that have a label and at least ten pages, which of these people are *readers*, and the
    *sittings* of all readers, however short. *targets* are the pages' own names, and *agents* says how many user agents
    came from the address of each visitor.
    """

    walks: list[Walk]
    readers: frozenset[str]
    sittings: list[list[Stride]]
    targets: dict[int, str]
    agents: dict[str, int]


def there() -> bool:
    return (DATA / "logs").is_dir()


def declared() -> re.Pattern[str]:
    with lzma.open(DATA / "lists" / "crawler-user-agents_npm-1.60.0.json.xz") as file:
        patterns = [entry["pattern"] for entry in json.load(file)]
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


def hosts_of(visits: Iterable[Visit]) -> frozenset[str]:
    """The site's hosts: those that at least one in twenty assets names as its referrer's."""
    hosts = Counter(
        visit.referrer.partition("://")[2].partition("/")[0].lower()
        for visit in visits
        if visit.kind == "asset" and "://" in visit.referrer
    )
    return frozenset(host for host, count in hosts.items() if count * 20 >= hosts.total())


@cache
def read_log(site: str) -> Log:
    visits = [
        visit for visit in LogReader([str(DATA / "logs" / LOGS[site])]) if "apache-log/access.log" not in visit.target
    ]
    hosts = hosts_of(visits)
    bots = declared()
    is_bot = {agent: bool(bots.search(agent)) for agent in {visit.user_agent for visit in visits}}
    by_visitor: dict[tuple[str, str], list[Visit]] = defaultdict(list)
    for visit in visits:
        by_visitor[visit.prefix, visit.user_agent].append(visit)
    walks, readers, sittings, agents = [], [], [], {}
    at_address = Counter(prefix for prefix, _ in by_visitor)
    for (prefix, agent), its in by_visitor.items():
        if NOT_CRAWLERS.search(agent):
            continue
        label = CRAWLER if is_bot[agent] else PERSON if likely_person(its) else ""
        strides = tuple(strides_of(its, hosts))
        name = f"{site}-{len(walks)}"
        reader = label == PERSON and is_served(its)
        if label and len(strides) >= LEAST_PAGES:
            walks.append(Walk(name, label, site, site, strides))
            agents[name] = at_address[prefix]
            readers += [name] if reader else []
        if reader:
            sittings += [list(strides_of(sitting, hosts)) for sitting in sittings_of(its) if is_human_like(sitting)]
    targets = {number(page_digest(visit.target)): visit.target for visit in visits if visit.kind == "page"}
    return Log(walks, frozenset(readers), [sitting for sitting in sittings if sitting], targets, agents)


def stitched(site: str, count: int, seed: int) -> list[Walk]:
    """
    *count* people of 60 pages each, put together from sittings of readers of one log: most real ones leave sooner.

    Within a sitting all is as it was; how long they stay away is drawn as the generator draws it.
    """
    chance = Random(f"{site} {seed}")
    sittings = read_log(site).sittings
    walks = []
    for number in range(count):
        strides: list[Stride] = []
        at = 0.0
        while len(strides) < LONG:
            sitting = chance.choice(sittings)
            strides += [stride._replace(at=at + stride.at - sitting[0].at) for stride in sitting]
            at = strides[-1].at + quantile(fitted().away, chance.random())
        walks.append(Walk(f"{site}-stitched-{number}", PERSON, site, site, tuple(strides[:LONG])))
    return walks


def is_served(visits: list[Visit]) -> bool:
    """Whether nearly all pages were there, and none was asked for that only programs ask for."""
    pages = [visit for visit in visits if visit.kind == "page"]
    errors = sum(visit.status >= 400 for visit in pages)
    return errors <= MOST_ERRORS * len(pages) and not any("xmlrpc.php" in visit.target for visit in visits)


def is_human_like(sitting: list[Visit]) -> bool:
    assets = sum(visit.kind == "asset" for visit in sitting)
    pages = sum(visit.kind == "page" for visit in sitting)
    referred = sum(bool(visit.referrer) for visit in sitting)
    return len(sitting) >= 3 and assets >= 2 and pages >= 1 and referred >= 0.3 * len(sitting)


def sittings_of(visits: Iterable[Visit]) -> Iterator[list[Visit]]:
    sitting: list[Visit] = []
    for visit in visits:
        if sitting and visit.at - sitting[-1].at > SESSION_GAP:
            yield sitting
            sitting = []
        sitting.append(visit)
    if sitting:
        yield sitting


def likely_person(visits: list[Visit]) -> bool:
    good = sum(len(sitting) for sitting in sittings_of(visits) if is_human_like(sitting))
    return good * 2 > len(visits)


def strides_of(visits: Iterable[Visit], hosts: frozenset[str]) -> Iterator[Stride]:
    """The strides of a visitor's visits; assets count beside the page before them."""
    waiting: Stride | None = None
    for visit in visits:
        referred = visit.referrer.partition("://")[2].partition("/")[0].lower()
        step = step_of(visit, referred if referred in hosts else "")
        if step is None:
            if waiting is not None:
                waiting = waiting._replace(beside=waiting.beside + 1)
            continue
        if waiting is not None:
            yield waiting
        parent = None if step.parent is None else number(step.parent)
        waiting = Stride(step.at, number(step.page), parent)
    if waiting is not None:
        yield waiting


def number(digest: bytes) -> int:
    return int.from_bytes(digest, "big", signed=True)


@cache
def wiki_walks(half: int, least: int = LONG, most: int = 2 * LONG) -> list[Walk]:
    """
    Real people's clicks through a wiki (Wikispeedia), their games one after the other, of those with *least* pages.

    Half of the people are for training (0), the other *half* for the test (1).

    Pages, order and going back are as they were, and so is how long a game took. How long each page of it was looked
    at is not told: the game's time is split at random. Nor are assets, as on a site that has them elsewhere.
    """
    chance = Random("wiki")
    games: dict[str, list[tuple[float, float, list[str]]]] = defaultdict(list)
    with tarfile.open(DATA / "human_paths" / "wikispeedia_unfinished-paths.tar.xz") as archive:
        file = archive.extractfile("./paths_unfinished.tsv")
        assert file is not None
        for line in io.TextIOWrapper(file, "utf-8"):
            if not line.startswith("#") and line.strip():
                person, start, seconds, path, *_ = line.rstrip("\n").split("\t")
                games[person].append((float(start), float(seconds), path.split(";")))
    walks = []
    for person, its in games.items():
        if zlib.crc32(person.encode()) % 2 != half:
            continue
        strides = [stride for game in sorted(its) for stride in _game(*game, chance)]
        if len(strides) >= least:
            # A few games overlap, in two tabs.
            strides.sort(key=lambda stride: stride.at)
            walks.append(Walk(person, PERSON, "wikispeedia", "wikispeedia", tuple(strides[:most])))
    return walks


def _game(start: float, seconds: float, path: list[str], chance: Random) -> Iterator[Stride]:
    parts = [chance.expovariate(1.0) for _ in path]
    trail: list[int] = []
    at = start
    for title, part in zip(path, parts, strict=True):
        if title == "<":
            if len(trail) > 1:
                trail.pop()
        else:
            page = zlib.crc32(title.encode())
            yield Stride(at, page, trail[-1] if trail else None)
            trail.append(page)
        at += seconds * part / sum(parts)


ILIOU = re.compile(r'\S+ \S+ \[([^\]]+)\] "(\S+) (\S+)[^"]*" (\d+) \S+ "([^"]*)" (\S+) "([^"]*)"')


def iliou_walks(least: int = 1) -> dict[str, list[Walk]]:
    """The labelled sessions of Iliou et al.: human, moderate_bot, advanced_bot. Mouse beacons are left out."""
    with tarfile.open(DATA / "labelled" / "iliou_phase1.tar.xz") as archive:
        labels, sessions = _iliou_sessions(archive)
    hosts = hosts_of(visit for its in sessions.values() for visit in its)
    walks: dict[str, list[Walk]] = defaultdict(list)
    for session, its in sessions.items():
        its.sort(key=lambda visit: visit.at)
        strides = tuple(strides_of(its, hosts))
        label = labels[session]
        truth = PERSON if label == "human" else CRAWLER
        if len(strides) >= least:
            walks[label].append(Walk(session, truth, label, "iliou", strides))
    return walks


def iliou_visits() -> tuple[dict[str, str], list[Visit]]:
    """The visits of the labelled sessions, mouse beacons included, in order; each session has an address of its own."""
    with tarfile.open(DATA / "labelled" / "iliou_phase1.tar.xz") as archive:
        labels, sessions = _iliou_sessions(archive, beacons=True)
    by_visitor, visits = {}, []
    for number, (session, its) in enumerate(sessions.items()):
        address = f"10.0.{number >> 8}.{number & 255}"
        by_visitor[address] = labels[session]
        visits += [replace(visit, address=address, visitor=address, prefix=address) for visit in its]
    return by_visitor, sorted(visits, key=lambda visit: visit.at)


def _iliou_sessions(
    archive: tarfile.TarFile, *, beacons: bool = False
) -> tuple[dict[str, str], dict[str, list[Visit]]]:
    root = "web-bot-detection-dataset/"
    table = archive.extractfile(root + "session_labels.csv")
    assert table is not None
    labels = {row["session_id"]: row["label"] for row in csv.DictReader(io.TextIOWrapper(table, "utf-8"))}
    sessions: dict[str, list[Visit]] = defaultdict(list)
    for name in archive.getnames():
        if not name.endswith(".log"):
            continue
        file = archive.extractfile(name)
        assert file is not None
        for line in io.TextIOWrapper(file, "latin-1"):
            match = ILIOU.match(line)
            if match is None or match[6] not in labels or ("/storage/" in match[3] and not beacons):
                continue
            at = seconds_of(match[1])
            if at is not None:
                visit = Visit(
                    at,
                    "",
                    match[6],
                    prefix_of("192.0.2.1"),
                    match[2],
                    match[3],
                    kind_of(match[2], match[3]),
                    referrer="" if match[5] == "-" else match[5],
                    user_agent="" if match[7] == "-" else match[7],
                )
                sessions[match[6]].append(visit)
    return labels, sessions

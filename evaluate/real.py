"""
The real logs as labelled walks. They are in ../shared/data, or where HEDGEROW_DATA points.

A visitor is an address with one user agent. The user agent is used for the label and hidden from every detector. A
"crawler" declares itself. A "person" only looks like one: no declared bot, and most of its visits in sessions (30
minutes apart) of at least 3 requests with at least 2 assets, 1 page and 30 % referrers. All others are skipped.

Many of these are still obvious scanners and comment spammers. A *reader* is a person who got errors for at most one
page in twenty and never requested xmlrpc.php, which no browser does. Neither is a feature of any model.
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
from hedgerow.lab.train.samples import PERSON, Stride, Walk
from hedgerow.lab.train.simulated_people import people_statistics, quantile
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
"""The logs with correct times and with people."""

SESSION_GAP = 1800.0
CRAWLER = "crawler"
MIN_PAGES = 10
NOT_CRAWLERS = re.compile("jetmon", re.IGNORECASE)
"""Monitors, which request one page forever."""


MAX_ERRORS = 0.05


class Log(NamedTuple):
    """
    One log: labelled *walks* of at least ten pages, which of these people are *readers*, and the *sittings* of all
    readers.

    *targets* are the names of pages, and *agents* is the number of user agents at the address of each visitor.
    """

    walks: list[Walk]
    readers: frozenset[str]
    sittings: list[list[Stride]]
    targets: dict[int, str]
    agents: dict[str, int]


def is_available() -> bool:
    return (DATA / "logs").is_dir()


def declared() -> re.Pattern[str]:
    with lzma.open(DATA / "lists" / "crawler-user-agents_npm-1.60.0.json.xz") as file:
        patterns = [entry["pattern"] for entry in json.load(file)]
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


def hosts_of(visits: Iterable[Visit]) -> frozenset[str]:
    """Return the hosts of the site: those in the referrers of at least one in twenty assets."""
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
        if label and len(strides) >= MIN_PAGES:
            walks.append(Walk(name, label, site, site, strides))
            agents[name] = at_address[prefix]
            readers += [name] if reader else []
        if reader:
            sittings += [list(strides_of(sitting, hosts)) for sitting in sittings_of(its) if is_human_like(sitting)]
    targets = {number(page_digest(visit.target)): visit.target for visit in visits if visit.kind == "page"}
    return Log(walks, frozenset(readers), [sitting for sitting in sittings if sitting], targets, agents)


def stitched(site: str, count: int, seed: int) -> list[Walk]:
    """
    Return *count* people of 60 pages each, merged from sittings of readers of one log: most real ones leave sooner.

    Sittings are unchanged; the time between them is drawn as the generator does.
    """
    rng = Random(f"{site} {seed}")
    sittings = read_log(site).sittings
    walks = []
    for number in range(count):
        strides: list[Stride] = []
        at = 0.0
        while len(strides) < LONG:
            sitting = rng.choice(sittings)
            strides += [stride._replace(at=at + stride.at - sitting[0].at) for stride in sitting]
            at = strides[-1].at + quantile(people_statistics().away, rng.random())
        walks.append(Walk(f"{site}-stitched-{number}", PERSON, site, site, tuple(strides[:LONG])))
    return walks


def is_served(visits: list[Visit]) -> bool:
    """Return whether nearly all pages existed, and none was requested that only programs request."""
    pages = [visit for visit in visits if visit.kind == "page"]
    errors = sum(visit.status >= 400 for visit in pages)
    return errors <= MAX_ERRORS * len(pages) and not any("xmlrpc.php" in visit.target for visit in visits)


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
    """Yield the strides of a visitor's visits; assets count as side requests of the page before them."""
    current: Stride | None = None
    for visit in visits:
        referred = visit.referrer.partition("://")[2].partition("/")[0].lower()
        step = step_of(visit, referred if referred in hosts else "")
        if step is None:
            if current is not None:
                current = current._replace(side_requests=current.side_requests + 1)
            continue
        if current is not None:
            yield current
        parent = None if step.parent is None else number(step.parent)
        current = Stride(step.at, number(step.page), parent)
    if current is not None:
        yield current


def number(digest: bytes) -> int:
    return int.from_bytes(digest, "big", signed=True)


@cache
def wiki_walks(half: int, min_pages: int = LONG, max_pages: int = 2 * LONG) -> list[Walk]:
    """
    Return real clicks of people through a wiki (Wikispeedia), their games joined, with at least *min_pages* pages.

    Half of the people are for training (*half* 0), the others for the test (1). Pages, order, going back and the time
    of a game are real. The time on each page is unknown: the time of the game is split at random. There are no assets,
    as on a site that has them on another host.
    """
    rng = Random("wiki")
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
        strides = [stride for game in sorted(its) for stride in _game(*game, rng)]
        if len(strides) >= min_pages:
            # Some games overlap in two tabs.
            strides.sort(key=lambda stride: stride.at)
            walks.append(Walk(person, PERSON, "wikispeedia", "wikispeedia", tuple(strides[:max_pages])))
    return walks


def _game(start: float, seconds: float, path: list[str], rng: Random) -> Iterator[Stride]:
    parts = [rng.expovariate(1.0) for _ in path]
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


def iliou_walks(min_pages: int = 1) -> dict[str, list[Walk]]:
    """Return the labelled sessions of Iliou et al. (human, moderate_bot, advanced_bot), without mouse beacons."""
    with tarfile.open(DATA / "labelled" / "iliou_phase1.tar.xz") as archive:
        labels, sessions = _iliou_sessions(archive)
    hosts = hosts_of(visit for its in sessions.values() for visit in its)
    walks: dict[str, list[Walk]] = defaultdict(list)
    for session, its in sessions.items():
        its.sort(key=lambda visit: visit.at)
        strides = tuple(strides_of(its, hosts))
        label = labels[session]
        truth = PERSON if label == "human" else CRAWLER
        if len(strides) >= min_pages:
            walks[label].append(Walk(session, truth, label, "iliou", strides))
    return walks


def iliou_visits() -> tuple[dict[str, str], list[Visit]]:
    """Return the visits of the labelled sessions, with mouse beacons, in order; each session has its own address."""
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

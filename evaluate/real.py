"""
The real logs, as walks with labels. They stand beside the checkout (../shared/data) or where HEDGEROW_DATA says.

A visitor is an address with one user agent. The user agent is used for the label and hidden from every detector.
"crawler" is who names itself one; "person" is only a likeness: no declared bot, and most of its visits in sessions (30
minutes apart) of at least 3 requests with at least 2 assets, 1 page and 30 % with a referrer. All others are left out.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import os
import re
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from hedgerow.identity.address import prefix_of
from hedgerow.identity.kind import kind_of
from hedgerow.logs.formats import seconds_of
from hedgerow.logs.reader import Reader
from hedgerow.sessions.paths import step_of
from hedgerow.training.rows import PERSON
from hedgerow.training.walks import Stride, Walk
from hedgerow.visit import Visit

DATA = Path(os.environ.get("HEDGEROW_DATA", Path(__file__).parents[2] / "shared" / "data"))
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


def log_walks(site: str) -> list[Walk]:
    """The walks of one log: those visitors that have a label and at least ten pages."""
    visits = [
        visit for visit in Reader([str(DATA / "logs" / LOGS[site])]) if "apache-log/access.log" not in visit.target
    ]
    hosts = hosts_of(visits)
    bots = declared()
    is_bot = {agent: bool(bots.search(agent)) for agent in {visit.user_agent for visit in visits}}
    by_visitor: dict[tuple[str, str], list[Visit]] = defaultdict(list)
    for visit in visits:
        by_visitor[visit.prefix, visit.user_agent].append(visit)
    walks = []
    for (_, agent), its in by_visitor.items():
        if NOT_CRAWLERS.search(agent):
            continue
        label = CRAWLER if is_bot[agent] else PERSON if likely_person(its) else ""
        strides = tuple(strides_of(its, hosts))
        if label and len(strides) >= LEAST_PAGES:
            walks.append(Walk(f"{site}-{len(walks)}", label, site, site, strides))
    return walks


def likely_person(visits: list[Visit]) -> bool:
    good, last, session = 0, float("-inf"), []

    def settle() -> int:
        assets = sum(visit.kind == "asset" for visit in session)
        pages = sum(visit.kind == "page" for visit in session)
        referred = sum(bool(visit.referrer) for visit in session)
        person = len(session) >= 3 and assets >= 2 and pages >= 1 and referred >= 0.3 * len(session)
        return len(session) if person else 0

    for visit in visits:
        if visit.at - last > SESSION_GAP:
            good += settle()
            session = []
        last = visit.at
        session.append(visit)
    good += settle()
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


def _iliou_sessions(archive: tarfile.TarFile) -> tuple[dict[str, str], dict[str, list[Visit]]]:
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
            if match is None or match[6] not in labels or "/storage/" in match[3]:
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
                )
                sessions[match[6]].append(visit)
    return labels, sessions

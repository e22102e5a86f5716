"""
Labels of the report on the real logs: `python -m evaluate.report_labels` writes docs/evaluation/labels.md.

Two questions: how many requests stay unknown, and how many readers are called crawlers, as they are and after their
referrers, their assets or both were removed. A reader is a source that looks like a person (as in `opinions`), got
errors for at most one page in twenty, and never asked for xmlrpc.php.
"""

from __future__ import annotations

import lzma
import re
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import numpy as np

from evaluate import real
from evaluate.tables import table
from hedgerow.core.request_kind import kind_of
from hedgerow.logs.reader import LogReader
from hedgerow.report.blocklist import listings
from hedgerow.report.live_opinions import DeclaredBots
from hedgerow.report.pipeline import Options, make
from hedgerow.report.source_labels import CRAWLER, LABELS, NOTHING, PERSON
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots, known_bots

OUT = Path(__file__).parents[1] / "docs" / "evaluation"
MEMORY = 1_000_000_000
BOTS = Bots(known=known_bots())
LEAST_PAGES = 5
LEAST_REQUESTS = 20
PEOPLE = {**real.LOGS, "semicomplete": "semicomplete_elastic-apache-10k_2015.log.xz"}
"""The logs with people."""

LOGS = {**PEOPLE, "honeynet": "honeynet-redhat_2004.log.xz"}
REMOVED = ("referrers", "assets", "both")
REQUEST = re.compile(r'(\S+) \S+ .*?\[.*?\] "(\S+) (\S+)[^"]*" (\d+) \S+ "([^"]*)"')

UNKNOWN_BEFORE = {"sparkdeveloper": 23.40, "almhuette": 8.49, "french": 19.55, "semicomplete": 59.03, "honeynet": 86.82}
ACCUSED_BEFORE = {
    ("nothing", "at random"): {"sparkdeveloper": 0, "almhuette": 1, "french": 0, "semicomplete": 0},
    ("referrers", "at random"): {"sparkdeveloper": 0, "almhuette": 2, "french": 2, "semicomplete": 1},
    ("assets", "at random"): {"sparkdeveloper": 1, "almhuette": 8, "french": 1, "semicomplete": 4},
    ("both", "at random"): {"sparkdeveloper": 9, "almhuette": 20, "french": 4, "semicomplete": 7},
    ("referrers", "all"): {"sparkdeveloper": 33, "almhuette": 36, "french": 23, "semicomplete": 17},
    ("assets", "all"): {"sparkdeveloper": 35, "almhuette": 96, "french": 36, "semicomplete": 18},
    ("both", "all"): {"sparkdeveloper": 39, "almhuette": 99, "french": 43, "semicomplete": 18},
}
"""Measured in the same way on the version before grounds and activities."""


def text_of(path: Path) -> list[str]:
    return lzma.decompress(path.read_bytes()).decode("latin-1").splitlines(keepends=True)


def readers(path: Path) -> set[str]:
    """Return the sources that look like readers, whose user agents declare nothing."""
    with Tables([str(path)], memory=MEMORY, hide_agents=True) as tables:
        figures, declared = tables.figures, DeclaredBots(tables, BOTS)
        like_one = (2 * figures["human_like"] > figures["closely"]) & (figures["agent"] != 0)
        like_one &= (figures["pages"] >= LEAST_PAGES) & (declared.state == NOTHING)
        people = {tables.sources[k] for k in np.flatnonzero(like_one).tolist()}
    pages: dict[str, list[int]] = defaultdict(list)
    others = set()
    for visit in LogReader([str(path)]):
        if visit.address in people and visit.kind == "page":
            pages[visit.address].append(visit.status)
        if visit.address in people and "xmlrpc.php" in visit.target:
            others.add(visit.address)
    errors = {one: sum(status >= 400 for status in pages[one]) for one in people}
    return {one for one in people - others if errors[one] <= real.MAX_ERRORS * len(pages[one])}


def at_random(text: str) -> float:
    """Return a rate for a person and what is removed."""
    return Random(text).random()


def always(_: str) -> float:
    return 1.0


def without(lines: Iterable[str], people: set[str], what: str, rate: Callable[[str], float]) -> Iterator[str]:
    """Remove the assets or referrers (or both) of *people* from a log, each person's at a rate of its own."""
    chance = Random(1)
    for text in lines:
        match = REQUEST.match(text)
        if match is None or match[1] not in people or what == "nothing":
            yield text
            continue
        if what != "referrers" and kind_of(match[2], match[3]) == "asset" and chance.random() < rate(f"a {match[1]}"):
            continue
        removed = what != "assets" and chance.random() < rate(f"r {match[1]}")
        yield f"{text[: match.start(5)]}-{text[match.end(5) :]}" if removed else text


def labels_of(lines: Iterable[str], *, hidden: bool = False) -> tuple[dict[str, str], set[str], dict[str, int]]:
    """Return the label of each source, the listed sources, and the requests of each label."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_text("".join(lines), "latin-1")
        with Tables([str(path)], memory=MEMORY, hide_agents=hidden) as tables:
            report = make(tables, BOTS, Options(ignore_agents=hidden))
            labels = [LABELS[label] for label in report.judgements.label.tolist()]
            listed = {one.subject for one in listings(report, since=0.0, until=0.0)}
            requests = {label: count for label, (_, count) in report.totals().items()}
            return dict(zip(tables.sources, labels, strict=True)), listed, requests


def unknown_table(texts: dict[str, list[str]]) -> str:
    rows = []
    for site, lines in texts.items():
        shares = []
        for hidden in (False, True):
            requests = labels_of(lines, hidden=hidden)[2]
            shares.append(f"{requests['unknown'] / sum(requests.values()):.2%}".replace("%", " %"))
        rows.append([site, f"{UNKNOWN_BEFORE[site]:.2f} %", *shares])
    return table(["log", "before", "now", "now, user agents hidden"], rows)


def accused_table(texts: dict[str, list[str]], people: dict[str, set[str]]) -> str:
    rows = []
    for (what, rates), before in ACCUSED_BEFORE.items():
        rate = at_random if rates == "at random" else always
        row, accused, listed = [what if what == "nothing" else f"{what}, {rates}"], 0, 0
        for site, readers_of in people.items():
            labels, on_list, _ = labels_of(without(texts[site], readers_of, what, rate))
            found = sum(labels.get(one) == "crawler" for one in readers_of)
            row.append(f"{before[site]} / {found} of {len(readers_of)}")
            accused += found
            listed += len(readers_of & on_list)
        of = sum(map(len, people.values()))
        rows.append([*row, _percent(sum(before.values()) / of), _percent(accused / of), str(listed)])
    return table(["removed", *people, "all logs, before", "all logs, now", "listed now"], rows)


def hidden_table(texts: dict[str, list[str]]) -> str:
    """How declared bots are labelled when their user agents are hidden."""
    rows = []
    for site, lines in texts.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log"
            path.write_text("".join(lines), "latin-1")
            with Tables([str(path)], memory=MEMORY, hide_agents=True) as tables:
                declared = (DeclaredBots(tables, BOTS).state != NOTHING) & (tables.figures["pages"] >= LEAST_PAGES)
                bots = [tables.sources[k] for k in np.flatnonzero(declared).tolist()]
        counts = Counter(map(labels_of(lines, hidden=True)[0].__getitem__, bots))
        rows.append([site, str(len(bots)), *(str(counts[label]) for label in ("crawler", "unknown", "person"))])
    return table(["log", "declared bots", "crawler", "unknown", "person"], rows)


def pubcrawl_tables(texts: dict[str, list[str]], people: dict[str, set[str]]) -> tuple[str, str]:
    """How declared bots and readers are labelled by the paper's pipeline, and its campaigns."""
    rows, campaigns = [], []
    for site, lines in texts.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log"
            path.write_text("".join(lines), "latin-1")
            with Tables([str(path)], memory=MEMORY, hide_agents=True) as tables:
                report = make(tables, BOTS, Options(ignore_agents=True, method="pubcrawl"))
                declared = DeclaredBots(tables, BOTS)
                names, label = tables.sources, report.judgements.label
                busy = tables.requests >= LEAST_REQUESTS
                bots = np.flatnonzero((declared.state != NOTHING) & busy)
                readers_of = np.array(
                    [k for k in np.flatnonzero(busy).tolist() if names[k] in people.get(site, ())], int
                )
                places = {name: k for k, name in enumerate(names)}
                for one in report.campaigns:
                    kinds = Counter(declared.bot(places[name]) or "nothing declared" for name in one.members)
                    who = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
                    campaigns.append([site, str(len(one.members)), f"{one.similarity:.2f}", who])
        right = [int((label[bots] == CRAWLER).sum()), int((label[readers_of] == PERSON).sum())]
        rows.append(
            [site, f"{right[0]} of {len(bots)}", f"{right[1]} of {len(readers_of)}", str(len(report.campaigns))]
        )
    head = ["log", "declared bots called crawlers", "readers called users", "campaigns"]
    return table(head, rows), table(["log", "members", "similarity", "members declare"], campaigns)


def iliou_table() -> str:
    rows = []
    truth, visits = real.iliou_visits()
    for beacons in (True, False):
        lines = [
            f'{v.address} - - [{_time(v.at)}] "{v.method} {v.target} HTTP/1.1" {v.status or 200} 1 '
            f'"{v.referrer or "-"}" "{v.user_agent}"\n'
            for v in visits
            if beacons or "/storage/" not in v.target
        ]
        labels, listed, _ = labels_of(lines)
        for who in ("human", "moderate_bot", "advanced_bot"):
            mine = [one for one in labels if truth[one] == who]
            counts = Counter(labels[one] for one in mine)
            numbers = [str(counts[label]) for label in ("person", "unknown", "crawler")]
            rows.append([who, "with" if beacons else "without", str(len(mine)), *numbers, str(len(listed & set(mine)))])
    return table(["session of", "beacons", "sessions", "person", "unknown", "crawler", "listed"], rows)


def scanner_table() -> str:
    """Three scanners in a laboratory; each line has a pair of quotes around it."""
    rows = []
    with tarfile.open(next((real.DATA / "labelled").glob("vuln-scanners*"))) as archive:
        for member in sorted(archive.getnames()):
            file = archive.extractfile(member)
            if file is None or not member.endswith(".txt"):
                continue
            inside = [line.strip().removeprefix(b'"').removesuffix(b'"').decode("latin-1") for line in file]
            labels, listed, requests = labels_of(f"{line}\n" for line in inside)
            shares = [requests[label] / sum(requests.values()) for label in ("crawler", "unknown", "person")]
            rows.append(
                [Path(member).stem, str(len(inside)), *map(_percent, shares), f"{len(listed)} of {len(labels)}"]
            )
    return table(["scanner", "requests", "crawler", "unknown", "person", "sources listed"], rows)


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")


def main() -> None:
    if not real.is_available():
        sys.exit(f"the real logs are not there: {real.DATA}")
    texts = {site: text_of(real.DATA / "logs" / name) for site, name in LOGS.items()}
    people = {site: readers(real.DATA / "logs" / name) for site, name in PEOPLE.items()}
    page = (Path(__file__).parent / "labels.template.md").read_text(encoding="utf-8")
    paper, synchronous = pubcrawl_tables(texts, people)
    page = page.format(
        pubcrawl=paper,
        synchronous=synchronous,
        unknown=unknown_table(texts),
        accused=accused_table(texts, people),
        hidden=hidden_table({site: texts[site] for site in PEOPLE}),
        iliou=iliou_table(),
        scanners=scanner_table(),
    )
    (OUT / "labels.md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()

"""
Labels of the report on the real logs: `python -m evaluate.report_labels` writes docs/evaluation/labels.md.

Two questions: how many requests stay unknown, and how many readers are called crawlers, as they are and after their
referrers, their assets or both were removed. A reader is a source that looks like a person (as in `opinions`), got
errors for at most one page in twenty, never asked for xmlrpc.php, and never for robots.txt as a program.
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
from itertools import product
from pathlib import Path
from random import Random

import numpy as np

from evaluate import logs, real, sites
from evaluate.tables import table
from hedgerow.core.request_kind import kind_of
from hedgerow.lab.train.measures import wilson
from hedgerow.lab.train.report_weights import train_report_model, training_log
from hedgerow.lab.train.shape_model import train_shape
from hedgerow.logs.reader import LogReader
from hedgerow.report.blocklist import listings
from hedgerow.report.campaigns import traffic_similarity as similarity
from hedgerow.report.heuristics import encode_model
from hedgerow.report.live_opinions import DeclaredBots
from hedgerow.report.pipeline import Options, make
from hedgerow.report.shape.classifiers import save as save_shape
from hedgerow.report.source_labels import CRAWLER, LABELS, NOTHING, PERSON
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots, known_bots
from hedgerow.watch.models.bundle import load_window, shipped
from hedgerow.watch.models.bundle import save as save_paths

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
"""Measured in the same way on the version before grounds and activities."""


def text_of(path: Path) -> list[str]:
    return lzma.decompress(path.read_bytes()).decode("latin-1").splitlines(keepends=True)


def readers(path: Path) -> set[str]:
    """Return the sources that look like readers, and do not declare themselves programs, not for robots.txt either."""
    with Tables([str(path)], memory=MEMORY, hide_agents=True) as tables:
        figures, declared = tables.figures, DeclaredBots(tables, BOTS)
        like_one = (2 * figures["human_like"] > figures["closely"]) & (figures["agent"] != 0)
        like_one &= (figures["pages"] >= LEAST_PAGES) & (declared.state == NOTHING)
        people = {tables.sources[k] for k in np.flatnonzero(like_one).tolist()}
    pages: dict[str, list[int]] = defaultdict(list)
    others, bots = set(), real.declared()
    for visit in LogReader([str(path)]):
        if visit.address in people and visit.kind == "page":
            pages[visit.address].append(visit.status)
        robot = visit.target == "/robots.txt" and bots.search(visit.user_agent)
        if visit.address in people and ("xmlrpc.php" in visit.target or robot):
            others.add(visit.address)
    errors = {one: sum(status >= 400 for status in pages[one]) for one in people}
    return {one for one in people - others if errors[one] <= real.MAX_ERRORS * len(pages[one])}


def at_random(text: str) -> float:
    """Return a rate for a person and what is removed."""
    return Random(text).random()


def always(_: str) -> float:
    return 1.0


def without(lines: Iterable[str], people: set[str] | None, what: str, rate: Callable[[str], float]) -> Iterator[str]:
    """Remove the assets or referrers (or both) of *people* from a log, each one's at its own rate. None: of all."""
    chance = Random(1)
    for text in lines:
        match = REQUEST.match(text)
        if match is None or (people is not None and match[1] not in people) or what == "nothing":
            yield text
            continue
        if what != "referrers" and kind_of(match[2], match[3]) == "asset" and chance.random() < rate(f"a {match[1]}"):
            continue
        removed = what != "assets" and chance.random() < rate(f"r {match[1]}")
        yield f"{text[: match.start(5)]}-{text[match.end(5) :]}" if removed else text


def labels_of(
    lines: Iterable[str], *, hidden: bool = False, models: dict[str, Path] | None = None
) -> tuple[dict[str, str], set[str], dict[str, int]]:
    """Return the label of each source, the listed sources, and the requests of each label."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_text("".join(lines), "latin-1")
        with Tables([str(path)], memory=MEMORY, hide_agents=hidden) as tables:
            report = make(tables, BOTS, Options(ignore_agents=hidden, **(models or {})))
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
    removed = [("nothing", "at random"), *product(REMOVED, ("at random",)), *product(REMOVED, ("all",))]
    for what, rates in removed:
        rate = at_random if rates == "at random" else always
        row, accused, listed = [what if what == "nothing" else f"{what}, {rates}"], 0, 0
        for site, readers_of in people.items():
            labels, on_list, _ = labels_of(without(texts[site], readers_of, what, rate))
            found = sum(labels.get(one) == "crawler" for one in readers_of)
            row.append(f"{found} of {len(readers_of)}")
            accused += found
            listed += len(readers_of & on_list)
        of = sum(map(len, people.values()))
        rows.append([*row, _percent(accused / of), str(listed)])
    return table(["removed", *people, "all logs", "listed"], rows)


def hidden_table(texts: dict[str, list[str]]) -> str:
    """How declared bots are labelled when their user agents are hidden."""
    rows = []
    for site, lines in texts.items():
        bots = declared_bots(lines)
        counts = Counter(map(labels_of(lines, hidden=True)[0].__getitem__, bots))
        rows.append([site, str(len(bots)), *(str(counts[label]) for label in ("crawler", "unknown", "person"))])
    return table(["log", "declared bots", "crawler", "unknown", "person"], rows)


def declared_bots(lines: Iterable[str], least: int = LEAST_PAGES) -> list[str]:
    """Return the sources with at least so many pages that declare themselves programs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_text("".join(lines), "latin-1")
        with Tables([str(path)], memory=MEMORY, hide_agents=True) as tables:
            declared = (DeclaredBots(tables, BOTS).state != NOTHING) & (tables.figures["pages"] >= least)
            return [tables.sources[k] for k in np.flatnonzero(declared).tolist()]


def whole_table(texts: dict[str, list[str]], people: dict[str, set[str]]) -> str:
    """Logs in which nobody has referrers, assets or either, as behind a cache: the labels of readers and bots."""
    rows = []
    for site, readers_of in people.items():
        bots = declared_bots(texts[site])
        for what in REMOVED:
            lines = list(without(texts[site], None, what, always))
            shown, listed, _ = labels_of(lines)
            hidden = labels_of(lines, hidden=True)[0]
            accused = sum(shown.get(one) == "crawler" for one in readers_of)
            found = sum(hidden.get(one) == "crawler" for one in bots)
            rows.append(
                [site, what, f"{accused} of {len(readers_of)}", str(len(readers_of & listed)), share(found, len(bots))]
            )
    head = ["log", "nobody has", "readers called crawlers", "listed", "declared bots called crawlers, agents hidden"]
    return table(head, rows)


def share(hits: int, of: int) -> str:
    low, high = wilson(hits, of)
    return f"{hits} of {of}: {hits / of:.1%} ({low:.1%} to {high:.1%})".replace("%", " %")


def models_without_each(folder: Path) -> dict[str, dict[str, Path]]:
    """Train the models of a report for each log on the other logs, as `opinions` does. Return the options of each."""
    bundles = shipped("boosted"), load_window()
    lessons = {}
    for site, name in real.LOGS.items():
        with Tables([str(real.DATA / "logs" / name)], memory=MEMORY, hide_agents=True) as tables:
            lessons[site] = training_log(site, tables, BOTS, *bundles, None)
    sources = {site: logs.log_of(site)[1] for site in real.LOGS}
    found = {}
    for site, bundle in sites.without_each(sites.drawn_rows()).items():
        rest = [other for other in real.LOGS if other != site]
        found[site] = {name: folder / f"{site}-{name}.json" for name in ("model", "paths", "shape")}
        found[site]["model"].write_bytes(encode_model(train_report_model([lessons[other] for other in rest])))
        save_paths(bundle, found[site]["paths"])
        shape = train_shape({other: sources[other] for other in rest}, seed=1, similarity=similarity.K)
        save_shape(shape, found[site]["shape"])
    return found


def held_out_table(texts: dict[str, list[str]], people: dict[str, set[str]]) -> str:
    """Judge each log by models that the others taught, user agents hidden. Shipped models never saw semicomplete."""
    rows, totals = [], Counter()
    with tempfile.TemporaryDirectory() as folder:
        models = models_without_each(Path(folder))
        for site, readers_of in people.items():
            labels, listed, _ = labels_of(texts[site], hidden=True, models=models.get(site))
            bare, _, _ = labels_of(
                without(texts[site], readers_of, "both", always), hidden=True, models=models.get(site)
            )
            cells = [site]
            for least in (LEAST_PAGES, LEAST_REQUESTS):
                bots = declared_bots(texts[site], least)
                found = sum(labels[one] == "crawler" for one in bots)
                totals += Counter({f"found {least}": found, f"of {least}": len(bots)})
                cells.append(share(found, len(bots)))
            accused = sum(labels[one] == "crawler" for one in readers_of)
            stripped = sum(bare.get(one) == "crawler" for one in readers_of)
            totals += Counter(accused=accused, stripped=stripped, readers=len(readers_of))
            cells += [share(accused, len(readers_of)), share(stripped, len(readers_of))]
            rows.append([*cells, str(len(listed & readers_of))])
    found = [share(totals[f"found {least}"], totals[f"of {least}"]) for least in (LEAST_PAGES, LEAST_REQUESTS)]
    wrong = [share(totals[name], totals["readers"]) for name in ("accused", "stripped")]
    head = [
        "log", "declared bots called crawlers", "those with 20 pages", "readers called crawlers",
        "the same without assets and referrers", "readers listed",
    ]  # fmt: skip
    return table(head, [*rows, ["all", *found, *wrong, ""]])


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
        whole=whole_table(texts, people),
        hidden=hidden_table({site: texts[site] for site in PEOPLE}),
        held_out=held_out_table(texts, people),
        iliou=iliou_table(),
        scanners=scanner_table(),
    )
    (OUT / "labels.md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()

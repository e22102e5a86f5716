"""
People of published data through a live Hedgerow: `python -m evaluate.replayed` writes docs/evaluation/people.md.

Each click of Wikispeedia's people, and each page of Iliou's, is a request to the real middleware, with default
settings, at its recorded time. Links have the marks that Hedgerow has put into the page before, cookies are kept, and
the watch sees every visit at once. With JavaScript each person obtains a clearance after the first page, as the script
of the page does. Wikispeedia has no times of single clicks: they are spread over the recorded duration.
"""

from __future__ import annotations

import argparse
import heapq
import io
import sys
import tarfile
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from random import Random
from urllib.parse import quote, urlsplit

from bench.arena.in_process import SimulatedBrowser, SimulatedSite, plain

from evaluate import real
from evaluate.people import DATA
from evaluate.tables import table
from hedgerow.lab.train.measures import wilson

OUT = Path(__file__).parents[1] / "docs" / "evaluation" / "people.md"
GAMES = 3_000
MAX_LINKS = 150
_LEAD = """# People of published data

`python -m evaluate.replayed` sends recorded people through the real middleware, with default settings and nothing
trained. Links have the marks that Hedgerow put into the page before. With JavaScript each person obtains a clearance
after the first page, as the script of the page does; without it nobody can solve a challenge. A person is challenged
or refused if that happened once or more. Going back asks for the page again, which browsers seldom do.

Wikispeedia (West and Leskovec 2012) is a game: people go from article to article by links. These are {games:,} paths
in a row, of {people:,} people. The data has no times of single clicks, so clicks are spread over the time of a path.
Iliou et al. (2021) recorded {sessions} sessions of people on a site of their own. Only requests for pages are replayed.

The range behind a share is its 95 % interval by Wilson's method. The path model was trained on half of the players of
Wikispeedia, who are among these. Nothing was tuned on Iliou's people.

"""


@dataclass(order=True)
class Step:
    """A request for a page: typed where *parent* is empty, else by a link of that page, or *back* to it."""

    at: float
    person: str
    target: str = field(compare=False)
    parent: str = field(compare=False, default="")
    back: bool = field(compare=False, default=False)


@dataclass
class Counts:
    people: int = 0
    pages: int = 0
    challenged: int = 0
    refused: int = 0
    codes: dict[str, int] = field(default_factory=dict)
    soonest: int = 0
    """The fewest pages that somebody had read before the first challenge."""


class Player(SimulatedBrowser):
    """A person who remembers the links of the pages that it has seen."""

    def __init__(self, site: SimulatedSite, address: str, *, scripts: bool) -> None:
        super().__init__(site, address, scripts=scripts)
        self._links: dict[str, dict[str, str]] = {}
        self.first_disturbed = -1

    def take(self, step: Step) -> None:
        self.here = step.parent
        if step.back:
            self._open(step.target, sec_fetch_site="same-origin")
        elif step.parent:
            self.click(self._links.get(step.parent, {}).get(step.target, step.target))
        else:
            self.type(step.target)
        if self.first_disturbed < 0 and (self.challenges or self.refusals):
            self.first_disturbed = self.pages
        self._links[step.target] = {plain(link): link for link in self.links()}


def wikispeedia(games: int) -> Iterator[Step]:
    """The clicks of *games* paths that follow each other in time."""
    with tarfile.open(DATA / "human_paths" / "wikispeedia_unfinished-paths.tar.xz") as archive:
        file = archive.extractfile("./paths_unfinished.tsv")
        assert file is not None
        lines = [line.rstrip("\n").split("\t") for line in io.TextIOWrapper(file, "utf-8") if line[0] not in "#\n"]
    lines.sort(key=lambda fields: float(fields[1]))
    for person, start, seconds, path, *_ in lines[:games]:
        names = path.split(";")
        dice = Random(zlib.crc32(path.encode()))
        parts = [dice.expovariate(1.0) for _ in names]
        at, trail = float(start), list[str]()
        for name, part in zip(names, parts, strict=True):
            if name == "<":
                if len(trail) > 1:
                    trail.pop()
                    yield Step(at, person, trail[-1], trail[-2] if len(trail) > 1 else "", back=True)
            else:
                target = "/wiki/" + quote(name, safe="()_,'%")
                yield Step(at, person, target, trail[-1] if trail else "")
                trail.append(target)
            at += float(seconds) * part / sum(parts)


def iliou() -> Iterator[Step]:
    """The pages of the sessions that are labelled as people's."""
    labels, visits = real.iliou_visits()
    pages = [
        visit for visit in visits if labels[visit.address] == "human" and visit.kind == "page" and visit.method == "GET"
    ]
    known = {(visit.address, _path(visit.target)) for visit in pages}
    for visit in pages:
        parent = _path(urlsplit(visit.referrer)._replace(scheme="", netloc="").geturl()) if visit.referrer else ""
        parent = parent if (visit.address, parent) in known and parent != _path(visit.target) else ""
        yield Step(visit.at, visit.address, _path(visit.target), parent)


def _path(target: str) -> str:
    return quote(target.partition("#")[0] or "/", safe="/?&=%()_,'~:;+")


def replay(steps: Iterable[Step], *, scripts: bool) -> Counts:
    """Send all *steps* through a Hedgerow in the order of their times."""
    ordered = list(steps)
    heapq.heapify(ordered)
    links: dict[str, dict[str, None]] = defaultdict(dict)
    for step in ordered:
        if step.parent and not step.back:
            links[step.parent][step.target] = None

    def page(target: str) -> bytes:
        rows = "".join(
            f'<p>Some words, <a href="{escape(link)}">{escape(link.rpartition("/")[2])}</a>.</p>'
            for link in list(links[target])[:MAX_LINKS]
        )
        head = f"<title>{escape(target)}</title>"
        return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{rows}</body></html>'.encode()

    site = SimulatedSite(page)
    people: dict[str, Player] = {}
    shift = site.clock.now - ordered[0].at
    try:
        while ordered:
            step = heapq.heappop(ordered)
            # A session may have two pages within one second.
            site.clock.now = max(site.clock.now, step.at + shift)
            player = people.get(step.person)
            if player is None:
                number = len(people)
                address = f"{11 + (number >> 16)}.{number >> 8 & 255}.{number & 255}.7"
                player = people[step.person] = Player(site, address, scripts=scripts)
            player.take(step)
            site.entries.clear()
    finally:
        site.close()
    return _counts(people.values())


def _counts(people: Iterable[Player]) -> Counts:
    counts = Counts()
    for player in people:
        counts.people += 1
        counts.pages += player.pages
        counts.challenged += player.challenges > 0
        counts.refused += player.refusals > 0
        if player.first_disturbed >= 0:
            before = player.first_disturbed
            counts.soonest = before if not counts.soonest else min(counts.soonest, before)
        for code in {one.partition("code=")[2].partition(";")[0] for one in player.codes}:
            counts.codes[code] = counts.codes.get(code, 0) + 1
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m evaluate.replayed")
    parser.add_argument("--games", type=int, default=GAMES, help="paths of Wikispeedia")
    options = parser.parse_args()
    if not DATA.is_dir():
        sys.exit("The data are not there; nothing was measured.")
    started, rows, people = time.monotonic(), [], {}
    for name, steps in (("Wikispeedia", list(wikispeedia(options.games))), ("Iliou", list(iliou()))):
        for scripts in (True, False):
            found = replay(steps, scripts=scripts)
            people[name] = found.people
            share, (low, high) = 100 * found.challenged / found.people, wilson(found.challenged, found.people)
            met = found.refused == 0 and share <= 1
            codes = ", ".join(f"{code} {count}" for code, count in sorted(found.codes.items()))
            rows.append(
                [
                    name, "with" if scripts else "without", f"{found.people:,}", f"{found.pages:,}", str(found.refused),
                    f"{found.challenged} ({share:.2f} %; {100 * low:.2f} to {100 * high:.2f})",
                    codes + (f"; first after {found.soonest}" if codes else ""),
                    ("met" if met else "missed") if scripts else "",
                ]
            )  # fmt: skip
            print(f"{time.monotonic() - started:5.0f} s  {rows[-1]}", file=sys.stderr, flush=True)
    head = ["people of", "JavaScript", "people", "pages", "refused", "challenged", "evidence (people)", "none, 1 %"]
    lead = _LEAD.format(games=options.games, people=people["Wikispeedia"], sessions=people["Iliou"])
    OUT.write_text(lead + table(head, rows))
    print(OUT.read_text())


if __name__ == "__main__":
    main()

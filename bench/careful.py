"""
What crawlers get that are careful about the daily budget, in simulated time, on PostgreSQL's documentation.

`python -m bench careful [--only WORD]`: Hedgerow, its watch and its challenges are the real ones in this process, with
default settings; the clock is set by hand. None of these crawlers can read images. People read over midnight as well.
It takes ten minutes.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random

from bench.arena.in_process import SimulatedBrowser, SimulatedSite, plain
from bench.arena.simulated import CRAWLS, DAY, PACES, WALKS, documentation, documentation_links, read
from bench.arena.stage import DOCUMENTATION

ADDRESS = "192.0.2.7"
_MINUTE = 60.0
_GIVES_UP = 60
"""Requests in a row without a new page, after which a crawler gives up."""
_CLAIMS: dict[str, dict[str, str]] = {
    "page": {},
    "script": {"sec_fetch_dest": "empty", "sec_fetch_mode": "cors", "accept": "*/*"},
    "prefetch": {"sec_purpose": "prefetch", "sec_fetch_dest": "empty", "sec_fetch_mode": "no-cors"},
    "frame": {
        "sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe",
        "referer": "https://evil.example/",
    },
    "window": {
        "sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document",
        "referer": "https://evil.example/",
    },
    "image": {"sec_fetch_dest": "image", "sec_fetch_mode": "no-cors", "accept": "image/*,*/*;q=0.8"},
    "program": {"accept": "*/*", "user_agent": "curl/8.5.0"},
}  # fmt: skip
"""What a request can say that it is for."""
Crawl = Callable[[], dict[str, int]]


class _Frontier:
    """The pages that a crew has, and the links that each of its members got."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.got: set[str] = set()
        self._links: dict[SimulatedBrowser, list[str]] = {}

    def add(self, crawler: SimulatedBrowser) -> None:
        self.got.add(crawler.here)
        self._links.setdefault(crawler, []).extend(documentation_links(crawler))

    def next(self, crawler: SimulatedBrowser) -> str:
        """Return a link that this crawler got to a page that nobody of the crew has; "" if it has none."""
        links = self._links.get(crawler, [])
        links[:] = [link for link in links if plain(link) not in self.got]
        return self.dice.choice(links) if links else ""

    def entry(self) -> str:
        """Return the address of a page that a member of the crew has a link to and nobody has, or of the home page."""
        links = {plain(link) for own in self._links.values() for link in own} - self.got
        return self.dice.choice(sorted(links)) if links else "/"


def hoard(
    clearances: int, pace: tuple[float, float], *, uses: int = 0, most: int = 2_500, seed: int = 1
) -> dict[str, int]:
    """
    Obtain clearances at one address, and read with them in turn, each by links that it got itself.

    Each begins at a page of its own, as if typed. With *uses* each is replaced by a new one after so many pages.
    """
    site, known = SimulatedSite(documentation), _Frontier(seed)
    site.clock.now += DAY - site.clock.now % DAY + 8 * 60 * _MINUTE
    try:

        def another() -> SimulatedBrowser:
            crawler = SimulatedBrowser(site, ADDRESS, reads_images=False)
            site.clock.now += known.dice.uniform(*pace)
            if crawler.type(known.entry()):
                known.add(crawler)
            return crawler

        crew = [another() for _ in range(clearances)]
        codes, idle = Counter[str](), 0
        for number in range(most):
            site.clock.now += known.dice.uniform(*pace)
            crawler = crew[number % clearances]
            before = crawler.pages
            if link := known.next(crawler):
                crawler.click(link)
            if crawler.pages > before:
                idle = 0
                known.add(crawler)
            else:
                idle += 1
            codes.update(_code(one) for one in crawler.codes)
            crawler.codes.clear()
            is_used_up = crawler.pages > uses or crawler.pages == before
            if uses and is_used_up:
                crew[number % clearances] = another()
            if idle >= max(_GIVES_UP, 3 * clearances):
                break
        return {"pages": len(known.got), **codes}
    finally:
        site.close()


def _code(decision: str) -> str:
    return decision.partition("code=")[2].partition(";")[0]


def over_midnight(
    order: str, pace: tuple[float, float], before: float, *, scripts: bool = True, after: float = 0.0, seed: int = 1
) -> dict[str, int]:
    """
    Begin *before* seconds before midnight, and read until nothing more comes; go on *after* seconds after midnight.

    Returns the pages of both days, and of the first.
    """
    site, dice = SimulatedSite(documentation), Random(seed)
    midnight = site.clock.now + DAY - site.clock.now % DAY
    site.clock.now = midnight - before
    try:
        crawler = SimulatedBrowser(site, ADDRESS, reads_images=False, scripts=scripts)
        first, idle = 0, 0
        for here, link in CRAWLS[order](crawler, dice):
            is_first_day = site.clock.now < midnight
            site.clock.now += dice.uniform(*pace)
            if is_first_day and (idle >= _GIVES_UP or site.clock.now >= midnight):
                first, idle, site.clock.now = crawler.pages, 0, midnight + after
            elif idle >= _GIVES_UP:
                break
            had = crawler.pages
            crawler.here = here
            crawler.click(link)
            idle = 0 if crawler.pages > had else idle + 1
        return {"pages": crawler.pages, "first day": first, **Counter(_code(one) for one in crawler.codes)}
    finally:
        site.close()


def mixed_claims(
    claims: Sequence[str], pace: tuple[float, float], *, strip: bool = False, requests: int = 600, seed: int = 1
) -> dict[str, int]:
    """Ask without JavaScript, and change to the next claim whenever a page is declined. *strip*: without marks."""
    site, known = SimulatedSite(documentation), _Frontier(seed)
    try:
        crawler = SimulatedBrowser(site, ADDRESS, scripts=False)
        crawler.type("/")
        known.add(crawler)
        came, codes, turn = Counter[str](), Counter[str](), 0
        for _ in range(requests):
            site.clock.now += known.dice.uniform(*pace)
            link, claim = known.next(crawler), claims[turn % len(claims)]
            if not link:
                break
            headers = {"sec_fetch_site": "same-origin", "referer": "http://example.org/" + crawler.here.lstrip("/")}
            answer = crawler.ask(plain(link) if strip else link, **{**headers, **_CLAIMS[claim]})
            if answer.status == 200:
                came[claim] += 1
                crawler.here, crawler.body = plain(link), answer.body
                known.add(crawler)
            else:
                codes[_code((answer.header("hedgerow-decision") or b"").decode())] += 1
                turn += 1
        return {"pages": len(known.got), **came, **codes}
    finally:
        site.close()


def crawls() -> Iterator[tuple[str, str, Crawl]]:
    """What is measured: its name, the goal, and how."""
    quick, slow = (0.5, 2.0), (4.0, 9.0)
    for clearances in (3, 10, 30, 60, 100):
        yield f"hoard: {clearances} clearances in turn", "150", partial(hoard, clearances, quick)
    for clearances, uses in ((10, 9), (30, 4), (30, 9), (60, 9)):
        name = f"hoard: {clearances} clearances in turn, each for {uses} pages"
        yield name, "150", partial(hoard, clearances, quick, uses=uses)
    for order in CRAWLS:
        yield f"midnight: {order}, 5 minutes before", "60", partial(over_midnight, order, quick, 300.0)
    yield "midnight: breadth, an hour before", "60", partial(over_midnight, "breadth", quick, 3600.0)
    for hours, limit in ((1, "60"), (3, "60"), (7, "")):
        after = partial(over_midnight, "breadth", quick, 300.0, after=hours * 3600.0)
        yield f"midnight: breadth, goes on at {hours} h", limit, after
    yield "midnight: breadth, slow, half an hour before", "", partial(over_midnight, "breadth", slow, 1_800.0)
    yield "midnight: no JavaScript", "30", partial(over_midnight, "breadth", quick, 300.0, scripts=False)
    for claims in (
        ("page", "script", "prefetch", "frame"), ("page", "script"), ("page", "frame"), ("script", "page"),
        ("page", "frame", "window"), ("frame", "window", "script", "prefetch", "page"),
        tuple(_CLAIMS),
        ("page", "prefetch"),
    ):  # fmt: skip
        yield f"mixed: {', '.join(claims)}", "30", partial(mixed_claims, claims, quick)
    for claims in (("page", "prefetch"), ("page", "frame")):
        name = f"mixed, without marks: {', '.join(claims)}"
        yield name, "30", partial(mixed_claims, claims, quick, strip=True)


def readers_over_midnight(pages: int = 150, people: int = 3) -> Iterator[str]:
    """The rows of a table in Markdown: people who read some of their *pages* before midnight, and those of noon."""
    for by_hand in (True, False):
        for order, walk in WALKS.items():
            for pace in PACES:
                cells: list[object] = [order, f"{pace[0]:g} to {pace[1]:g}", "keys" if by_hand else "none"]
                for share in (None, 0.2, 0.5):
                    before = DAY / 2 if share is None else share * pages * sum(pace) / 2
                    found = [
                        read(walk, pace, pages, seed, by_hand=by_hand, images=True, before_midnight=before)
                        for seed in range(people)
                    ]
                    cells.append(sum(one.challenges for one in found))
                    cells.append(sum(one.refusals for one in found))
                yield "| " + " | ".join(map(str, cells)) + " |"


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench careful")
    parser.add_argument("--only", default="", help="crawlers whose name contains this")
    options = parser.parse_args(arguments)
    if not DOCUMENTATION.is_dir():
        sys.exit("postgresql-doc-15 is not installed; nothing was measured.")
    print("| crawler | pages | goal | what it met |\n|---|--:|--:|---|")
    for name, goal, crawl in crawls():
        if options.only in name:
            found = crawl()
            met = ", ".join(f"{key} {value}" for key, value in found.items() if key != "pages")
            print(f"| {name} | {found['pages']} | {goal} | {met} |", flush=True)
    if options.only in "people over midnight":
        print("\n| 3 people | s per page | reports | noon | refused | a fifth before it | refused | half | refused |")
        print("|---|--:|---|--:|--:|--:|--:|--:|--:|")
        for line in readers_over_midnight():
            print(line, flush=True)

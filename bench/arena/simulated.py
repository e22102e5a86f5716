"""
What needs a day, or a quarter of an hour: measured in one process, with a clock that is set by hand.

Hedgerow, its watch and its challenges are the real ones, with default settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from itertools import islice, product
from random import Random
from typing import NamedTuple

import driving
from bench.arena import wiki
from bench.arena.in_process import SimulatedBrowser, SimulatedSite, plain
from bench.arena.stage import DOCUMENTATION

NAME = "simulated time"
DAY = 86_400.0
MINUTE = 60.0
PEOPLE = 20
_MOST_MINUTES = 30
_NEXT = re.compile(rb'<a accesskey="n" href="([^"]+)"')
_ANY = re.compile(rb'<a [^>]*href="([^"]+)"')
_GOES_BACK = 0.3
PACES = ((0.5, 1.5), (1.5, 3.5), (3.0, 8.0), (6.0, 14.0))
_PACES_OF_CRAWLERS = ((0.05, 0.2), (0.2, 0.5), *PACES)
Click = tuple[str, str]
"""The page on the screen, and the link of it that is clicked."""
Walk = Callable[[SimulatedBrowser, Random], Iterator[Click]]


class Read(NamedTuple):
    """Pages that came, how many had come when something else was seen, and how often that was."""

    pages: int
    after: int
    challenges: int
    refusals: int


def solve_use_drop(pages: int, pause: float, *, images: bool, hour: int = 8) -> tuple[int, list[tuple[int, int]]]:
    """
    Let a crawler at one address solve what it is asked, read *pages* pages with each clearance, and drop it.

    With *images* it also reads each image; otherwise it solves only calculations. It begins at an *hour* of the day.

    Returns how many different pages it got in a day, and for each challenge that it solved, how many it had then, and
    the numbers to try; 0 for an image.
    """
    site = SimulatedSite()
    site.clock.now += DAY - site.clock.now % DAY + hour * 60 * MINUTE
    try:
        crawler = SimulatedBrowser(site, "192.0.2.7", reads_images=images)
        dice, got, prices = Random(1), set[str](), list[tuple[int, int]]()
        links: list[str] = ["/"]
        end, used, refused = site.clock.now + DAY, 0, 0
        while site.clock.now < end:
            site.clock.now += pause
            link = links.pop(dice.randrange(len(links))) if links else "/"
            before = crawler.pages
            came_by_link = link != "/"
            (crawler.click if came_by_link else crawler.type)(link)
            prices += [(len(got), work) for work in crawler.work[len(prices) :]]
            if crawler.pages == before:
                # Sold out: it tries again with what it has, but not at once.
                refused += 1
                links.append(link)
                site.clock.now += 10 * pause
                crawler.cookies.clear()
                continue
            got.add(link.partition("?")[0])
            links = [one for one in crawler.links() if one.partition("?")[0] not in got] or links
            used += 1
            if used % pages == 0:
                crawler.cookies.clear()
        return len(got), prices
    finally:
        site.close()


def made_up(pace: tuple[float, float], requests: int, *, images: bool, typed: bool) -> int:
    """
    Let a crawler with a clearance ask for addresses that no page has linked it to.

    Each as if the last page led there, or as if it was *typed*. Returns how many pages came.
    """
    site, dice = SimulatedSite(), Random(1)
    try:
        crawler = SimulatedBrowser(site, "192.0.2.1", reads_images=images)
        crawler.type("/")
        for path in dice.sample(wiki.PATHS, requests):
            site.clock.now += dice.uniform(*pace)
            (crawler.type if typed else crawler.click)(path)
        return crawler.pages
    finally:
        site.close()


def growth(prices: list[tuple[int, int]], within: int) -> float:
    """How many times the price of the first page is the highest price of a page among the first *within*."""
    return max(work for pages, work in prices if pages <= within) / prices[0][1]


def after_a_crawl(minutes: int = 10) -> dict[str, float]:
    """
    Let a crew ask for plain addresses, one a second and address, and let people with a clearance read meanwhile.

    Returns how many pages the crew got, how often people saw something else than their page, and how many minutes after
    the crawl a visitor without a clearance got a page again.
    """
    site = SimulatedSite()
    try:
        dice = Random(2)
        people = [SimulatedBrowser(site, f"198.51.{number}.1") for number in range(PEOPLE)]
        for person in people:
            person.type("/")
        disturbed, got, asked = 0, 0, 0
        for second in range(minutes * 60):
            site.clock.now += 1
            one = SimulatedBrowser(site, f"10.{second >> 8}.{second & 255}.7", scripts=False)
            got += one.type(dice.choice(wiki.PATHS))
            asked += bool(one.challenges)
            if second % 3 == 0:
                person = people[second // 3 % PEOPLE]
                disturbed += not person.click(dice.choice(person.links()))
        waited = 0
        for waited in range(1, _MOST_MINUTES + 1):
            site.clock.now += MINUTE
            newcomer = SimulatedBrowser(site, f"203.0.113.{waited}", scripts=False)
            person = people[waited % PEOPLE]
            disturbed += not person.click(dice.choice(person.links()))
            if newcomer.type(dice.choice(wiki.PATHS)):
                break
        return {"pages": got, "asked": asked, "disturbed": disturbed, "minutes": waited}
    finally:
        site.close()


def documentation(target: str) -> bytes | None:
    """A page of PostgreSQL's documentation."""
    file = DOCUMENTATION / (target.partition("?")[0].strip("/") or "index.html")
    return file.read_bytes() if file.is_file() else None


def documentation_links(browser: SimulatedBrowser) -> list[str]:
    """The links of a page of the documentation that lead to other pages of it, each once."""
    found = (unescape(link.decode()) for link in _ANY.findall(driving.without_bait(browser.body)))
    return list(dict.fromkeys("/" + link.partition("#")[0] for link in found if ".html" in link and "://" not in link))


def _by_next(reader: SimulatedBrowser, dice: Random) -> Iterator[Click]:
    """Go on by "Next"."""
    reader.type("/" + dice.choice(["tutorial.html", "sql.html", "admin.html", "ddl.html", "functions.html"]))
    while (link := _NEXT.search(driving.without_bait(reader.body))) is not None:
        yield reader.here, "/" + unescape(link[1].decode())


def _by_list(reader: SimulatedBrowser, dice: Random) -> Iterator[Click]:
    """Open two of three entries of a list, each from the list, and then those of the next list."""
    for name in ("sql-commands", "functions", "runtime-config", "catalogs", "reference-client"):
        reader.type(f"/{name}.html")
        here, links = reader.here, documentation_links(reader)[4:40]
        yield from ((here, link) for link in links if dice.random() > 1 / 3)


def _by_links(reader: SimulatedBrowser, dice: Random) -> Iterator[Click]:
    """Follow any link of the page, and now and then go back to the page before, which the browser still has."""
    reader.type("/tutorial.html")
    trail: list[tuple[str, bytes]] = []
    while True:
        links = documentation_links(reader)
        if not links or (trail and dice.random() < _GOES_BACK):
            reader.here, reader.body = trail.pop()
            continue
        trail.append((reader.here, reader.body))
        yield reader.here, dice.choice(links)


def _as_crawler(order: str) -> Walk:
    """Follow links from all pages so far, each once, in the *order* of a crawler."""

    def walk(crawler: SimulatedBrowser, dice: Random) -> Iterator[Click]:
        crawler.type("/")
        frontier, seen = list[Click](), {"/"}
        while True:
            new = [link for link in documentation_links(crawler) if plain(link) not in seen]
            seen |= {plain(link) for link in new}
            frontier += [(crawler.here, link) for link in new]
            if not frontier:
                return
            where = {"breadth": 0, "depth": -1}.get(order)
            yield frontier.pop(dice.randrange(len(frontier)) if where is None else where)

    return walk


WALKS: dict[str, Walk] = {"next": _by_next, "list": _by_list, "links": _by_links}
CRAWLS: dict[str, Walk] = {order: _as_crawler(order) for order in ("breadth", "depth", "random")}


def read(
    walk: Walk,
    pace: tuple[float, float],
    pages: int,
    seed: int,
    *,
    by_hand: bool,
    images: bool,
    before_midnight: float | None = None,
) -> Read:
    """
    Let somebody with JavaScript read PostgreSQL's documentation, at a *pace* of so many seconds per page.

    Without *by_hand* the browser reports nothing about how pages are used, as with `Sec-GPC`. With *images* the reader
    solves images, too. It begins some seconds *before_midnight*, or at another time.
    """
    site, dice = SimulatedSite(documentation), Random(seed)
    if before_midnight is not None:
        site.clock.now += DAY - site.clock.now % DAY - before_midnight
    try:
        reader, after = SimulatedBrowser(site, "192.0.2.1", by_hand=by_hand, reads_images=images), 0
        for here, link in islice(walk(reader, dice), pages):
            site.clock.now += dice.uniform(*pace)
            reader.here = here
            reader.click(link)
            after = after or (reader.pages if reader.challenges or reader.refusals else 0)
        return Read(reader.pages, after, reader.challenges, reader.refusals)
    finally:
        site.close()


def readers_by_pace(pages: int = 150, people: int = 3) -> list[str]:
    """
    The rows of a table in Markdown: how many of *people* see a challenge, or are refused.

    With the fewest pages before it; and how many pages crawlers get that report nothing and solve calculations.
    """
    lines = [
        f"| {pages} pages, s per page | order | reports | people | challenged | after | refused |",
        "|---|---|---|--:|--:|--:|--:|",
    ]
    for by_hand in (True, False):
        for order, walk in WALKS.items():
            for pace in PACES:
                found = [read(walk, pace, pages, seed, by_hand=by_hand, images=True) for seed in range(people)]
                challenged, refused = sum(one.challenges > 0 for one in found), sum(one.refusals > 0 for one in found)
                after, reports = (
                    min((one.after for one in found if one.after), default=""),
                    "keys" if by_hand else "none",
                )
                row = [f"{pace[0]:g} to {pace[1]:g}", order, reports, people, challenged, after, refused]
                lines.append("| " + " | ".join(map(str, row)) + " |")
    lines += [
        "",
        f"| {pages} requests without reports, s per page | order | pages of {people} crawlers |",
        "|---|---|--:|",
    ]
    for order, walk in CRAWLS.items():
        for pace in _PACES_OF_CRAWLERS:
            got = [read(walk, pace, pages, seed, by_hand=False, images=False).pages for seed in range(people)]
            lines.append(f"| {pace[0]:g} to {pace[1]:g} | {order} | {max(got)} |")
    return lines


def report() -> list[str]:
    """The rows of a table in Markdown."""
    lines = ["| simulated time | measured | goal | |", "|---|--:|--:|---|"]

    def row(what: str, measured: float, goal: str, *, met: bool) -> None:
        lines.append(f"| {what} | {measured:g} | {goal} | {'met' if met else '**missed**'} |")

    for images in (False, True):
        for pages in (9, 1):
            _, prices = solve_use_drop(pages, 30.0, images=images)
            got = max(solve_use_drop(pages, 30.0, images=images, hour=hour)[0] for hour in (0, 8, 16, 23))
            name = f"solve {'everything' if images else 'calculations only'}, use for {pages}, drop"
            row(f"{name}: most pages in 24 hours, begun at 0, 8, 16 or 23 h", got, "at most 150", met=got <= 150)
            grown = growth(prices, 100)
            row(f"{name}: price of a page within 100 pages, times the first", grown, "at least 10", met=grown >= 10)
    for pace, typed, images in product((PACES[0], PACES[-1]), (False, True), (False, True)):
        name = f"addresses {'from a list, as if typed' if typed else 'made up'}, {pace[0]:g} to {pace[1]:g} s"
        name += f", solves {'all' if images else 'calculations'}"
        lines.append(f"| {name}: pages of 600 | {made_up(pace, 600, images=images, typed=typed)} | | |")
    found = after_a_crawl()
    what = "plain URLs, one per address and second: pages in 10 minutes"
    row(what, found["pages"], "at most 300", met=found["pages"] <= 300)
    row("minutes until the site asks nobody any more", found["minutes"], "at most 15", met=found["minutes"] <= 15)
    row("people with a clearance who saw anything of it", found["disturbed"], "0", met=found["disturbed"] == 0)
    return lines

"""
What needs a day, or a quarter of an hour: measured in one process, with a clock that is set by hand.

Hedgerow, its watch and its challenges are the real ones, with default settings.
"""

from __future__ import annotations

import re
from html import unescape
from random import Random

from bench.arena import wiki
from bench.arena.in_process import SimulatedBrowser, SimulatedSite
from bench.arena.stage import DOCUMENTATION

NAME = "simulated time"
DAY = 86_400.0
MINUTE = 60.0
PEOPLE = 20
_MOST_MINUTES = 30
_NEXT = re.compile(rb'<a accesskey="n" href="([^"]+)"')


def solve_use_drop(pages: int, pause: float, *, images: bool) -> tuple[int, list[tuple[int, int]]]:
    """
    Let a crawler at one address solve what it is asked, read *pages* pages with each clearance, and drop it.

    With *images* it also reads each image; otherwise it solves only calculations.

    Returns how many different pages it got in a day, and for each challenge that it solved, how many it had then, and
    the numbers to try; 0 for an image.
    """
    site = SimulatedSite()
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


def read_by_next(pace: tuple[float, float], pages: int, seed: int, *, by_hand: bool) -> SimulatedBrowser:
    """
    Let somebody with JavaScript read PostgreSQL's documentation by its links "Next", at this *pace*.

    Without *by_hand* the browser reports nothing about how pages are used, as with `Sec-GPC`.
    """

    def page(target: str) -> bytes | None:
        file = DOCUMENTATION / (target.partition("?")[0].strip("/") or "index.html")
        return file.read_bytes() if file.is_file() else None

    site, dice = SimulatedSite(page), Random(seed)
    try:
        person = SimulatedBrowser(site, "192.0.2.1", by_hand=by_hand)
        person.type("/" + dice.choice(["tutorial.html", "sql.html", "admin.html", "ddl.html", "functions.html"]))
        for _ in range(pages):
            link = _NEXT.search(person.body)
            if link is None:
                break
            site.clock.now += dice.uniform(*pace)
            person.click("/" + unescape(link[1].decode()))
        return person
    finally:
        site.close()


def readers_by_pace(pages: int = 80, people: int = 6) -> list[str]:
    """The rows of a table in Markdown: how many of *people* who read by "next" see a challenge, or are refused."""
    lines = [
        f"| reading {pages} pages by next, s per page | reports | people | challenged | refused |",
        "|---|---|--:|--:|--:|",
    ]
    for by_hand in (True, False):
        for pace in ((0.5, 1.5), (1.5, 3.5), (3.0, 8.0), (6.0, 14.0), (10.0, 40.0), (20.0, 120.0)):
            found = [read_by_next(pace, pages, seed, by_hand=by_hand) for seed in range(people)]
            challenged, refused = sum(one.challenges > 0 for one in found), sum(one.refusals > 0 for one in found)
            reports = "of keys" if by_hand else "none"
            lines.append(f"| {pace[0]:g} to {pace[1]:g} | {reports} | {people} | {challenged} | {refused} |")
    return lines


def report() -> list[str]:
    """The rows of a table in Markdown."""
    lines = ["| simulated time | measured | goal | |", "|---|--:|--:|---|"]

    def row(what: str, measured: float, goal: str, *, met: bool) -> None:
        lines.append(f"| {what} | {measured:g} | {goal} | {'met' if met else '**missed**'} |")

    for images in (False, True):
        for pages in (9, 1):
            got, prices = solve_use_drop(pages, 30.0, images=images)
            name = f"solve {'everything' if images else 'calculations only'}, use for {pages}, drop"
            row(f"{name}: pages in a day", got, "at most 150", met=got <= 150)
            grown = growth(prices, 100)
            row(f"{name}: price of a page within 100 pages, times the first", grown, "at least 10", met=grown >= 10)
    found = after_a_crawl()
    what = "plain URLs, one per address and second: pages in 10 minutes"
    row(what, found["pages"], "at most 300", met=found["pages"] <= 300)
    row("minutes until the site asks nobody any more", found["minutes"], "at most 15", met=found["minutes"] <= 15)
    row("people with a clearance who saw anything of it", found["disturbed"], "0", met=found["disturbed"] == 0)
    return lines

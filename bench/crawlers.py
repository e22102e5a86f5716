"""
What crawlers get from a site: with Hedgerow's default settings, and next to it without protection, behind nginx's
`limit_req` (10 requests a second, burst 20) and behind HAProxy (100 requests in 3 seconds).

`python -m bench crawlers [--only WORD] [--site SITE] [--stealth FOLDER] [--json FILE]`. The static site is PostgreSQL's
documentation (1,169 pages, nginx), the dynamic one a wiki of 1,241 pages that takes 50 to 100 ms for each. Every
measurement has a site and a protection of its own, started anew; nothing is trained. A page counts if the site itself
has answered it with status 200, each page once. Each crawler is bounded in requests and in time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from random import Random

import bench.arena
from bench.arena import browsers, simulated
from bench.arena.stage import PROTECTIONS, SITES, Stage, missing, stage
from real.crawling import Crawler, visible, with_text
from real.crews import Crew

assert bench.arena
ORDERS = ("breadth", "depth", "random")
SPEEDS = {0.05: 250, 0.5: 100, 3.0: 36}
"""Seconds before each page, and how many requests are made at that speed."""
ADDRESSES = 10_000
SEARCH_ENGINE = {"Sec-Fetch-Site": "cross-site", "Referer": "https://www.example.com/"}
CREW_SECONDS = 120.0
SLOW = 0.5
POOLS = {"fast": 2, "slow": 10, "browser": 2}
"""How many measurements of each kind run side by side."""


@dataclass(frozen=True)
class Measured:
    """What a crawler got. *largest* is the figure that the goal limits, if it is not the number of pages."""

    pages: int
    requests: int = 0
    largest: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Case:
    """One crawler. *goal* is what it may get at most behind Hedgerow; *crawl* runs it."""

    row: str
    label: str
    goal: int
    crawl: Callable[[Stage], Measured]
    pool: str = "fast"
    compared: bool = True
    """Whether the other protections are measured with it."""
    sites: Sequence[str] = SITES


@dataclass
class Outcome:
    case: Case
    site: str
    by_protection: dict[str, Measured] = field(default_factory=dict)

    @property
    def figure(self) -> int | None:
        found = self.by_protection.get("hedgerow")
        return None if found is None else found.pages if found.largest is None else found.largest

    @property
    def is_met(self) -> bool:
        return self.figure is not None and self.figure <= self.case.goal


def one_address(order: str, pause: float, reads: Callable[[bytes], bytes]) -> Callable[[Stage], Measured]:
    """A crawler with all headers of Chrome, one request at a time."""

    def crawl(on: Stage) -> Measured:
        crawler = Crawler(
            on.url, "127.0.0.9", {}, order=order, concurrency=1, most=SPEEDS[pause], pause=pause, reads=reads,
            as_browser=True,
        )  # fmt: skip
        crawler.run()
        return Measured(len(on.given()), crawler.requests, note=_reason(on))

    return crawl


def plain(headers: dict[str, str], pause: float) -> Callable[[Stage], Measured]:
    """A crawler that has a list of all pages, and follows no link."""

    def crawl(on: Stage) -> Measured:
        listed = Random(3).sample(on.paths, SPEEDS[pause])
        crawler = Crawler(
            on.url, "127.0.0.9", {}, headers=headers, concurrency=1, most=SPEEDS[pause], pause=pause,
            reads=lambda _: b"", as_browser=True, start=listed,
        )  # fmt: skip
        crawler.run()
        return Measured(len(on.given()), crawler.requests, note=_reason(on))

    return crawl


def own_parts(addresses: int, requests: int, pause: float) -> Callable[[Stage], Measured]:
    """Crawlers that begin at pages of their own and follow only links that were given to them."""

    def crawl(on: Stage) -> Measured:
        starts = Random(5).sample(on.paths, addresses)
        who = {f"127.{50 + number}.0.3": start for number, start in enumerate(starts)}
        crawlers = [
            Crawler(
                on.url, address, {}, order="random", concurrency=1, most=requests, pause=pause, reads=visible,
                as_browser=True, start=[start],
            )
            for address, start in who.items()
        ]  # fmt: skip

        async def everybody() -> None:
            await asyncio.gather(*(crawler.crawl() for crawler in crawlers))

        asyncio.run(everybody())
        each = [len(on.given(lambda one, address=address: one == address)) for address in who]
        note = f"{max(each)} pages for one address at most, {sum(each) / len(each):.1f} on average"
        return Measured(len(on.given()), sum(crawler.requests for crawler in crawlers), max(each), note)

    return crawl


def rotating(each: int, order: str, *, strip: bool = False, times: int = 1) -> Callable[[Stage], Measured]:
    """A crew that knows hidden links, and tries a refused link once more from another address."""

    def crawl(on: Stage) -> Measured:
        start = Random(7).sample(on.paths, len(on.paths)) if strip else ["/"]
        crew = Crew(on.url, {}, each, strip=strip, again=True, times=times, order=order, start=start, reads=visible)
        crew.run(each * ADDRESSES, seconds=CREW_SECONDS)
        time.sleep(0.3)
        note = f"{crew.addresses} addresses"
        if strip and on.hedgerow is not None:
            note += "; the site asks" if "read from many addresses" in on.hedgerow.said() else "; the site does not ask"
        return Measured(len(on.given()), crew.requests, note=note)

    return crawl


def browser(walk: browsers.Walk, order: str, pause: float, pages: int, seconds: float) -> Callable[[Stage], Measured]:
    """A browser that follows visible links and solves what it is asked."""

    def crawl(on: Stage) -> Measured:
        asked = walk(on.url, order, pause, pages, seconds)
        return Measured(len(on.given()), asked, note=_reason(on) or ("not blocked" if on.hedgerow else ""))

    return crawl


def _reason(on: Stage) -> str:
    """Why Hedgerow blocked somebody, if it did."""
    time.sleep(0.3)
    if on.hedgerow is None:
        return ""
    return "; ".join(sorted(set(on.hedgerow.blocked().values())))


def _pool(pause: float) -> str:
    return "slow" if pause >= SLOW else "fast"


def cases() -> Iterator[Case]:
    for name, reads in (("links with text", with_text), ("visible links", visible)):
        for pause in SPEEDS:
            for order in ORDERS:
                yield Case(
                    f"one address, {name}, no JavaScript", f"{order} first, {pause:g} s", 30,
                    one_address(order, pause, reads), _pool(pause), order == "breadth" and reads is visible,
                )  # fmt: skip
    for each in (1, 4):
        for order in ("breadth", "random"):
            yield Case(
                "rotating addresses", f"{each} per address, {order}", 100, rotating(each, order), "slow",
                order == "breadth",
            )  # fmt: skip
    yield Case(
        "rotating addresses",
        "1 per address, each link by two of them",
        100,
        rotating(1, "breadth", times=2),
        "slow",
        False,
    )
    yield Case("rotating addresses, plain URLs", "1 per address", 300, rotating(1, "breadth", strip=True), "slow")
    yield Case("100 addresses, own parts", "random, 0.5 s", 20, own_parts(100, 60, 0.5), "slow")
    for name, headers in (("typed", {}), ("search engine", SEARCH_ENGINE)):
        for pause in (0.05, 0.5):
            yield Case("plain URLs, one address", f"{name}, {pause:g} s", 60, plain(headers, pause), _pool(pause))


def browser_cases(stealth: Path | None) -> Iterator[Case]:
    chromium = browsers.walk_by(browsers.chromium)
    for order in ("click", *ORDERS):
        run = browser(chromium, order, 0.05, 120, 240)
        yield Case("Chromium, visible links", f"{order}, 0.05 s", 60, run, "browser", order == "click")
    # It reports nothing about how pages are used.
    private = browsers.walk_by(partial(browsers.chromium, {"Sec-GPC": "1"}))
    for pause, order in product((0.05, 0.5), ("click", *ORDERS)):
        run = browser(private, order, pause, 120, 300)
        yield Case("Chromium with Sec-GPC, visible links", f"{order}, {pause:g} s", 60, run, "browser", compared=False)
    for pause, pages in ((0.5, 120), (3.0, 75)):
        run = browser(chromium, "click", pause, pages, 400)
        yield Case("Chromium, visible links", f"click, {pause:g} s", 60, run, "browser", compared=False)
    stubborn = browsers.walk_by(browsers.chromium, refusals=120)
    for order in ("click", "breadth"):
        run = browser(stubborn, order, 0.5, 120, 900)
        yield Case("Chromium, goes on asking", f"{order}, 0.5 s", 60, run, "browser", False, ("static",))
    for name, walk in (browsers.stealth_walks(stealth) if stealth else {}).items():
        for order in ("click", "breadth"):
            run = browser(walk, order, 0.5, 120, 240)
            yield Case(name, f"{order}, 0.5 s", 60, run, "browser", order == "click", ("static",))


def measure(case: Case, site: str, protection: str) -> Measured:
    with stage(site, protection) as on:
        found = case.crawl(on)
    print(f"  {site:8} {protection:10} {case.row}, {case.label}: {found}", file=sys.stderr, flush=True)
    return found


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """The rows of a table in Markdown."""
    lines = [
        "| crawler | site | " + " | ".join(PROTECTIONS) + " | goal | |",
        "|---|---|" + "--:|" * (len(PROTECTIONS) + 1) + "---|",
    ]
    for outcome in outcomes:
        cells = []
        for protection in PROTECTIONS:
            found = outcome.by_protection.get(protection)
            cells.append("" if found is None else str(found.pages if found.largest is None else found.largest))
        result = "met" if outcome.is_met else "**missed**"
        name = f"{outcome.case.row}: {outcome.case.label}"
        lines.append(f"| {name} | {outcome.site} | {' | '.join(cells)} | {outcome.case.goal} | {result} |")
    return lines


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench crawlers")
    parser.add_argument("--only", default="", help="only crawlers whose name contains this")
    parser.add_argument("--site", choices=SITES, help="only this site")
    parser.add_argument("--hedgerow", action="store_true", help="no other protection next to it")
    parser.add_argument("--stealth", type=Path, help="a folder with stealth browsers (see bench/arena/browsers.py)")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args(arguments)
    if options.stealth:
        browsers.use_packages(options.stealth)
    if missing():
        print(f"not installed: {', '.join(missing())}; not measured")
        return
    jobs: list[tuple[Outcome, str]] = []
    outcomes = []
    for case in [*cases(), *browser_cases(options.stealth)]:
        for site in case.sites:
            if options.only not in f"{case.row}, {case.label}" or options.site not in {None, site}:
                continue
            outcomes.append(Outcome(case, site))
            others = case.compared and not options.hedgerow
            jobs += [(outcomes[-1], one) for one in (PROTECTIONS if others else ("hedgerow",))]
    # Slow crawlers wait most of the time, so several of them run side by side.
    with contextlib.ExitStack() as stack:
        pools = {name: stack.enter_context(ThreadPoolExecutor(size)) for name, size in POOLS.items()}
        waiting = [
            (outcome, one, pools[outcome.case.pool].submit(measure, outcome.case, outcome.site, one))
            for outcome, one in jobs
        ]
        for outcome, one, running in waiting:
            outcome.by_protection[one] = running.result()
    print("\n".join(table(outcomes)))
    if options.only in simulated.NAME:
        print("\n".join(simulated.report()))
    if options.json:
        found = [
            {
                "row": one.case.row, "label": one.case.label, "site": one.site,
                "goal": one.case.goal, "met": one.is_met,
                "measured": {name: asdict(its) for name, its in one.by_protection.items()},
            }
            for one in outcomes
        ]  # fmt: skip
        options.json.write_text(json.dumps(found, indent=1))

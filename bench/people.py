"""
What people see of Hedgerow: 200 scripted walks in Chromium and Firefox, with default settings.

`python -m bench people [--only WORD] [--json FILE]`. Each person has an address of its own, named by a trusted proxy
(`identity.trusted_proxies`, the only setting that is changed), except where people share one. A walk is disturbed if
Hedgerow answers a page request of its address with a challenge or a refusal, by the ledger. Nothing else runs at the
sites: PostgreSQL's documentation, and a wiki that takes 50 to 100 ms per page.

The hour in which a tab is left open is simulated: the browser is a real one, and Hedgerow's clock, in this process, is
set forward by an hour. A second table has readers of long chapters by "next", at several paces, in simulated time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import queue
import socket
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import uvicorn
from playwright.sync_api import Browser, sync_playwright

import bench.arena
from bench.arena import simulated
from bench.arena.in_process import SimulatedSite
from bench.arena.stage import Stage, missing, stage
from hedgerow.asgi import Hedgerow
from real.browsing import ARGUMENTS, CHROMIUM, VIEWPORT
from real.firefox import Firefox
from real.servers import find_program
from real.walks import ChromiumWindow, FirefoxTab, Person, Walk

assert bench.arena
TRUSTED = '[identity]\ntrusted_proxies = ["127.0.0.1/32"]\n'
PLACES = {
    "static": (
        [f"/{name}.html" for name in ("sql-commands", "reference-client", "functions", "datatype")],
        "/tutorial.html",
    ),
    "dynamic": ([f"/category/{number}" for number in range(20)], "/category/3"),
}
"""Pages of each site with many links, and where reading begins."""
CHROMIUMS = 3
HOUR = 3600.0
PROXY = "127.0.0.1"
TABS = "fifteen tabs at once"
FREE = 20
"""Pages after which a browser without JavaScript may be asked."""


@dataclass
class Outcome:
    kind: str
    browser: str
    site: str
    address: str
    scripts: bool
    pages: int
    failure: str = ""
    read: int = 0
    """Pages that were answered to its address."""
    seen: int = 0
    """Interstitials: challenges and refusals."""
    after: int = 0
    """Pages before the first of them."""
    code: str = ""

    @property
    def place(self) -> str:
        """The site, and for tabs one of their own: these people are behind one address."""
        return f"{self.site}, {TABS}" if self.kind == TABS else self.site


@dataclass(frozen=True)
class Kind:
    """People of one kind: how many with which browser, on how many pages each."""

    name: str
    walk: Walk
    pages: Sequence[int]
    browser: str = "chromium"
    site: str = "static"
    scripts: bool = True
    shared: int = 1
    """How many of them share an address."""


def kinds() -> Iterator[Kind]:
    dice = Random(11)
    # Clicks of Wikispeedia's people: median 3, 95th percentile 13.
    lengths = [min(40, max(1, round(dice.lognormvariate(1.2, 0.85)))) for _ in range(50)]
    yield Kind("reader with next", Person.read_by_next, [12] * 14 + [45] * 4)
    yield Kind("index reader", Person.read_index, [12] * 8 + [40] * 2)
    yield Kind("index reader", Person.read_index, [12] * 8, site="dynamic")
    yield Kind(TABS, Person.open_fifteen_tabs, [15] * 5)
    yield Kind(TABS, Person.open_fifteen_tabs, [15] * 5, site="dynamic")
    yield Kind("searcher", Person.search, [9] * 12)
    yield Kind("forum reader", Person.read_forum, [10] * 12, site="dynamic")
    yield Kind("back and forward", Person.go_back_and_forward, [8] * 10)
    yield Kind("private window", Person.wander, [6] * 6)
    yield Kind("two behind one address", Person.wander, [8] * 10, site="dynamic", shared=2)
    yield Kind("class of 30", Person.take_a_lesson, [3] * 30, shared=30)
    yield Kind("no JavaScript", Person.wander, lengths, scripts=False)
    for name, walk, pages in (
        ("reader with next", Person.read_by_next, [12] * 5),
        ("index reader", Person.read_index, [12] * 5),
        ("back and forward", Person.go_back_and_forward, [8] * 4),
        ("cookies off", Person.wander, [8] * 5),
        ("private window", Person.wander, [6] * 4),
    ):
        yield Kind(name, walk, pages, browser="firefox")


PREFERENCES: dict[str, dict[str, bool | int | str]] = {
    "cookies off": {"network.cookie.cookieBehavior": 2},
    "private window": {"browser.privatebrowsing.autostart": True},
}
"""What a Firefox needs for people of a kind."""


def outcomes_of(chosen: Sequence[Kind]) -> list[tuple[Kind, Outcome]]:
    found = []
    for group, kind in enumerate(chosen):
        for number, pages in enumerate(kind.pages):
            # A new tab may ask for its first page before it has got the header that names the address.
            address = f"198.18.{group}.{number // kind.shared + 1}" if kind.name != TABS else PROXY
            found.append((kind, Outcome(kind.name, kind.browser, kind.site, address, kind.scripts, pages)))
    return found


def attempt(kind: Kind, outcome: Outcome, person: Person) -> None:
    try:
        kind.walk(person, outcome.pages)
    except Exception as error:  # noqa: BLE001 - one that fails is named in the table
        outcome.failure = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    print(
        f"  {outcome.kind}, {outcome.browser}, {outcome.site}: {outcome.failure or 'done'}", file=sys.stderr, flush=True
    )


def walk_in_chromium(jobs: queue.SimpleQueue[tuple[Kind, Outcome]], sites: dict[str, Stage]) -> None:
    """Take walks from *jobs* until there is none."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        while not jobs.empty():
            with contextlib.suppress(queue.Empty):
                kind, outcome = jobs.get_nowait()
                headers = {"X-Forwarded-For": outcome.address} if outcome.address != PROXY else {}
                context = browser.new_context(
                    viewport=VIEWPORT, extra_http_headers=headers, java_script_enabled=outcome.scripts
                )
                with contextlib.closing(context):
                    window = ChromiumWindow(context.new_page())
                    attempt(kind, outcome, _person(window, sites[outcome.place].url, outcome))
        browser.close()


def _person(window: Any, url: str, outcome: Outcome) -> Person:
    lists, first = PLACES[outcome.site]
    seed = zlib.crc32(f"{outcome.kind} {outcome.address} {outcome.pages}".encode())
    return Person(window, url, lists, first, seed)


def walk_in_firefox(jobs: Sequence[tuple[Kind, Outcome]], sites: dict[str, Stage], folder: Path) -> None:
    by_preferences: dict[str, list[tuple[Kind, Outcome]]] = {}
    for kind, outcome in jobs:
        by_preferences.setdefault(kind.name if kind.name in PREFERENCES else "", []).append((kind, outcome))
    for name, group in by_preferences.items():
        firefox = Firefox(
            find_program("firefox-esr") or "firefox-esr", folder / f"firefox {name}", PREFERENCES.get(name, {})
        )
        try:
            for kind, outcome in group:
                with firefox.tab() as window:
                    tab = FirefoxTab(firefox, window, outcome.address)
                    attempt(kind, outcome, _person(tab, sites[outcome.place].url, outcome))
        finally:
            firefox.end()


def judge(outcomes: Sequence[Outcome], visits: Sequence[Any]) -> None:
    """Fill in what each address saw, from the ledger."""
    by_address: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_address.setdefault(outcome.address, []).append(outcome)
    for visit in visits:
        address = visit["address"]
        if visit["target"].startswith("/.hedgerow/") or visit["kind"] != "page" or address not in by_address:
            continue
        if visit["action"] == "pass":
            for outcome in by_address[address]:
                outcome.read += 1
            continue
        for outcome in by_address[address]:
            outcome.seen += 1
            if outcome.seen == 1:
                outcome.after, outcome.code = outcome.read, f"{visit['action']} {visit['code']}"


# ---- A tab that is left open for an hour


class _Clock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@contextlib.contextmanager
def served(site: SimulatedSite, clock: Callable[[], float]) -> Iterator[str]:
    """Serve a site of this process to a real browser."""
    app = Hedgerow(site.app, site=site.site, clock=clock)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


def leave_a_tab_open(browser: Browser, people: int) -> list[Outcome]:
    found = []
    for number in range(people):
        outcome = Outcome("a tab left open for an hour", "chromium", "dynamic", f"tab {number}", True, 6)
        site, clock = SimulatedSite(), _Clock()
        with contextlib.closing(site), served(site, clock) as url, contextlib.closing(browser.new_context()) as context:
            person = _person(ChromiumWindow(context.new_page()), url, outcome)
            person.dice = Random(number)
            try:
                person.wander(3)
                clock.ahead = HOUR
                for _ in range(3):
                    person.click(person.dice.choice(person.links())[1])
            except Exception as error:  # noqa: BLE001 - one that fails is named in the table
                outcome.failure = type(error).__name__
            pages = [one for one in site.entries if one.visit.kind == "page" and one.visit.path[:10] != "/.hedgerow"]
            passed = [entry.decision.action == "pass" for entry in pages]
            outcome.seen, outcome.read = passed.count(False), passed.count(True)
        found.append(outcome)
    return found


# ---- The table


def table(outcomes: Sequence[Outcome]) -> list[str]:
    lines = ["| people | browser | site | walks | pages | disturbed | failed | |", "|---|---|---|--:|--:|--:|--:|---|"]
    groups: dict[tuple[str, str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.kind, outcome.browser, outcome.site), []).append(outcome)
    for (kind, browser, site), its in groups.items():
        disturbed = [one for one in its if one.seen]
        why = "; ".join(sorted({f"{one.code} after {one.after} pages" for one in disturbed}))
        failed = sum(bool(one.failure) for one in its)
        pages = sum({one.address: one.read for one in its}.values())
        lines.append(f"| {kind} | {browser} | {site} | {len(its)} | {pages} | {len(disturbed)} | {failed} | {why} |")
    with_scripts = [one for one in outcomes if one.scripts]
    without = [one for one in outcomes if not one.scripts]
    challenged = sum(bool(one.seen) for one in with_scripts)
    verdict = "met" if not challenged else "**missed**"
    lines.append(f"| with JavaScript: goal 0 | | | {len(with_scripts)} | | {challenged} | | {verdict} |")
    if without:
        seen = [one for one in without if one.seen]
        met = len(seen) <= 0.02 * len(without) and all(one.after >= FREE for one in seen)
        share = f"{100 * len(seen) / len(without):.0f} %"
        name = f"without: goal 2 %, after {FREE} pages"
        lines.append(f"| {name} | | | {len(without)} | | {len(seen)} ({share}) | | {'met' if met else '**missed**'} |")
    return lines


def measure(chosen: Sequence[Kind], chromiums: int = CHROMIUMS) -> list[Outcome]:
    """Let the people of all kinds walk, and return what they saw."""
    jobs = outcomes_of(chosen)
    outcomes = [outcome for _, outcome in jobs]
    in_chromium: queue.SimpleQueue[tuple[Kind, Outcome]] = queue.SimpleQueue()
    for job in jobs:
        if job[1].browser == "chromium":
            in_chromium.put(job)
    in_firefox = [job for job in jobs if job[1].browser == "firefox"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, contextlib.ExitStack() as stack:
        used = {outcome.place: outcome.site for outcome in outcomes}
        sites = {place: stack.enter_context(stage(site, "hedgerow", settings=TRUSTED)) for place, site in used.items()}
        threads = [threading.Thread(target=walk_in_chromium, args=(in_chromium, sites)) for _ in range(chromiums)]
        if in_firefox:
            threads.append(threading.Thread(target=walk_in_firefox, args=(in_firefox, sites, Path(name))))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for place, on in sites.items():
            assert on.hedgerow is not None
            on.hedgerow.stop()
            judge([outcome for outcome in outcomes if outcome.place == place], on.hedgerow.visits())
    return outcomes


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench people")
    parser.add_argument("--only", default="", help="only people whose kind contains this")
    parser.add_argument("--json", type=Path, help="write all walks to this file")
    options = parser.parse_args(arguments)
    lacking = [name for name in ("chromium", "firefox-esr") if find_program(name) is None] + missing()
    if lacking:
        print(f"not installed: {', '.join(lacking)}; not measured")
        return
    outcomes = measure([kind for kind in kinds() if options.only in kind.name])
    if options.only in "a tab left open for an hour":
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            outcomes += leave_a_tab_open(browser, 6)
            browser.close()
    print("\n".join(table(outcomes)))
    if options.only in "reader with next, simulated time":
        print("\n".join(simulated.readers_by_pace()))
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))

"""
Records walks in real browsers: `python -m evaluate.walks`, about ten minutes, into evaluate/walks.json.xz. Walks that
are there are kept; `python -m evaluate.walks anew` records all of them again.

Chromium is driven like a person at the two sites that crawlers crawl in `evaluate.live`, each behind `hedgerow protect`
with its default settings. Nobody trained on either site. The recording has the format of the crawls, and whether
Hedgerow disturbed the walk.

- Dwell: Weibull with shape 0.8 (Liu, White and Dumais 2010: below 1 for nearly all pages). The scale of a page is drawn
  with median 30 seconds, so that 80 % are below 70 seconds, as they found.
- Back: 12.4 % of clicks, as in Wikispeedia. Tabs: 10 % of clicks open a new tab, which was chosen, not found.
- Length: 12 to 30 pages. Most visits are shorter, but no model judges fewer than ten pages.

Browsers wait a twentieth of the dwell. The recording has the times multiplied by twenty, so models see the pace of the
studies; Hedgerow itself saw a person in great haste.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import queue
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import bench.arena
from playwright.sync_api import Browser, Page, sync_playwright

from evaluate import live
from hedgerow.lab.train.samples import PERSON, Stride, Walk
from real.browsing import ARGUMENTS, CHROMIUM, VIEWPORT
from real.hand import Hand
from real.walks import VISIBLE_LINKS

assert bench.arena
RECORDED = Path(__file__).parent / "walks.json.xz"
PEOPLE = 24
"""For each site."""
COMPRESSED = 20.0
BROWSERS = 4
PAGES = (12, 30)
BACK, TABS = 0.124, 0.1
_SHAPE, _SCALE, _SPREAD = 0.8, 30.0, 1.0
_SHORTEST, _LONGEST = 0.3, 8.0
_TIMEOUT = 20_000
_SETTINGS = '[identity]\ntrusted_proxies = ["127.0.0.1/32"]\n'
_KIND = live.Kind("person in Chromium", PERSON, lambda *_: [], 0.0)


class Visitor:
    """One person with a window. Its address is named by a header, as by a trusted proxy."""

    def __init__(self, browser: Browser, url: str, run: live.Run) -> None:
        self._context = browser.new_context(viewport=VIEWPORT, extra_http_headers={"X-Forwarded-For": run.address})
        self._context.set_default_timeout(_TIMEOUT)
        self._url, self._start, self._dice = url, run.start, Random(run.address)

    def close(self) -> None:
        self._context.close()

    def read(self) -> None:
        page = self._context.new_page()
        page.goto(f"{self._url}/{self._start}")
        left, deep = self._dice.randint(*PAGES) - 1, 0
        hand = Hand(page, self._dice.randrange(1000))
        while left > 0:
            self._dwell(page)
            links = page.evaluate(VISIBLE_LINKS)
            if deep and (self._dice.random() < BACK or not links):
                page.go_back()
                deep -= 1
            elif not links:
                return
            else:
                in_tab = self._dice.random() < TABS
                self._follow(page, hand, self._dice.choice(links)[1], in_tab=in_tab)
                deep += not in_tab
            left -= 1
        self._dwell(page)

    def _follow(self, page: Page, hand: Hand, number: int, *, in_tab: bool) -> None:
        link = page.evaluate_handle("number => document.links[number]", number).as_element()
        assert link is not None
        link.scroll_into_view_if_needed()
        box = link.bounding_box()
        if box is not None:
            hand.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        if in_tab:
            with self._context.expect_page() as opened:
                link.click(modifiers=["ControlOrMeta"])
            opened.value.wait_for_load_state()
            opened.value.bring_to_front()
            self._dwell(opened.value)
            opened.value.close()
        else:
            with page.expect_navigation():
                link.click()

    def _dwell(self, page: Page) -> None:
        scale = _SCALE * self._dice.lognormvariate(0.0, _SPREAD)
        wait = self._dice.weibullvariate(scale, _SHAPE) / COMPRESSED
        page.wait_for_timeout(1000 * min(_LONGEST, max(_SHORTEST, wait)))


def walk_all(jobs: queue.SimpleQueue[live.Run], ports: dict[str, int]) -> None:
    """Take walks until there is none left. One that fails is named, and recorded as far as it went."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        with contextlib.suppress(queue.Empty):
            while run := jobs.get_nowait():
                with contextlib.closing(Visitor(browser, f"http://127.0.0.1:{ports[run.site]}", run)) as visitor:
                    try:
                        visitor.read()
                    except Exception as error:  # noqa: BLE001 - a driver may say anything
                        print(f"{run.address}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
        browser.close()


def disturbed(ledger: Path, address: str) -> list[str]:
    """What Hedgerow answered to this address instead of a page."""
    with contextlib.closing(sqlite3.connect(ledger)) as connection:
        query = (
            "SELECT action, code FROM visits WHERE address = ? AND kind = 'page' AND action != 'pass'"
            " AND target NOT LIKE '/.hedgerow/%'"
        )
        return [f"{action} {code}" for action, code in connection.execute(query, (address,))]


def record(known: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    """Record the walks whose addresses are not *known* yet."""
    jobs: queue.SimpleQueue[live.Run] = queue.SimpleQueue()
    runs, ports, ledgers = [], {}, {}
    with tempfile.TemporaryDirectory(prefix="hedgerow-walks-", ignore_cleanup_errors=True) as place:
        with contextlib.ExitStack() as stack:
            for number, (site, (root, home)) in enumerate(live.SITES.items()):
                folder = Path(place) / f"site{number}"
                ports[site] = stack.enter_context(live.protected(root, home, folder, _SETTINGS))
                ledgers[site] = folder / "state" / "ledger.sqlite"
                dice = Random(f"walks {site}")
                pages = sorted(
                    str(path.relative_to(root)) for path in root.rglob("*.html") if path.stat().st_size > 4000
                )
                runs += [
                    live.Run(_KIND, site, f"198.18.{number}.{one + 1}", dice.choice(pages) if one % 2 else home)
                    for one in range(PEOPLE)
                ]
            runs = [run for run in runs if run.address not in known]
            for run in runs:
                jobs.put(run)
            threads = [threading.Thread(target=walk_all, args=(jobs, ports)) for _ in range(BROWSERS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            time.sleep(2)
        made = []
        for run in runs:
            its = live.recorded(run, ledgers[run.site])
            if its:
                for stride in its["strides"]:
                    stride[0] = round(stride[0] * COMPRESSED, 2)
                made.append({**its, "windows": [], "disturbed": disturbed(ledgers[run.site], run.address)})
        return made


def stored() -> list[dict[str, Any]]:
    return json.loads(lzma.decompress(RECORDED.read_bytes())) if RECORDED.is_file() else []


def load() -> list[Walk]:
    return [
        Walk(
            f"{its['site']} {its['visitor']}",
            PERSON,
            its["crawler"],
            its["site"],
            tuple(Stride(*one) for one in its["strides"]),
        )
        for its in stored()
    ]


if __name__ == "__main__":
    before = stored() if sys.argv[1:] != ["anew"] else []
    made = [*before, *record(frozenset(its["visitor"] for its in before))]
    RECORDED.write_bytes(lzma.compress(json.dumps(made, separators=(",", ":")).encode()))
    pages, seen = sum(len(its["strides"]) for its in made), [its["disturbed"] for its in made if its["disturbed"]]
    print(f"{len(made)} walks, {pages} pages, {len(seen)} disturbed {seen[:5]}")

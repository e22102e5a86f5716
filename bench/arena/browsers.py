"""
Crawlers that are browsers: they run scripts, follow only links that can be seen, and wait until a challenge is solved.

Chromium is Debian's. The stealth browsers need packages that the project does not: `--stealth FOLDER` names a folder in
which these were installed,

    python -m venv FOLDER && FOLDER/bin/pip install playwright-stealth undetected-chromedriver setuptools
    npm install --prefix FOLDER puppeteer-core puppeteer-extra puppeteer-extra-plugin-stealth

and undetected-chromedriver needs a `chromedriver` (Debian's package chromium-driver, or in FOLDER).
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Protocol

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import sync_playwright

from attached import attached
from real.browsing import ARGUMENTS, CHROMIUM
from real.crawling import without_marks
from real.servers import clean_environment, find_program
from real.walks import VISIBLE_LINKS, PlaywrightTab

HERE = Path(__file__).parent
SOLVING = 12.0
"""Seconds for which a browser waits until it has solved a challenge."""
_REFUSALS = 8
"""After so many pages in a row that did not come it gives up."""
_TIMEOUT = 20_000
_IS_ASKED = "document.querySelector('[data-question], form[action*=\".hedgerow/\"]') !== null"


class Tab(Protocol):
    """What a walk needs of a browser."""

    def open(self, url: str, referrer: str) -> None: ...
    def click(self, number: int) -> None: ...
    def evaluate(self, expression: str) -> Any: ...


class SeleniumTab:
    def __init__(self, driver: Any) -> None:
        driver.set_page_load_timeout(_TIMEOUT / 1000)
        self._driver = driver

    def open(self, url: str, referrer: str) -> None:  # noqa: ARG002 - it cannot send one
        self._driver.get(url)

    def click(self, number: int) -> None:
        self._driver.execute_script("return document.links[arguments[0]]", number).click()

    def evaluate(self, expression: str) -> Any:
        return self._driver.execute_script(f"return {expression}")


def walk(tab: Tab, url: str, order: str, pause: float, pages: int, seconds: float, *, refusals: int = _REFUSALS) -> int:
    """
    Read *pages* pages at most, and return how many were asked for.

    The *order* is that of a frontier, or "click": then a link of the page on the screen is clicked that leads to a page
    which was not read yet. It gives up after so many *refusals* in a row.
    """
    dice, end, asked, refused = Random(1), time.monotonic() + seconds, 0, 0
    frontier: list[tuple[str, str]] = [(url + "/", "")]
    seen, number = {url + "/"}, -1
    while asked < pages and refused < refusals and time.monotonic() < end and (frontier or number >= 0):
        time.sleep(pause)
        asked += 1
        with contextlib.suppress(Exception):
            if number >= 0:
                tab.click(number)
            else:
                tab.open(*_next(frontier, order, dice))
        links = _links(tab, min(end, time.monotonic() + SOLVING))
        refused = 0 if links else refused + 1
        new = {known: (href, n) for href, n in links if (known := _plain(href)) not in seen}
        if order != "click":
            seen |= set(new)
            here = _plain(str(tab.evaluate("location.href"))) if new else ""
            frontier += [(href, here) for href, _ in new.values()]
            continue
        number = -1
        if new:
            known = dice.choice(sorted(new))
            seen.add(known)
            number = new[known][1]
        elif not frontier:
            frontier.append((url + "/", ""))
    return asked


def _next(frontier: list[tuple[str, str]], order: str, dice: Random) -> tuple[str, str]:
    where = {"breadth": 0, "depth": -1, "click": 0}.get(order)
    return frontier.pop(dice.randrange(len(frontier)) if where is None else where)


def _plain(href: str) -> str:
    return without_marks(href.encode()).decode().partition("#")[0]


def _links(tab: Tab, until: float) -> list[Any]:
    """The links of the page, once it is there; none where it does not come."""
    while time.monotonic() < until:
        try:
            if tab.evaluate("document.readyState !== 'loading'") and not tab.evaluate(_IS_ASKED):
                return list(tab.evaluate(VISIBLE_LINKS))
        except Exception:  # noqa: BLE001 - between two pages any driver may say anything
            pass
        time.sleep(0.1)
    return []


@contextlib.contextmanager
def chromium(headers: dict[str, str] | None = None) -> Iterator[Tab]:
    """Chromium that sends these *headers*, too."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield PlaywrightTab(browser.new_page(extra_http_headers=headers or {}))
        finally:
            browser.close()


@contextlib.contextmanager
def playwright_stealth() -> Iterator[Tab]:
    from playwright_stealth import Stealth  # type: ignore[import-not-found]

    with Stealth().use_sync(sync_playwright()) as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield PlaywrightTab(browser.new_page())
        finally:
            with contextlib.suppress(PlaywrightError):
                browser.close()


@contextlib.contextmanager
def undetected_chromedriver(driver: str) -> Iterator[Tab]:
    import undetected_chromedriver as uc  # type: ignore[import-not-found]

    options = uc.ChromeOptions()
    for argument in ARGUMENTS:
        options.add_argument(argument)
    said = subprocess.run([CHROMIUM, "--version"], capture_output=True, text=True, check=True).stdout
    version = int(said.split()[1].split(".")[0])
    browser = uc.Chrome(
        options=options, browser_executable_path=CHROMIUM, driver_executable_path=driver, headless=True,
        use_subprocess=True, version_main=version,
    )  # fmt: skip
    try:
        yield SeleniumTab(browser)
    finally:
        browser.quit()


def puppeteer_stealth(folder: Path, url: str, order: str, pause: float, pages: int, seconds: float) -> int:
    """The same walk by puppeteer-extra with its stealth plug-in, in node."""
    with tempfile.TemporaryDirectory() as profile:
        settings = {
            "url": url, "order": order, "pause": pause, "pages": pages, "seconds": seconds, "solving": SOLVING,
            "refusals": _REFUSALS, "chromium": CHROMIUM, "arguments": ARGUMENTS, "links": VISIBLE_LINKS,
            "asked": _IS_ASKED, "profile": profile, "packages": str(folder / "node_modules") + "/",
        }  # fmt: skip
        command = [find_program("node") or "node", str(HERE / "puppeteer_stealth.cjs"), json.dumps(settings)]
        done = subprocess.run(
            attached(command), capture_output=True, text=True, timeout=seconds + 60, check=True, env=clean_environment()
        )
    return int(done.stdout.split()[-1])


def use_packages(folder: Path) -> None:
    """Let the packages of *folder* be imported, behind those of the project."""
    sys.path += [str(found) for found in folder.glob("lib/python3*/site-packages")]


Walk = Callable[[str, str, float, int, float], int]
"""A walk: address of the site, order, pause, pages, seconds."""


def walk_by(start: Callable[[], contextlib.AbstractContextManager[Tab]], refusals: int = _REFUSALS) -> Walk:
    def run(url: str, order: str, pause: float, pages: int, seconds: float) -> int:
        with start() as tab:
            return walk(tab, url, order, pause, pages, seconds, refusals=refusals)

    return run


def stealth_walks(folder: Path) -> dict[str, Walk]:
    """The stealth browsers that were installed in *folder*, by name."""
    found: dict[str, Walk] = {}
    if (folder / "node_modules" / "puppeteer-extra-plugin-stealth").is_dir():
        found["puppeteer-extra-plugin-stealth"] = partial(puppeteer_stealth, folder)
    if importlib.util.find_spec("playwright_stealth"):
        found["playwright-stealth"] = walk_by(playwright_stealth)
    driver = find_program("chromedriver") or next(map(str, folder.glob("chromedriver")), None)
    if importlib.util.find_spec("undetected_chromedriver") and driver:
        found["undetected-chromedriver"] = walk_by(partial(undetected_chromedriver, driver))
    return found

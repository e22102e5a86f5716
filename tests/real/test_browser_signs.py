"""Browsers that a program drives give signs of it, and a person's browser gives none."""

from __future__ import annotations

import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qsl

import msgspec
import pytest
from playwright.sync_api import Browser, Page, Route

from hedgerow.core.decision import Evidence
from hedgerow.detectors.registry import registry
from hedgerow.request.browser_report import BrowserReport, read_report
from hedgerow.request.pointer_model import movement_sums, report_sums

from .browsing import ARGUMENTS, CHROMIUM, HIDES_DRIVER, tab
from .firefox import Firefox
from .hand import Hand
from .servers import Nginx, Protect

PAGES = 150
SIGN_CODES = frozenset(
    code.code for spec in registry().specs if spec.table == "signs" for code in spec.codes if code.weight
)
STYLE = "body { margin: 20px; max-width: 40em; } li { margin: 6px; }"
PAGE = """<!DOCTYPE html><html lang="en"><head><title>Page {0}</title><link rel="stylesheet" href="/style.css"></head>
<body><h1>Page {0}</h1>{1}<ul>{2}</ul>{1}</body></html>"""
TEXT = "<p>" + "Hedges are planted in winter, cut in spring and laid every tenth year or so. " * 12 + "</p>"


def write_site(root: Path) -> None:
    """Write a site in which each page has ten links to others."""
    chance = random.Random(5)
    (root / "style.css").write_text(STYLE)
    for number in range(PAGES):
        others = chance.sample([n for n in range(PAGES) if n != number], 10)
        links = "".join(f'<li><a href="/{n}.html">Notes on hedge {n}</a></li>' for n in others)
        (root / f"{number}.html").write_text(PAGE.format(number, TEXT, links))


@pytest.fixture(scope="module")
def upstream(nginx: Callable[..., Nginx], tmp_path_factory: pytest.TempPathFactory) -> Nginx:
    root = tmp_path_factory.mktemp("site")
    write_site(root)
    return nginx(root, more="location = /favicon.ico { return 204; }\n")


@pytest.fixture
def site(protect: Callable[..., Protect], upstream: Nginx) -> Protect:
    """A site that has seen nobody yet."""
    return protect(upstream.url)


@pytest.fixture(scope="module")
def driven(browser: Browser) -> Iterator[Browser]:
    """A browser that says that it is driven."""
    arguments = [one for one in ARGUMENTS if one != HIDES_DRIVER]
    with closing(browser.browser_type.launch(executable_path=CHROMIUM, args=arguments)) as launched:
        yield launched


def found_signs(site: Protect) -> Counter[str]:
    """Return how often each sign was found, by its code in the ledger."""
    with closing(sqlite3.connect(site.folder / "state" / "ledger.sqlite")) as ledger:
        rows = ledger.execute("SELECT evidence FROM visits WHERE evidence IS NOT NULL AND evidence != ''").fetchall()
    evidence = [one for (text,) in rows for one in msgspec.json.decode(text, type=list[Evidence])]
    return Counter(one.code for one in evidence if one.code in SIGN_CODES)


def visible_links(page: Page) -> list[str]:
    return list(page.locator("a:visible").evaluate_all("links => links.map(link => link.href)"))


class GotoCrawler:
    """A program that reads the links of each page and opens their addresses, until it is not given pages any more."""

    def __init__(self, page: Page, url: str, *, pause: float = 0.0) -> None:
        self.page = page
        self.url = url
        self.pause = pause
        self.given = 0
        self.stopped = ""

    def crawl(self, most: int) -> None:
        waiting, seen = [f"{self.url}/0.html"], set()
        while waiting and self.given < most:
            address = waiting.pop(0)
            response = self.page.goto(address)
            assert response is not None
            if response.status != 200:
                # A calculation is solved by itself.
                self.page.wait_for_timeout(2500)
                if "Page" not in self.page.title():
                    self.stopped = response.headers.get("hedgerow-decision", str(response.status))
                    return
            self.given += 1
            self.page.wait_for_timeout(60 + 1000 * self.pause)
            for link in visible_links(self.page):
                name = link.partition("?")[0]
                if name not in seen:
                    seen.add(name)
                    waiting.append(link)


def without_files(route: Route) -> None:
    """Load no style sheets, images and fonts, as crawlers do to save time."""
    if route.request.resource_type in {"stylesheet", "image", "font", "media"}:
        route.abort()
    else:
        route.continue_()


@pytest.mark.parametrize("loads_files", [True, False])
def test_a_browser_that_opens_addresses_is_stopped_within_60_pages(
    loads_files: bool, browser: Browser, site: Protect
) -> None:
    with tab(browser) as page:
        if not loads_files:
            page.route("**/*", without_files)
        crawler = GotoCrawler(page, site.url)
        crawler.crawl(100)
    signs = found_signs(site)
    print(f"{crawler.given} pages, then {crawler.stopped or 'nothing'}; {dict(signs)}")  # noqa: T201
    assert signs["typed-links"]
    assert signs["no-input"]
    assert signs["driven-browser"]
    assert crawler.stopped
    assert crawler.given <= 60


class PersonAtMouse:
    """Reads by mouse, and clicks links that it can see."""

    def __init__(self, page: Page, seed: int) -> None:
        self.page = page
        self._chance = random.Random(seed)
        self.hand = Hand(page, seed)

    def follow(self) -> None:
        """Click a link that can be seen."""
        links = self.page.locator("li a:visible")
        link = links.nth(self._chance.randrange(links.count()))
        link.scroll_into_view_if_needed()
        box = link.bounding_box()
        assert box is not None
        self.hand.move(box["x"] + self._chance.uniform(0.2, 0.8) * box["width"], box["y"] + box["height"] / 2)
        before = self.page.url
        self.page.mouse.down()
        self.page.mouse.up()
        self.page.wait_for_url(lambda url: url != before)
        self.page.wait_for_load_state()


def read_by_mouse(page: Page, url: str, pages: int) -> list[int]:
    statuses: list[int] = []
    page.on("response", lambda answer: answer.request.is_navigation_request() and statuses.append(answer.status))
    page.goto(url + "/0.html")
    person = PersonAtMouse(page, 3)
    for _ in range(pages):
        page.mouse.wheel(0, 200)
        page.wait_for_timeout(150)
        person.follow()
    return statuses


def read_by_keyboard(page: Page, url: str, pages: int) -> list[int]:
    statuses: list[int] = []
    page.on("response", lambda answer: answer.request.is_navigation_request() and statuses.append(answer.status))
    page.goto(url + "/0.html")
    for number in range(pages):
        for _ in range(1 + number % 7):
            page.keyboard.press("Tab")
        before = page.url
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: url != before)  # noqa: B023 - called at once
        page.wait_for_load_state()
        page.wait_for_timeout(100)
    return statuses


@pytest.mark.parametrize("reads", [read_by_mouse, read_by_keyboard])
def test_a_reader_gives_no_sign(reads: Callable[[Page, str, int], list[int]], browser: Browser, site: Protect) -> None:
    with tab(browser) as page:
        statuses = reads(page, site.url, 25)
    assert set(statuses) == {200}
    assert found_signs(site) == {}


def test_fifteen_tabs_give_no_sign(browser: Browser, site: Protect) -> None:
    with tab(browser) as page:
        page.goto(site.url + "/0.html")
        page.wait_for_timeout(500)
        for number in range(15):
            with page.context.expect_page() as opened:
                page.locator("li a:visible").nth(number % 10).click(modifiers=["ControlOrMeta"])
            opened.value.wait_for_load_state()
        for other in page.context.pages[1:]:
            # A driven browser takes no tab for one in the background.
            other.keyboard.press("ArrowDown")
            other.close()
        page.goto(site.url + "/1.html")
    assert found_signs(site) == {}


def test_a_driver_that_says_so_and_a_changed_user_agent_are_found(driven: Browser, site: Protect) -> None:
    version = driven.version.partition(".")[0]
    agent = f"Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0 Safari/537.36"
    with tab(driven, extra_http_headers={"User-Agent": agent}) as page:
        read_by_mouse(page, site.url, 4)
    signs = found_signs(site)
    assert signs["webdriver"] == 1
    assert signs["browser-mismatch"] == 1
    assert not signs["driven-browser"], "both are in what the browser is, and none in how it is used"


def test_a_browser_that_loads_no_files_is_found(browser: Browser, site: Protect) -> None:
    with tab(browser) as page:
        page.route("**/*", without_files)
        read_by_mouse(page, site.url, 8)
    assert found_signs(site) == {"no-files": 1}


@pytest.mark.parametrize("name", ["Sec-GPC", "DNT"])
def test_a_browser_that_asks_for_privacy_reports_nothing(name: str, browser: Browser, site: Protect) -> None:
    sent: list[str] = []
    with tab(browser, extra_http_headers={name: "1"}) as page:
        page.on("request", lambda request: sent.append(request.url))
        read_by_mouse(page, site.url, 3)
        assert "data-signs" not in page.content()
    assert not [url for url in sent if url.endswith("/signs")]


def test_the_setting_switches_reports_off(browser: Browser, protect: Callable[..., Protect], upstream: Nginx) -> None:
    site = protect(upstream.url, settings="[signs]\nenabled = false\n")
    sent: list[str] = []
    with tab(browser) as page:
        page.on("request", lambda request: sent.append(request.url))
        read_by_mouse(page, site.url, 3)
    assert not [url for url in sent if url.endswith("/signs")]


def test_a_site_that_observes_sends_no_script(
    browser: Browser, protect: Callable[..., Protect], upstream: Nginx
) -> None:
    site = protect(upstream.url, options=["--observe"])
    sent: list[str] = []
    with tab(browser) as page:
        page.on("request", lambda request: sent.append(request.url))
        read_by_mouse(page, site.url, 3)
    assert not [url for url in sent if ".hedgerow" in url]


def test_firefox_gives_no_sign_but_those_of_its_driver(
    program: Callable[[str], str], tmp_path: Path, site: Protect
) -> None:
    """WebDriver sets `navigator.webdriver` in Firefox, which no preference hides, and its mouse jumps."""
    firefox = Firefox(program("firefox-esr"), tmp_path / "profile", {"privacy.resistFingerprinting": True})
    try:
        with firefox.tab() as opened:
            opened.note_scripts()
            opened.goto(site.url + "/0.html")
            for _ in range(14):
                opened.wait_for_script("/page.js")
                # The script then sends again what was lost when the last page was left. Nobody clicks sooner.
                time.sleep(0.3)
                name = opened.evaluate("document.querySelector('li a').textContent")
                opened.click(name)
                opened.wait_for_title(name.replace("Notes on hedge", "Page"))
    finally:
        firefox.end()
    assert found_signs(site) == {"webdriver": 1, "pointer-jumps": 1}


def test_the_script_computes_the_sums_that_the_model_was_trained_on(browser: Browser, site: Protect) -> None:
    reported: list[BrowserReport | None] = []
    with tab(browser) as page:
        page.on(
            "request",
            lambda request: (
                request.url.endswith("/signs")
                and reported.append(read_report(dict(parse_qsl(request.post_data or ""))))
            ),
        )
        page.goto(site.url + "/0.html")
        page.wait_for_timeout(500)
        page.evaluate(
            """() => {
                window.moved = [];
                const note = event => window.moved.push([event.timeStamp, event.clientX, event.clientY]);
                addEventListener("pointermove", note, true);
            }"""
        )
        person = PersonAtMouse(page, 9)
        for x, y in ((100, 100), (800, 300), (400, 600)):
            person.hand.move(x, y)
            page.wait_for_timeout(700)
        moved = page.evaluate("window.moved")
        page.goto(site.url + "/1.html")
        page.wait_for_timeout(500)
    assert len(moved) > 60
    report = reported[0]
    assert report is not None
    # Each number is rounded once.
    assert report_sums(report) == pytest.approx(movement_sums(moved), abs=1)

"""
People and programs that were accused of crawling, in front of a Hedgerow as anybody would start it.

Nobody is blocked. What a browser does is done by a browser. The others send what browsers, chat servers and company
networks send, each from addresses of its own.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Callable
from html import unescape
from typing import Self
from urllib.parse import urldefrag, urljoin

import httpx
import pytest
from playwright.sync_api import Browser, Page

from challenge.solver import solve
from driving import traps_in

from .browsing import Watch, tab
from .crawling import CHROME
from .hand import Hand
from .servers import PATIENCE, Nginx, Protect

MODES = ["clean", "opaque", "readable"]
TICKETS = 60
CALLS = 130
SCRIPT = {"Sec-Fetch-Dest": "empty", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin", "Accept": "*/*"}
PREVIEW = {"User-Agent": "Synapse (bot; +https://github.com/matrix-org/synapse)", "Accept-Encoding": "gzip"}
_LINK = re.compile(r"""<a\s[^>]*?href="([^"]+)"[^>]*>""")

_PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<link rel="icon" href="data:,"></head><body><h1>{title}</h1>{body}</body></html>
"""
_NEXT = """<button onclick="location.href = '/ticket/{next}'">Next</button>"""
_OPEN = """<button onclick="for (let n = 1; n <= 20; n++) window.open('/ticket/' + n)">Open all</button>"""
_READY = """<p id="ready"></p><script>
Promise.all([...document.querySelectorAll("a")].map((link) => fetch(link.href, {priority: "low"})))
  .then((answers) => { document.getElementById("ready").textContent = answers.length; });
</script>"""
_CALLING = """<p id="done"></p><script>
(async () => {
  const calls = [];
  for (let n = 0; n < 130; n++) {
    calls.push(fetch("/data/" + n).then((answer) => answer.ok));
    await new Promise((go) => setTimeout(go, 20));
  }
  const came = await Promise.all(calls);
  document.getElementById("done").textContent = came.filter(Boolean).length;
})();
</script>"""


@pytest.fixture(scope="module")
def small(nginx: Callable[..., Nginx], tmp_path_factory: pytest.TempPathFactory) -> Nginx:
    """A site whose scripts compose addresses, fetch links, and make calls."""
    root = tmp_path_factory.mktemp("small")
    (root / "ticket").mkdir()
    for number in range(1, TICKETS + 1):
        body = _NEXT.format(next=number + 1)
        (root / "ticket" / f"{number}.html").write_text(_PAGE.format(title=f"Ticket {number}", body=body))
    (root / "tickets.html").write_text(_PAGE.format(title="Tickets", body=_OPEN))
    (root / "calls.html").write_text(_PAGE.format(title="Calls", body=_CALLING))
    (root / "ready").mkdir()
    for number in range(12):
        links = " ".join(f'<a href="/ready/{n}.html">to page {n}</a>' for n in range(12) if n != number)
        (root / "ready" / f"{number}.html").write_text(_PAGE.format(title=f"Page {number}", body=links + _READY))
    more = "location /ticket/ { try_files $uri $uri.html =404; } "
    more += "location /data/ { default_type application/json; return 200 '{}'; }"
    return nginx(root, more=more)


def marked(mode: str) -> str:
    return f"[marker]\nmode = '{mode}'\n"


def shows(page: Page, title: str) -> None:
    page.wait_for_selector(f"h1:text-is('{title}')")


# ---- What scripts of the site do


def test_a_person_goes_through_tickets_by_a_button(
    browser: Browser, small: Nginx, protect: Callable[..., Protect]
) -> None:
    hedgerow = protect(small.url)
    with tab(browser) as page:
        watch = Watch(page.context, hedgerow.url)
        page.goto(hedgerow.url + "/ticket/1")
        hand = Hand(page, seed=1)
        for number in range(1, 25):
            shows(page, f"Ticket {number}")
            # A mouse that jumps is a sign of a driven browser.
            hand.move(500 + 150 * (number % 3), 300)
            button = page.get_by_text("Next")
            box = button.bounding_box()
            assert box is not None
            hand.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            button.click()
        shows(page, "Ticket 25")
        assert watch.decisions == []
    assert hedgerow.blocked() == {}


def test_a_script_opens_twenty_tickets(browser: Browser, small: Nginx, protect: Callable[..., Protect]) -> None:
    """The browser may have to calculate in between. Nobody has to do anything."""
    hedgerow = protect(small.url)
    with tab(browser) as page:
        page.goto(hedgerow.url + "/tickets.html")
        page.get_by_text("Open all").click()
        while len(page.context.pages) < 21:
            page.wait_for_timeout(50)
        for opened in page.context.pages[1:]:
            opened.wait_for_selector("h1:text-matches('^Ticket [0-9]+$')")
        titles = {opened.title() for opened in page.context.pages[1:]}
        assert titles == {f"Ticket {number}" for number in range(1, 21)}
    assert hedgerow.blocked() == {}


@pytest.mark.parametrize("mode", MODES)
def test_a_script_fetches_every_link_of_its_page(
    mode: str, browser: Browser, small: Nginx, protect: Callable[..., Protect]
) -> None:
    hedgerow = protect(small.url, settings=marked(mode))
    with tab(browser) as page:
        watch = Watch(page.context, hedgerow.url)
        page.goto(hedgerow.url + "/ready/0.html")
        for number in (3, 7, 11, 2, 5):
            page.wait_for_function("() => Number(document.getElementById('ready').textContent) > 11")
            page.get_by_role("link", name=f"to page {number}", exact=True).click()
            shows(page, f"Page {number}")
            page.keyboard.press("ArrowDown")
            # Nobody reads faster. The pages count as pages, whoever fetches them.
            page.wait_for_timeout(1000)
        assert watch.decisions == []
        assert {status for url, status in watch.answers if "/ready/" in url} <= {200, 304, 404}
    assert hedgerow.blocked() == {}
    hedgerow.stop()
    assert sum("trap-fetched" in visit["evidence"] for visit in hedgerow.visits()) >= 5


def test_a_page_makes_a_hundred_and_thirty_calls(
    browser: Browser, small: Nginx, protect: Callable[..., Protect]
) -> None:
    hedgerow = protect(small.url)
    with tab(browser) as page:
        watch = Watch(page.context, hedgerow.url)
        page.goto(hedgerow.url + "/calls.html")
        page.wait_for_function("() => document.getElementById('done').textContent === '130'")
        assert watch.decisions == []
    assert hedgerow.blocked() == {}


# ---- A lost key


@pytest.mark.parametrize("mode", MODES)
def test_links_under_a_lost_key(mode: str, browser: Browser, site: Nginx, protect: Callable[..., Protect]) -> None:
    """What other people posted, a bookmark, and a page that was open when the key was lost."""
    before, after = (protect(site.url, settings=marked(mode)) for _ in range(2))
    with Visitor(before.url, "127.0.0.1") as visitor:
        visitor.open("/sql-commands.html")
        old = [link.removeprefix(before.url) for link in visitor.links()[:24]]
    with tab(browser) as page:
        watch = Watch(page.context, after.url)
        page.goto(after.url + "/index.html")
        for number, link in enumerate(old):
            # Nobody reads faster, or without touching anything.
            page.wait_for_timeout(200)
            page.keyboard.press("ArrowDown")
            if number % 2:
                page.goto(after.url + link)
            else:
                with page.expect_navigation():
                    page.evaluate("link => { location.href = link; }", after.url + link)
        page.goto(after.url + "/index.html")
        page.locator("a:visible").first.click()
        page.wait_for_selector(".navheader, .book, .part, .preface")
        assert watch.decisions == []
    assert after.blocked() == {}


# ---- Links that were passed on, and several addresses


class Visitor:
    """A browser, or another program with *headers*, at *address*; with *cookies* it keeps them."""

    def __init__(self, url: str, address: str, *, headers: dict[str, str] = CHROME, cookies: bool = True) -> None:
        self.url, self._headers, self._cookies = url, headers, cookies
        transport = httpx.HTTPTransport(local_address=address, trust_env=False)
        self._client = httpx.Client(transport=transport, timeout=PATIENCE, trust_env=False)
        # Without those of the library: what is sent, and in which order, is what a browser sends.
        self._client.headers = httpx.Headers()
        self.here = self.text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def open(self, link: str, **headers: str) -> httpx.Response:
        """Ask for a page; *headers* replace others, and what is new comes last but for the language."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if not self._cookies:
            self._client.cookies.clear()
        self.here = urljoin(self.url, link)
        answer = self._client.get(self.here, headers={**self._headers, **given})
        self.text = answer.text
        if "/page.js" in self.text and "Sec-Fetch-Mode" in self._headers:
            self._clear()
        return answer

    def _clear(self) -> None:
        """Do what the script of a page does: solve a calculation for a clearance."""
        headers = {**self._headers, **SCRIPT, "Referer": self.here}
        task = self._client.post(self.url + "/.hedgerow/task", headers=headers)
        if task.status_code == 200:
            told = task.json()
            answer = {name: told[name] for name in ("ticket", "challenge")} | {"answer": solve(task.text)}
            self._client.post(self.url + "/.hedgerow/clear", headers=headers, data=answer)

    def click(self, link: str) -> httpx.Response:
        return self.open(link, Sec_Fetch_Site="same-origin", Referer=self.here)

    def links(self) -> list[str]:
        """The marked links, those to other pages, that a person sees."""
        seen = {unescape(link) for link in _LINK.findall(self.text)} - set(traps_in(self.text.encode()))
        found = {urldefrag(urljoin(self.here, link))[0] for link in seen}
        return sorted(link for link in found if link.startswith(self.url) and "~" in link)


def is_served(answer: httpx.Response) -> bool:
    return answer.status_code == 200 and "hedgerow-decision" not in answer.headers


@pytest.mark.parametrize("mode", MODES)
def test_a_newsletter_with_twelve_links_that_were_copied(
    mode: str, site: Nginx, protect: Callable[..., Protect]
) -> None:
    hedgerow = protect(site.url, settings=marked(mode))
    with Visitor(hedgerow.url, "127.0.0.1") as editor:
        assert is_served(editor.open("/sql-commands.html"))
        newsletter = editor.links()[:12]
    assert all("~" in link for link in newsletter)
    for reader in range(40):
        origin = ("none", "cross-site")[reader % 2]
        with Visitor(hedgerow.url, f"127.1.{reader}.1") as visitor:
            assert all(is_served(visitor.open(link, Sec_Fetch_Site=origin)) for link in newsletter)
            assert is_served(visitor.click(visitor.links()[0]))
    assert hedgerow.blocked() == {}


@pytest.mark.parametrize("mode", MODES)
def test_a_chat_server_shows_previews(mode: str, site: Nginx, protect: Callable[..., Protect]) -> None:
    hedgerow = protect(site.url, settings=marked(mode))
    with Visitor(hedgerow.url, "127.2.0.1", headers=PREVIEW, cookies=False) as bot:
        for number in range(30):
            with Visitor(hedgerow.url, f"127.3.{number}.1") as person:
                person.open("/sql-commands.html")
                assert is_served(bot.open(person.links()[number]))
    assert hedgerow.blocked() == {}


@pytest.mark.parametrize("mode", MODES)
def test_a_network_with_sixteen_addresses_without_cookies(
    mode: str, site: Nginx, protect: Callable[..., Protect]
) -> None:
    """Ten people read thirty pages each, and no two requests of one need have the same address."""
    hedgerow = protect(site.url, settings=marked(mode))
    chance = random.Random(5)
    with contextlib.ExitStack() as stack:
        exits = [
            stack.enter_context(Visitor(hedgerow.url, f"127.4.0.{number}", cookies=False)) for number in range(1, 17)
        ]
        pages: list[tuple[str, list[str]]] = []
        for _ in range(10):
            way = chance.choice(exits)
            assert is_served(way.open("/index.html"))
            pages.append((way.here, way.links()))
        for _ in range(30):
            for person, (here, links) in enumerate(pages):
                way = chance.choice(exits)
                way.here = here
                assert is_served(way.click(chance.choice(links)))
                # From a page without links they go back.
                pages[person] = (way.here, way.links()) if way.links() else (here, links)
    assert hedgerow.blocked() == {}

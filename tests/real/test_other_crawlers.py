"""
Crawlers that resemble none of the others: how they come to pages, what they say, and how they divide a site.

Default settings, PostgreSQL's documentation, nginx. Nobody solves anything, unless the test says so.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page

from . import crawling
from .browsing import tab
from .crawling import CHROME
from .servers import Nginx, Protect, wait_for

PAGES = 30
CREW = 300
_LINK = re.compile(rb'<a [^>]*href="([^"]+)"[^>]*>\s*[^<\s]')
_CREWS = itertools.count(150)


@pytest.fixture(scope="module")
def protected(site: Nginx, protect: Callable[..., Protect]) -> Protect:
    return protect(site.url)


class Client:
    """A browser without JavaScript, with its cookies, at *address*."""

    def __init__(self, url: str, address: str, titles: crawling.Titles) -> None:
        self._url, self._titles = url, titles
        transport = httpx.HTTPTransport(local_address=address)
        self._client = httpx.Client(transport=transport, headers=CHROME, timeout=20, trust_env=False)
        self.got: set[str] = set()
        self.body = b""

    def open(self, path: str, method: str = "GET", **headers: str) -> int:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self._client.request(method, self._url + path, headers=given)
        self.body = crawling.visible(answer.content)
        found = [(crawling.name_of(path), crawling.title_of(answer.content))]
        if answer.status_code in {200, 206}:
            self.got |= crawling.recognised(found, self._titles)
        return answer.status_code

    def click(self, path: str) -> int:
        return self.open(path, Sec_Fetch_Site="same-origin", Referer=self._url + "/")

    def links(self) -> list[str]:
        found = [unescape(link.decode()).partition("#")[0] for link in _LINK.findall(self.body)]
        return ["/" + link for link in found if ".html" in link and "://" not in link]

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def titles(documentation: Path) -> dict[str, bytes]:
    return crawling.titles_in(documentation)


@pytest.fixture
def client(protected: Protect, address: Callable[[], str], titles: dict[str, bytes]) -> Iterator[Client]:
    one = Client(protected.url, address(), titles)
    yield one
    one.close()


GOOGLE = {"Sec_Fetch_Site": "cross-site", "Referer": "https://www.google.com/"}


@pytest.mark.parametrize(
    "headers",
    [
        {}, GOOGLE, {"Range": "bytes=0-"}, {"If_None_Match": '"none"'},
        {"If_Modified_Since": "Thu, 01 Jan 1970 00:00:00 GMT"},
    ],
    ids=["sitemap", "from a search engine", "ranges", "by tag", "by date"],
)  # fmt: skip
def test_pages_in_the_order_of_a_sitemap(client: Client, titles: dict[str, bytes], headers: dict[str, str]) -> None:
    for name in sorted(titles)[:80]:
        client.open("/" + name, **headers)
    assert 1 <= len(client.got) <= PAGES


def test_first_the_head_and_then_the_page(client: Client) -> None:
    client.open("/")
    waiting, seen = client.links(), {"/"}
    for link in itertools.islice(waiting, 150):
        name = link.partition("?")[0]
        if name not in seen and client.open(link, "HEAD") == httpx.codes.OK and client.click(link) == httpx.codes.OK:
            waiting += client.links()
        seen.add(name)
    assert 1 <= len(client.got) <= PAGES


def test_back_to_the_start_before_each_page(client: Client) -> None:
    chance = random.Random(1)
    for _ in range(80):
        if client.open("/") == httpx.codes.OK:
            client.click(chance.choice(client.links()))
    assert 1 <= len(client.got) <= PAGES


def test_three_browsers_that_take_turns_at_one_address(
    protected: Protect, address: Callable[[], str], titles: dict[str, bytes]
) -> None:
    here = address()
    clients = [Client(protected.url, here, titles) for _ in range(3)]
    agents = [CHROME["User-Agent"].replace("140", str(version)) for version in (138, 139, 140)]
    for name, (one, agent) in zip(sorted(titles)[:120], itertools.cycle(zip(clients, agents, strict=True))):
        one.open("/" + name, User_Agent=agent)
    assert 1 <= len(set().union(*(one.got for one in clients))) <= PAGES
    for one in clients:
        one.close()


@pytest.mark.parametrize("each", [pytest.param(2, marks=pytest.mark.heavy), 4])
def test_a_deep_page_and_links_of_its_own_with_each_of_many_addresses(
    each: int, site: Nginx, protect: Callable[..., Protect], titles: dict[str, bytes]
) -> None:
    hedgerow, network = protect(site.url), next(_CREWS)
    names, chance = sorted(titles), random.Random(each)
    chance.shuffle(names)
    got: set[str] = set()
    for number in range(500):
        one = Client(hedgerow.url, f"127.{network + number // 250}.{number % 250}.7", titles)
        status = one.open("/" + next(name for name in names if name not in got))
        for _ in range(each - 1):
            links = [link for link in one.links() if link[1:].partition("?")[0] not in got | one.got]
            if status == httpx.codes.OK and links:
                status = one.click(chance.choice(links))
        got |= one.got
        one.close()
    print(f"{each} pages of each address: {len(got)} pages")  # noqa: T201
    assert 1 <= len(got) <= CREW


def has_clearance(page: Page) -> bool:
    return any(cookie["name"] == "hedgerow-clearance" for cookie in page.context.cookies())


_FETCH = """async ([links, follows, pause]) => {
  const shown = (a) => follows === 'all' || a.textContent.trim() !== '';
  const all = (page) => [...page.querySelectorAll('a[href]')].filter(shown).map((a) => a.getAttribute('href'));
  const waiting = links || all(document).map((link) => new URL(link, document.baseURI).href), got = {};
  let declined = 0;
  for (let number = 0; number < Math.min(waiting.length, 600) && declined < 50; number++) {
    const link = waiting[number];
    if (new URL(link, document.baseURI).origin !== location.origin) continue;
    await new Promise((go) => setTimeout(go, pause));
    const reply = await fetch(link);
    declined = reply.status === 200 ? 0 : declined + 1;
    if (reply.status !== 200) continue;
    const html = new DOMParser().parseFromString(await reply.text(), 'text/html');
    if (got[html.title]) continue;
    got[html.title] = new URL(link, document.baseURI).pathname.slice(1);
    if (waiting.length > 5000 || links) continue;
    for (const one of all(html)) waiting.push(new URL(one, new URL(link, document.baseURI)).href);
  }
  return Object.entries(got).map(([title, name]) => [name, title]);
}"""


@pytest.mark.parametrize(("follows", "k2", "most"), [("all", 300, 120), ("text", 60, 60), ("list", 60, 70)])
def test_a_script_in_a_page_that_fetches_the_site(
    follows: str,
    k2: int,
    most: int,
    browser: Browser,
    site: Nginx,
    protect: Callable[..., Protect],
    titles: dict[str, bytes],
) -> None:
    """Chromium: one page is opened, and everything else is fetched from there: links, links with text, or a list."""
    hedgerow = protect(site.url, settings=f"[containment]\nk2 = {k2}\n")
    links = ["/" + name for name in sorted(titles)] if follows == "list" else None
    with tab(browser) as page:
        page.goto(hedgerow.url + "/sql.html")
        wait_for("a clearance", lambda: page.wait_for_timeout(50) or has_clearance(page))
        page.goto(hedgerow.url + "/index.html")
        found = page.evaluate(_FETCH, [links, follows, 40])
    got = {name for name, _ in found} & set(titles)
    print(f"fetch(), {follows}: {len(got)} pages")  # noqa: T201
    assert 1 <= len(got) <= most

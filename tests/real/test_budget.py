"""
What careful crawlers get with default settings: browser headers, links with text only, one after the other, any order.

None of them follows a hidden link without text, none is fast. What stops them is what a visitor may read without a
clearance.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from challenge.solver import solve

from . import crawling
from .servers import Nginx, Protect

PAGES = 30
"""What a crawler without JavaScript may get at most."""
NAVIGATION = {
    "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-User": "?1",
    "Upgrade-Insecure-Requests": "1", "Accept-Encoding": "gzip, deflate, br",
}  # fmt: skip


@pytest.fixture(scope="module")
def site(nginx: Callable[..., Nginx], protect: Callable[..., Protect], documentation: Path) -> Protect:
    return protect(nginx(documentation).url)


@pytest.mark.parametrize("order", ["breadth", "depth", "random"])
def test_links_with_text_only(site: Protect, documentation: Path, address: Callable[[], str], order: str) -> None:
    crawler = crawling.Crawler(
        site.url, address(), crawling.titles_in(documentation), headers=NAVIGATION, order=order, concurrency=1,
        most=100, pause=0.05, reads=crawling.with_text,
    )  # fmt: skip
    pages = crawler.run()
    print(f"{order}: {len(pages)} pages of {crawler.requests} requests, {crawler.statuses}")  # noqa: T201
    assert 1 <= len(pages) <= PAGES


@pytest.mark.parametrize("origin", ["none", "cross-site", "same-origin"])
def test_plain_addresses(site: Protect, documentation: Path, address: Callable[[], str], origin: str) -> None:
    """As if typed, from a search engine, or from a page of the site."""
    headers = {**NAVIGATION, "Sec-Fetch-Site": origin}
    if origin == "cross-site":
        headers["Referer"] = "https://www.example.com/"
    crawler = crawling.Crawler(
        site.url, address(), crawling.titles_in(documentation), headers=headers, concurrency=1, most=100, pause=0.05,
        reads=crawling.without_marks,
    )  # fmt: skip
    pages = crawler.run()
    print(f"{origin}: {len(pages)} pages of {crawler.requests} requests, {crawler.statuses}")  # noqa: T201
    assert 1 <= len(pages) <= PAGES


def test_many_addresses_each_with_its_own_part(site: Protect, documentation: Path, address: Callable[[], str]) -> None:
    titles = crawling.titles_in(documentation)
    crawlers = [
        crawling.Crawler(
            site.url, address(), titles, headers=NAVIGATION, order="random", concurrency=1, most=40, pause=0.02,
            reads=crawling.with_text,
        )
        for _ in range(12)
    ]  # fmt: skip

    async def crawl() -> None:
        await asyncio.gather(*(crawler.crawl() for crawler in crawlers))

    asyncio.run(crawl())
    assert max(len(crawler.pages) for crawler in crawlers) <= 20


# ---- Solve, use, drop

_LINK = re.compile(rb'<a\s[^>]*href="([^"#]+)[^"]*"[^>]*>\s*[^<\s]')
_OK = 200
_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}


class Dropper:
    """
    Follows links in any order, solves every calculation, and drops its clearance after *each* pages with it.

    *pages* has, for each new page, the numbers to try that its clearance cost, as the server set them.
    """

    def __init__(self, site: str, address: str, titles: dict[str, bytes], each: int) -> None:
        self._site, self._each, self._titles = site, each, titles
        transport = httpx.HTTPTransport(local_address=address)
        self._client = httpx.Client(transport=transport, headers={**crawling.BROWSER, **NAVIGATION}, timeout=20)
        self._waiting, self._seen = ["/"], {"/"}
        self.pages: dict[str, int] = {}

    def crawl(self, requests: int) -> None:
        shuffled, price, left, refused = random.Random(7), 0, 0, 0
        with self._client:
            for _ in range(requests):
                if not self._waiting or refused >= 30:
                    return
                target = self._waiting.pop(shuffled.randrange(len(self._waiting)))
                page = self._client.get(self._site + target)
                if page.status_code != _OK:
                    refused += 1
                    continue
                refused = 0
                found = crawling.recognised([(crawling.name_of(target), crawling.title_of(page.content))], self._titles)
                for name in found:
                    self.pages.setdefault(name, price)
                self._follow(target, crawling.with_text(page.content))
                left -= 1
                if left <= 0:
                    self._client.cookies.clear()
                    price, left = self._clear(), self._each

    def _follow(self, target: str, body: bytes) -> None:
        for link in _LINK.findall(body):
            there = urlsplit(urljoin(self._site + target, link.decode("latin-1").replace("&amp;", "&")))
            name = crawling.name_of(there.path)
            if self._site.endswith(there.netloc) and name in self._titles and name not in self._seen:
                self._seen.add(name)
                self._waiting.append(there.path + (f"?{there.query}" if there.query else ""))

    def _clear(self) -> int:
        """Obtain a clearance, and return how many numbers there were to try; 0 if there was none to obtain."""
        task = self._client.post(self._site + "/.hedgerow/task", headers=_FORM)
        if task.status_code != _OK:
            return 0
        told = json.loads(task.content)
        fields = {"ticket": told["ticket"], "challenge": told["challenge"], "answer": solve(task.text)}
        self._client.post(self._site + "/.hedgerow/clear", headers=_FORM, data=fields)
        return int(told["question"]["most"])


@pytest.mark.parametrize("each", [2, 9])
def test_solve_use_drop(site: Protect, documentation: Path, address: Callable[[], str], each: int) -> None:
    """The price of a page grows tenfold within 100 pages, and there are no more than 150 a day."""
    dropper = Dropper(site.url, address(), crawling.titles_in(documentation), each)
    dropper.crawl(600)
    costs = list(dropper.pages.values())
    curve = {number: costs[number - 1] for number in range(10, len(costs) + 1, 10)}
    print(f"{each} pages for each clearance: {len(costs)} pages; numbers to try by page {curve}")  # noqa: T201
    assert 20 <= len(costs) <= 150
    paid = [cost for cost in costs[:100] if cost]
    assert max(paid) >= 10 * paid[0]

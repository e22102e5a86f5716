"""Real crawlers on a real site of more than 1,000 pages, with the default settings."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from driving import OFF

from . import crawling
from .crawling import Crawler, Titles
from .servers import Nginx, Protect

AT_MOST = 0.02
POLITE_AT_MOST = 0.05

Address = Callable[[], str]
Program = Callable[[str], str]


@pytest.fixture(scope="module")
def titles(documentation: Path) -> Titles:
    found = crawling.titles_in(documentation)
    assert len(found) > 1000
    return found


def tell(who: str, pages: set[str], titles: Titles, why: str = "") -> float:
    """The share of the site that *who* got, shown on the terminal with `pytest -s` and in reports."""
    share = len(pages) / len(titles)
    print(f"{who}: {len(pages)} of {len(titles)} pages, {share:.2%}  {why}")  # noqa: T201
    return share


def test_unprotected_everything_is_taken(
    site: Nginx, titles: Titles, program: Program, address: Address, tmp_path: Path
) -> None:
    who = address()
    crawling.wget(program("wget"), site.url, who, tmp_path, "-e", "robots=off")
    pages = crawling.stored(tmp_path, titles)
    assert tell("wget, unprotected", pages, titles) >= 0.99
    assert pages <= site.pages_given_to(who)


def test_wget(
    site: Nginx, hedgerow: Protect, titles: Titles, program: Program, address: Address, tmp_path: Path
) -> None:
    who = address()
    crawling.wget(program("wget"), hedgerow.url, who, tmp_path, "-e", "robots=off")
    check(site, hedgerow, titles, who, "wget", crawling.stored(tmp_path, titles))


def test_httrack(
    site: Nginx, protect: Callable[..., Protect], titles: Titles, program: Program, tmp_path: Path
) -> None:
    hedgerow = protect(site.url)
    crawling.httrack(program("httrack"), hedgerow.url, tmp_path)
    check(site, hedgerow, titles, "127.0.0.1", "httrack", crawling.stored(tmp_path, titles))


@pytest.mark.parametrize("order", ["depth", "breadth", "random"])
def test_scrapy(order: str, site: Nginx, hedgerow: Protect, titles: Titles, address: Address, tmp_path: Path) -> None:
    who = address()
    pages = crawling.scrapy(hedgerow.url, who, tmp_path, titles, order=order)
    check(site, hedgerow, titles, who, f"scrapy x32, {order} first", pages)


@pytest.mark.parametrize("order", ["depth", "breadth", "random"])
def test_crawler_that_looks_like_a_browser(
    order: str, site: Nginx, hedgerow: Protect, titles: Titles, address: Address
) -> None:
    who = address()
    crawler = Crawler(hedgerow.url, who, titles, order=order)
    check(site, hedgerow, titles, who, f"asyncio x8, no referrer, {order} first", crawler.run())


def check(
    site: Nginx, hedgerow: Protect, titles: Titles, who: str, name: str, pages: set[str], *, at_most: float = AT_MOST
) -> None:
    """*who* got at most its share, by its own count and by the site's; got something; and is blocked."""
    given = site.pages_given_to(who)
    why = hedgerow.blocked().get(who, "not blocked")
    share = tell(name, given, titles, why)
    assert pages, "the crawler did not even get a first page: is it working?"
    assert pages <= given
    assert share <= at_most
    assert why != "not blocked"


def test_polite_wget(
    site: Nginx,
    protect: Callable[..., Protect],
    titles: Titles,
    program: Program,
    address: Address,
    tmp_path: Path,
) -> None:
    """It obeys robots.txt, which disallows marked links: it gets the page that it entered by, and nobody stops it."""
    hedgerow = protect(site.url)
    who = address()
    crawling.wget(program("wget"), hedgerow.url, who, tmp_path)
    assert hedgerow.blocked() == {}
    hedgerow.stop()
    visits = [visit for visit in hedgerow.visits() if visit["address"] == who]
    assert any(visit["target"] == "/robots.txt" for visit in visits)
    assert not [visit for visit in visits if visit["asked"].startswith("/~") or visit["target"].startswith("/~")]
    assert {visit["action"] for visit in visits} == {"pass"}
    given = site.pages_given_to(who)
    tell("wget that obeys robots.txt", given, titles, "not stopped")
    assert given == crawling.stored(tmp_path, titles) == {"index.html"}


def test_polite_wget_where_links_are_not_marked(
    site: Nginx,
    protect: Callable[..., Protect],
    titles: Titles,
    program: Program,
    address: Address,
    tmp_path: Path,
) -> None:
    """
    It obeys robots.txt, so no trap is set for it and only its density can give it away.

    Where the machine is too slow for wget to be dense, its share says nothing about Hedgerow. What must hold at any
    speed is that it was stopped at the very visit that made it dense.
    """
    hedgerow = protect(site.url, settings=OFF)
    who = address()
    crawling.wget(program("wget"), hedgerow.url, who, tmp_path)
    pages = crawling.stored(tmp_path, titles)
    why = hedgerow.blocked().get(who, "not blocked")
    hedgerow.stop()
    visits = [visit for visit in hedgerow.visits() if visit["address"] == who]
    assert visits[0]["target"] == "/"
    assert any(visit["target"] == "/robots.txt" for visit in visits)
    assert not [visit for visit in visits if visit["target"].startswith("/~")]
    times = [visit["at"] for visit in visits if visit["kind"] == "page"]
    dense = next((n for n in range(40, len(times)) if times[n] - times[n - 40] < 1.2), None)
    passed = [visit for visit in visits if visit["kind"] == "page" and visit["action"] == "pass"]
    assert len(passed) == (len(times) if dense is None else dense)
    share = tell("wget that obeys robots.txt, links not marked", pages, titles, why)
    slow = sorted(b - a for a, b in pairwise(times))[len(times) // 2] > 0.02
    if not slow:
        assert share <= POLITE_AT_MOST
        assert len(site.pages_given_to(who)) <= POLITE_AT_MOST * len(titles)

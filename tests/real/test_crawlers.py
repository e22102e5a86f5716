"""Real crawlers on a real site of more than 1,000 pages, with the default settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from driving import OFF

from . import crawling
from .crawling import Crawler, Titles
from .servers import Nginx, Protect

AT_MOST = 0.02

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
    """
    It gets the page that it entered by, and nobody stops it.

    That page is unchanged, because a single page is all that most programs want. It reads robots.txt only after that,
    and is told there to request nothing else.
    """
    hedgerow = protect(site.url)
    who = address()
    crawling.wget(program("wget"), hedgerow.url, who, tmp_path)
    assert hedgerow.blocked() == {}
    hedgerow.stop()
    visits = [visit for visit in hedgerow.visits() if visit["address"] == who]
    assert any(visit["target"] == "/robots.txt" for visit in visits)
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
    """The same, where robots.txt is all that can tell it from a program that wants a single page."""
    hedgerow = protect(site.url, settings=OFF)
    who = address()
    crawling.wget(program("wget"), hedgerow.url, who, tmp_path)
    hedgerow.stop()
    visits = [visit for visit in hedgerow.visits() if visit["address"] == who]
    assert [visit["target"] for visit in visits] == ["/", "/robots.txt"]
    assert tell("wget that obeys robots.txt, links not marked", crawling.stored(tmp_path, titles), titles) < AT_MOST


PROGRAM = {"User-Agent": "python-requests/2.31.0", "Accept": "*/*"}
"""A client that looks like any program, and no browser."""


@pytest.mark.parametrize("order", ["depth", "breadth", "random"])
@pytest.mark.parametrize("concurrency", [1, 32])
def test_crawler_that_looks_like_a_program(
    concurrency: int, order: str, site: Nginx, hedgerow: Protect, titles: Titles, address: Address
) -> None:
    """Its first page is unchanged, so nothing but following links gives it away."""
    who = address()
    crawler = Crawler(hedgerow.url, who, titles, order=order, concurrency=concurrency, only=PROGRAM)
    name = f"program x{concurrency}, {order} first"
    check(site, hedgerow, titles, who, name, crawler.run(), at_most=2 / len(titles))


@pytest.mark.parametrize(
    "header", ["Range: bytes=0-", "Accept: application/json", "Depth: 1", "Translate: f", "Referer: {url}/"]
)
def test_crawler_that_looks_like_a_special_program(
    header: str, site: Nginx, hedgerow: Protect, titles: Titles, address: Address
) -> None:
    name, _, value = header.format(url=hedgerow.url).partition(": ")
    who = address()
    crawler = Crawler(hedgerow.url, who, titles, only={**PROGRAM, name: value})
    check(site, hedgerow, titles, who, f"program with {header}", crawler.run(), at_most=2 / len(titles))

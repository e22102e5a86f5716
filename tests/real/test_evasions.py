"""Crawlers that put something into every request by which they hope to slip through."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from . import crawling
from .crawling import Crawler, Titles
from .servers import Nginx, Protect

AT_MOST = 0.05


@pytest.fixture(scope="module")
def titles(documentation: Path) -> Titles:
    return crawling.titles_in(documentation)


@pytest.mark.parametrize(
    "header",
    [
        "Range: bytes=0-",
        "Range: bytes=0-10,11-9999999",
        "Accept-Encoding: compress",
        "Accept: application/json",
        "X-Requested-With: XMLHttpRequest",
        "X-Forwarded-For: 192.0.2.1",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Dest: image",
        "Sec-Fetch-Dest: empty",
        "Sec-Purpose: prefetch",
    ],
)
def test_header_does_not_help(
    header: str, site: Nginx, hedgerow: Protect, titles: Titles, address: Callable[[], str]
) -> None:
    name, _, value = header.partition(": ")
    who = address()
    crawler = Crawler(hedgerow.url, who, titles, headers={name: value})
    pages = crawler.run()
    given = site.pages_given_to(who)
    share = len(given) / len(titles)
    why = hedgerow.blocked().get(who, "not blocked")
    print(f"{header}: {len(given)} of {len(titles)} pages, {share:.2%}  {why}")  # noqa: T201
    assert pages <= given
    assert share <= AT_MOST
    # Nobody is blocked for prefetches: a browser makes them. Too many are declined.
    assert why != "not blocked" or name == "Sec-Purpose"

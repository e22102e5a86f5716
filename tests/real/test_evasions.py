"""Crawlers that put something into every request by which they hope to slip through."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from driving import without_bait

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


def test_all_headers_of_a_script_do_not_help(
    site: Nginx, hedgerow: Protect, titles: Titles, address: Callable[[], str]
) -> None:
    """Nobody is blocked for hidden links that a script fetches. A crawler that does nothing else is challenged."""
    who = address()
    headers = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
    Crawler(hedgerow.url, who, titles, headers=headers).run()
    given = site.pages_given_to(who)
    print(f"calls itself a script: {len(given)} of {len(titles)} pages")  # noqa: T201
    assert len(given) <= AT_MOST * len(titles)


@pytest.mark.parametrize(
    ("mode", "destination"), [("navigate", "document"), ("navigate", "iframe"), ("no-cors", "image"), ("cors", "empty")]
)
def test_blaming_another_site_does_not_help(
    mode: str, destination: str, hedgerow: Protect, titles: Titles, address: Callable[[], str]
) -> None:
    """
    Nobody is blocked for what another site causes. A crawler that says so gets as few pages, and then 429.

    What claims to be an image is asked of the site, and withheld when it turns out to be a page.
    """
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": destination}
    pages = Crawler(hedgerow.url, address(), titles, headers=headers).run()
    print(f"blames another site, {destination}: {len(pages)} of {len(titles)} pages")  # noqa: T201
    assert 0 < len(pages) <= AT_MOST * len(titles)


def test_leaving_out_what_is_hidden_leaves_density(
    site: Nginx, protect: Callable[..., Protect], titles: Titles, address: Callable[[], str]
) -> None:
    """
    A crawler that was written against Hedgerow, and knows all hidden links, is stopped once it is dense, or
    challenged for what else it does.

    Where the machine is too slow for that, it must not be stopped at all: then it did nothing that people do not.
    """
    hedgerow = protect(site.url)
    who = address()
    pages = Crawler(hedgerow.url, who, titles, reads=without_bait).run()
    given = site.pages_given_to(who)
    why = hedgerow.blocked().get(who, "not blocked")
    print(f"leaves out what is hidden: {len(given)} of {len(titles)} pages  {why}")  # noqa: T201
    assert pages <= given
    hedgerow.stop()
    visits = sorted(hedgerow.visits(), key=lambda visit: visit["at"])
    assert {visit["marker_kind"] for visit in visits if visit["asked"]} <= {"page", "sequence"}
    times = [visit["at"] for visit in visits]
    challenged = any(visit["action"] == "challenge" for visit in visits)
    if any(later - at < 1.2 for at, later in zip(times, times[40:], strict=False)):
        assert why == "More than 40 pages in 1.2 seconds." or challenged
    else:
        assert why == "not blocked"
    stopped = next((n for n, visit in enumerate(visits) if visit["action"] != "pass"), len(visits))
    assert {visit["action"] for visit in visits[stopped:]} <= {"refuse", "challenge"}
    assert len(given) <= stopped

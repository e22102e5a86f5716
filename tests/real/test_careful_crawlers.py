"""Crawlers that follow only links that look like those which people see, with all headers of a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from html import escape
from pathlib import Path

import lxml.html
import pytest

from . import crawling
from .crawling import Crawler, Titles
from .servers import Nginx, Protect

CHROME = {
    "Sec-Ch-Ua": '"Chromium";v="130", "Google Chrome";v="130", "Not?A_Brand";v="99"',
    "Sec-Ch-Ua-Mobile": "?0",
    "Sec-Ch-Ua-Platform": '"Linux"',
    "Upgrade-Insecure-Requests": "1",
    "Sec-Fetch-Site": "same-origin",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-User": "?1",
    "Sec-Fetch-Dest": "document",
}
AT_MOST = 0.05


@pytest.fixture(scope="module")
def titles(documentation: Path) -> Titles:
    return crawling.titles_in(documentation)


def with_text(body: bytes) -> bytes:
    """The links of a page that have text."""
    return _written(link for link in _links(body) if link.text_content().strip())


def with_text_and_not_known_as_hidden(body: bytes) -> bytes:
    """The links with text that no attribute of theirs, or of an element around them, calls hidden."""
    found = (link for link in _links(body) if link.text_content().strip())
    return _written(link for link in found if not any(map(_is_hidden, [link, *link.iterancestors()])))


def _links(body: bytes) -> Iterator[lxml.html.HtmlElement]:
    return lxml.html.document_fromstring(body).iter("a")


def _is_hidden(element: lxml.html.HtmlElement) -> bool:
    style = element.get("style", "").replace(" ", "")
    return "hidden" in element.attrib or element.get("aria-hidden") == "true" or "display:none" in style


def _written(links: Iterable[lxml.html.HtmlElement]) -> bytes:
    return "".join(f'<a href="{escape(link.get("href", ""))}">' for link in links).encode()


@pytest.mark.parametrize("order", ["breadth", "depth", "random"])
@pytest.mark.parametrize("reads", [with_text, with_text_and_not_known_as_hidden])
def test_a_crawler_that_leaves_out_what_looks_hidden(
    reads: Callable[[bytes], bytes],
    order: str,
    site: Nginx,
    hedgerow: Protect,
    titles: Titles,
    address: Callable[[], str],
) -> None:
    who = address()
    crawler = Crawler(
        hedgerow.url, who, titles, headers=CHROME, order=order, concurrency=1, most=250, pause=0.05, reads=reads
    )
    pages = crawler.run()
    given = site.pages_given_to(who)
    why = hedgerow.blocked().get(who, "not blocked")
    print(f"{reads.__name__}, {order} first: {len(given)} of {len(titles)} pages  {why}")  # noqa: T201
    assert pages
    assert pages <= given
    assert len(given) <= AT_MOST * len(titles)
    assert "no person can see" in why

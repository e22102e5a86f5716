"""
Crawlers that change their address from page to page, in front of a Hedgerow as anybody would start it.

They send what a browser sends, skip links without text, and use each address for one page or for four. Next to them
stand people: with a clearance they notice nothing, and a link that somebody posts is open to all.
"""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from .crawling import Titles
from .crews import Crew
from .servers import Nginx, Protect, wait_for
from .test_crawlers import titles
from .test_crowds import QUICK, Pupil
from .test_innocents import Visitor, is_served

__all__ = ["titles"]

REQUESTS = 1_200
AT_MOST = 100
AT_MOST_WITHOUT_MARKS = 300


@pytest.mark.parametrize("each", [1, 4])
@pytest.mark.parametrize("options", [(), ("--workers", "4")], ids=["one process", "four workers"])
def test_a_crew_that_shares_links(
    each: int, options: tuple[str, ...], site: Nginx, protect: Callable[..., Protect], titles: Titles
) -> None:
    hedgerow = protect(site.url, options=options)
    crew = Crew(hedgerow.url, titles, each)
    pages = crew.run(REQUESTS)
    print(f"crew, {each} pages an address, {options}: {pages} of {len(titles)} pages, {crew.requests} requests")  # noqa: T201
    assert 0 < pages <= AT_MOST
    wait_for("the campaign", lambda: "rotating" in kinds_of_campaigns(hedgerow))


def kinds_of_campaigns(hedgerow: Protect) -> list[str]:
    return [campaign["kind"] for campaign in httpx.get(hedgerow.admin + "/campaigns", trust_env=False).json()]


@pytest.mark.parametrize("options", [(), ("--workers", "4")], ids=["one process", "four workers"])
def test_a_crew_that_removes_marks(
    options: tuple[str, ...], site: Nginx, protect: Callable[..., Protect], titles: Titles
) -> None:
    hedgerow = protect(site.url, settings=QUICK, options=options)
    crew = Crew(hedgerow.url, titles, 1, strip=True)
    pages = crew.run(REQUESTS)
    print(f"crew without marks, {options}: {pages} of {len(titles)} pages, {crew.requests} requests")  # noqa: T201
    assert 0 < pages <= AT_MOST_WITHOUT_MARKS
    assert "read from many addresses" in hedgerow.said()
    with Pupil(hedgerow.url, "127.90.1.1") as person:
        assert person.see("/sql-select.html")
        assert person.challenges <= 1
        links = person.links()
        assert all(person.see(link, Sec_Fetch_Site="same-origin") for link in links[:8])
        assert person.see("/sql-insert.html")
        assert person.challenges <= 1
    assert hedgerow.blocked() == {}


def test_a_link_that_was_posted_is_open_to_all(site: Nginx, protect: Callable[..., Protect]) -> None:
    hedgerow = protect(site.url)
    with Visitor(hedgerow.url, "127.91.0.1") as author:
        author.open("/sql-commands.html")
        link = author.links()[3]
    for number in range(40):
        with Visitor(hedgerow.url, f"127.92.{number}.1", cookies=number % 2 == 0) as reader:
            assert is_served(reader.open(link, Sec_Fetch_Site=("none", "cross-site")[number % 2]))
            assert is_served(reader.click(reader.links()[0]))
            assert is_served(reader.click(reader.links()[-1]))
    assert hedgerow.blocked() == {}

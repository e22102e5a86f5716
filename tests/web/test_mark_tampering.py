"""Crawlers that know what a clean mark looks like: none of them reads much of a site of a thousand pages."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from driving import HTML, Answer, Application, Client, marked_links_in, traps_in

PAGES = 1000
LINKS = 30
BROWSER = {
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "accept": "text/html,*/*",
    "accept-language": "en", "accept-encoding": "gzip", "sec-fetch-dest": "document", "sec-fetch-mode": "navigate",
    "sec-fetch-site": "same-origin",
}  # fmt: skip
MARK = re.compile(r"~=([\w-]{23})\.([\w-]{4})")


def site() -> Application:
    """A thousand pages, each with links to thirty others and to the next."""

    def react(scope):
        found = re.fullmatch(r"/(?:page(\d{1,3})\.html)?", scope["path"])
        if found is None:
            return {"status": 404, "chunks": (b"<p>Not here</p>",)}
        chance = random.Random(scope["path"])
        linked = [chance.randrange(PAGES) for _ in range(LINKS)]
        links = "".join(f'<li><a href="/page{n}.html">Page {n}</a></li>' for n in linked)
        return {"chunks": (f"<!DOCTYPE html><title>x</title><body><ul>{links}</ul></body>".encode(),)}

    return Application(headers=[HTML], react=react)


class Crawler:
    """Follows links breadth-first; *change* makes an address out of a link that it found."""

    def __init__(self, change: Callable[[str, list[str]], str]) -> None:
        self.client = Client(site())
        self.change = change
        self.got: set[str] = set()

    def crawl(self, requests: int = 300) -> set[str]:
        waiting, seen = ["/"], {"/"}
        while waiting and requests:
            requests -= 1
            answer = self.ask(waiting.pop(0))
            hidden = set(traps_in(answer.body))
            links = [link for link in marked_links_in(answer.body) if link not in hidden]
            for link in links:
                plain = link.partition("?")[0]
                if plain not in seen:
                    seen.add(plain)
                    waiting.append(self.change(link, links))
        return self.got

    def ask(self, target: str) -> Answer:
        self.client.clock.now += 3.0
        answer = self.client.get(target, headers=BROWSER)
        if answer.status == 200 and b"<ul>" in answer.body:
            self.got.add(target.partition("?")[0])
        return answer


def strip(link: str, _: list[str]) -> str:
    return link.partition("?")[0]


def swap(link: str, links: list[str]) -> str:
    """The link with the CHECK of another link of the same page."""
    other = next((one for one in links if MARK.search(one)[2] != MARK.search(link)[2]), link)
    return link.replace(MARK.search(link)[2], MARK.search(other)[2])


class Collect:
    """Puts a VIEW that it has seen on another page before every CHECK."""

    def __init__(self) -> None:
        self.views: list[str] = []

    def __call__(self, link: str, _: list[str]) -> str:
        view = MARK.search(link)[1]
        if view not in self.views:
            self.views.append(view)
        return link.replace(view, self.views[0]) if len(self.views) > 1 else link


def guess(link: str, _: list[str]) -> str:
    return MARK.sub(lambda found: f"~={found[1]}.{'A' * 4}", link)


@pytest.mark.parametrize(("change", "most"), [(strip, 100), (swap, 100), (guess, 100)])
def test_who_changes_marks_is_challenged(change, most):
    """
    It leaves out the hidden links, which a crawler cannot tell from others by their marks.

    A page without a mark weighs 0.01, one with a damaged mark at least as much; at 1.0 the crawler is challenged.
    """
    assert 1 < len(Crawler(change).crawl()) <= most


def test_who_collects_views_opens_no_other_link_with_them():
    collect = Collect()
    crawler = Crawler(collect)
    got = crawler.crawl()
    assert len(collect.views) > 1
    # The links of the start page are as they were given out; those that follow are damaged.
    assert len(got) <= 1 + LINKS + 100
    marked = [entry.visit for entry in crawler.client.entries if "~=" in entry.visit.raw_target]
    moved = [visit for visit in marked if MARK.search(visit.raw_target)[1] == collect.views[0]]
    assert [visit for visit in moved if visit.tampered]


def test_who_strips_marks_from_hidden_links_too_meets_pages_that_are_not_there():
    client = Client(site())
    page = client.get("/", headers=BROWSER).body
    hidden = [strip(link, []) for link in traps_in(page)]
    assert hidden
    visible = {strip(link, []) for link in marked_links_in(page)}
    assert not visible & set(hidden)

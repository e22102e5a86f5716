"""A browser that fetches pages ahead of its user is no crawler."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser

from . import browsing
from .servers import Nginx, Protect

PAGES = 12
_PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Page {n}</title>
<link rel="icon" href="data:,">{ahead}</head>
<body><h1>Page {n}</h1><p>{links}</p></body></html>
"""
_LINKS = "\n".join(f'<link rel="prefetch" href="{n}.html">' for n in range(1, PAGES))
_LISTED = """<script type="speculationrules">{"prefetch": [{"source": "list", "urls": ["1.html", "2.html", "3.html"]}],
"prerender": [{"source": "list", "urls": ["4.html", "5.html"]}]}</script>"""
_EVERYTHING = """<script type="speculationrules">{"prefetch": [{"source": "document", "where": {"href_matches": "/*"},
"eagerness": "immediate"}], "prerender": [{"source": "document", "where": {"selector_matches": "a"},
"eagerness": "immediate"}]}</script>"""


def write_site(folder: Path, ahead: str) -> Path:
    folder.mkdir()
    links = " ".join(f'<a href="{n}.html">to page {n}</a>' for n in range(PAGES))
    for n in range(PAGES):
        (folder / f"{n}.html").write_text(_PAGE.format(n=n, links=links, ahead=ahead))
    return folder


def test_is_never_blocked(
    browser: Browser, nginx: Callable[..., Nginx], protect: Callable[..., Protect], tmp_path: Path
) -> None:
    fetched_ahead = 0
    for name, ahead in (("links", _LINKS), ("listed", _LISTED), ("everything", _EVERYTHING)):
        site = nginx(write_site(tmp_path / name, ahead))
        hedgerow = protect(site.url)
        with browsing.tab(browser) as page:
            watch = browsing.Watch(page.context, hedgerow.url)
            page.goto(hedgerow.url + "/0.html")
            page.wait_for_load_state("networkidle")
            for n in (1, 4):
                page.get_by_role("link", name=f"to page {n}", exact=True).click()
                page.wait_for_selector(f"h1:text-is('Page {n}')")
                page.wait_for_load_state("networkidle")
                assert hedgerow.plain(page.url) == f"{hedgerow.url}/{n}.html"
            # More than a few dozen are declined one by one; what a person clicks is served.
            assert [said for said in watch.decisions if "code=prefetch" not in said] == []
            assert [answer for answer in watch.answers if answer[1] >= 400 and answer[1] != 503] == []
        assert hedgerow.blocked() == {}
        hedgerow.stop()
        visits = hedgerow.visits()
        assert {visit["action"] for visit in visits if not visit["prefetch"]} == {"pass"}
        # What leads to a page is written down as that page.
        evidence = [found["code"] for visit in visits for found in json.loads(visit["evidence"])]
        assert not [code for code in evidence if code.startswith("trap")], "a hidden link was fetched ahead"
        assert [visit for visit in visits if visit["asked"]], "no link was marked"
        print(name, len(visits), "visits,", sum(visit["prefetch"] for visit in visits), "of them ahead")  # noqa: T201
        fetched_ahead += sum(visit["prefetch"] for visit in visits)
    assert fetched_ahead > PAGES, "the browser fetched nothing ahead: nothing was tried here"

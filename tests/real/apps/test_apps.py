"""Two real applications, bare and behind Hedgerow: a person cannot tell which."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from docs.recipes import recipes
from real import browsing
from real.servers import Nginx, Protect

from .conftest import FORUM, WIKI, App
from .forum import Forum
from .visitor import Record, Visitor, is_page, marker_of, same_site
from .wiki import Wiki

Start = Callable[[App], Forum | Wiki]
Bare = Callable[[App], Record]

SETTINGS = {
    "clean": "",
    "opaque": '[marker]\nmode = "opaque"\n',
    "readable": '[marker]\nmode = "readable"\n',
}
"""Settings files for Hedgerow, by the mode that they mean. Whatever stands in them, people must see the same."""
MADE_BY_SCRIPTS = {
    "forum": (
        r"/comment/like/\d+/delete/",  # the answer to a like, in JSON
        r"/comment/\d+/find/",  # the notifications, in JSON
        r"/topic/notification/unread/",  # an option of the script, in the page's own words
    ),
    "wiki": (
        r"/doku\.php\?ns=[^&]*&image=[^&]*&do=media",  # the answer to an upload, in JSON
        r"http://127\.0\.0\.1:\d+/lib/exe/mediamanager\.php",  # a form that the script writes itself
    ),
}
"""All links without a marker: they stand in no HTML that came from the site."""
READ_BY_SCRIPTS = re.compile(r"[?&](?:idx=|do=media)|/lib/exe/mediamanager\.php\?")
"""The links that stay readable in opaque mode, because the wiki's scripts read them."""

apps = pytest.mark.parametrize(
    "app", [pytest.param(FORUM, id="forum"), pytest.param(WIKI, id="wiki", marks=pytest.mark.heavy)]
)


def visit(browser: Browser, app: App, base: str) -> Record:
    with browsing.tab(browser) as page:
        return app.scenario(page, base)


@pytest.fixture(scope="module")
def bare(browser: Browser, start: Start) -> Bare:
    """What a visitor of the bare application meets; one visit of each application is enough."""
    met: dict[str, Record] = {}

    def visit_once(app: App) -> Record:
        if app.name not in met:
            met[app.name] = visit(browser, app, start(app).url)
        return met[app.name]

    return visit_once


@apps
def test_bare(app: App, bare: Bare) -> None:
    record = bare(app)
    assert record.faults() == []
    assert len(record.steps) > 40


@pytest.mark.parametrize(
    "mode", ["clean", *(pytest.param(mode, marks=pytest.mark.heavy) for mode in ("opaque", "readable"))]
)
@apps
def test_behind_hedgerow(
    app: App, mode: str, browser: Browser, start: Start, bare: Bare, protect: Callable[..., Protect]
) -> None:
    hedgerow = protect(start(app).url, settings=SETTINGS[mode])
    record = visit(browser, app, hedgerow.url)
    assert record.faults() == []
    assert record.steps == bare(app).steps
    for step, text, bare_text in zip(record.steps, record.texts, bare(app).texts, strict=True):
        assert text == bare_text, step
    assert record == bare(app)
    assert hedgerow.blocked() == {}
    assert_marked(app, mode, record, hedgerow.url)


@pytest.mark.heavy
@pytest.mark.parametrize(("app", "recipe"), [(FORUM, "Forums"), (WIKI, "DokuWiki")], ids=["forum", "wiki"])
def test_behind_its_recipe(
    app: App, recipe: str, browser: Browser, start: Start, bare: Bare, protect: Callable[..., Protect]
) -> None:
    """The settings of docs/recipes.md, enforced: whoever reads, logs in, writes and searches notices nothing."""
    hedgerow = protect(start(app).url, settings=recipes()[recipe].replace("observe = true\n", ""))
    record = visit(browser, app, hedgerow.url)
    assert record.faults() == []
    assert record.steps == bare(app).steps
    assert hedgerow.blocked() == {}


def assert_marked(app: App, mode: str, record: Record, base: str) -> None:
    """Every link of every page is marked, in its mode, but for those that are named above; and those are there."""
    found = {link for links in record.links.values() for link in same_site(links, base) if is_page(link.url)}
    without = {link for link in found if marker_of(link.url) is None}
    marked = found - without
    assert len(marked) > 500
    if mode == "clean":
        # Without a mark are links to the page itself, and those that were just clicked or that the pointer is on.
        assert {marker_of(link.url) for link in marked} == {"clean"}
        assert len(without) < len(marked) / 10
        return
    exceptions = {word: [x for x in without if re.fullmatch(word, x.written)] for word in MADE_BY_SCRIPTS[app.name]}
    assert without == {link for links in exceptions.values() for link in links}
    assert all(exceptions.values())
    assert not [link for link in without if link.in_source]
    if mode == "readable":
        # Where no link stands before it, bait has no neighbour whose address it could take.
        opaque = [link for link in marked if marker_of(link.url) == "opaque"]
        assert not [link for link in opaque if link.visible]
    else:
        readable = [link for link in marked if marker_of(link.url) == "readable"]
        assert not [link for link in readable if not READ_BY_SCRIPTS.search(link.url)]
        assert bool(readable) == (app is WIKI)


BROKEN = """<!DOCTYPE html><title>Broken</title><a href="#there">There</a><a href="/">Here</a>
<img src="/none.png" alt="none"><script src="http://127.0.0.1:1/"></script>
<script>console.warn("careful"); console.error("no good"); throw new Error("thrown")</script>
<div style="height: 3000px"></div><h2 id="there">There</h2><div style="height: 3000px"></div>"""


def test_a_record_has_everything_that_is_broken(browser: Browser, nginx: Callable[..., Nginx], tmp_path: Path) -> None:
    """That the records of real applications are empty means something."""
    (tmp_path / "index.html").write_text(BROKEN)
    with browsing.tab(browser) as page:
        visitor = Visitor(page, nginx(tmp_path, more="location = /favicon.ico { return 204; }").url)
        visitor.go()
        link, there = (page.get_by_role(role, name="There") for role in ("link", "heading"))
        visitor.jump(link, there, "jumped")
        page.evaluate("() => { document.querySelector('a').href = '/?again#there' }")
        with pytest.raises(AssertionError, match="the page was loaded anew"):
            visitor.jump(link, there, "jumped")
    record = visitor.record
    assert record.refused[0] == "404 GET /none.png"
    assert record.failures[0].endswith("GET http://127.0.0.1:1/")
    assert record.broken_pictures[0] == "typed the address: /none.png"
    said = "\n".join(record.complaints)
    assert all(words in said for words in ("careful", "no good", "uncaught: thrown", "404"))


@apps
def test_links_are_all_found(app: App, bare: Bare) -> None:
    """The lists of links, by which tests tell whether every link is marked, are long and have forms in them."""
    assert all(bare(app).links.values())
    listed = [link for links in bare(app).links.values() for link in links]
    assert {"a", "form"} <= {link.tag for link in listed}
    assert any(not link.in_source for link in listed), "some are made by scripts"
    origin = "/".join(next(link.url for link in listed if "127.0.0.1" in link.url).split("/")[:3])
    inner = same_site(listed, origin)
    assert len(inner) > 500
    assert all("127.0.0.1" in link.url for link in inner)

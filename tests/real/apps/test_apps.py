"""Two real applications, bare and behind Hedgerow: a person cannot tell which."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser

from .. import browsing
from ..servers import Protect
from .conftest import FORUM, WIKI, App
from .forum import Forum
from .visitor import Record, same_site
from .wiki import Wiki

Start = Callable[[App], Forum | Wiki]
Bare = Callable[[App], Record]

SETTINGS = {"default settings": ""}
"""Settings files for Hedgerow, by a name. Whatever stands in them, people must see the same."""

apps = pytest.mark.parametrize("app", [FORUM, WIKI], ids=lambda app: app.name)


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


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@apps
def test_behind_hedgerow(
    app: App, settings: str, browser: Browser, start: Start, bare: Bare, protect: Callable[..., Protect]
) -> None:
    hedgerow = protect(start(app).url, settings=settings)
    record = visit(browser, app, hedgerow.url)
    assert record.faults() == []
    assert record.steps == bare(app).steps
    for step, text, bare_text in zip(record.steps, record.texts, bare(app).texts, strict=True):
        assert text == bare_text, step
    assert record == bare(app)
    assert hedgerow.blocked() == {}


@apps
def test_links_are_all_found(app: App, bare: Bare) -> None:
    """The lists of links, by which tests tell whether every link is marked, are long and have forms in them."""
    for step, links in bare(app).links.items():
        assert len(links) > 3, step
    listed = [link for links in bare(app).links.values() for link in links]
    assert {"a", "form"} <= {link.tag for link in listed}
    assert any(not link.in_source for link in listed), "some are made by scripts"
    origin = "/".join(next(link.url for link in listed if "127.0.0.1" in link.url).split("/")[:3])
    inner = same_site(listed, origin)
    assert len(inner) > 500
    assert all("127.0.0.1" in link.url for link in inner)

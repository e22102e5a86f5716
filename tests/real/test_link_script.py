"""
The script that hides marks from the scripts of a page, in Chromium.

A script that opens links sees them as the site wrote them. Where the browser opens a link, the request has its mark.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from . import browsing
from .servers import Nginx, Protect

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title><link rel="icon" href="data:,"></head>
<body><h1>{name}</h1>
<p><a id="plain" href="/b.html"><b>b</b></a> <a id="query" href="/c.html?x=1&amp;y=2#end">c</a>
<a id="caught" href="/d.html?x=1">d</a> <a id="stopped" href="/b.html?stopped">stopped</a>
<a id="own" href="/{name}.html">this page</a></p>
<form id="search" action="/b.html"><input name="q" value="1"><button>Search</button></form>
<form id="ajax" action="/c.html"><input name="q" value="2"><button>Ask</button></form>
<script>
window.seen = [];
document.querySelector("#caught").addEventListener("click", (event) => {{
  event.preventDefault();
  window.seen.push(event.currentTarget.getAttribute("href"));
}});
document.querySelector("#stopped").addEventListener("click", (event) => event.stopPropagation());
document.querySelector("#ajax").addEventListener("submit", (event) => {{
  event.preventDefault();
  window.seen.push([...new FormData(event.target)].join());
}});
</script>
</body></html>
"""


@pytest.fixture(scope="module")
def scripted(nginx: Callable[..., Nginx], protect: Callable[..., Protect], tmp_path_factory: Any) -> Protect:
    """Four pages with scripts of their own."""
    root: Path = tmp_path_factory.mktemp("scripted")
    for name in "abcd":
        (root / f"{name}.html").write_text(_PAGE.format(name=name))
    return protect(nginx(root).url)


@pytest.fixture
def opened(browser: Browser, scripted: Protect) -> Any:
    with browsing.tab(browser) as page:
        page.goto(scripted.url + "/a.html")
        yield page


def asked(page: Page, act: Callable[[], object]) -> str:
    """The address that the browser asks for when it opens a page."""
    with page.context.expect_event("request", lambda request: request.is_navigation_request()) as found:
        act()
    return str(found.value.url)


def test_a_link_that_the_browser_opens_keeps_its_mark(opened: Page, scripted: Protect) -> None:
    for name, target in (("#plain", "/b.html"), ("#query", "/c.html?x=1&y=2")):
        opened.goto(scripted.url + "/a.html")
        url = asked(opened, opened.locator(name).click)
        marker = scripted.marker(url.partition("#")[0])
        assert marker is not None
        assert (marker.kind, marker.target) == ("page", target)
        opened.wait_for_url(lambda shown, target=target: shown.partition("#")[0] == scripted.url + target)


@pytest.mark.parametrize("options", [{"button": "middle"}, {"modifiers": ["Control"]}], ids=["middle", "Control"])
def test_a_link_in_a_new_tab_keeps_its_mark(options: dict[str, Any], opened: Page, scripted: Protect) -> None:
    for _ in range(2):
        with opened.context.expect_page() as other:
            opened.locator("#plain").click(**options)
        other.value.wait_for_url(scripted.url + "/b.html")
        other.value.close()
        # As it was when the browser opened it. The script takes it away again at the next event.
        href = opened.locator("#plain").get_attribute("href")
        assert href is not None
        assert scripted.marker(href) is not None


def test_a_link_opened_by_keyboard_keeps_its_mark(opened: Page, scripted: Protect) -> None:
    opened.locator("#plain").focus()
    assert scripted.marker(asked(opened, lambda: opened.keyboard.press("Enter"))) is not None


def test_the_menu_of_a_link_has_its_mark(opened: Page) -> None:
    opened.locator("#plain").hover()
    assert opened.locator("#plain").get_attribute("href") == "/b.html"
    opened.locator("#plain").click(button="right")
    assert "~=" in str(opened.locator("#plain").get_attribute("href"))


def test_a_script_that_opens_a_link_sees_what_the_site_wrote(opened: Page) -> None:
    before = opened.url
    opened.locator("#caught").click()
    opened.evaluate("document.querySelector('#caught').click()")
    assert opened.evaluate("window.seen") == ["/d.html?x=1", "/d.html?x=1"]
    assert opened.url == before


def test_a_link_whose_event_is_stopped_still_works(opened: Page, scripted: Protect) -> None:
    opened.locator("#stopped").click()
    opened.wait_for_url(scripted.url + "/b.html?stopped")


def test_forms_have_a_mark_for_the_browser_and_none_for_scripts(opened: Page, scripted: Protect) -> None:
    opened.locator("#ajax button").click()
    assert opened.evaluate("window.seen") == ["q,2"]
    url = asked(opened, opened.locator("#search button").click)
    assert "~=" in url.replace("%7E", "~")
    opened.wait_for_url(scripted.url + "/b.html?q=1")


def test_a_link_to_the_page_itself_has_no_mark(opened: Page) -> None:
    assert opened.locator("#own").get_attribute("href") == "/a.html"


def test_a_hidden_link_that_a_program_clicks_is_still_a_trap(opened: Page, scripted: Protect) -> None:
    # The last test: the browser's address is blocked after it.
    (first, *_) = browsing.baits(opened)
    url = asked(opened, lambda: opened.evaluate(f"document.querySelector({browsing.BAIT!r}).click()"))
    assert url == scripted.url + first
    assert scripted.is_trap(url)

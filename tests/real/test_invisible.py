"""
The traps are invisible to a browser and whoever sits in front of it.

Not painted, not focusable, not in the accessibility tree, not in the text; with the page's own strict policies, without
JavaScript, in forced colours and on paper. Held against the same page without Hedgerow. The page's own links are
marked, as by default: nothing but their addresses may tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Browser, Page

from driving import traps_in

from . import browsing
from .servers import Nginx, Protect

PAGES = ["index.html", "preface.html", "geqo-pg-intro.html"]
FORBIDDING = [
    "default-src 'self'",
    "style-src 'self'",
    "default-src 'none'; style-src-elem 'self'; style-src 'none'",
    "default-src 'self'; base-uri 'none'; form-action 'none'",
]

_NOTE_VIOLATIONS = """window.violations = []; document.addEventListener("securitypolicyviolation", event =>
    window.violations.push([event.effectiveDirective, event.target.cloneNode(false).outerHTML]))"""
# The element without its content: how much of that is there already depends on when the event comes.
_NOSCRIPT = re.compile(rb'<noscript><a class="[a-z]{5}".*?</noscript>')


class Pair(NamedTuple):
    """One site, without Hedgerow and with it."""

    bare: str
    hedgerow: Protect

    @property
    def protected(self) -> str:
        return self.hedgerow.url

    def hidden_in(self, source: bytes, target: str) -> list[str]:
        """The hidden links of the page at *target*, told by the key; one can tell the same ones by their look."""
        links = [unescape(link.decode()) for link in re.findall(rb'href="([^"]*~[^"]*)"', source)]
        traps = [link for link in links if self.hedgerow.is_trap(urljoin(target, link))]
        assert traps == traps_in(source)
        return traps


@pytest.fixture(scope="module")
def pair(nginx: Callable[..., Nginx], protect: Callable[..., Protect], documentation: Path) -> Pair:
    """The documentation; below /0/, /1/, ... once more, each with a policy that forbids styles of unknown origin."""
    below = "".join(
        f'location /{n}/ {{ alias {documentation}/; add_header Content-Security-Policy "{policy}"; }}\n'
        for n, policy in enumerate(FORBIDDING)
    )
    site = nginx(documentation, more=below)
    return Pair(site.url, protect(site.url))


@contextmanager
def both(
    browser: Browser, pair: Pair, target: str, *, marked: bool = False, **options: Any
) -> Iterator[tuple[Page, Page, list[list[str]]]]:
    """
    The page at *target* without Hedgerow and with it, side by side, and what each complains of.

    *marked*: with Hedgerow it is reached by a marked link, and shown at that address.
    """
    with browsing.tab(browser, **options) as bare, browsing.tab(browser, **options) as protected:
        complaints = []
        for page, origin in ((bare, pair.bare), (protected, pair.protected)):
            watch = browsing.Watch(page.context, origin)
            complaints.append(watch.complaints)
            page.add_init_script(_NOTE_VIOLATIONS)
            answer = page.goto(origin + (pair.hedgerow.marked(target) if marked and page is protected else target))
            assert answer is not None
            assert answer.status == 200
            source = answer.body()
            hidden = pair.hidden_in(source, target)
            assert (len(hidden) >= 2) == (page is protected)
            if options.get("java_script_enabled", True):
                hidden = pair.hidden_in(_NOSCRIPT.sub(b"", source), target)
            assert hidden == browsing.baits(page)
        yield bare, protected, complaints


def check(pair: Pair, bare: Page, protected: Page, folder: Path, *, keyboard: bool = True) -> None:
    """Nothing of the bait can be seen, reached or heard."""
    assert browsing.seen_of_bait(protected) == []
    assert protected.inner_text("body") == bare.inner_text("body")
    picture = [page.screenshot(full_page=True) for page in (bare, protected)]
    browsing.assert_same_picture(*picture, "the page", folder)
    links, found = browsing.accessible_links(protected, pair.hedgerow.is_trap)
    assert found == []
    assert links
    assert links == browsing.accessible_links(bare)[0]
    if keyboard:
        stops = [pair.hedgerow.plain(stop).removeprefix(pair.protected) for stop in browsing.tab_stops(protected)]
        assert len(stops) > 2
        assert stops == [stop.removeprefix(pair.bare) for stop in browsing.tab_stops(bare)]


@pytest.mark.parametrize("marked", [False, True], ids=["entered", "by a link"])
@pytest.mark.parametrize("name", PAGES)
def test_of_a_page(name: str, marked: bool, browser: Browser, pair: Pair, tmp_path: Path) -> None:
    with both(browser, pair, "/" + name, marked=marked) as (bare, protected, complaints):
        check(pair, bare, protected, tmp_path)
        assert complaints[0] == complaints[1]


@pytest.mark.parametrize("marked", [False, True], ids=["entered", "by a link"])
@pytest.mark.parametrize("number", range(len(FORBIDDING)), ids=FORBIDDING)
def test_under_a_strict_policy(number: int, marked: bool, browser: Browser, pair: Pair, tmp_path: Path) -> None:
    with both(browser, pair, f"/{number}/tutorial-join.html", marked=marked) as (bare, protected, complaints):
        check(pair, bare, protected, tmp_path)
        # The documentation has style attributes, which such a policy forbids. Nothing else is complained of.
        violations = [page.evaluate("() => window.violations") for page in (bare, protected)]
        assert violations[1] == violations[0]
        assert {what for what, _ in violations[1]} <= {"style-src-attr"}
        assert len(complaints[0]) == len(complaints[1])


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"java_script_enabled": False}, id="without JavaScript"),
        pytest.param({"forced_colors": "active"}, id="forced colours"),
        pytest.param({"is_mobile": True, "has_touch": True}, id="telephone"),
    ],
)
def test_in_another_mode(options: dict[str, Any], browser: Browser, pair: Pair, tmp_path: Path) -> None:
    with both(browser, pair, "/tutorial-join.html", **options) as (bare, protected, _):
        check(pair, bare, protected, tmp_path)


def test_on_paper(browser: Browser, pair: Pair, tmp_path: Path) -> None:
    with both(browser, pair, "/preface.html") as (bare, protected, _):
        pdfs = []
        for page in (bare, protected):
            page.emulate_media(media="print")
            pdfs.append(page.pdf())
        check(pair, bare, protected, tmp_path, keyboard=False)
    links = [re.findall(rb"/URI \(http://127\.0\.0\.1:\d+([^)]*)\)", pdf) for pdf in pdfs]
    assert len(links[0]) > 2
    assert links[0] == [pair.hedgerow.plain(link.decode()).encode() for link in links[1]]


def test_without_the_sites_own_styles(browser: Browser, pair: Pair, tmp_path: Path) -> None:
    """A person who switches the site's styles off, or whose browser has some of its own."""
    with both(browser, pair, "/tutorial-join.html") as (bare, protected, _):
        for page in (bare, protected):
            page.evaluate("() => document.querySelectorAll('link[rel=stylesheet]').forEach(link => link.remove())")
            page.add_style_tag(content="a { display: inline-block; border: 1px solid; padding: 4px; min-width: 1em }")
        check(pair, bare, protected, tmp_path)

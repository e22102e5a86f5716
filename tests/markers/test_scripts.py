"""The scripts that hide clean marks: where they stand. What they do is tried in browsers (`tests/real/frameworks`)."""

from __future__ import annotations

import binascii
import hashlib

import pytest

from hedgerow.markers.html.scanner import Scanner
from hedgerow.markers.resolve import PageLocation
from hedgerow.markers.rewrite import PageRewriter, SkeletonCache
from hedgerow.markers.rules import Mode, Rules
from hedgerow.markers.scripts import LINKS_ELEMENT, LINKS_HASH, LOADER, LOADER_HASH, WORKER_SCRIPT
from hedgerow.markers.token import Key, TokenCodecs

CODEC = TokenCodecs([Key(1, bytes(range(64)), 0.0)]).of("example.org")
PAGE = b"<!doctype html><html><head>%b</head><body><a href='/b'>b</a> and <a href='/c'>c</a></body></html>"
RUNS = b"<script src=/main.js></script>"


def rewritten(
    page: bytes, *, mode: Mode = "clean", script: bool = True, target: bytes = b"/a", bait: bool = False
) -> bytes:
    location = PageLocation(b"https", b"example.org", target)
    one = PageRewriter(location, Rules(mode), b"/~", SkeletonCache(), CODEC, b"abcdef", b"ghijkl", at=1.8e9)
    if script:
        one.add_links_script()
    if bait:
        one.add_bait(b"<style></style>", b'<a class="bait" href="', "links", 1)
    return one.feed(page, final=True)


@pytest.mark.parametrize(
    "script",
    [
        RUNS, b"<script>let a</script>", b"<script type=module>import 'a'</script>",
        b"<script type='text/javascript' src=a></script>", b'<script type="application/ld+json">{}</script>' + RUNS,
    ],
)  # fmt: skip
def test_a_page_that_runs_scripts_gets_one_more_at_its_end(script):
    page = rewritten(PAGE % script)
    assert page.endswith(LINKS_ELEMENT + b"</body></html>")
    assert page.count(LINKS_ELEMENT) == 1


@pytest.mark.parametrize(
    "script",
    [b"", b"<script type='application/ld+json'>{}</script>", b"<script type=text/x-template><p></script>"],
)
def test_a_page_without_scripts_gets_none(script):
    assert LINKS_ELEMENT not in rewritten(PAGE % script)


def test_other_modes_and_pages_that_may_not_run_it_get_none():
    assert LINKS_ELEMENT not in rewritten(PAGE % RUNS, mode="readable")
    assert LINKS_ELEMENT not in rewritten(PAGE % RUNS, script=False)


def test_the_hash_is_that_of_the_script_and_nothing_in_it_ends_the_element():
    text = LINKS_ELEMENT.removeprefix(b"<script>").removesuffix(b"</script>")
    assert b"'sha256-" + binascii.b2a_base64(hashlib.sha256(text).digest(), newline=False) + b"'" == LINKS_HASH
    assert b"'sha256-" + binascii.b2a_base64(hashlib.sha256(LOADER).digest(), newline=False) + b"'" == LOADER_HASH
    for script in (text, LOADER, WORKER_SCRIPT):
        assert b"<" not in script
        assert b"PLAIN" not in script
        assert b"//" not in script
    assert len(LINKS_ELEMENT) < 900
    assert len(LOADER) < 350


def test_a_link_to_the_page_itself_has_no_clean_mark():
    page = PAGE.replace(b"'/b'", b"'/a'") % b""
    found = rewritten(page)
    assert b"<a href='/a'>" in found
    assert found.count(b"~=") == 1
    assert rewritten(page, target=b"/other").count(b"~=") == 2
    assert rewritten(page, mode="readable").count(b"~=") == 2


@pytest.mark.parametrize(
    "sign",
    [
        b'<link rel="modulepreload" href="/assets/entry.js">', b"<link rel=modulepreload href=/x.js>",
        b'<script id="ng-event-dispatch-contract"></script>', b'<div id="app">', b'<div id="___gatsby">',
        b"<app-root ng-version=22>", b"<astro-island uid=1>",
    ],
)  # fmt: skip
def test_nothing_is_added_between_the_elements_of_an_application(sign):
    """A script that takes over the elements of a page reports those that it does not know."""
    page = b"<!doctype html><html><head></head><body>%b<a href='/b'>b</a> and <a href='/c'>c</a></body></html>" % sign
    kinds = [kind for _, _, kind, _ in Scanner().feed(page, final=True)[1]]
    assert "after-link" not in kinds
    assert {"scripted", "body-end"} <= set(kinds)
    assert rewritten(page, bait=True).count(b'class="bait"') == 1

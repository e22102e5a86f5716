"""Whether a client can be shown a page, and in which language."""

from __future__ import annotations

import pytest

from hedgerow.challenge.client_preferences import language_of, wants_page

from .solver import visit

CHROME = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
WINDOW = {"sec-fetch-dest": "document", "sec-fetch-mode": "navigate", "accept": CHROME}
FORM = "application/x-www-form-urlencoded"


def wants(target="/docs/", method="GET", **headers):
    raw = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return wants_page(visit(target, method=method, prefetch="prefetch" in headers.get("sec-purpose", "")), raw)


@pytest.mark.parametrize(
    "more",
    [
        WINDOW,
        {"accept": CHROME},
        {**WINDOW, "sec-fetch-dest": "iframe"},
        {**WINDOW, "target": "/feed.xml"},
        {**WINDOW, "method": "POST", "content-type": FORM},
        {**WINDOW, "method": "POST", "content-type": "multipart/form-data; boundary=x"},
        {"accept": CHROME, "method": "POST", "content-type": FORM},
        {"accept": "text/html"},
    ],
)
def test_a_browser_window_wants_a_page(more):
    assert wants(**more)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"accept": "*/*"},
        {"accept": "application/json"},
        {"accept": "application/json, text/html;q=0.5"},
        {"accept": "text/html;q=0"},
        # miniflux, which names HTML, too
        {"accept": "application/xml, application/atom+xml, application/rss+xml, text/html, */*;q=0.9"},
        # feedparser
        {"accept": "application/atom+xml,application/rdf+xml,application/rss+xml,application/xml;q=0.9,*/*;q=0.1"},
        {"accept": "*/*", "target": "/project.git/info/refs?service=git-upload-pack"},
        {"accept": CHROME, "target": "/logo.png"},
        {"accept": CHROME, "target": "/feed.xml"},
        {**WINDOW, "method": "HEAD"},
        {**WINDOW, "method": "PUT"},
        {**WINDOW, "method": "OPTIONS"},
        {**WINDOW, "method": "POST", "content-type": "application/json"},
        {"accept": CHROME, "method": "POST", "content-type": "application/x-git-upload-pack-request"},
        {**WINDOW, "x-requested-with": "XMLHttpRequest"},
        {"accept": CHROME, "x-requested-with": "XMLHttpRequest"},
        {"accept": "*/*", "sec-fetch-dest": "empty", "sec-fetch-mode": "cors"},
        {"accept": CHROME, "sec-fetch-dest": "empty", "sec-fetch-mode": "same-origin"},
        {"accept": CHROME, "sec-fetch-dest": "image", "sec-fetch-mode": "no-cors"},
        {"accept": CHROME, "sec-fetch-dest": "document", "sec-fetch-mode": "cors"},
        {**WINDOW, "sec-purpose": "prefetch;prerender"},
        {**WINDOW, "upgrade": "websocket"},
        {**WINDOW, "range": "bytes=0-"},
    ],
)
def test_other_clients_want_no_page(more):
    assert not wants(**more)


KNOWN = ("en", "de", "fr", "es", "ja", "zh")


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("de", "de"),
        ("de-AT,de;q=0.9,en;q=0.8", "de"),
        ("nl, fr;q=0.5, ja;q=0.7", "ja"),
        ("zh-TW", "zh"),
        ("pt-BR,pt", "en"),
        ("de;q=0", "en"),
        ("de;q=x, es", "es"),
        ("*", "en"),
        ("DE", "de"),
        (";;,,;q=1", "en"),
        ("x" * 10_000, "en"),
    ],
)
def test_the_preferred_language_is_chosen(header, language):
    assert language_of(header, KNOWN) == language

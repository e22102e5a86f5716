"""Classification of requests by method, target and headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core import request_kind as module
from hedgerow.core.request_kind import (
    is_embedded_file,
    is_from_elsewhere,
    is_prefetch,
    kind_claimed,
    kind_of,
    origin_of,
)


@pytest.mark.parametrize(
    ("method", "target", "kind"),
    [
        ("GET", "/", "page"),
        ("HEAD", "/docs/", "page"),
        ("GET", "/a.html", "page"),
        ("GET", "/a.php?x=logo.png", "page"),
        ("GET", "/release-1.2", "page"),
        ("GET", "/style.css", "asset"),
        ("GET", "/LOGO.PNG?v=1", "asset"),
        ("GET", "/dir.png/", "page"),
        ("GET", "/feed.xml", "call"),
        ("GET", "/robots.txt", "call"),
        ("GET", "/logs/access.log", "call"),
        ("GET", "/feed/", "call"),
        ("GET", "/a/feed?page=2", "call"),
        ("GET", "/a/feed/", "call"),
        ("GET", "/xmlrpc.php?rsd", "call"),
        ("GET", "/feeds/", "page"),
        ("GET", "/feed/about", "page"),
        ("POST", "/", "call"),
        ("POST", "/a.png", "call"),
        ("OPTIONS", "*", "call"),
        ("get", "/", "call"),
        ("GET", "", "page"),
        ("GET", "/" + "a" * 60_000 + ".png", "asset"),
    ],
)
def test_kind_of(method, target, kind):
    assert kind_of(method, target) == kind


def test_long_targets_are_not_cached():
    """Eight thousand targets of sixteen kilobytes would be a hundred megabytes that no setting names."""
    module._cached_kind.cache_clear()
    for n in range(100):
        kind_of("GET", f"/{n}" + "a" * 16_000)
    assert module._cached_kind.cache_info().currsize == 0
    kind_of("GET", "/short")
    assert module._cached_kind.cache_info().currsize == 1


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({}, "page"),
        ({b"sec-fetch-dest": b"document"}, "page"),
        ({b"sec-fetch-dest": b"iframe"}, "page"),
        ({b"sec-fetch-dest": b"image"}, "asset"),
        ({b"sec-fetch-dest": b"font"}, "asset"),
        ({b"sec-fetch-dest": b"nonsense"}, "asset"),
        ({b"sec-fetch-dest": b"empty"}, "call"),
        ({b"sec-fetch-dest": b"websocket"}, "call"),
        ({b"x-requested-with": b"XMLHttpRequest"}, "call"),
        ({b"upgrade": b"WebSocket"}, "call"),
        ({b"upgrade": b"h2c"}, "page"),
        ({b"range": b"bytes=0-"}, "asset"),
        ({b"accept": b"application/json"}, "call"),
        ({b"accept": b"text/html"}, "page"),
        ({b"accept": b"*/*"}, "page"),
        ({b"accept": b""}, "call"),
    ],
)
def test_browser_headers_correct_the_kind(headers, kind):
    assert kind_claimed("page", headers, prefetch=False) == kind
    assert kind_claimed("asset", headers, prefetch=False) == "asset"


def test_a_prefetch_is_a_kind_of_its_own():
    assert kind_claimed("page", {}, prefetch=True) == "prefetch"
    for headers in ({b"sec-fetch-dest": b"empty"}, {b"range": b"bytes=0-"}, {b"accept": b"image/png"}):
        assert kind_claimed("page", headers, prefetch=True) == "prefetch"
    assert kind_claimed("asset", {}, prefetch=True) == "asset"


@pytest.mark.parametrize(
    ("headers", "is_one"),
    [
        ({b"sec-purpose": b"prefetch"}, True),
        ({b"sec-purpose": b"prefetch;prerender"}, True),
        ({b"purpose": b"Prefetch"}, True),
        ({b"x-moz": b"prefetch"}, True),
        ({b"sec-purpose": b""}, False),
        ({}, False),
    ],
)
def test_is_prefetch(headers, is_one):
    assert is_prefetch(headers) is is_one


@pytest.mark.parametrize(
    ("headers", "origin"),
    [
        ({b"sec-fetch-site": b"same-origin", b"referer": b"http://other.example/"}, "same"),
        ({b"sec-fetch-site": b"same-site", b"sec-fetch-mode": b"cors", b"sec-fetch-dest": b"empty"}, "cross"),
        ({b"sec-fetch-site": b"cross-site", b"sec-fetch-mode": b"navigate", b"sec-fetch-dest": b"frame"}, "cross"),
        ({b"sec-fetch-site": b"cross-site"}, "unknown"),
        ({b"sec-fetch-site": b"cross-site", b"sec-fetch-mode": b"navigate"}, "unknown"),
        ({b"sec-fetch-site": b"none"}, "none"),
        ({b"referer": b"https://EXAMPLE.org/a"}, "same"),
        ({b"referer": b"https://example.org:8443/a"}, "cross"),
        ({b"referer": b"https://other.example/example.org"}, "cross"),
        ({b"referer": b"https://example.org/?next=https://other.example/"}, "same"),
        ({b"referer": b"-"}, "unknown"),
        ({b"referer": b"\xff\xfe"}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_origin_of(headers, origin):
    assert origin_of(headers, "example.org") == origin


CLICK = {b"sec-fetch-site": b"cross-site", b"sec-fetch-mode": b"navigate", b"sec-fetch-dest": b"document"}
CHROME = {b"sec-ch-ua": b'"Chromium";v="140"'}
FIREFOX = {b"user-agent": b"Mozilla/5.0 (X11; rv:140.0) Gecko/20100101 Firefox/140.0"}


@pytest.mark.parametrize(
    ("headers", "is_one"),
    [
        ({**CLICK, **CHROME, b"sec-fetch-user": b"?1"}, False),
        ({**CLICK, **FIREFOX, b"sec-fetch-user": b"?1"}, False),
        ({**CLICK, **CHROME}, True),
        ({**CLICK, **FIREFOX}, True),
        (CLICK, False),
        ({**CLICK, b"sec-fetch-dest": b"iframe"}, True),
        ({**CLICK, **CHROME, b"sec-fetch-dest": b"iframe", b"sec-fetch-user": b"?1"}, True),
        ({**CLICK, b"sec-fetch-dest": b"image", b"sec-fetch-mode": b"no-cors"}, True),
        ({**CLICK, b"sec-fetch-site": b"same-site", b"sec-fetch-dest": b"iframe"}, True),
        ({**CLICK, b"sec-fetch-site": b"same-origin", b"sec-fetch-dest": b"iframe"}, False),
        ({b"sec-fetch-site": b"cross-site", b"sec-fetch-dest": b"image"}, False),
        ({}, False),
    ],
)
def test_is_from_elsewhere(headers, is_one):
    assert is_from_elsewhere(headers) is is_one


@pytest.mark.parametrize(
    ("headers", "is_one"),
    [
        ({b"accept": b"image/avif,image/webp,*/*;q=0.8", b"accept-language": b"en"}, True),
        ({b"accept": b"text/css,*/*;q=0.1", b"accept-language": b"en"}, True),
        ({b"accept": b"*/*", b"accept-language": b"en"}, False),
        ({b"accept": b"image/png,text/html", b"accept-language": b"en"}, False),
        ({b"accept": b"image/png"}, False),
        ({b"accept": b"image/png", b"accept-language": b"en", b"sec-fetch-site": b"same-origin"}, False),
    ],
)
def test_is_embedded_file(headers, is_one):
    assert is_embedded_file(headers) is is_one


@given(st.binary(), st.text(), st.text())
def test_arbitrary_headers_are_handled_without_an_error(value, method, target):
    headers = dict.fromkeys([b"sec-fetch-dest", b"sec-fetch-site", b"sec-purpose", b"referer", b"upgrade"], value)
    kind = kind_claimed(kind_of(method, target), headers, prefetch=is_prefetch(headers))
    assert kind in {"page", "call", "asset"}
    assert origin_of(headers, "example.org") in {"same", "cross", "none", "unknown"}

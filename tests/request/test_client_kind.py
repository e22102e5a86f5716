"""Browsers, scripts of pages and programs, by the headers that they really send."""

from __future__ import annotations

import pytest

from hedgerow.core.visit import BY_PROGRAM
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.request.client_kind import client_kind
from hedgerow.request.identify import Identifier

HTML = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
PIP = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01"
FEED = "application/atom+xml,application/rss+xml,text/html;q=0.5,*/*;q=0.1"


def fields(**headers: str) -> dict[bytes, bytes]:
    return {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}


@pytest.mark.parametrize(
    ("method", "headers", "expected"),
    [
        # Browsers: over https with Sec-Fetch-*, over plain http without, and text browsers.
        ("GET", fields(sec_fetch_mode="navigate", sec_fetch_dest="document", accept=HTML), "browser"),
        ("GET", fields(sec_fetch_mode="navigate", sec_fetch_dest="document", range="bytes=5-"), "browser"),
        ("POST", fields(sec_fetch_mode="navigate", sec_fetch_dest="iframe", accept=HTML), "browser"),
        ("GET", fields(accept=HTML, accept_language="en"), "browser"),
        ("GET", fields(accept="text/html, text/plain, text/sgml, */*;q=0.01"), "browser"),
        ("GET", fields(accept="*/*", sec_purpose="prefetch", sec_fetch_mode="no-cors"), "browser"),
        ("GET", fields(accept="*/*", purpose="prefetch", accept_language="en"), "browser"),
        # Scripts, styles and images of a page.
        ("GET", fields(sec_fetch_mode="cors", sec_fetch_dest="empty", accept="*/*"), "script"),
        ("GET", fields(sec_fetch_mode="cors", sec_fetch_dest="empty", accept=HTML), "script"),
        ("GET", fields(sec_fetch_dest="image"), "script"),
        ("PUT", fields(sec_fetch_mode="cors"), "script"),
        ("PROPFIND", fields(sec_fetch_mode="cors", depth="1"), "script"),
        ("GET", fields(accept="*/*", accept_language="en"), "script"),
        ("GET", fields(accept="*/*", x_requested_with="XMLHttpRequest"), "script"),
        ("GET", fields(upgrade="websocket"), "script"),
        # Programs: curl and wget, aws and rclone, pip, a feed reader, a download manager, WebDAV clients.
        ("GET", fields(accept="*/*"), "program"),
        ("GET", fields(), "program"),
        ("GET", fields(accept=PIP), "program"),
        ("GET", fields(accept=FEED), "program"),
        ("GET", fields(accept=HTML, range="bytes=0-"), "program"),
        ("GET", fields(translate="f", accept_language="en", accept=HTML), "program"),
        ("PROPFIND", fields(depth="1", accept_language="en"), "program"),
        ("PUT", fields(accept=HTML), "program"),
    ],
)
def test_clients_are_told_apart_without_their_user_agent(method, headers, expected):
    assert client_kind(method, headers) == expected
    assert client_kind(method, {**headers, b"user-agent": b"Mozilla/5.0 (X11) Chrome/140.0"}) == expected


@pytest.mark.parametrize(("method", "is_program"), [("GET", False), ("POST", False), ("PUT", True), ("REPORT", True)])
def test_the_method_counts_as_well(method, is_program):
    identifier = Identifier(tokens=TokenCodecs([Key(1, bytes(64), 0.0)]), prefix="/~")
    visit = identifier.visit(0.0, "192.0.2.1", method, "/", list(fields(host="a.example", accept=HTML).items()))
    assert (BY_PROGRAM in visit.anomalies) is is_program

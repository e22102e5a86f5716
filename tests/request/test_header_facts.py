"""Parsed headers and their cache."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.request_kind import (
    is_embedded_file,
    is_from_elsewhere,
    is_into_window,
    is_prefetch,
    kind_claimed,
    origin_of,
)
from hedgerow.core.visit import BY_PROGRAM, ELSEWHERE, INTO_WINDOW
from hedgerow.request import identify as module
from hedgerow.request.client_kind import client_kind
from hedgerow.request.header_anomalies import find_anomalies
from hedgerow.request.identify import parse_headers

NAMES = [
    b"host", b"user-agent", b"accept", b"accept-language", b"accept-encoding", b"sec-ch-ua", b"sec-fetch-mode",
    b"sec-fetch-dest", b"sec-fetch-site", b"sec-fetch-user", b"sec-purpose", b"purpose", b"x-moz", b"upgrade", b"range",
    b"x-requested-with", b"cookie", b"referer", b"x-odd" * 300,
]  # fmt: skip
VALUES = [
    b"", b"a", b"b", b"example.org", b"127.0.0.1:80", b"curl/8", b"*/*", b"text/html", b"document", b"image", b"empty",
    b"navigate", b"cross-site", b"image/png", b"same-origin", b"none", b"prefetch", b"websocket", b"x" * 2000,
    b"Mozilla/5.0 (X11; rv:140.0) Gecko/1 Firefox/140.0",
]  # fmt: skip
FIELDS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=8, unique_by=lambda f: f[0])


@given(st.lists(st.tuples(FIELDS, st.sampled_from(["", "http", "https"]), st.booleans()), min_size=1, max_size=6))
def test_cached_facts_equal_computed_facts(requests):
    for headers, scheme, direct in requests:
        fields = dict(headers)
        host = fields.get(b"host", b"").decode()
        prefetch = is_prefetch(fields)
        assert parse_headers(fields, scheme, "1.1", direct=direct) == (
            fields.get(b"user-agent", b"").decode(),
            host,
            prefetch,
            kind_claimed("page", fields, prefetch=prefetch),
            "" if (origin := origin_of({**fields, b"referer": b""}, host)) == "unknown" else origin,
            find_anomalies(fields, scheme=scheme, host=host, version="1.1", direct=direct)
            + ((BY_PROGRAM,) if client_kind("GET", fields) == "program" else ())
            + ((ELSEWHERE,) if is_from_elsewhere(fields) else ())
            + ((INTO_WINDOW,) if is_from_elsewhere(fields) and is_into_window(fields) else ()),
            is_embedded_file(fields),
        )


@pytest.fixture
def memories(monkeypatch):
    shapes, known = {}, {}
    monkeypatch.setattr(module, "_shapes", shapes)
    monkeypatch.setattr(module, "_cache", known)
    monkeypatch.setattr(module, "_MAX_ENTRIES", 3)
    return shapes, known


def test_the_cache_is_bounded(memories):
    for n in range(10):
        parse_headers({b"x-%d" % n: b"", b"user-agent": b"a"}, "", "", direct=True)
        parse_headers({b"user-agent": b"a%d" % n}, "", "", direct=True)
        assert all(len(memory) <= 3 for memory in memories)


def test_long_headers_are_not_cached(memories):
    shapes, known = memories
    parse_headers({b"x" * 2000: b""}, "", "", direct=True)
    assert not shapes
    parse_headers({b"user-agent": b"x" * 2000}, "", "", direct=True)
    parse_headers({}, "x" * 2000, "", direct=False)
    assert not known

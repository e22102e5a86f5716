"""Content security policies: our style and our base are let through, and nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.markers.html.csp import allow_base, allow_files, allow_style, demands_trusted_types

HASH = b"'sha256-x'"


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (b"default-src 'self'", b"default-src 'self'; style-src 'self' 'sha256-x'"),
        (b"default-src 'self';", b"default-src 'self'; style-src 'self' 'sha256-x'"),
        (b"default-src 'none'", b"default-src 'none'; style-src 'sha256-x'"),
        (b"style-src 'none'", b"style-src 'sha256-x'"),
        (b"style-src", b"style-src 'sha256-x'"),
        (b"Style-Src a.example; img-src *", b"Style-Src a.example 'sha256-x'; img-src *"),
        (b"style-src a; style-src-elem b", b"style-src a; style-src-elem b 'sha256-x'"),
        (b"style-src a; style-src b", b"style-src a 'sha256-x'; style-src b"),
        (b"style-src 'unsafe-inline'", b"style-src 'unsafe-inline'"),
        (b"default-src * 'UNSAFE-INLINE'", b"default-src * 'UNSAFE-INLINE'"),
        (b"style-src 'unsafe-inline' 'nonce-y'", b"style-src 'unsafe-inline' 'nonce-y' 'sha256-x'"),
        (b"style-src 'unsafe-inline' 'sha512-y'", b"style-src 'unsafe-inline' 'sha512-y' 'sha256-x'"),
        (b"script-src 'self'", b"script-src 'self'"),
        (b"frame-ancestors 'none'; upgrade-insecure-requests", b"frame-ancestors 'none'; upgrade-insecure-requests"),
        (b"", b""),
        (b";;", b";;"),
        (b"style-src a, default-src b", b"style-src a 'sha256-x', default-src b; style-src b 'sha256-x'"),
    ],
)
def test_allow_style(policy, allowed):
    assert allow_style(policy, HASH) == allowed


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (b"default-src 'none'; base-uri 'none'", b"default-src 'none'; base-uri 'self'"),
        (b"Base-URI", b"Base-URI 'self'"),
        (b"base-uri https://a.example; img-src *", b"base-uri https://a.example 'self'; img-src *"),
        (b"base-uri 'SELF'", b"base-uri 'SELF'"),
        (b"base-uri 'none'; base-uri b", b"base-uri 'self'; base-uri b"),
        (b"default-src 'none'", b"default-src 'none'"),
        (b"img-src *, base-uri 'none'", b"img-src *, base-uri 'self'"),
        (b"", b""),
    ],
)
def test_allow_base(policy, allowed):
    assert allow_base(policy) == allowed


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (b"trusted-types 'none'", b"trusted-types hedgerow"),
        (b"trusted-types a b 'allow-duplicates'", b"trusted-types a b 'allow-duplicates' hedgerow"),
        (b"trusted-types *", b"trusted-types *"),
        (b"trusted-types hedgerow", b"trusted-types hedgerow"),
        (b"require-trusted-types-for 'script'", b"require-trusted-types-for 'script'"),
    ],
)
def test_the_worker_may_be_started_where_only_some_types_are_trusted(policy, allowed):
    assert allow_files(policy, b"example.org/.hedgerow/") == allowed


def test_a_policy_that_demands_trusted_types_is_known():
    assert demands_trusted_types(b"img-src *, Require-Trusted-Types-For 'script'")
    assert not demands_trusted_types(b"trusted-types a; script-src 'self'")


def read(header: bytes) -> list[dict[bytes, list[bytes]]]:
    """The policies of a header as a browser reads them: the first of each directive counts."""
    policies = []
    for text in header.split(b","):
        directives: dict[bytes, list[bytes]] = {}
        for part in text.split(b";"):
            if words := part.split():
                directives.setdefault(words[0].lower(), words[1:])
        policies.append(directives)
    return policies


def governing(policy: dict[bytes, list[bytes]], *names: bytes) -> list[bytes] | None:
    return next((policy[name] for name in names if name in policy), None)


def allows_inline(sources: list[bytes] | None, digest: bytes) -> bool:
    """The standard's "does element match source list for type and source", for a style element without a nonce."""
    if sources is None or digest in sources:
        return True
    lowered = [source.lower() for source in sources]
    return b"'unsafe-inline'" in lowered and not any(s.startswith((b"'sha", b"'nonce-")) for s in lowered)


NAMES = st.sampled_from(
    [b"default-src", b"style-src", b"style-src-elem", b"style-src-attr", b"script-src", b"img-src", b"Style-Src"]
)
SOURCES = st.sampled_from(
    [b"'self'", b"'none'", b"*", b"https:", b"a.example", b"'unsafe-inline'", b"'nonce-abc'", b"'sha256-other'"]
)
DIRECTIVES = st.tuples(NAMES, st.lists(SOURCES, max_size=3)).map(lambda pair: b" ".join([pair[0], *pair[1]]))
HEADERS = st.lists(st.lists(DIRECTIVES, max_size=4).map(b"; ".join), min_size=1, max_size=2).map(b", ".join)


@given(HEADERS)
def test_our_style_is_allowed_and_everything_else_means_what_it_meant(header):
    changed = allow_style(header, HASH)
    for before, after in zip(read(header), read(changed), strict=True):
        elem = (b"style-src-elem", b"style-src", b"default-src")
        assert allows_inline(governing(after, *elem), HASH)
        # Somebody else's inline style: allowed then as before.
        other = b"'sha256-someone'"
        assert allows_inline(governing(after, *elem), other) == allows_inline(governing(before, *elem), other)
        for names in (
            elem,
            (b"style-src-attr", b"style-src", b"default-src"),
            (b"script-src", b"default-src"),
            (b"img-src", b"default-src"),
        ):
            was, now = governing(before, *names), governing(after, *names)
            meant = [source for source in was or [] if source.lower() != b"'none'"]
            assert [source for source in now or [] if source.lower() not in {b"'none'", HASH}] == meant
            assert (was is None) == (now is None)
    assert allow_style(changed, HASH).count(HASH) >= changed.count(HASH)


@given(st.binary())
def test_no_header_breaks_it(header):
    allow_style(header, HASH)

"""Headers that carry addresses are marked; those that decide who sees ours are narrowed; nothing else changes."""

from __future__ import annotations

import time

import pytest
from hedgerow.markers.response_headers import keeps_referrers, marked_link, marked_refresh, private, widened_cookie
from hypothesis import given
from hypothesis import strategies as st


def mark(url: bytes) -> bytes | None:
    return b"/~" + url[1:] if url[:1] == b"/" and url[1:2] != b"/" else None


@pytest.mark.parametrize(
    ("value", "marked"),
    [
        (b"</a>; rel=next", b"</~a>; rel=next"),
        (b'</a>; rel="next"', b'</~a>; rel="next"'),
        (b'</a>; REL="Prev start"', b'</~a>; REL="Prev start"'),
        (b'</a>; title="a, <b>; rel=x"; rel=canonical', b'</~a>; title="a, <b>; rel=x"; rel=canonical'),
        (b"</a>;rel=next,</b>;rel=prev", b"</~a>;rel=next,</~b>;rel=prev"),
        (b"</a>; rel=next, </s.css>; rel=preload; as=style, </b>; rel=last",
         b"</~a>; rel=next, </s.css>; rel=preload; as=style, </~b>; rel=last"),
        (b"</a>; rel=stylesheet", b"</a>; rel=stylesheet"),
        (b"</a>; rel=preconnect", b"</a>; rel=preconnect"),
        (b"<//other.example/>; rel=next", b"<//other.example/>; rel=next"),
        (b"</a>", b"</a>"),
        (b"</a>; title=rel=next", b"</a>; title=rel=next"),
        (b"", b""),
        (b"nonsense", b"nonsense"),
        (b"<", b"<"),
    ],
)  # fmt: skip
def test_a_link_header(value, marked):
    assert marked_link(value, mark) == marked


@pytest.mark.parametrize(
    ("value", "marked"),
    [
        (b"5; url=/a", b"5; url=/~a"),
        (b"0;URL=/a", b"0;URL=/~a"),
        (b"0; url = '/a'", b"0; url = /~a"),
        (b'0; url="/a?b=c"', b"0; url=/~a?b=c"),
        (b"5, /a", b"5, /~a"),
        (b"1.5;/a", b"1.5;/~a"),
        (b"5", b"5"),
        (b"5;", b"5;"),
        (b"5; url=//other.example/", b"5; url=//other.example/"),
        (b"", b""),
        (b"soon", b"soon"),
    ],
)
def test_a_refresh_header(value, marked):
    assert marked_refresh(value, mark) == marked


@given(st.binary(max_size=60))
def test_headers_without_an_address_of_ours_stay(value):
    assert marked_link(value, lambda _: None) == value
    assert marked_refresh(value, lambda _: None) == value


@pytest.mark.parametrize(
    "value", [b"<" * 60_000, b"<>;" * 20_000, b"</a>;" + b" " * 60_000, b"</a>;a=" + b'"' * 60_000]
)
def test_a_long_header_takes_no_time(value):
    began = time.process_time()
    marked_link(value, mark)
    marked_refresh(value, mark)
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("value", "widened"),
    [
        (b"a=1", b"a=1; Path=/"),
        (b"a=1; HttpOnly", b"a=1; HttpOnly; Path=/"),
        (b"a=1; Path=/wiki", b"a=1; Path=/"),
        (b"a=1; path=/wiki/; Secure", b"a=1; path=/; Secure"),
        (b"a=1; PATH = /wiki/;Secure", b"a=1; PATH =/;Secure"),
        (b"a=1;Path=", b"a=1;Path=/"),
        (b"__Host-a=1; Path=/; Secure", b"__Host-a=1; Path=/; Secure"),
        (b"a=path=/b; Path=/c", b"a=path=/b; Path=/"),
        (b"a=x; Domain=example.org; Path=/c; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
         b"a=x; Domain=example.org; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT"),
        (b"", b"; Path=/"),
    ],
)  # fmt: skip
def test_a_cookie_is_for_the_whole_site(value, widened):
    assert widened_cookie(value) == widened
    assert widened_cookie(widened) == widened


@pytest.mark.parametrize(
    ("value", "narrowed"),
    [
        (b"", b"private"),
        (b"public", b"private"),
        (b"Public, max-age=60", b"private, max-age=60"),
        (b"s-maxage=600,max-age=60", b"private, max-age=60"),
        (b"max-age=31536000, immutable", b"private, max-age=31536000"),
        (b"no-cache", b"private, no-cache"),
        (b"private, no-cache", b"private, no-cache"),
        (b"no-store", b"no-store"),
        (b"no-store, public", b"no-store"),
        (b'no-cache="set-cookie, x", must-revalidate', b'private, no-cache="set-cookie, x", must-revalidate'),
    ],
)
def test_a_page_is_for_one_visitor_alone(value, narrowed):
    assert private(value) == narrowed
    assert private(narrowed) == narrowed


@pytest.mark.parametrize(
    ("policy", "keeps"),
    [
        (b"no-referrer", True),
        (b"same-origin", True),
        (b"Strict-Origin", True),
        (b"strict-origin-when-cross-origin", True),
        (b"origin", True),
        (b"unsafe-url", False),
        (b"no-referrer-when-downgrade", False),
        (b"no-referrer, unsafe-url", False),
        (b"unsafe-url, no-referrer", True),
        (b"no-referrer, ", True),
        (b"", False),
        (b"nonsense", False),
        (b"unsafe-url, nonsense", False),
        (b"no-referrer, nonsense", True),
    ],
)
def test_whether_a_policy_keeps_our_addresses_from_others(policy, keeps):
    assert keeps_referrers(policy) is keeps

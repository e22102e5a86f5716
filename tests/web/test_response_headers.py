"""
Headers that carry addresses are marked; those that decide who sees our addresses are narrowed; those that describe the
bytes of a changed body go. Nothing else changes.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.markers.scripts import LOADER, LOADER_HASH
from hedgerow.web.response_headers import (
    changed_headers,
    has_our_etag,
    header,
    is_html,
    keeps_referrers,
    marked_link,
    marked_refresh,
    page_script,
    private,
    restored_etags,
)


def mark(url: bytes) -> bytes | None:
    return b"/~" + url[1:] if url[:1] == b"/" and url[1:2] != b"/" else None


@pytest.mark.parametrize(
    ("value", "marked"),
    [
        (b"</a>; rel=next", b"</~a>; rel=next"),
        (b'</a>; rel="next"', b'</~a>; rel="next"'),
        (b'</a>; REL="Prev start"', b'</~a>; REL="Prev start"'),
        (b'</a>; title="a, <b>; rel=x"; rel=canonical', b'</a>; title="a, <b>; rel=x"; rel=canonical'),
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


# ---- A body that is changed


@pytest.mark.parametrize(
    ("content_type", "html"),
    [
        (b"text/html", True),
        (b"TEXT/HTML; charset=utf-8", True),
        (b"text/html ;charset=utf-8", True),
        (b"text/htmlx", False),
        (b"application/xhtml+xml", False),
        (b"text/plain", False),
        (b"", False),
    ],
)
def test_is_html(content_type, html):
    assert is_html(content_type) is html


TAGS = st.binary(max_size=20).map(lambda tag: tag.replace(b'"', b"").replace(b",", b""))


@given(st.lists(st.tuples(st.booleans(), TAGS), min_size=1, max_size=4))
def test_an_etag_is_weak_and_comes_back_as_it_was(tags):
    etags = [b"W/" * weak + b'"' + tag + b'"' for weak, tag in tags]
    marked = [dict(changed_headers([(b"etag", etag)]))[b"etag"] for etag in etags]
    assert all(etag.startswith(b'W/"') and has_our_etag(etag) for etag in marked)
    assert restored_etags(b", ".join(marked)) == b", ".join(etags)
    twice = [dict(changed_headers([(b"etag", etag)]))[b"etag"] for etag in marked]
    assert restored_etags(b", ".join(twice)) == b", ".join(marked)


@pytest.mark.parametrize("etag", [b"", b"abc", b'"', b"W/abc", b'"abc', b"*"])
def test_what_is_no_etag_stays(etag):
    assert changed_headers([(b"etag", etag)]) == [(b"etag", etag)]
    assert restored_etags(etag) == etag
    assert not has_our_etag(etag)


def test_headers_that_speak_of_the_bytes_go():
    headers = [
        (b"Content-Length", b"1"), (b"content-md5", b"x"), (b"Digest", b"x"), (b"accept-ranges", b"bytes"),
        (b"content-digest", b"x"), (b"repr-digest", b"x"), (b"Last-Modified", b"x"), (b"set-cookie", b"a"),
        (b"set-cookie", b"b"),
    ]  # fmt: skip
    assert changed_headers(headers) == [(b"Last-Modified", b"x"), (b"set-cookie", b"a"), (b"set-cookie", b"b")]
    assert header(headers, b"last-modified") == b"x"
    assert header(headers, b"missing") == b""


def test_the_script_of_a_page_is_loaded_after_it_unless_it_is_needed_at_once():
    script, attributes = b"/.hedgerow/1/page.js", b" data-signs"
    policy = (b"content-security-policy", b"script-src 'nonce-x'")
    headers, element = page_script([policy], b"a.example", b"/.hedgerow/", script, attributes, at_once=False)
    assert element == b'<script type="module" async data-src="%b" nonce="x" data-signs>%b</script>' % (script, LOADER)
    assert headers == [(policy[0], b"script-src 'nonce-x' %b a.example/.hedgerow/" % LOADER_HASH)]
    headers, element = page_script([policy], b"a.example", b"/.hedgerow/", script, attributes, at_once=True)
    assert element == b'<script src="%b" async nonce="x" data-signs></script>' % script
    assert headers == [(policy[0], b"script-src 'nonce-x' a.example/.hedgerow/")]


def test_a_page_whose_scripts_may_add_none_has_the_script_in_itself():
    trusted = [(b"Content-Security-Policy", b"require-trusted-types-for 'script'")]
    _, element = page_script(trusted, b"a.example", b"/.hedgerow/", b"/.hedgerow/1/page.js", b"", at_once=False)
    assert element == b'<script src="/.hedgerow/1/page.js" async></script>'

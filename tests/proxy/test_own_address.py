"""The upstream's own address in headers of responses: visitors stay behind the proxy."""

from __future__ import annotations

import asyncio
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.proxy.own_address import OwnAddresses
from hedgerow.web.http_client.pool import parse_origin

from .harness import call, proxied, scope_of

OWN = OwnAddresses(parse_origin("http://127.0.0.1:8000"), ["https://backend.internal", "http://[2001:db8::1]:81"])
HOST = b"site.example:8080"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        (b"http://127.0.0.1:8000/dir/", b"/dir/"),
        (b"HTTP://127.0.0.1:8000/dir/?a=1#b", b"/dir/?a=1#b"),
        (b"//127.0.0.1:8000/dir/", b"/dir/"),
        (b"http://127.0.0.1:8000", b"/"),
        (b"http://127.0.0.1:8000?a", b"/?a"),
        (b"https://backend.internal/x", b"/x"),
        (b"https://BACKEND.internal:443/x", b"/x"),
        (b"http://[2001:DB8::1]:81/x", b"/x"),
        # A server that was told the visitor's host adds its own port.
        (b"http://site.example:8000/dir/", b"/dir/"),
        # Otherwise the name of another host.
        (b"http://127.0.0.1:8000//other.example/", b"/.//other.example/"),
        (b"http://127.0.0.1:8000/\\other.example/", b"/./\\other.example/"),
    ],
)
def test_of_an_own_address_the_path_is_left(url, path):
    assert OWN.path(url, HOST) == path


@pytest.mark.parametrize(
    "url",
    [
        b"/dir/", b"dir/", b"", b"?a", b"#", b"mailto:a@b", b"https://127.0.0.1:8000/", b"http://127.0.0.1/",
        b"http://127.0.0.1:80000/", b"http://other.example:8000/", b"http://backend.internal/",
        b"http://127.0.0.1:8000.other.example/", b"http://127.0.0.1:8000@other.example/", b"http://site.example/",
        b"http://user@127.0.0.1:8000/", b"http:/127.0.0.1:8000/", b"ftp://127.0.0.1:8000/",
        # What the visitor knows as the site; perhaps a redirect to https.
        b"http://site.example:8080/", b"https://site.example:8080/",
    ],
)  # fmt: skip
def test_other_addresses_stay(url):
    assert OWN.path(url, HOST) is None


def test_the_visitors_own_host_is_never_replaced():
    """Else a redirect from http to https would lead to itself."""
    own = OwnAddresses(parse_origin("https://site.example"))
    assert own.path(b"https://site.example/a", b"site.example") is None
    assert own.path(b"https://site.example:443/a", b"site.example") is None
    assert own.path(b"https://site.example/a", b"www.example") == b"/a"
    # Without a port of its own the upstream adds none.
    assert own.path(b"https://www.example:443/a", b"www.example:8080") is None


@given(st.binary(max_size=20))
def test_a_path_never_leads_to_another_host(rest):
    path = OWN.path(b"http://127.0.0.1:8000/" + rest, HOST)
    assert path is not None
    assert urlsplit(urljoin("http://site.example/a/b", path.decode("latin-1"))).netloc == "site.example"


def test_headers_with_addresses_are_rewritten_and_no_others():
    own = b"http://127.0.0.1:8000"
    headers = [
        (b"location", own + b"/a"),
        (b"content-location", own + b"/b"),
        (b"refresh", b"5; url=" + own + b"/c"),
        (b"link", b"<" + own + b"/d>; rel=next, <https://cdn.example/e>; rel=preload"),
        (b"x-other", own + b"/f"),
        (b"set-cookie", b"a=" + own),
    ]
    assert OWN.rewritten(headers, HOST) == [
        (b"location", b"/a"),
        (b"content-location", b"/b"),
        (b"refresh", b"5; url=/c"),
        (b"link", b"</d>; rel=next, <https://cdn.example/e>; rel=preload"),
        *headers[4:],
    ]
    assert OWN.rewritten(headers[4:], HOST) is not None


@pytest.mark.parametrize("switched_on", [True, False])
def test_the_proxy_rewrites_if_it_is_told_to(switched_on):
    async def play(site, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 301 Moved\r\nLocation: %b/dir/\r\nContent-Length: 0\r\n\r\n" % site.url.encode())

    async def main():
        async with proxied(play) as (proxy, site):
            if switched_on:
                proxy._own_addresses = OwnAddresses(proxy.upstream.origin)
            start, *_ = await call(proxy, scope_of())
            wanted = b"/dir/" if switched_on else site.url.encode() + b"/dir/"
            assert dict(start["headers"])[b"location"] == wanted

    asyncio.run(main())

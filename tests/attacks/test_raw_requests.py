"""Raw requests through the real server and proxy: what the upstream must never see, and what must not break them."""

from __future__ import annotations

import pytest

from driving import START, settings
from hedgerow.proxy.proxy import Proxy
from hedgerow.web.app import Site as HedgerowSite
from hedgerow.web.asgi import Hedgerow
from hedgerow.web.http_client.pool import Upstream
from proxy.harness import Site, ask, run, serving

PAGE = b"<!DOCTYPE html><html><head><title>t</title></head><body><a href='/one'>one</a></body></html>"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b" % (len(PAGE), PAGE)
QUIET = "".join(
    f"[{name}]\n{what} = false\n" for name, what in (("state", "durable"), ("ledger", "enabled"), ("watch", "enabled"))
)
HANDSHAKE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


def exchange(request: bytes, answer: object = ANSWER, text: str = "", **options: object) -> tuple[bytes, list[bytes]]:
    """Send bytes through Hedgerow; return the answer, and the heads that the upstream got."""

    async def main() -> tuple[bytes, list[bytes]]:
        own = HedgerowSite(settings(QUIET + text))
        try:
            async with Site(answer) as upstream:
                proxy = Proxy(Upstream(upstream.url), **options)
                async with serving(Hedgerow(proxy, site=own, clock=lambda: START)) as port:
                    got = await ask(port, request)
                await proxy.upstream.close()
                return got, upstream.heads
        finally:
            own.close()

    return run(main())


@pytest.mark.parametrize(
    "request_",
    [
        b"Transfer-Encoding: chunk\r\nTransfer-Encoding: ed\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: , chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Transfer-Encoding: \x0bchunked\r\n",
    ],
)
def test_a_body_whose_end_is_uncertain_never_reaches_the_upstream(request_):
    """Our own: two halves of `chunked` in two headers were joined. The classic forms (CL.TE, TE.CL) as well."""
    got, heads = exchange(b"POST / HTTP/1.1\r\nHost: a\r\n" + request_ + b"\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n")
    assert got.split()[1] in {b"400", b"501"}
    assert heads == []


@pytest.mark.parametrize(
    "host",
    [
        b"a/b@c?d#e", b"a b", b"user@site.example", b"a,b", b"a\\b", b"a" * 50_000, b"[::1", b"a:b", b"a:999999",
        b"\xc3\xa9.example", b"%00", b"<script>", b"a'\"", b"a;b",
    ],
)  # fmt: skip
def test_a_host_that_is_none_is_refused(host):
    """Our own: `a/b@c?d#e`, or 50 KB of it, was passed on."""
    got, heads = exchange(b"GET / HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % host)
    assert got.split()[1] in {b"400", b"431"}
    assert heads == []


@pytest.mark.parametrize(
    "host", [b"a", b"site.example:8080", b"[2001:db8::1]:443", b"192.0.2.1", b"xn--e1afmkfd.example.", b"a_b", b""]
)
def test_a_host_that_is_one_is_not_refused(host):
    """The other side: names, addresses, ports, a final dot, and none at all."""
    got, heads = exchange(b"GET / HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % host)
    assert got.split()[1] == b"200"
    assert len(heads) == 1


@pytest.mark.parametrize("status", [b"099", b"000", b"99", b"600", b"999", b"101", b"1000", b"-1", b"2x0"])
def test_an_odd_status_of_the_upstream_is_a_bad_gateway(status):
    """Our own: status 099 was a KeyError, and without a body it was waited for another response for a minute."""
    for body in (b"ok", b""):
        got, _ = exchange(
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            b"HTTP/1.1 %b Odd\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body),
        )
        assert got.split()[1] == b"502"


@pytest.mark.parametrize("target", [b"http://internal.example/x?y=1", b"HTTP://internal.example:80/x?y=1"])
@pytest.mark.parametrize("handshake", [b"", HANDSHAKE], ids=["plain", "websocket"])
def test_an_absolute_target_names_no_other_host(target, handshake):
    """Our own: of a websocket handshake the upstream got the whole target, and served another virtual host."""
    request = b"GET %b HTTP/1.1\r\nHost: a\r\n%b\r\n" % (target, handshake or b"Connection: close\r\n")
    _, heads = exchange(request, preserve_host=False)
    assert len(heads) == 1
    assert heads[0].startswith(b"GET /x?y=1 HTTP/1.1\r\n")
    assert b"internal.example" not in heads[0]


@pytest.mark.parametrize("target", [b"http://[::1/", b"ftp://a/", b"x", b"http://a\x01b/"])
def test_a_handshake_for_nonsense_is_refused(target):
    """Our own: the target of a handshake is checked as that of any other request."""
    got, heads = exchange(b"GET %b HTTP/1.1\r\nHost: a\r\n%b\r\n" % (target, HANDSHAKE))
    assert b"101" not in got.split(b"\r\n")[0]
    assert not any(head.startswith(b"GET " + target) for head in heads)


@pytest.mark.parametrize(
    "upgrade",
    [
        HANDSHAKE,
        b"Connection: upgrade, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
        b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
        b"Connection: Upgrade, close\r\nUpgrade: foo/1\r\n",
        b"Upgrade: websocket\r\nConnection: close\r\n",
    ],
    ids=["websocket", "h2c", "half a handshake", "unknown", "not connected"],
)
def test_an_upgrade_that_is_not_answered_with_101_is_rewritten_or_withheld(upgrade):
    """Our own: an Upgrade header removed all protection where the upstream answered with an ordinary page."""
    got, _ = exchange(b"GET / HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n%b\r\n" % upgrade)
    assert b"<title>" not in got or b"~=" in got


@pytest.mark.parametrize("upgrade", [HANDSHAKE, b"Connection: close\r\nUpgrade: websocket\r\n"])
def test_strict_mode_holds_against_an_upgrade(upgrade):
    """Our own: a closed page came in answer to a handshake."""
    got, _ = exchange(b"GET /closed HTTP/1.1\r\nHost: a\r\n%b\r\n" % upgrade, text="[marker]\nstrict = true\n")
    assert b"<title>t</title>" not in got


@pytest.mark.parametrize(
    "name", [b"X-Forwarded-For", b"X_Forwarded_For", b"X-Real-IP", b"Forwarded", b"X-Forwarded-Host", b"Proxy"]
)
def test_a_forged_header_of_a_proxy_does_not_reach_the_upstream(name):
    """CVE-2025-46814, anubis#1890: the client writes its own address."""
    request = b"GET / HTTP/1.1\r\nHost: a\r\n%b: 203.0.113.9\r\nConnection: close\r\n\r\n" % name
    _, heads = exchange(request)
    assert b"203.0.113.9" not in heads[0]
    assert b"x-forwarded-for: 127.0.0.1" in heads[0].lower()


@pytest.mark.parametrize("name", [b"X-Original-URI", b"X-Original-URL", b"X-Rewrite-URL", b"X-Forwarded-Uri"])
def test_a_forged_original_address_changes_nothing(name):
    """GHSA-6wcg-mqvh-fcvg: such a header counted outside forward-auth, and opened other pages."""
    request = b"GET /closed HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n%b: /\r\nConnection: close\r\n\r\n" % name
    got, heads = exchange(request, text="[marker]\nstrict = true\n")
    assert got.split()[1] == b"403"
    assert heads == []

"""The reverse proxy: ASGI messages in and out, and real sockets where messages are not enough."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest
import uvicorn

from hedgerow.errors import UpstreamError
from hedgerow.proxy import proxy as module

from .harness import OK, ask, body_of, call, hanging, never, proxied, resident_bytes, run, scope_of, serving, until

# What goes in


def test_a_short_page_is_relayed_in_one_piece():
    async def main():
        async with proxied(OK) as (proxy, site):
            sent = await call(proxy, scope_of(path=b"/a%20b//;c=d", query=b"q=%C3%BC&&x"))
            assert sent == [
                {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]},
                {"type": "http.response.body", "body": b"ok", "more_body": False},
            ]
            assert site.heads[0].startswith(b"GET /a%20b//;c=d?q=%C3%BC&&x HTTP/1.1\r\n")

    run(main())


def test_without_a_raw_path_the_path_is_encoded_again():
    async def main():
        async with proxied(OK) as (proxy, site):
            scope = scope_of(path=b"/a b")
            del scope["raw_path"]
            await call(proxy, scope)
            assert site.heads[0].startswith(b"GET /a%20b HTTP/1.1\r\n")

    run(main())


def test_headers_are_passed_on_in_order_and_hop_by_hop_ones_are_not():
    headers = [
        (b"user-agent", b"me"),
        (b"cookie", b"a=1"),
        (b"connection", b"keep-alive, X-Private, close"),
        (b"x-private", b"1"),
        (b"keep-alive", b"timeout=5"),
        (b"te", b"trailers"),
        (b"trailer", b"x"),
        (b"upgrade", b"h2c"),
        (b"http2-settings", b"x"),
        (b"proxy-authorization", b"secret"),
        (b"proxy-connection", b"keep-alive"),
        (b"proxy", b"http://evil"),
        (b"expect", b"100-continue"),
        (b"cookie", b"b=2"),
        (b"authorization", b"Bearer x"),
        (b"x-bytes", b"\xe9\xff"),
    ]

    async def main():
        async with proxied(OK) as (proxy, site):
            await call(proxy, scope_of(headers))
            assert site.headers() == [
                ("user-agent", "me"),
                ("cookie", "a=1"),
                ("cookie", "b=2"),
                ("authorization", "Bearer x"),
                ("x-bytes", "\xe9\xff"),
                ("host", "site.example"),
                ("x-forwarded-for", "192.0.2.7"),
                ("x-forwarded-proto", "http"),
                ("x-forwarded-host", "site.example"),
            ]

    run(main())


CLAIMS = [
    (b"x-forwarded-for", b"198.51.100.1, 198.51.100.2"),
    (b"x-forwarded-proto", b"https"),
    (b"x-forwarded-host", b"public.example"),
    (b"x-forwarded-port", b"443"),
    (b"forwarded", b"for=198.51.100.1"),
    (b"x-real-ip", b"198.51.100.1"),
]


@pytest.mark.parametrize("hedgerow", [{}, {"hedgerow": {}}, {"hedgerow": {"peer_trusted": False}}])
def test_forwarding_headers_of_an_untrusted_peer_are_dropped(hedgerow):
    sly = [(name.replace(b"-", b"_"), value) for name, value in CLAIMS]

    async def main():
        async with proxied(OK) as (proxy, site):
            await call(proxy, scope_of(CLAIMS + sly, scheme="https", **hedgerow))
            assert site.headers() == [
                ("host", "site.example"),
                ("x-forwarded-for", "192.0.2.7"),
                ("x-forwarded-proto", "https"),
                ("x-forwarded-host", "site.example"),
            ]

    run(main())


def test_forwarding_headers_of_a_trusted_peer_are_extended_with_its_address():
    async def main():
        async with proxied(OK) as (proxy, site):
            await call(proxy, scope_of(CLAIMS, hedgerow={"peer_trusted": True}))
            assert sorted(site.headers()) == [
                ("forwarded", "for=198.51.100.1"),
                ("host", "site.example"),
                ("x-forwarded-for", "198.51.100.1, 198.51.100.2, 192.0.2.7"),
                ("x-forwarded-host", "public.example"),
                ("x-forwarded-port", "443"),
                ("x-forwarded-proto", "https"),
                ("x-real-ip", "198.51.100.1"),
            ]

    run(main())


def test_forwarding_headers_that_a_trusted_peer_omits_are_added():
    async def main():
        async with proxied(OK) as (proxy, site):
            await call(proxy, scope_of(hedgerow={"peer_trusted": True}))
            assert site.headers()[1:] == [
                ("x-forwarded-for", "192.0.2.7"),
                ("x-forwarded-proto", "http"),
                ("x-forwarded-host", "site.example"),
            ]

    run(main())


def test_a_client_without_an_address_gets_no_x_forwarded_for():
    async def main():
        async with proxied(OK) as (proxy, site):
            await call(proxy, scope_of(client=None))
            assert "x-forwarded-for" not in dict(site.headers())

    run(main())


def test_without_preserve_host_the_upstream_sees_its_own_host():
    async def main():
        async with proxied(OK, preserve_host=False) as (proxy, site):
            await call(proxy, scope_of())
            headers = dict(site.headers())
            assert f"http://{headers['host']}" == site.url
            assert headers["x-forwarded-host"] == "site.example"

    run(main())


def test_the_cache_of_header_names_is_bounded():
    roles = module._Roles()
    for number in range(3 * roles.MAX_NAMES):
        assert roles[b"x-%d" % number] == module._KEEP
    assert len(roles) == roles.MAX_NAMES
    assert roles[b"y" * 100_000] == module._KEEP
    assert roles[b"x_forwarded_for"] == module._FORWARDED


# Request bodies


def echo_length(site, reader, writer):
    """Answer each request with the framing and the body that came."""

    async def play():
        while True:
            head = await site.head(reader)
            if b"transfer-encoding: chunked" in head:
                body = b""
                while not body.endswith(b"0\r\n\r\n"):
                    body += await reader.read(65_536)
            else:
                length = dict(site.headers()).get("content-length", "0")
                body = await reader.readexactly(int(length))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    return play()


def part(body: bytes, *, more: bool = False) -> dict:
    return {"type": "http.request", "body": body, "more_body": more}


@pytest.mark.parametrize(
    ("headers", "framing", "body"),
    [
        ([(b"content-length", b"6")], ("content-length", "6"), b"abcdef"),
        ([(b"transfer-encoding", b"chunked")], ("transfer-encoding", "chunked"), b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"),
        (
            [(b"content-length", b"3"), (b"transfer-encoding", b"chunked")],
            ("transfer-encoding", "chunked"),
            b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
        ),
        (
            [(b"content-length", b"3"), (b"content-length", b"6")],
            ("transfer-encoding", "chunked"),
            b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
        ),
        ([(b"content-length", b"+6")], ("transfer-encoding", "chunked"), b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"),
    ],
)
def test_request_bodies_are_framed_again(headers, framing, body):
    async def main():
        async with proxied(echo_length) as (proxy, site):
            sent = await call(proxy, scope_of(headers, "POST"), part(b"abc", more=True), part(b"def"))
            assert body_of(sent) == body
            framings = [h for h in site.headers() if h[0] in {"content-length", "transfer-encoding"}]
            assert framings == [framing]

    run(main())


@pytest.mark.parametrize(("headers", "length"), [([], None), ([(b"content-length", b"0")], "0")])
def test_no_body_is_received_for_a_request_without_one(headers, length):
    async def receive():
        raise AssertionError

    async def main():
        async with proxied(OK) as (proxy, site):
            sent = []

            async def send(message):
                sent.append(message)

            await proxy(scope_of(headers, "POST"), receive, send)
            assert body_of(sent) == b"ok"
            assert dict(site.headers()).get("content-length") == length

    run(main())


def test_a_body_ends_at_its_length_even_if_the_server_announces_more():
    async def main():
        async with proxied(echo_length) as (proxy, _):
            scope = scope_of([(b"content-length", b"6")], "POST")
            sent = await call(proxy, scope, part(b"abc", more=True), part(b"def", more=True))
            assert body_of(sent) == b"abcdef"
            assert len(proxy.upstream._idle) == 1

    run(main())


def test_a_client_that_disconnects_during_its_body_ends_the_request():
    async def main():
        async with proxied(echo_length) as (proxy, site):
            scope = scope_of([(b"content-length", b"6")], "POST")
            assert await call(proxy, scope, part(b"abc", more=True), {"type": "http.disconnect"}) == []
            await site.gone.wait()
            assert proxy.upstream.open == 0

    run(main())


# What comes out


def test_response_headers_keep_order_and_duplicates():
    answer = (
        b"HTTP/1.1 404 Nope\r\nServer: theirs\r\nDate: today\r\nSet-Cookie: a=1\r\nX: y\r\nSet-Cookie: b=2\r\n"
        b"Keep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\nX-Trailer: 1\r\n\r\n"
    )

    async def main():
        async with proxied(answer) as (proxy, _):
            sent = await call(proxy, scope_of())
            assert sent[0]["status"] == 404
            assert sent[0]["headers"] == [
                (b"server", b"theirs"),
                (b"date", b"today"),
                (b"set-cookie", b"a=1"),
                (b"x", b"y"),
                (b"set-cookie", b"b=2"),
            ]
            assert sent[1:] == [{"type": "http.response.body", "body": b"no", "more_body": False}]

    run(main())


@pytest.mark.parametrize("status", [b"304 Not Modified", b"204 No Content"])
def test_a_response_without_a_body_has_no_length(status):
    async def main():
        async with proxied(b"HTTP/1.1 " + status + b'\r\nETag: "x"\r\nContent-Length: 2\r\n\r\n') as (proxy, _):
            sent = await call(proxy, scope_of())
            assert sent[0]["headers"] == [(b"etag", b'"x"')]
            assert body_of(sent) == b""

    run(main())


def test_the_length_in_a_response_to_head_is_forwarded():
    async def main():
        async with proxied(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n") as (proxy, _):
            sent = await call(proxy, scope_of(method="HEAD"))
            assert sent[0]["headers"] == [(b"content-length", b"1000")]
            assert body_of(sent) == b""

    run(main())


@pytest.mark.parametrize("answer", [b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", b"nonsense\r\n\r\n"])
def test_a_response_that_cannot_be_forwarded_is_an_error_before_the_start(answer):
    async def main():
        async with proxied(answer) as (proxy, _):
            with pytest.raises(UpstreamError) as caught:
                await call(proxy, scope_of())
            assert caught.value.kind == "broken"

    run(main())


def test_an_upstream_that_is_down_raises_upstream_error():
    async def main():
        async with proxied(OK) as (proxy, site):
            site._server.close()
            await site._server.wait_closed()
            with pytest.raises(UpstreamError) as caught:
                await call(proxy, scope_of())
            assert caught.value.kind == "connect"
            assert not proxy._active

    run(main())


def test_parts_of_a_body_are_sent_as_they_arrive():
    """The head as well, though its body is slow: a stream of events has begun when the first is still to come."""
    seen = asyncio.Event()

    async def play(site, reader, writer):
        await site.head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for chunk in (b"3\r\none\r\n", b"3\r\ntwo\r\n", b"0\r\n\r\n"):
            await seen.wait()
            seen.clear()
            writer.write(chunk)
        await reader.read()

    async def main():
        async with proxied(play) as (proxy, _):
            sent = []

            async def send(message):
                sent.append(message)
                if message["type"] == "http.response.body":
                    seen.set()

            await proxy(scope_of(), never, send)
            assert [message["body"] for message in sent[1:]] == [b"", b"one", b"two", b""]
            assert [message["more_body"] for message in sent[1:]] == [True, True, True, False]

    run(main())


# A client that leaves


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"])
def test_the_upstream_request_ends_when_the_client_disconnects(start):
    async def main():
        async with proxied(hanging(start)) as (proxy, site):
            left = asyncio.Event()
            asked = []

            async def receive():
                asked.append(1)
                if len(asked) == 1:
                    return part(b"")
                await left.wait()
                return {"type": "http.disconnect"}

            async def send(_):
                pass

            visit = asyncio.create_task(proxy(scope_of(), receive, send))
            await until(lambda: len(asked) == 2)
            assert not visit.done()
            left.set()
            await visit
            assert visit.cancelling() == 0
            await site.gone.wait()
            assert proxy.upstream.open == 0
            assert not proxy._active

    run(main())


def test_a_cancelled_request_is_cancelled():
    async def main():
        async with proxied(hanging(b"")) as (proxy, site):
            visit = asyncio.create_task(call(proxy, scope_of()))
            await until(lambda: bool(site.heads))
            visit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await visit
            await site.gone.wait()

    run(main())


def test_a_short_request_is_not_watched(monkeypatch):
    """Not before it is seen for the second time."""
    monkeypatch.setattr(module, "_WATCH_INTERVAL", 60)

    async def receive():
        raise AssertionError

    async def send(_):
        pass

    async def main():
        async with proxied(OK) as (proxy, _):
            for _ in range(20):
                await proxy(scope_of(), receive, send)
                proxy._watch_clients()
            request = module._ActiveRequest(never, asyncio.current_task())
            request.check()
            assert request.watcher is None
            request.receiving = True
            request.check()
            assert request.watcher is None
            request.receiving = False
            request.check()
            assert request.watcher is not None
            request.finish()

    run(main())


def test_watching_for_disconnects_ends_with_the_last_request(monkeypatch):
    monkeypatch.setattr(module, "_WATCH_INTERVAL", 0.01)

    async def main():
        async with proxied(OK) as (proxy, _):
            await call(proxy, scope_of())
            await until(lambda: proxy._watch_timer is None)
            await call(proxy, scope_of())
            assert proxy._watch_timer is not None

    run(main())


def test_lifespan_shutdown_closes_the_upstream():
    async def main():
        async with proxied(OK) as (proxy, _):
            await call(proxy, scope_of())
            messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
            sent = await call(proxy, {"type": "lifespan"}, *messages)
            assert [message["type"] for message in sent] == [
                "lifespan.startup.complete",
                "lifespan.shutdown.complete",
            ]
            assert proxy.upstream.open == 0

    run(main())


# Between real sockets


GET = b"GET / HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n"


def test_a_page_through_the_real_server():
    async def main():
        async with proxied(OK) as (proxy, site), serving(proxy) as port:
            answer = await ask(port, GET)
            assert answer == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"
            assert dict(site.headers())["x-forwarded-for"] == "127.0.0.1"

    run(main())


def test_an_upload_with_expect_100_continue():
    async def main():
        async with proxied(echo_length) as (proxy, site), serving(proxy) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"abc")
            assert (await reader.readuntil(b"abc")).startswith(b"HTTP/1.1 200 OK\r\n")
            assert "expect" not in dict(site.headers())
            writer.close()
            await writer.wait_closed()

    run(main())


@pytest.mark.parametrize("server", ["ours", "uvicorn"])
@pytest.mark.parametrize(
    "head", [b"Content-Length: 1000\r\n\r\nhalf", b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"]
)
def test_an_incomplete_page_is_not_passed_off_as_complete(head, server, caplog):
    async def play(site, reader, writer):
        await site.head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n" + head)
        await asyncio.sleep(0.05)

    async def main():
        async with proxied(play) as (proxy, _):
            if server == "ours":
                async with serving(proxy) as port:
                    answer = await ask(port, GET)
            else:
                answer = await on_plain_uvicorn(proxy)
            assert b"half" in answer
            assert not answer.endswith(b"0\r\n\r\n")
            assert len(answer) < 500

    with caplog.at_level(logging.INFO, "hedgerow.server"):
        run(main())
    if server == "ours":
        (line,) = [record for record in caplog.records if record.name == "hedgerow.server"]
        assert "closed the connection" in line.getMessage()
        assert line.exc_info is None


async def on_plain_uvicorn(app) -> bytes:
    options = {"http": "httptools", "ws": "none", "log_config": None, "proxy_headers": False, "lifespan": "off"}
    server = uvicorn.Server(uvicorn.Config(app, **options))
    with socket.create_server(("127.0.0.1", 0)) as door:
        task = asyncio.create_task(server.serve(sockets=[door]))
        while not server.started:
            await asyncio.sleep(0.005)
        answer = await ask(door.getsockname()[1], GET)
        server.should_exit = True
        await task
    return answer


def test_a_client_that_closes_its_socket_ends_the_upstream_request():
    async def main():
        async with proxied(hanging(b"")) as (proxy, site), serving(proxy) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await until(lambda: bool(site.heads))
            writer.close()
            await writer.wait_closed()
            await asyncio.wait_for(site.gone.wait(), 120)
            await until(lambda: proxy.upstream.open == 0)

    run(main())


def test_a_large_download_to_a_slow_client_is_not_buffered():
    size = 100_000_000
    sent = 0

    async def play(site, reader, writer):
        nonlocal sent
        await site.head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        block = bytes(1_000_000)
        while sent < size:
            writer.write(block)
            await writer.drain()
            sent += len(block)
        await reader.read()

    async def main():
        async with proxied(play) as (proxy, _), serving(proxy) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            before = resident_bytes()
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.3)
            assert sent < 30_000_000
            got = 0
            while got < size:
                got += len(await reader.read(1_000_000))
            assert resident_bytes() - before < 40_000_000
            writer.close()
            await writer.wait_closed()

    run(main())


def test_a_large_upload_to_a_slow_upstream_is_not_buffered():
    size = 50_000_000
    go = asyncio.Event()

    async def play(site, reader, writer):
        await site.head(reader)
        await go.wait()
        left = size
        while left:
            left -= len(await reader.read(1_000_000))
        writer.write(OK)
        await reader.read()

    async def main():
        async with proxied(play) as (proxy, _), serving(proxy) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            before = resident_bytes()
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
            block = bytes(500_000)
            sent = 0

            async def upload():
                nonlocal sent
                while sent < size:
                    writer.write(block)
                    await writer.drain()
                    sent += len(block)

            uploading = asyncio.create_task(upload())
            await asyncio.sleep(0.3)
            assert sent < 30_000_000
            go.set()
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 OK\r\n")
            await uploading
            assert resident_bytes() - before < 40_000_000
            writer.close()
            await writer.wait_closed()

    run(main())


def test_an_upload_refused_by_the_upstream_gets_its_response():
    async def play(site, reader, writer):
        await site.head(reader)
        writer.write(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 7\r\n\r\ntoo big")
        await reader.read(-1)

    async def main():
        async with proxied(play) as (proxy, _), serving(proxy) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + bytes(1000))
            assert (await reader.readuntil(b"too big")).startswith(b"HTTP/1.1 413 ")
            await until(lambda: proxy.upstream.open == 0)
            writer.close()
            await writer.wait_closed()

    run(main())

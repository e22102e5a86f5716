"""The proxy: by its messages alone where that tells all, else between real sockets."""

from __future__ import annotations

import asyncio
import http
import logging
import os
import socket
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

import pytest
import uvicorn
import uvloop
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve, unix_serve
from websockets.exceptions import ConnectionClosed

from hedgerow.errors import UpstreamError
from hedgerow.proxy import proxy as module
from hedgerow.proxy.proxy import Proxy
from hedgerow.proxy.server import make_server
from hedgerow.proxy.server_protocol import ServerLimits
from hedgerow.proxy.upstream.pool import Upstream

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def run(main):
    """Under uvloop, as in production."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(main, 300))


class Site:
    """An upstream that plays *play(site, reader, writer)* on each connection; bytes are always the answer."""

    def __init__(self, play) -> None:
        self._play = self._always(play) if isinstance(play, bytes) else play
        self._tasks: set[asyncio.Task[None]] = set()
        self.heads: list[bytes] = []
        self.connections = 0
        self.gone = asyncio.Event()

    @staticmethod
    def _always(answer: bytes):
        async def play(site, reader, writer):
            while True:
                await site.head(reader)
                writer.write(answer)

        return play

    async def head(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        return head

    def headers(self, number: int = -1) -> list[tuple[str, str]]:
        lines = self.heads[number].decode("latin-1").split("\r\n")[1:-2]
        return [tuple(line.split(": ", 1)) for line in lines]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._play(self, reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self.gone.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        while self._tasks:
            await asyncio.sleep(0)


@asynccontextmanager
async def proxied(play, **options) -> AsyncIterator[tuple[Proxy, Site]]:
    async with Site(play) as site:
        proxy = Proxy(Upstream(site.url), **options)
        try:
            yield proxy, site
        finally:
            await proxy.upstream.close()


@asynccontextmanager
async def serving(app, limits: ServerLimits | None = None) -> AsyncIterator[int]:
    """Run *app* on our server; gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        server = make_server(app, "127.0.0.1", 0, limits=limits, graceful=1)
        task = asyncio.create_task(server.serve(sockets=[door]))
        while not server.started:
            await asyncio.sleep(0.005)
        try:
            yield door.getsockname()[1]
        finally:
            server.should_exit = True
            await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.01)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def scope_of(headers=(), method="GET", path=b"/", query=b"", **more):
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path.decode(),
        "raw_path": path,
        "query_string": query,
        "headers": [(b"host", b"site.example"), *headers],
        "client": ("192.0.2.7", 5000),
        "server": ("127.0.0.1", 80),
        **more,
    }


async def never():
    """A client that stays and says nothing."""
    await asyncio.Event().wait()


async def call(proxy, scope, *received) -> list[dict]:
    """What the proxy sends when it receives *received*, and nothing more."""
    sent: list[dict] = []
    waiting = list(received)

    async def receive():
        if waiting:
            return waiting.pop(0)
        return await never()

    async def send(message):
        sent.append(message)

    await proxy(scope, receive, send)
    return sent


def body_of(sent: list[dict]) -> bytes:
    return b"".join(message["body"] for message in sent[1:])


# What goes in


def test_a_page_in_one_piece():
    async def main():
        async with proxied(OK) as (proxy, site):
            sent = await call(proxy, scope_of(path=b"/a%20b//;c=d", query=b"q=%C3%BC&&x"))
            assert sent == [
                {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]},
                {"type": "http.response.body", "body": b"ok", "more_body": False},
            ]
            assert site.heads[0].startswith(b"GET /a%20b//;c=d?q=%C3%BC&&x HTTP/1.1\r\n")

    run(main())


def test_a_server_that_does_not_tell_the_raw_path():
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
def test_what_a_stranger_claims_to_be_is_dropped(hedgerow):
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


def test_what_a_trusted_peer_says_is_passed_on_with_its_own_address():
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


def test_what_a_trusted_peer_leaves_out_is_added():
    async def main():
        async with proxied(OK) as (proxy, site):
            await call(proxy, scope_of(hedgerow={"peer_trusted": True}))
            assert site.headers()[1:] == [
                ("x-forwarded-for", "192.0.2.7"),
                ("x-forwarded-proto", "http"),
                ("x-forwarded-host", "site.example"),
            ]

    run(main())


def test_a_client_without_an_address():
    async def main():
        async with proxied(OK) as (proxy, site):
            await call(proxy, scope_of(client=None))
            assert "x-forwarded-for" not in dict(site.headers())

    run(main())


def test_the_upstreams_own_host():
    async def main():
        async with proxied(OK, preserve_host=False) as (proxy, site):
            await call(proxy, scope_of())
            headers = dict(site.headers())
            assert f"http://{headers['host']}" == site.url
            assert headers["x-forwarded-host"] == "site.example"

    run(main())


def test_names_without_end_are_not_all_remembered():
    roles = module._Roles()
    for number in range(3 * roles.MOST):
        assert roles[b"x-%d" % number] == module._KEEP
    assert len(roles) == roles.MOST
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
def test_bodies_are_framed_anew(headers, framing, body):
    async def main():
        async with proxied(echo_length) as (proxy, site):
            sent = await call(proxy, scope_of(headers, "POST"), part(b"abc", more=True), part(b"def"))
            assert body_of(sent) == body
            framings = [h for h in site.headers() if h[0] in {"content-length", "transfer-encoding"}]
            assert framings == [framing]

    run(main())


@pytest.mark.parametrize(("headers", "length"), [([], None), ([(b"content-length", b"0")], "0")])
def test_a_request_without_a_body_is_not_asked_for_one(headers, length):
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


def test_a_body_ends_with_its_length_even_if_the_server_has_not_said_so():
    async def main():
        async with proxied(echo_length) as (proxy, _):
            scope = scope_of([(b"content-length", b"6")], "POST")
            sent = await call(proxy, scope, part(b"abc", more=True), part(b"def", more=True))
            assert body_of(sent) == b"abcdef"
            assert proxy.upstream.idle == 1

    run(main())


def test_a_client_that_leaves_in_the_middle_of_its_body():
    async def main():
        async with proxied(echo_length) as (proxy, site):
            scope = scope_of([(b"content-length", b"6")], "POST")
            assert await call(proxy, scope, part(b"abc", more=True), {"type": "http.disconnect"}) == []
            await site.gone.wait()
            assert proxy.upstream.open == 0

    run(main())


# What comes out


def test_order_and_duplicates_are_kept():
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
def test_an_answer_without_a_body_has_no_length(status):
    async def main():
        async with proxied(b"HTTP/1.1 " + status + b'\r\nETag: "x"\r\nContent-Length: 2\r\n\r\n') as (proxy, _):
            sent = await call(proxy, scope_of())
            assert sent[0]["headers"] == [(b"etag", b'"x"')]
            assert body_of(sent) == b""

    run(main())


def test_a_heads_length_is_passed_on():
    async def main():
        async with proxied(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n") as (proxy, _):
            sent = await call(proxy, scope_of(method="HEAD"))
            assert sent[0]["headers"] == [(b"content-length", b"1000")]
            assert body_of(sent) == b""

    run(main())


@pytest.mark.parametrize("answer", [b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", b"nonsense\r\n\r\n"])
def test_what_cannot_be_passed_on_is_an_error_before_the_start(answer):
    async def main():
        async with proxied(answer) as (proxy, _):
            with pytest.raises(UpstreamError) as caught:
                await call(proxy, scope_of())
            assert caught.value.kind == "broken"

    run(main())


def test_an_upstream_that_is_down():
    async def main():
        async with proxied(OK) as (proxy, site):
            site._server.close()
            await site._server.wait_closed()
            with pytest.raises(UpstreamError) as caught:
                await call(proxy, scope_of())
            assert caught.value.kind == "connect"
            assert not proxy._flights

    run(main())


def test_pieces_are_sent_as_they_come():
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


def hanging(start: bytes):
    async def play(site, reader, writer):
        await site.head(reader)
        writer.write(start)
        await reader.read()

    return play


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"])
def test_the_exchange_ends_when_the_client_leaves(start):
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
            assert not proxy._flights

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
    monkeypatch.setattr(module, "_LOOK_EVERY", 60)

    async def receive():
        raise AssertionError

    async def send(_):
        pass

    async def main():
        async with proxied(OK) as (proxy, _):
            for _ in range(20):
                await proxy(scope_of(), receive, send)
                proxy._look_out()
            flight = module._Flight(never)
            flight.look()
            assert flight.watcher is None
            flight.receiving = True
            flight.look()
            assert flight.watcher is None
            flight.receiving = False
            flight.look()
            assert flight.watcher is not None
            flight.land()

    run(main())


def test_the_lookout_ends_with_the_last_request(monkeypatch):
    monkeypatch.setattr(module, "_LOOK_EVERY", 0.01)

    async def main():
        async with proxied(OK) as (proxy, _):
            await call(proxy, scope_of())
            await until(lambda: proxy._lookout is None)
            await call(proxy, scope_of())
            assert proxy._lookout is not None

    run(main())


def test_lifespan():
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


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


GET = b"GET / HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n"


def test_through_the_server_and_back():
    async def main():
        async with proxied(OK) as (proxy, site), serving(proxy) as port:
            answer = await ask(port, GET)
            assert answer == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"
            assert dict(site.headers())["x-forwarded-for"] == "127.0.0.1"

    run(main())


def test_an_upload_that_waits_for_leave():
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
def test_half_a_page_is_not_passed_off_as_a_whole_one(head, server, caplog):
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


def test_a_client_that_closes_ends_the_exchange():
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


def test_a_big_download_to_a_slow_client():
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


def test_a_big_upload_to_a_slow_upstream():
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


def test_a_refused_upload():
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


# Websockets


@asynccontextmanager
async def websocket_site(handler, **options) -> AsyncIterator[Upstream]:
    async with serve(handler, "127.0.0.1", 0, **options) as server:
        yield Upstream(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")


def converse(handler, client, *, server_options=None, limits=None, **options) -> None:
    """Let *client(port)* talk through the proxy to a server that runs *handler*."""

    async def main():
        async with websocket_site(handler, **(server_options or {})) as upstream:
            proxy = Proxy(upstream, **options)
            async with serving(proxy, limits) as port:
                await client(port)

    run(main())


def test_a_websocket_over_a_unix_socket():
    async def main():
        with tempfile.TemporaryDirectory() as folder:
            proxy = Proxy(Upstream(f"unix:{folder}/site"))
            async with (
                unix_serve(echo, f"{folder}/site"),
                serving(proxy) as port,
                connect(f"ws://127.0.0.1:{port}/", proxy=None) as websocket,
            ):
                await websocket.send("hello")
                assert await websocket.recv() == "hello"

    run(main())


async def echo(websocket):
    async for message in websocket:
        await websocket.send(message)


def test_text_and_bytes_both_ways():
    async def client(port):
        async with connect(f"ws://127.0.0.1:{port}/", proxy=None) as websocket:
            for message in ("hello", "ü" * 1000, b"\x00\xff", b"", ""):
                await websocket.send(message)
                assert await websocket.recv() == message

    converse(echo, client)


def test_what_a_handshake_carries():
    seen = {}

    async def handler(websocket):
        seen["path"] = websocket.request.path
        seen["headers"] = websocket.request.headers
        await websocket.close()

    def greet(_, __, response):
        response.headers["Set-Cookie"] = "a=1"
        response.headers["Set-Cookie"] = "b=2"
        return response

    async def client(port):
        headers = {
            "Cookie": "c=3",
            "Authorization": "Bearer x",
            "X-Forwarded-For": "198.51.100.1",
            "User-Agent": "me",
        }
        uri = f"ws://127.0.0.1:{port}/a%20b;c=d/e?q=%C3%BC&&x"
        options = {"subprotocols": ["chat", "talk"], "origin": "https://site.example"}
        async with connect(uri, additional_headers=headers, user_agent_header=None, proxy=None, **options) as websocket:
            assert websocket.subprotocol == "talk"
            assert websocket.response.headers.get_all("Set-Cookie") == ["a=1", "b=2"]
            await websocket.wait_closed()
        headers = seen["headers"]
        # The client library drops the parameters of the last segment; ours must not, so they are in another.
        assert seen["path"] == "/a%20b;c=d/e?q=%C3%BC&&x"
        assert headers["Host"] == f"127.0.0.1:{port}"
        assert headers["Cookie"] == "c=3"
        assert headers["Authorization"] == "Bearer x"
        assert headers["Origin"] == "https://site.example"
        assert headers["User-Agent"] == "me"
        assert headers.get_all("X-Forwarded-For") == ["127.0.0.1"]
        assert headers["X-Forwarded-Proto"] == "http"
        assert headers["Sec-WebSocket-Protocol"] == "chat, talk"

    converse(handler, client, server_options={"subprotocols": ["talk"], "process_response": greet})


CLOSINGS = [(1000, ""), (1001, "moving"), (4321, "own"), (1008, "no")]


def test_how_the_upstream_closes_is_how_the_client_sees_it():
    async def handler(websocket):
        await websocket.send("last words")
        await websocket.close(*CLOSINGS[int(websocket.request.path[1:])])

    async def client(port):
        for number, closing in enumerate(CLOSINGS):
            async with connect(f"ws://127.0.0.1:{port}/{number}", proxy=None) as websocket:
                assert await websocket.recv() == "last words"
                with pytest.raises(ConnectionClosed) as caught:
                    await websocket.recv()
                assert (caught.value.rcvd.code, caught.value.rcvd.reason) == closing

    converse(handler, client)


def test_how_the_client_closes_is_how_the_upstream_sees_it():
    seen = asyncio.Queue()

    async def handler(websocket):
        try:
            await websocket.recv()
        except ConnectionClosed as closed:
            seen.put_nowait((closed.rcvd.code, closed.rcvd.reason))

    async def client(port):
        for closing in CLOSINGS:
            websocket = await connect(f"ws://127.0.0.1:{port}/", proxy=None)
            await websocket.close(*closing)
            assert await seen.get() == closing

    converse(handler, client)


def test_a_client_that_is_lost():
    seen = asyncio.Queue()

    async def handler(websocket):
        try:
            await websocket.recv()
        except ConnectionClosed as closed:
            seen.put_nowait(closed.rcvd.code)

    async def client(port):
        websocket = await connect(f"ws://127.0.0.1:{port}/", proxy=None)
        websocket.transport.abort()
        assert await seen.get() == 1001

    converse(handler, client)


def test_an_upstream_that_is_lost():
    async def handler(websocket):
        websocket.transport.abort()

    async def client(port):
        async with connect(f"ws://127.0.0.1:{port}/", proxy=None) as websocket:
            with pytest.raises(ConnectionClosed) as caught:
                await websocket.recv()
            assert caught.value.rcvd.code == 1011

    converse(handler, client)


def test_a_handshake_that_the_upstream_refuses():
    def refuse(connection, request):
        status = http.HTTPStatus(int(request.path[1:]))
        response = connection.respond(status, "go away\n")
        response.headers["X-Reason"] = "because"
        if status == http.HTTPStatus.FOUND:
            response.headers["Location"] = "/elsewhere"
        return response

    async def client(port):
        for status in (302, 403, 503):
            answer = await ask(port, WEBSOCKET.replace(b"/", b"/%d" % status, 1))
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 %d " % status)
            assert b"x-reason: because" in head.lower()
            assert (b"location: /elsewhere" in head.lower()) == (status == 302)
            assert body == b"go away\n"

    converse(echo, client, server_options={"process_request": refuse})


WEBSOCKET = (
    b"GET / HTTP/1.1\r\nHost: site.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.mark.parametrize(
    ("play", "status"),
    [(None, 502), (b"nonsense\r\n\r\n", 502), (hanging(b""), 504)],
    ids=["nobody", "nonsense", "silence"],
)
def test_a_handshake_that_fails(play, status, caplog):
    async def main():
        async with Site(play or b"") as site:
            if play is None:
                site._server.close()
                await site._server.wait_closed()
            options = {"open_timeout": 0.2} if status == 504 else {}
            async with serving(Proxy(Upstream(site.url), **options)) as port:
                answer = await ask(port, WEBSOCKET)
                assert answer.startswith(b"HTTP/1.1 %d " % status)

    run(main())
    here = [record for record in caplog.records if record.threadName == threading.current_thread().name]
    assert not [record for record in here if record.levelno >= logging.ERROR]


def test_a_server_that_knows_only_to_close():
    async def main():
        async with proxied(b"nonsense\r\n\r\n") as (proxy, _):
            scope = scope_of(type="websocket", scheme="ws", subprotocols=[])
            sent = await call(proxy, scope, {"type": "websocket.connect"})
            assert sent == [{"type": "websocket.close", "code": 1011}]

    run(main())


def test_messages_have_a_limit_from_either_side():
    async def handler(websocket):
        with suppress(ConnectionClosed):
            async for message in websocket:
                await websocket.send("x" * int(message))

    async def client(port):
        async with connect(f"ws://127.0.0.1:{port}/", proxy=None, max_size=None) as websocket:
            await websocket.send("1000")
            assert len(await websocket.recv()) == 1000
            await websocket.send("1001")
            with pytest.raises(ConnectionClosed) as caught:
                await websocket.recv()
            assert caught.value.rcvd.code == 1009
        async with connect(f"ws://127.0.0.1:{port}/", proxy=None) as websocket:
            await websocket.send("1" * 1001)
            with pytest.raises(ConnectionClosed) as caught:
                await websocket.recv()
            assert caught.value.rcvd.code == 1009

    converse(handler, client, message_limit=1000, limits=ServerLimits(message=1000))


def test_a_slow_listener_slows_the_speaker():
    sent = 0

    async def handler(websocket):
        nonlocal sent
        with suppress(ConnectionClosed):
            for _ in range(1000):
                await websocket.send(bytes(100_000))
                sent += 1

    async def client(port):
        async with connect(f"ws://127.0.0.1:{port}/", proxy=None, max_queue=1, compression=None) as websocket:
            await websocket.recv()
            await asyncio.sleep(0.5)
            assert sent < 500
            for _ in range(999):
                await websocket.recv()

    converse(handler, client)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("site.example", ("site.example", 80)),
        ("site.example:8443", ("site.example", 8443)),
        ("[::1]:8080", ("::1", 8080)),
        ("[::1]", ("::1", 80)),
        ("odd:name", ("odd:name", 80)),
    ],
)
def test_the_parts_of_a_host(host, expected):
    assert module._split_host(host, 80) == expected

"""Websockets through the proxy: handshake, messages, close codes and limits."""

from __future__ import annotations

import asyncio
import http
import logging
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve, unix_serve
from websockets.exceptions import ConnectionClosed

from hedgerow.proxy import websocket as module
from hedgerow.proxy.proxy import Proxy
from hedgerow.proxy.server_protocol import ServerLimits
from hedgerow.web.http_client.pool import Upstream

from .harness import Site, ask, call, hanging, proxied, run, scope_of, serving


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


def test_text_and_bytes_are_relayed_both_ways():
    async def client(port):
        async with connect(f"ws://127.0.0.1:{port}/", proxy=None) as websocket:
            for message in ("hello", "ü" * 1000, b"\x00\xff", b"", ""):
                await websocket.send(message)
                assert await websocket.recv() == message

    converse(echo, client)


def test_headers_path_and_subprotocol_of_the_handshake_are_forwarded():
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


def test_the_upstreams_close_code_reaches_the_client():
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


def test_the_clients_close_code_reaches_the_upstream():
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


def test_a_lost_client_closes_the_upstream_websocket():
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


def test_a_lost_upstream_closes_the_client_websocket():
    async def handler(websocket):
        websocket.transport.abort()

    async def client(port):
        async with connect(f"ws://127.0.0.1:{port}/", proxy=None) as websocket:
            with pytest.raises(ConnectionClosed) as caught:
                await websocket.recv()
            assert caught.value.rcvd.code == 1011

    converse(handler, client)


def test_the_upstreams_refusal_of_a_handshake_reaches_the_client():
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
def test_a_failed_handshake_is_502_or_504(play, status, caplog):
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


def test_a_server_without_handshake_responses_closes_the_websocket():
    async def main():
        async with proxied(b"nonsense\r\n\r\n") as (proxy, _):
            scope = scope_of(type="websocket", scheme="ws", subprotocols=[])
            sent = await call(proxy, scope, {"type": "websocket.connect"})
            assert sent == [{"type": "websocket.close", "code": 1011}]

    run(main())


def test_messages_are_limited_in_both_directions():
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


def test_a_slow_reader_slows_the_sender():
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
def test_name_and_port_of_a_host_header(host, expected):
    assert module._split_host(host, 80) == expected

"""How we run uvicorn: what clients may send, how slowly, and what they hear if they break the rules."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from attached import attached
from hedgerow.errors import HedgerowError
from hedgerow.proxy import server as module
from hedgerow.proxy.server import make_server
from hedgerow.proxy.server_protocol import ServerLimits

HOST = b"Host: site.example\r\n"


class App:
    """An application with a path for each thing that a test wants of one."""

    def __init__(self) -> None:
        self.disconnects = 0
        self.ended = threading.Event()
        self.flooded = threading.Event()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
        else:
            try:
                await getattr(self, scope["path"].strip("/") or "index")(scope, receive, send)
            finally:
                self.ended.set()

    @staticmethod
    async def answer(send, body: bytes, headers=(), status=200):
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
        await send({"type": "http.response.body", "body": body})

    async def index(self, scope, receive, send):
        """The scope as it is after the body was received, so that late changes would show."""
        body = await self.read(receive)
        shown = {key: scope[key] for key in ("method", "path", "http_version", "root_path", "client", "scheme")}
        shown["raw_path"] = scope["raw_path"].decode()
        shown["query"] = scope["query_string"].decode()
        shown["headers"] = [[name.decode(), value.decode("latin-1")] for name, value in scope["headers"]]
        shown["body"] = body.decode("latin-1")
        await self.answer(send, json.dumps(shown).encode())

    @staticmethod
    async def read(receive) -> bytes:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return body + b"<left>"
            body += message["body"]
            if not message["more_body"]:
                return body

    async def slow(self, _, __, send):
        await asyncio.sleep(0.1)
        await self.answer(send, b"slow")

    async def leaver(self, _, receive, __):
        while (await receive())["type"] != "http.disconnect":
            pass
        self.disconnects += 1

    async def early(self, _, __, send):
        """Answers without waiting for the body."""
        await self.answer(send, b"early")

    async def lazy(self, _, receive, send):
        """Lets the body wait for longer than the client may."""
        await asyncio.sleep(2.5)
        await self.answer(send, b"%d" % len(await self.read(receive)))

    async def stream(self, _, __, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"one", b"", b"two"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})

    async def half(self, _, __, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise HedgerowError("the other half is lost")

    async def half_stream(self, _, __, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise HedgerowError("the other half is lost")

    async def broken(self, _, __, ___):
        raise HedgerowError("nothing there")

    async def crash(self, _, __, ___):
        raise ZeroDivisionError

    async def silent(self, _, __, ___):
        pass

    async def inject(self, _, __, send):
        await self.answer(send, b"", [(b"location", b"/\r\nset-cookie: evil=1")])

    async def too_long(self, _, __, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
        await send({"type": "http.response.body", "body": b"four"})

    async def unmodified(self, _, __, send):
        await send({"type": "http.response.start", "status": 304, "headers": [(b"content-length", b"9")]})
        await send({"type": "http.response.body"})

    async def bye(self, _, __, send):
        await self.answer(send, b"bye", [(b"connection", b"close")])

    async def flood(self, _, __, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})
        await send({"type": "http.response.body"})
        self.flooded.set()


@contextmanager
def running(limits: ServerLimits | None = None, door: socket.socket | None = None) -> Iterator[Server]:
    """Our server in a thread of its own."""
    door = door or socket.create_server(("127.0.0.1", 0))
    app = App()
    server = make_server(app, "127.0.0.1", 0, limits=limits, grace_period=2)
    thread = threading.Thread(target=lambda: uvloop.run(server.serve(sockets=[door])))
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield Server(app, server, door.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
        door.close()


class Server:
    def __init__(self, app: App, server, port: int) -> None:
        self.app = app
        self.state = server.server_state
        self.port = port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=120)

    def ask(self, request: bytes) -> bytes:
        """Everything that the server says until it closes."""
        with self.connect() as client:
            client.sendall(request)
            return rest(client)


def rest(client: socket.socket) -> bytes:
    said = b""
    while piece := client.recv(65_536):
        said += piece
    return said


def until(condition) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def hasty() -> Iterator[Server]:
    """A server with little patience, which looks at its clock ten times a second."""
    before, module._TICKS_PER_SECOND = module._TICKS_PER_SECOND, 1
    limits = ServerLimits(head_timeout=1.5, body_timeout=1.5, write_timeout=1.5, keep_alive=1.5, min_rate=1)
    with running(limits) as server:
        yield server
    module._TICKS_PER_SECOND = before


def get(path: bytes = b"/", *headers: bytes, close: bool = True) -> bytes:
    lines = [b"GET " + path + b" HTTP/1.1", b"Host: site.example", *headers]
    if close:
        lines.append(b"Connection: close")
    return b"\r\n".join([*lines, b"", b""])


def post(path: bytes, body: bytes, *headers: bytes, length: int | None = None) -> bytes:
    lines = [b"POST " + path + b" HTTP/1.1", b"Host: site.example", b"Connection: close", *headers]
    if not any(line.startswith(b"Transfer-Encoding") for line in headers):
        lines.append(b"Content-Length: %d" % (len(body) if length is None else length))
    return b"\r\n".join([*lines, b"", body])


def parsed(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    return int(lines[0].split()[1]), dict(line.lower().split(": ", 1) for line in lines[1:]), body


def shown(answer: bytes) -> dict:
    status, _, body = parsed(answer)
    assert status == 200
    return json.loads(body)


def assert_refused(answer: bytes, status: int) -> None:
    got, headers, body = parsed(answer)
    assert got == status
    assert headers == {
        "content-type": "text/plain; charset=utf-8",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "connection": "close",
    }
    assert body.startswith(b"%d " % status)
    assert len(body) < 100


# Requests as they should be


def test_a_request_reaches_the_application_unchanged(server):
    seen = shown(server.ask(get(b"/?a=%20b&&c", b"X-Thing: \xe9", b"Cookie: a", b"Cookie: b")))
    assert seen["method"] == "GET"
    assert (seen["path"], seen["raw_path"], seen["query"]) == ("/", "/", "a=%20b&&c")
    assert seen["http_version"] == "1.1"
    assert seen["scheme"] == "http"
    assert seen["root_path"] == ""
    assert seen["client"][0] == "127.0.0.1"
    assert seen["headers"] == [
        ["host", "site.example"],
        ["x-thing", "\xe9"],
        ["cookie", "a"],
        ["cookie", "b"],
        ["connection", "close"],
    ]


@pytest.mark.parametrize(
    ("target", "path", "raw_path", "query"),
    [
        (b"/%2F%C3%BC/?", "//ü/", "/%2F%C3%BC/", ""),
        (b"//index?x", "//index", "//index", "x"),
        (b"http://other.example/?q", "/", "/", "q"),
        (b"http://other.example", "/", "/", ""),
        (b"/?a?b", "/", "/", "a?b"),
        (b"/#part", "/", "/", ""),
    ],
)
def test_targets_are_split_into_path_and_query(server, target, path, raw_path, query):
    if path.strip("/") not in {"", "index"}:
        server.app.__dict__[path.strip("/")] = server.app.index
    seen = shown(server.ask(get(target)))
    assert (seen["path"], seen["raw_path"], seen["query"]) == (path, raw_path, query)


def test_an_options_request_for_the_server_itself(server):
    server.app.__dict__["*"] = server.app.index
    seen = shown(server.ask(get(b"*").replace(b"GET", b"OPTIONS")))
    assert (seen["path"], seen["raw_path"]) == ("*", "*")


def test_forwarded_headers_do_not_change_the_client_address(server):
    seen = shown(server.ask(get(b"/", b"X-Forwarded-For: 192.0.2.1", b"X-Forwarded-Proto: https")))
    assert (seen["client"][0], seen["scheme"]) == ("127.0.0.1", "http")


def test_the_server_adds_no_headers_of_its_own(server):
    assert set(parsed(server.ask(get()))[1]) == {"content-length", "connection"}


def test_one_connection_serves_many_requests(server):
    with server.connect() as client:
        for _ in range(5):
            client.sendall(get(b"/stream", close=False))
            said = b""
            while not said.endswith(b"0\r\n\r\n"):
                said += client.recv(65_536)
            assert said == (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


def test_pipelined_requests_are_answered_in_order(server):
    answer = server.ask(get(b"/slow", close=False) + get(b"/early", close=False) + post(b"/", b"abc"))
    bodies = re.findall(rb"\r\n\r\n(slow|early|\{.*\})", answer)
    assert bodies[:2] == [b"slow", b"early"]
    assert json.loads(bodies[2])["body"] == "abc"
    assert answer.count(b"HTTP/1.1 200 OK") == 3


def test_a_request_that_arrives_byte_by_byte(server):
    with server.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in post(b"/", b"abc"):
            client.sendall(bytes([number]))
        assert shown(rest(client))["body"] == "abc"


def test_chunks_are_decoded_and_trailers_dropped(server):
    """Trailers come after the headers were judged, so they must not become headers."""
    body = b"3\r\nabc\r\n4;ext\r\ndefg\r\n0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
    seen = shown(server.ask(post(b"/", body, b"Transfer-Encoding: chunked")))
    assert seen["body"] == "abcdefg"
    assert "x-forwarded-for" not in dict(seen["headers"])


def test_a_client_with_expect_100_continue_gets_it(server):
    with server.connect() as client:
        client.sendall(post(b"/", b"", b"Expect: 100-continue", length=3))
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"abc")
        assert shown(rest(client))["body"] == "abc"


def test_a_client_with_expect_100_continue_may_get_the_response_at_once(server):
    answer = server.ask(post(b"/early", b"", b"Expect: 100-continue", length=3))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_response_instead_of_100_continue_ends_the_connection(server):
    """The client does not send its body any more: what it sends next would be read as that body."""
    request = post(b"/early", b"", b"Expect: 100-continue", length=3).replace(b"Connection: close\r\n", b"")
    with server.connect() as client:
        client.sendall(request)
        status, headers, body = parsed(rest(client))
    assert (status, headers["connection"], body) == (200, "close", b"early")


def test_a_response_before_the_end_of_the_body_keeps_the_connection_usable(server):
    with server.connect() as client:
        client.sendall(post(b"/early", b"x", length=100_000).replace(b"Connection: close\r\n", b""))
        assert client.recv(1000).endswith(b"early")
        client.sendall(bytes(99_999) + get())
        assert shown(rest(client))["method"] == "GET"


@pytest.mark.parametrize("upgrade", [b"h2c", b"foo", b"websocket"])
def test_an_unsupported_upgrade_is_an_ordinary_request(server, upgrade):
    """The parser would read the body as the next request."""
    smuggled = get(b"/crash")
    request = post(b"/", smuggled, b"Upgrade: " + upgrade)
    seen = shown(server.ask(request.replace(b"Connection: ", b"Connection: upgrade, ", 1)))
    assert seen["body"] == smuggled.decode()
    assert seen["method"] == "POST"
    assert "upgrade" not in dict(seen["headers"])


def test_http_1_0_requests_close_the_connection(server):
    request = b"GET /stream HTTP/1.0\r\n\r\n"
    assert server.ask(request) == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nonetwo"


def test_responses_without_a_body(server):
    head = server.ask(get(b"/bye").replace(b"GET", b"HEAD"))
    assert head == b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\n"
    unmodified = server.ask(get(b"/unmodified"))
    assert unmodified == b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\nconnection: close\r\n\r\n"


def test_an_application_may_end_the_connection(server):
    assert server.ask(get(b"/bye", close=False)).endswith(b"\r\n\r\nbye")


# Requests as they should not be

NONSENSE = {
    "garbage": b"\x16\x03\x01\x02\x00\x01",
    "words": b"hello there\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "unknown method": b"FROB / HTTP/1.1\r\n" + HOST + b"\r\n",
    "bytes in the path": "GET /é HTTP/1.1\r\n".encode() + HOST + b"\r\n",
    "bytes in the query": b"GET /?\xff HTTP/1.1\r\n" + HOST + b"\r\n",
    "control in the path": b"GET /\x01 HTTP/1.1\r\n" + HOST + b"\r\n",
    "space in the path": b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n",
    "no slash": b"GET a HTTP/1.1\r\n" + HOST + b"\r\n",
    "absolute nonsense": b"GET http://[::1/ HTTP/1.1\r\n" + HOST + b"\r\n",
    "bare LF": b"GET / HTTP/1.1\nHost: a\n\n",
    "bare LF in a header": b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
    "bare CR": b"GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n",
    "folded": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n",
    "space before the colon": b"GET / HTTP/1.1\r\n" + HOST + b"X : a\r\n\r\n",
    "no name": b"GET / HTTP/1.1\r\n" + HOST + b": a\r\n\r\n",
    "NUL": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\0b\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
    "length and chunks": post(b"/", b"0\r\n\r\n", b"Transfer-Encoding: chunked", b"Content-Length: 5"),
    "chunks and length": post(b"/", b"0\r\n\r\n", b"Content-Length: 5", b"Transfer-Encoding: chunked"),
    "two lengths": post(b"/", b"abcd", b"Content-Length: 3"),
    "signed length": post(b"/", b"abc").replace(b"Length: 3", b"Length: +3"),
    "listed length": post(b"/", b"abc").replace(b"Length: 3", b"Length: 3, 3"),
    "two codings": post(b"/", b"0\r\n\r\n", b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"),
    "chunks in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", NONSENSE)
def test_a_malformed_request_gets_a_short_response_and_a_log_line(server, name, caplog):
    with caplog.at_level(logging.INFO):
        assert_refused(server.ask(NONSENSE[name]), 400)
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert record.name == "hedgerow.server"
    assert record.exc_info is None
    assert record.getMessage().startswith("127.0.0.1: refused with 400: ")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /\r\n\r\n", 505),
        (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
        (b"CONNECT site:443 HTTP/1.1\r\n" + HOST + b"\r\n", 501),
        (post(b"/", b"0\r\n\r\n", b"Transfer-Encoding: gzip, chunked"), 501),
        (post(b"/", b"0\r\n\r\n", b"Transfer-Encoding: xchunked"), 501),
    ],
)
def test_unsupported_methods_and_versions_are_refused(server, request_, status):
    assert_refused(server.ask(request_), status)


@pytest.mark.parametrize("body", [b"zz\r\n", b"3\nabc\r\n0\r\n\r\n", b"3\r\nabcdef\r\n0\r\n\r\n"])
def test_a_malformed_body_is_refused(server, body):
    """The application is told that the client has left, and its client what was wrong."""
    assert_refused(server.ask(post(b"/", body, b"Transfer-Encoding: chunked")), 400)


def test_a_malformed_body_after_the_start_of_the_response(server):
    with server.connect() as client:
        client.sendall(post(b"/flood", b"", b"Transfer-Encoding: chunked"))
        client.recv(1000)
        server.app.ended.clear()
        client.sendall(b"zz\r\n")
        assert b"400 Bad Request" not in rest(client)
        assert server.app.ended.wait(120)


def test_a_malformed_request_does_not_spoil_the_response_to_the_one_before(server):
    for nonsense in (b"nonsense\r\n\r\n", post(b"/", b"zz", b"Transfer-Encoding: chunked")):
        answer = server.ask(get(b"/slow", close=False) + nonsense)
        assert answer.endswith(b"\r\n\r\nslow")
        assert answer.count(b"HTTP/1.1") == 1


def test_an_upgrade_behind_another_request_is_refused(server):
    wish = b"Connection: Upgrade", b"Upgrade: websocket"
    answer = server.ask(get(b"/slow", close=False) + get(b"/", *wish, close=False))
    assert answer.endswith(b"\r\n\r\nslow")


def test_a_websocket_with_more_headers_than_its_library_accepts_is_refused(server):
    wish = b"Connection: Upgrade", b"Upgrade: websocket", b"Cookie: " + b"x" * 9000
    assert_refused(server.ask(get(b"/", *wish, close=False)), 431)


# Limits


def test_requests_within_the_limits_are_served(server):
    longest = b"/?" + b"x" * (16_384 - 2)
    many = [b"X-%d: y" % number for number in range(98)]
    assert len(shown(server.ask(get(longest, *many)))["headers"]) == 100
    big = [b"X-%d: " % number + b"y" * 8000 for number in range(8)]
    assert len(shown(server.ask(get(b"/", *big)))["headers"]) == 10


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (get(b"/" + b"x" * 16_384), 414),
        (get(b"/", *[b"X-%d: y" % number for number in range(99)]), 431),
        (get(b"/", b"X: " + b"y" * 65_536), 431),
        (get(b"/", *[b"X-%d: " % number + b"y" * 7000 for number in range(10)]), 431),
    ],
)
def test_requests_beyond_the_limits_are_refused(server, request_, status):
    assert_refused(server.ask(request_), status)


@pytest.mark.parametrize(
    ("start", "more", "status"),
    [
        (b"GET /", b"x" * 1000, 414),
        (b"GET / HTTP/1.1\r\nX: ", b"x" * 1000, 431),
        (b"GET / HTTP/1.1\r\n", b"X: y\r\n" * 100, 431),
        (b"GET / HTTP/1.1\r\nX", b"x" * 1000, 431),
        (b"", b"\r\n" * 1000, 431),
        (post(b"/", b"0\r\nX: ", b"Transfer-Encoding: chunked"), b"x" * 1000, 431),
    ],
)
def test_limits_apply_while_the_request_arrives(server, start, more, status):
    """A head without end is refused long before its end, and the client can still read why."""
    with server.connect() as client:
        client.sendall(start)
        with suppress(OSError):
            for _ in range(500):
                client.sendall(more)
        assert_refused(rest(client), status)


def test_memory_is_bounded_by_the_limits(server):
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    clients = [server.connect() for _ in range(100)]
    for client in clients:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 60_000)
    until(lambda: len(server.state.connections) >= 100)
    assert resident() - before < 60_000_000
    for client in clients:
        client.close()
    until(lambda: not server.state.connections)


def test_too_many_pipelined_requests_are_refused(server):
    """As many as may wait are answered, then the connection is closed between two answers."""
    answer = server.ask(get(b"/early", close=False) * 5000)
    status, _, _ = parsed(answer)
    assert status == 200
    assert answer.endswith(b"\r\n\r\nearly")
    assert 1 <= answer.count(b"HTTP/1.1 200 OK") <= 40


# Time: all of these wait, so they do it together


def drip(client: socket.socket, drop: bytes, times: int) -> None:
    """Send *drop* every tenth of a second, until there is an answer."""
    with suppress(OSError):
        for _ in range(times):
            client.sendall(drop)
            if select.select([client], [], [], 0.1)[0]:
                return


def head_that_takes_too_long(hasty):
    with hasty.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: ")
        drip(client, b"x", 100)
        assert_refused(rest(client), 408)


def silence_is_ended_without_a_word(hasty):
    with hasty.connect() as client:
        assert rest(client) == b""


def blank_lines_buy_no_time(hasty):
    with hasty.connect() as client:
        drip(client, b"\r\n", 100)
        with suppress(ConnectionResetError):
            assert rest(client) == b""


def an_idle_connection_is_closed_without_a_word(hasty):
    with hasty.connect() as client:
        client.sendall(get(b"/early", close=False))
        assert rest(client).endswith(b"early")


def a_body_that_stops_coming(hasty):
    assert_refused(hasty.ask(post(b"/", b"abc", length=10)), 408)


def a_body_that_stops_coming_after_the_answer(hasty):
    answer = hasty.ask(post(b"/early", b"abc", length=10).replace(b"Connection: close\r\n", b""))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


def a_slow_body_is_not_late(hasty):
    with hasty.connect() as client:
        client.sendall(post(b"/", b"", length=25))
        drip(client, b"x", 25)
        assert shown(rest(client))["body"] == "x" * 25


def an_application_that_lets_the_body_wait(hasty):
    assert hasty.ask(post(b"/lazy", bytes(500_000))).endswith(b"\r\n\r\n500000")


def an_application_that_lets_the_client_wait_for_leave(hasty):
    with hasty.connect() as client:
        client.sendall(post(b"/lazy", b"", b"Expect: 100-continue", length=3))
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"abc")
        assert rest(client).endswith(b"\r\n\r\n3")


def a_client_that_takes_nothing_of_its_answer(hasty):
    with hasty.connect() as client:
        client.sendall(get(b"/flood"))
        assert hasty.app.flooded.wait(120)


WAITING = [
    head_that_takes_too_long,
    silence_is_ended_without_a_word,
    blank_lines_buy_no_time,
    an_idle_connection_is_closed_without_a_word,
    a_body_that_stops_coming,
    a_body_that_stops_coming_after_the_answer,
    a_slow_body_is_not_late,
    an_application_that_lets_the_body_wait,
    an_application_that_lets_the_client_wait_for_leave,
    a_client_that_takes_nothing_of_its_answer,
]


@pytest.fixture(scope="module")
def waiting(hasty) -> Iterator[dict]:
    with ThreadPoolExecutor(len(WAITING)) as pool:
        yield {case: pool.submit(case, hasty) for case in WAITING}


@pytest.mark.parametrize("case", WAITING, ids=lambda case: case.__name__)
def test_slow_clients_are_disconnected_in_time(waiting, case):
    waiting[case].result(120)


def test_no_connection_is_left_after_the_slow_clients(waiting, hasty):
    for case in waiting.values():
        case.exception(20)
    until(lambda: not hasty.state.connections)
    until(lambda: not hasty.state.tasks)


# Applications that fail


@pytest.mark.parametrize(
    ("path", "lines", "traceback"),
    [
        (b"/broken", "GET /broken: nothing there", False),
        (b"/crash", "the application failed", True),
        (b"/silent", "the application did not complete its response", False),
        (b"/inject", "the application failed", True),
        (b"/too_long", "the application failed", True),
    ],
)
def test_an_application_that_fails_before_its_response_is_a_500(server, path, lines, traceback, caplog):
    assert_refused(server.ask(get(path, close=False)), 500)
    until(lambda: len(caplog.records) == 1)
    (record,) = caplog.records
    assert record.getMessage() == lines
    assert bool(record.exc_info) == traceback


@pytest.mark.parametrize("path", [b"/half", b"/half_stream"])
def test_an_application_that_fails_during_its_response_cuts_the_connection(server, path, caplog):
    _, headers, body = parsed(server.ask(get(path, close=False)))
    assert body in {b"half", b"4\r\nhalf\r\n"}
    assert headers.get("content-length") != str(len(body))
    until(lambda: len(caplog.records) == 1)


def test_a_broken_response_to_http_1_0_is_a_reset(server):
    with server.connect() as client:
        client.sendall(b"GET /half_stream HTTP/1.0\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            rest(client)


def test_disconnected_clients_are_noticed_even_with_pipelined_requests(server):
    before = server.app.disconnects
    with server.connect() as client:
        client.sendall(get(b"/leaver", close=False) + get(b"/early", close=False) * 3)
        time.sleep(0.05)
    until(lambda: server.app.disconnects == before + 1)
    until(lambda: not server.state.tasks)
    until(lambda: not server.state.connections)


# The end

PROGRAM = """
import asyncio, signal, socket, sys
from hedgerow.proxy.server import make_server

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        print("closed", flush=True)
        await send({"type": "lifespan.shutdown.complete"})
        return
    print("asked", flush=True)
    await asyncio.sleep(float(scope["query_string"]))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": b"done"})

door = socket.create_server(("127.0.0.1", 0))
print(door.getsockname()[1], flush=True)
server = make_server(app, "127.0.0.1", 0, grace_period=int(sys.argv[1]))
signal.signal(signal.SIGTERM, lambda *_: setattr(server, "should_exit", True))
server.run([door])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "graceful", "done"), [(0.5, 10, True), (60, 1, False)])
def test_sigterm_lets_requests_finish_if_they_do_so_in_time(seconds, graceful, done):
    command = [sys.executable, "-c", PROGRAM, str(graceful)]
    program = subprocess.Popen(attached(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with program, socket.create_connection(("127.0.0.1", int(program.stdout.readline())), timeout=120) as client:
        idle = socket.create_connection(client.getpeername(), timeout=120)
        client.sendall(get(b"/?%g" % seconds, close=False))
        assert program.stdout.readline() == b"asked\n"
        program.send_signal(signal.SIGTERM)
        answer = rest(client)
        assert rest(idle) == b""
        idle.close()
        assert answer.endswith(b"\r\n\r\ndone") == done
        assert program.stdout.readline() == b"closed\n"
        assert program.wait(120) == 0
        assert b"Traceback" not in program.stderr.read()


class SharedSocket(socket.socket):
    """A listening socket that other workers have, too. It keeps what is done to the mode that all of them share."""

    timeouts: list[float | None]

    def settimeout(self, value: float | None) -> None:
        self.timeouts.append(value)
        super().settimeout(value)


def test_a_worker_that_starts_leaves_the_socket_of_the_others_as_it_is():
    """Another worker that is in `accept` while the socket is blocking stays there, and answers nobody."""
    SharedSocket.timeouts = []
    door = SharedSocket(socket.AF_INET, socket.SOCK_STREAM)
    door.bind(("127.0.0.1", 0))
    door.listen()
    with running(door=door) as server:
        assert b"200 OK" in server.ask(b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
    assert SharedSocket.timeouts
    assert set(SharedSocket.timeouts) == {0.0}

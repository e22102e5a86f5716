"""The client pool, against small servers on the loopback that play every odd upstream."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import SettingsError, UpstreamError
from hedgerow.web.http_client.connection import Connection, UpstreamResponse
from hedgerow.web.http_client.pool import RequestBody, Upstream, parse_origin, request_head

Play = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = (b"GET", b"/", [(b"host", b"site")])


def run(main):
    """Under uvloop, as in production."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(main, 300))


class Odd:
    """A server that plays *play* on every connection, and counts them."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0
        self.heads: list[bytes] = []
        self.gone = asyncio.Event()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._play(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self.gone.set()

    async def head(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        return head

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        while self._tasks:
            await asyncio.sleep(0)


@asynccontextmanager
async def upstream(play, **options) -> AsyncIterator[tuple[Upstream, Odd]]:
    """
    A pool before a server that plays *play(odd, reader, writer)* on each connection.

    If *play* is bytes, that is the answer to every request.
    """
    if isinstance(play, bytes):
        play = always(play)
    odd = Odd(lambda reader, writer: play(odd, reader, writer))
    server = await asyncio.start_server(odd.accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    pool = Upstream(f"http://127.0.0.1:{port}", **options)
    try:
        yield pool, odd
    finally:
        await pool.close()
        server.close()
        await odd.stop()


def always(answer: bytes):
    async def play(odd, reader, writer):
        while True:
            await odd.head(reader)
            writer.write(answer)
            await writer.drain()

    return play


def once(answer: bytes, *, then_wait: bool = False):
    """Answer one request and close, or wait without a word."""

    async def play(odd, reader, writer):
        await odd.head(reader)
        writer.write(answer)
        await writer.drain()
        if then_wait:
            await reader.read()

    return play


async def whole(answer: UpstreamResponse) -> bytes:
    body = b""
    while piece := await answer.read():
        body += piece
    return body


async def fetch(pool: Upstream, method: bytes = b"GET") -> tuple[int, bytes]:
    answer = await pool.request(method, b"/", GET[2])
    return answer.status, await whole(answer)


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.01)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# Where the upstream is


@pytest.mark.parametrize(
    ("url", "authority", "shown"),
    [
        ("http://127.0.0.1:8080", b"127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://site.example/", b"site.example", "http://site.example"),
        ("https://site.example", b"site.example", "https://site.example"),
        ("https://site.example:80", b"site.example:80", "https://site.example:80"),
        ("http://[::1]:8080", b"[::1]:8080", "http://[::1]:8080"),
        ("http://bücher.example", b"xn--bcher-kva.example", "http://xn--bcher-kva.example"),
        ("unix:/run/site.sock", b"localhost", "unix:/run/site.sock"),
    ],
)
def test_origins(url, authority, shown):
    origin = parse_origin(url)
    assert origin.authority == authority
    assert str(origin) == shown


@pytest.mark.parametrize(
    "url",
    [
        "site.example",
        "ftp://site.example",
        "http://",
        "http://site.example/path",
        "http://site.example?query",
        "http://user:secret@site.example",
        "http://site.example:port",
        "http://site.example:99999",
        "http://[::1",
        "unix:relative",
    ],
)
def test_what_is_no_origin_is_refused(url):
    with pytest.raises(SettingsError, match="upstream"):
        parse_origin(url)


def test_a_request_head():
    head = request_head(b"GET", b"/a?b=%20", [(b"host", b"site"), (b"cookie", b"a=b")])
    assert head == b"GET /a?b=%20 HTTP/1.1\r\nhost: site\r\ncookie: a=b\r\n\r\n"


@pytest.mark.parametrize(
    ("method", "target", "name", "value"),
    [
        (b"GET", b"/", b"a", b"b\r\nevil: yes"),
        (b"GET", b"/", b"a", b"b\nevil: yes"),
        (b"GET", b"/", b"a", b"b\revil: yes"),
        (b"GET", b"/", b"a\r\nevil", b"b"),
        (b"GET", b"/ HTTP/1.1\r\nevil: yes", b"a", b"b"),
        (b"GET", b"/ HTTP/1.1", b"a", b"b"),
        (b"GET / HTTP/1.1\r\n", b"/", b"a", b"b"),
    ],
)
def test_no_line_ends_in_a_head(method, target, name, value):
    with pytest.raises(ValueError, match="line breaks"):
        request_head(method, target, [(name, value)])


# Answers as they should be


def test_an_answer_that_arrives_whole():
    async def main():
        async with upstream(OK) as (pool, odd):
            answer = await pool.request(b"GET", b"/a?b", [(b"host", b"site"), (b"accept", b"*/*")])
            assert answer.status == 200
            assert answer.headers == [(b"content-length", b"2")]
            assert answer.ended
            assert answer.take() == b"ok"
            assert await answer.read() == b""
            answer.close()
            assert odd.heads == [b"GET /a?b HTTP/1.1\r\nhost: site\r\naccept: */*\r\n\r\n"]

    run(main())


def test_it_works_on_asyncios_own_loop_too():
    async def main():
        async with upstream(OK) as (pool, _):
            assert [await fetch(pool) for _ in range(3)] == [(200, b"ok")] * 3

    asyncio.run(main())


def test_connections_are_kept_and_the_last_is_used_first():
    async def main():
        async with upstream(OK) as (pool, odd):
            await asyncio.gather(*(fetch(pool) for _ in range(3)))
            assert (pool.open, len(pool._idle)) == (3, 3)
            last = pool._idle[-1]
            for _ in range(5):
                assert await fetch(pool) == (200, b"ok")
                assert pool._idle[-1] is last
            assert odd.connections == 3

    run(main())


def test_order_and_duplicates_of_headers_are_kept_and_hop_by_hop_ones_dropped():
    head = (
        b"HTTP/1.1 200 Fine\r\nServer: old\r\nSet-Cookie: a=1\r\nConnection: keep-alive, X-Private\r\n"
        b"Keep-Alive: timeout=5\r\nX-Private: 1\r\nUpgrade: h2c\r\nTrailer: X-Sum\r\nDate: today\r\n"
        b"Set-Cookie: b=2\r\nContent-Length: 0\r\n\r\n"
    )

    async def main():
        async with upstream(head) as (pool, _):
            answer = await pool.request(*GET)
            assert answer.headers == [
                (b"server", b"old"),
                (b"set-cookie", b"a=1"),
                (b"date", b"today"),
                (b"set-cookie", b"b=2"),
                (b"content-length", b"0"),
            ]
            assert len(pool._idle) == 1

    run(main())


def test_chunks_and_trailers():
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3;ext=1\r\nabc\r\n4\r\ndefg\r\n0\r\nX-Sum: 1\r\nSet-Cookie: evil=1\r\n\r\n"
    )

    async def main():
        async with upstream(chunked) as (pool, odd):
            for _ in range(3):
                answer = await pool.request(*GET)
                assert answer.take() == b"abcdefg"
                assert answer.headers == []
            assert odd.connections == 1

    run(main())


def test_a_body_that_comes_in_pieces():
    seen = asyncio.Event()

    async def play(odd, reader, writer):
        await odd.head(reader)
        for piece in (b"HTTP/1.1 200 O", b"K\r\nContent-Le", b"ngth: 6\r\n\r\n"):
            writer.write(piece)
            await asyncio.sleep(0.01)
        for piece in (b"ab", b"cd", b"ef"):
            await seen.wait()
            seen.clear()
            writer.write(piece)
        await reader.read()

    async def main():
        async with upstream(play) as (pool, _):
            answer = await pool.request(*GET)
            for piece in (b"ab", b"cd", b"ef"):
                assert not answer.ended
                seen.set()
                assert await answer.read() == piece
            assert answer.ended
            assert len(pool._idle) == 1

    run(main())


def test_the_first_of_a_body_is_waited_for_but_not_for_long():
    go = asyncio.Event()

    async def play(odd, reader, writer):
        await odd.head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        await go.wait()
        writer.write(b"ok")
        await reader.read()

    async def main():
        async with upstream(play) as (pool, _):
            answer = await pool.request(*GET)
            await answer.wait_briefly(0.01)
            assert answer.take() == b""
            go.set()
            await answer.wait_briefly(20)
            assert answer.take() == b"ok"

    run(main())


def test_informational_answers_are_skipped():
    several = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK

    async def main():
        async with upstream(several) as (pool, odd):
            for _ in range(2):
                answer = await pool.request(*GET)
                assert (answer.status, answer.headers, answer.take()) == (200, [(b"content-length", b"2")], b"ok")
            assert odd.connections == 1

    run(main())


@pytest.mark.parametrize(
    ("method", "head"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
        (b"HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (b"HEAD", b"HTTP/1.1 200 OK\r\n\r\n"),
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        (b"GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n"),
    ],
)
def test_answers_without_a_body(method, head):
    async def main():
        async with upstream(head) as (pool, odd):
            for _ in range(3):
                answer = await pool.request(method, b"/", GET[2])
                assert answer.ended
                assert answer.take() == b""
            assert odd.connections == 1

    run(main())


@pytest.mark.parametrize("head", [b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"])
def test_a_body_until_the_connection_closes(head):
    async def main():
        async with upstream(once(head + b"all of it")) as (pool, _):
            answer = await pool.request(*GET)
            assert await whole(answer) == b"all of it"
            assert pool.open == 0

    run(main())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ],
)
def test_a_connection_that_ends_with_its_answer_is_not_kept(answer):
    async def main():
        async with upstream(once(answer, then_wait=True)) as (pool, odd):
            assert await fetch(pool) == (200, b"ok")
            assert await fetch(pool) == (200, b"ok")
            assert odd.connections == 2
            assert pool.open == 0

    run(main())


class Wire:
    """A transport that goes nowhere."""

    def write(self, _) -> None:
        pass

    def abort(self) -> None:
        pass


HEAD = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX-One: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"


@settings(deadline=None)
@given(
    st.sampled_from(
        [
            HEAD + b"Content-Length: 10\r\n\r\n0123456789",
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\n012\r\n7;x=y\r\n3456789\r\n0\r\nX-Sum: 1\r\n\r\n",
        ]
    ),
    st.sets(st.integers(1, 180)),
)
def test_where_the_network_cuts_an_answer_makes_no_difference(answer, cuts):
    async def main():
        pool = Upstream("http://127.0.0.1")
        connection = Connection(pool, asyncio.get_running_loop())
        connection.connection_made(Wire())
        request = asyncio.create_task(connection.exchange(b"", expects_body=True, body=None))
        await asyncio.sleep(0)
        edges = [0, *sorted(cut for cut in cuts if cut < len(answer)), len(answer)]
        for start, end in pairwise(edges):
            connection.data_received(answer[start:end])
        got = await request
        assert got.ended
        assert got.take() == b"0123456789"
        names = [name for name, _ in got.headers if name != b"content-length"]
        assert names == [b"x-one", b"set-cookie", b"set-cookie"]
        assert len(pool._idle) == 1

    asyncio.run(main())


# Answers as they should not be


@pytest.mark.parametrize(
    ("answer", "first"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", b"abc"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", b"abc"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", b"abc"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdefgh\r\n", b"abc"),
    ],
)
def test_a_body_that_ends_too_early_is_an_error_and_not_an_end(answer, first):
    async def main():
        async with upstream(once(answer)) as (pool, _):
            got = await pool.request(*GET)
            assert not got.ended
            assert await got.read() == first
            with pytest.raises(UpstreamError) as caught:
                await got.read()
            assert caught.value.kind == "broken"
            assert not got.ended
            got.close()
            assert pool.open == 0

    run(main())


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 twohundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nX-Bad: a\x01b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Folded: a\r\n b\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
    ],
)
def test_nonsense_is_broken(answer):
    async def main():
        async with upstream(once(answer)) as (pool, odd):
            with pytest.raises(UpstreamError) as caught:
                await pool.request(*GET)
            assert caught.value.kind == "broken"
            assert str(pool) in str(caught.value)
            assert pool.open == 0
            assert odd.connections == 1

    run(main())


@pytest.mark.parametrize(
    ("start", "endless"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"x" * 1000 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x" * 1000),
        (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
    ],
)
def test_a_head_has_a_limit(start, endless):
    async def play(odd, reader, writer):
        await odd.head(reader)
        writer.write(start)
        while True:
            writer.write(endless)
            await writer.drain()

    async def main():
        async with upstream(play, head_limit=10_000) as (pool, _):
            with pytest.raises(UpstreamError, match="too long") as caught:
                await pool.request(*GET)
            assert caught.value.kind == "broken"
            assert pool.open == 0

    run(main())


def test_trailers_have_the_same_limit():
    async def play(odd, reader, writer):
        await odd.head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Long: ")
        while True:
            writer.write(b"x" * 1000)
            await writer.drain()

    async def main():
        async with upstream(play, head_limit=10_000) as (pool, _):
            answer = await pool.request(*GET)
            assert await answer.read() == b"abc"
            with pytest.raises(UpstreamError, match="too long"):
                await answer.read()

    run(main())


@pytest.mark.parametrize(
    "extra",
    [b"x", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen", b"HTTP/1.1 2"],
)
@pytest.mark.parametrize(
    ("method", "proper"),
    [
        (b"GET", OK),
        (b"GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"),
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
    ],
)
def test_bytes_after_an_answer_are_never_the_next_ones(method, proper, extra):
    async def main():
        async with upstream(once(proper + extra, then_wait=True)) as (pool, odd):
            for number in range(1, 4):
                answer = await pool.request(method, b"/", GET[2])
                assert answer.ended
                assert answer.take() in {b"", b"ok"}
                assert pool.open == 0
                assert odd.connections == number

    run(main())


def test_an_idle_connection_that_speaks_is_dropped():
    async def play(odd, reader, writer):
        await odd.head(reader)
        writer.write(OK)
        await asyncio.sleep(0.05)
        writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    async def main():
        async with upstream(play) as (pool, odd):
            assert await fetch(pool) == (200, b"ok")
            await until(lambda: pool.open == 0)
            assert await fetch(pool) == (200, b"ok")
            assert odd.connections == 2

    run(main())


# Time


def test_no_answer_in_time():
    async def main():
        async with upstream(once(b"", then_wait=True), head_timeout=0.2) as (pool, odd):
            with pytest.raises(UpstreamError, match="no response in time") as caught:
                await pool.request(*GET)
            assert caught.value.kind == "timeout"
            await odd.gone.wait()
            assert pool.open == 0

    run(main())


def test_informational_answers_do_not_buy_time():
    async def play(odd, reader, writer):
        await odd.head(reader)
        while not reader.at_eof():
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await asyncio.sleep(0.05)

    async def main():
        async with upstream(play, head_timeout=0.3) as (pool, _):
            with pytest.raises(UpstreamError, match="no response in time"):
                await pool.request(*GET)

    run(main())


def test_a_body_that_stops_coming():
    stopped = once(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", then_wait=True)

    async def main():
        async with upstream(stopped, read_timeout=0.2) as (pool, odd):
            answer = await pool.request(*GET)
            assert await answer.read() == b"abc"
            with pytest.raises(UpstreamError, match="stalled") as caught:
                await answer.read()
            assert caught.value.kind == "timeout"
            await odd.gone.wait()

    run(main())


def test_slowness_that_is_not_the_upstreams_fault_or_no_standstill():
    async def slow_body(odd, reader, writer):
        await odd.head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
        for _ in range(10):
            writer.write(b"x")
            await asyncio.sleep(0.2)
        await reader.read()

    async def slow_reader(odd, reader, writer):
        await odd.head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx")
        await asyncio.sleep(2)
        writer.write(b"y")
        await reader.read()

    async def slow_upload(odd, reader, writer):
        """It has begun its answer and waits for the rest of the request."""
        await odd.head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        await reader.readexactly(10)
        writer.write(b"ok")
        await reader.read()

    async def drop_by_drop():
        for _ in range(10):
            await asyncio.sleep(0.2)
            yield b"x"

    async def download():
        async with upstream(slow_body, read_timeout=1.5, head_timeout=1.5) as (pool, _):
            assert await fetch(pool) == (200, b"x" * 10)

    async def busy():
        async with upstream(slow_reader, read_timeout=1.5) as (pool, _):
            answer = await pool.request(*GET)
            assert await answer.read() == b"x"
            await asyncio.sleep(2)
            assert await answer.read() == b"y"

    async def upload():
        async with upstream(slow_upload, read_timeout=1.5, head_timeout=1.5) as (pool, _):
            answer = await pool.request(b"POST", b"/", GET[2], RequestBody(drop_by_drop(), 10))
            assert await whole(answer) == b"ok"
            assert len(pool._idle) == 1

    async def main():
        await asyncio.gather(download(), busy(), upload())

    run(main())


def test_nobody_listens():
    async def main():
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        pool = Upstream(f"http://127.0.0.1:{port}")
        for _ in range(2):
            with pytest.raises(UpstreamError) as caught:
                await pool.request(*GET)
            assert caught.value.kind == "connect"
        assert pool.open == 0

    run(main())


def test_nobody_accepts():
    async def main():
        with socket.socket() as full, socket.socket() as first, socket.socket() as second:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            for taker in (first, second):
                taker.setblocking(False)
                taker.connect_ex(full.getsockname())
            pool = Upstream(f"http://127.0.0.1:{full.getsockname()[1]}", connect_timeout=0.3)
            with pytest.raises(UpstreamError, match="no connection in time") as caught:
                await pool.request(*GET)
            assert caught.value.kind == "timeout"
            assert pool.open == 0

    run(main())


def test_idle_connections_are_closed_after_a_while():
    async def main():
        async with upstream(OK, idle_timeout=0.2) as (pool, odd):
            await fetch(pool)
            assert len(pool._idle) == 1
            await odd.gone.wait()
            assert (pool.open, len(pool._idle)) == (0, 0)
            assert pool._sweep_timer is None

    run(main())


# Kept connections that turn out to be closed


def closing_on_reuse(*, after_head: bool = True):
    """Every connection answers one request and closes when the second one comes."""

    async def play(odd, reader, writer):
        await odd.head(reader)
        writer.write(OK)
        await reader.read(1)
        if after_head:
            writer.transport.abort()

    return play


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"DELETE", b"OPTIONS"])
def test_a_request_that_may_be_repeated_is(method):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

    async def play(odd, reader, writer):
        await odd.head(reader)
        writer.write(head)
        await reader.read(1)

    async def main():
        async with upstream(play) as (pool, odd):
            for number in range(1, 4):
                assert (await pool.request(method, b"/", GET[2])).status == 200
                assert odd.connections == number
                assert pool.open == 1

    run(main())


def test_a_request_that_may_not_be_repeated_is_not():
    async def main():
        async with upstream(closing_on_reuse()) as (pool, odd):
            await fetch(pool)
            with pytest.raises(UpstreamError) as caught:
                await pool.request(b"POST", b"/", GET[2])
            assert caught.value.kind == "broken"
            assert odd.connections == 1

    run(main())


def test_a_request_is_repeated_only_before_its_body_was_touched():
    async def main():
        async with upstream(closing_on_reuse()) as (pool, odd):
            await fetch(pool)
            body = RequestBody(pieces(b"abc"), 3)
            with pytest.raises(UpstreamError):
                await pool.request(b"PUT", b"/", GET[2], body)
            assert body.started
            assert odd.connections == 1

    run(main())


def test_a_body_not_yet_begun_goes_out_with_the_repeated_request():
    async def play(odd, reader, writer):
        first = odd.connections == 1
        await odd.head(reader)
        if not first:
            await reader.readexactly(3)
        writer.write(OK)
        if first:
            await reader.read(1)
        else:
            await reader.read()

    async def main():
        async with upstream(play) as (pool, odd):
            await fetch(pool)
            ready = asyncio.Event()

            class Late:
                """An iterator that can be asked again after its asking was cancelled."""

                given = False

                def __aiter__(self):
                    return self

                async def __anext__(self):
                    if self.given:
                        raise StopAsyncIteration
                    await ready.wait()
                    self.given = True
                    return b"abc"

            request = asyncio.create_task(pool.request(b"PUT", b"/", GET[2], RequestBody(Late(), 3)))
            await until(lambda: odd.connections == 2)
            ready.set()
            assert (await request).status == 200
            assert odd.heads[1].startswith(b"PUT / ")

    run(main())


def test_it_is_repeated_once_and_on_a_fresh_connection():
    async def play(odd, reader, writer):
        if odd.connections > 2:
            return
        await odd.head(reader)
        writer.write(OK)
        await reader.read(1)

    async def main():
        async with upstream(play, max_connections=2) as (pool, odd):
            await asyncio.gather(fetch(pool), fetch(pool))
            with pytest.raises(UpstreamError, match="before its response was complete"):
                await pool.request(*GET)
            assert odd.connections == 3
            assert pool.open <= 1

    run(main())


def test_a_connection_closed_while_idle_is_noticed():
    async def main():
        async with upstream(once(OK)) as (pool, odd):
            assert await fetch(pool) == (200, b"ok")
            await until(lambda: pool.open == 0)
            assert await fetch(pool) == (200, b"ok")
            assert odd.connections == 2

    run(main())


# The limit on connections


def test_no_room_to_wait():
    async def main():
        async with upstream(once(b"", then_wait=True), max_connections=1, max_waiting=0) as (pool, _):
            first = asyncio.create_task(pool.request(*GET))
            await until(lambda: pool.open == 1)
            with pytest.raises(UpstreamError, match="too many requests wait") as caught:
                await pool.request(*GET)
            assert caught.value.kind == "busy"
            first.cancel()

    run(main())


def test_waiting_has_an_end():
    async def main():
        async with upstream(once(b"", then_wait=True), max_connections=1, wait_timeout=0.2) as (pool, _):
            first = asyncio.create_task(pool.request(*GET))
            await until(lambda: pool.open == 1)
            with pytest.raises(UpstreamError, match="had no free connection in time") as caught:
                await pool.request(*GET)
            assert caught.value.kind == "busy"
            assert len(pool._waiting) == 0
            first.cancel()

    run(main())


def test_those_who_wait_get_connections_in_turn():
    async def main():
        async with upstream(OK, max_connections=2) as (pool, odd):
            answers = await asyncio.gather(*(fetch(pool) for _ in range(50)))
            assert answers == [(200, b"ok")] * 50
            assert odd.connections == 2
            assert (pool.open, len(pool._idle), len(pool._waiting)) == (2, 2, 0)

    run(main())


def test_who_waits_may_open_a_connection_when_another_is_gone():
    async def main():
        async with upstream(once(OK), max_connections=2) as (pool, _):
            answers = await asyncio.gather(*(fetch(pool) for _ in range(20)))
            assert answers == [(200, b"ok")] * 20
            assert len(pool._waiting) == 0

    run(main())


def test_who_gives_up_waiting_takes_nothing_along():
    async def main():
        async with upstream(OK, max_connections=1) as (pool, _):
            for _ in range(20):
                requests = [asyncio.create_task(fetch(pool)) for _ in range(6)]
                await asyncio.sleep(0)
                for leaver in requests[1::2]:
                    leaver.cancel()
                done = await asyncio.gather(*requests, return_exceptions=True)
                assert done[::2] == [(200, b"ok")] * 3
                assert pool.open <= 1
            assert await fetch(pool) == (200, b"ok")

    run(main())


def test_a_turn_that_comes_in_the_moment_of_leaving_is_passed_on():
    async def main():
        async with upstream(OK, max_connections=1) as (pool, _):
            connection = await pool._acquire()
            waiters = [asyncio.create_task(pool._acquire()) for _ in range(3)]
            await until(lambda: len(pool._waiting) == 3)
            pool.give_back(connection)
            waiters[0].cancel()
            await asyncio.wait(waiters[:1])
            assert await waiters[1] is connection
            connection.abort()
            waiters[2].cancel()
            await asyncio.wait(waiters[2:])
            assert (pool.open, len(pool._waiting)) == (0, 0)

    run(main())


def test_closing_the_pool_fails_everyone():
    async def main():
        async with upstream(once(b"", then_wait=True), max_connections=1) as (pool, odd):
            requests = [asyncio.create_task(pool.request(*GET)) for _ in range(3)]
            await until(lambda: len(pool._waiting) == 2)
            await pool.close()
            done = await asyncio.gather(*requests, pool.request(*GET), return_exceptions=True)
            assert all(isinstance(error, UpstreamError) for error in done)
            await odd.gone.wait()
            assert (pool.open, len(pool._waiting)) == (0, 0)

    run(main())


# Request bodies


def swallowing(received: list[bytes], size: int):
    async def play(odd, reader, writer):
        while True:
            await odd.head(reader)
            received.append(await reader.readexactly(size))
            writer.write(OK)

    return play


def test_a_body_of_known_length():
    received: list[bytes] = []

    async def main():
        async with upstream(swallowing(received, 6)) as (pool, odd):
            for _ in range(2):
                body = RequestBody(pieces(b"ab", b"", b"cdef"), 6)
                answer = await pool.request(b"POST", b"/", GET[2], body)
                assert answer.take() == b"ok"
                await until(lambda: len(pool._idle) == 1)
            assert b"content-length: 6\r\n" in odd.heads[0]
            assert received == [b"abcdef"] * 2
            assert odd.connections == 1

    run(main())


def test_a_body_of_unknown_length_goes_in_chunks():
    received: list[bytes] = []
    chunked = b"2\r\nab\r\n4\r\ncdef\r\n0\r\n\r\n"

    async def main():
        async with upstream(swallowing(received, len(chunked))) as (pool, odd):
            for _ in range(2):
                body = RequestBody(pieces(b"ab", b"", b"cdef"))
                assert (await pool.request(b"POST", b"/", GET[2], body)).take() == b"ok"
            assert b"transfer-encoding: chunked\r\n" in odd.heads[0]
            assert received == [chunked] * 2
            assert odd.connections == 1

    run(main())


def test_an_empty_body_is_announced_and_not_asked_for():
    async def never():
        raise AssertionError
        yield b""

    async def main():
        async with upstream(OK) as (pool, odd):
            answer = await pool.request(b"POST", b"/", GET[2], RequestBody(never(), 0))
            assert answer.take() == b"ok"
            assert b"content-length: 0\r\n" in odd.heads[0]

    run(main())


@pytest.mark.parametrize("chunks", [(b"abc",), (b"abc", b"defgh"), ()])
def test_a_body_that_is_not_as_long_as_it_said(chunks):
    """Else the upstream would read the next visitor's request as its rest, or its rest as a request."""

    async def play(odd, reader, _):
        await odd.head(reader)
        odd.rest = await reader.read(-1)

    async def main():
        async with upstream(play) as (pool, odd):
            with pytest.raises(UpstreamError, match="not as long as its Content-Length"):
                await pool.request(b"POST", b"/", GET[2], RequestBody(pieces(*chunks), 5))
            await odd.gone.wait()
            assert len(getattr(odd, "rest", b"")) < 5
            assert pool.open == 0

    run(main())


def test_a_body_that_breaks_breaks_the_exchange_with_its_own_error():
    async def broken():
        yield b"abc"
        raise LookupError("the client left")

    async def play(odd, reader, _):
        await odd.head(reader)
        await reader.read(-1)

    async def main():
        async with upstream(play) as (pool, odd):
            with pytest.raises(LookupError):
                await pool.request(b"POST", b"/", GET[2], RequestBody(broken(), 10))
            await odd.gone.wait()
            assert pool.open == 0

    run(main())


class Endless:
    """A body without end that counts what was taken of it."""

    def __init__(self, size: int = 65_536) -> None:
        self.chunk = bytes(size)
        self.taken = 0

    def __aiter__(self) -> Endless:
        return self

    async def __anext__(self) -> bytes:
        await asyncio.sleep(0)
        self.taken += len(self.chunk)
        return self.chunk


@pytest.mark.parametrize("closes", [False, True])
def test_an_upstream_that_refuses_a_body_it_has_not_read(closes):
    refusal = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 7\r\n\r\ntoo big"
    after = asyncio.Event()

    async def play(odd, reader, writer):
        await odd.head(reader)
        await reader.readexactly(100_000)
        writer.write(refusal)
        await writer.drain()
        if not closes:
            await after.wait()

    async def main():
        async with upstream(play) as (pool, odd):
            body = Endless()
            answer = await pool.request(b"POST", b"/", GET[2], RequestBody(body))
            assert (answer.status, await whole(answer)) == (413, b"too big")
            taken = body.taken
            await asyncio.sleep(0.1)
            assert body.taken == taken
            assert pool.open == 0
            after.set()
            assert odd.connections == 1

    run(main())


def test_an_answer_that_comes_while_the_body_goes_out():
    """An echo: each piece is answered before the next is sent."""
    turn: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def spoken():
        while (word := await turn.get()) is not None:
            yield word

    async def play(odd, reader, writer):
        await odd.head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            line = await reader.readline()
            writer.write(b"%x\r\n%b\r\n" % (len(line), line))
            if line == b"0\r\n":
                writer.write(b"0\r\n\r\n")
                await reader.readline()

    async def main():
        async with upstream(play) as (pool, odd):
            answer = await pool.request(b"POST", b"/", GET[2], RequestBody(spoken()))
            for word in (b"one", b"two", b"three"):
                turn.put_nowait(word)
                heard = b""
                while word not in heard:
                    heard += await answer.read()
            turn.put_nowait(None)
            await whole(answer)
            assert odd.connections == 1
            assert len(pool._idle) == 1

    run(main())


# Back-pressure


def test_a_big_download_with_a_slow_reader_takes_little_memory():
    size = 200_000_000
    sent = 0

    async def play(odd, reader, writer):
        nonlocal sent
        await odd.head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        block = bytes(1_000_000)
        while sent < size:
            writer.write(block)
            await writer.drain()
            sent += len(block)
        await reader.read()

    async def main():
        async with upstream(play) as (pool, _):
            before = resident_bytes()
            answer = await pool.request(*GET)
            await asyncio.sleep(0.3)
            assert sent < 20_000_000
            assert answer.size < 1_000_000
            got = peak = 0
            while piece := await answer.read():
                got += len(piece)
                peak = max(peak, answer.size + len(piece))
                if got < 10_000_000:
                    await asyncio.sleep(0.01)
            assert got == size
            assert peak < 1_000_000
            assert resident_bytes() - before < 30_000_000
            assert len(pool._idle) == 1

    run(main())


def test_a_big_upload_to_a_slow_upstream_takes_little_memory():
    size = 50_000_000
    go = asyncio.Event()

    async def play(odd, reader, writer):
        await odd.head(reader)
        await go.wait()
        left = size
        while left:
            left -= len(await reader.read(1_000_000))
        writer.write(OK)
        await reader.read()

    class Upload(Endless):
        async def __anext__(self):
            if self.taken == size:
                raise StopAsyncIteration
            return await super().__anext__()

    async def main():
        async with upstream(play) as (pool, _):
            before = resident_bytes()
            body = Upload(100_000)
            request = asyncio.create_task(pool.request(b"POST", b"/", GET[2], RequestBody(body, size)))
            await asyncio.sleep(0.3)
            assert 0 < body.taken < 20_000_000
            go.set()
            assert (await request).take() == b"ok"
            assert body.taken == size
            assert resident_bytes() - before < 30_000_000
            assert len(pool._idle) == 1

    run(main())


def test_an_upstream_that_does_not_take_the_body():
    async def play(odd, reader, writer):
        await odd.head(reader)
        writer.transport.pause_reading()
        await asyncio.sleep(20)

    async def main():
        async with upstream(play, write_timeout=0.2) as (pool, _):
            with pytest.raises(UpstreamError, match="does not read") as caught:
                await pool.request(b"POST", b"/", GET[2], RequestBody(Endless()))
            assert caught.value.kind == "timeout"
            assert pool.open == 0

    run(main())


# Leaving


def test_a_cancelled_request_closes_its_connection():
    async def main():
        async with upstream(once(b"", then_wait=True)) as (pool, odd):
            request = asyncio.create_task(pool.request(*GET))
            await until(lambda: bool(odd.heads))
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
            await odd.gone.wait()
            assert pool.open == 0

    run(main())


def test_closing_an_answer_in_the_middle_closes_its_connection():
    stopped = once(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", then_wait=True)

    async def main():
        async with upstream(stopped) as (pool, odd):
            answer = await pool.request(*GET)
            answer.close()
            answer.close()
            await odd.gone.wait()
            assert pool.open == 0
            assert answer.take() == b"abc"
            with pytest.raises(RuntimeError, match="after it was closed"):
                await answer.read()

    run(main())


# Other ways to reach an upstream


def test_a_unix_socket():
    async def main():
        with tempfile.TemporaryDirectory() as folder:
            odd = Odd(lambda reader, writer: always(OK)(odd, reader, writer))
            server = await asyncio.start_unix_server(odd.accept, f"{folder}/site")
            pool = Upstream(f"unix:{folder}/site")
            assert await fetch(pool) == (200, b"ok")
            await pool.close()
            server.close()
            await odd.stop()

    run(main())


def test_ipv6():
    async def main():
        odd = Odd(lambda reader, writer: always(OK)(odd, reader, writer))
        try:
            server = await asyncio.start_server(odd.accept, "::1", 0)
        except OSError:
            pytest.skip("no IPv6 here")
        pool = Upstream(f"http://[::1]:{server.sockets[0].getsockname()[1]}")
        assert await fetch(pool) == (200, b"ok")
        await pool.close()
        server.close()
        await odd.stop()

    run(main())


def certificate(folder: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS for a server at 127.0.0.1 and for a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hedgerow test")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = Path(folder) / "pem"
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, *form)
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + secret)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    return server, ssl.create_default_context(cafile=str(path))


def test_https():
    async def main():
        with tempfile.TemporaryDirectory() as folder:
            theirs, ours = certificate(folder)
        odd = Odd(lambda reader, writer: always(OK)(odd, reader, writer))
        server = await asyncio.start_server(odd.accept, "127.0.0.1", 0, ssl=theirs)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        pool = Upstream(url, tls=ours)
        for _ in range(3):
            assert await fetch(pool) == (200, b"ok")
        assert odd.connections == 1
        await pool.close()
        stranger = Upstream(url)
        with pytest.raises(UpstreamError, match="certificate") as caught:
            await stranger.request(*GET)
        assert caught.value.kind == "connect"
        assert stranger.open == 0
        server.close()
        await odd.stop()

    run(main())

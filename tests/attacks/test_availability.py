"""Clients and pages that would take the server from everybody else: each is stopped by a limit or a deadline."""

from __future__ import annotations

import asyncio
import gzip
import random
import resource
import socket
import time
from collections import Counter
from contextlib import ExitStack, asynccontextmanager, suppress
from math import inf

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from driving import HTML, KEY, Application, Client, bait_rewriter, marked_links_in, settings
from driving_wsgi import WsgiApplication, WsgiClient
from hedgerow.cli.processes import most_connections
from hedgerow.core.address import Proxies, parse_address
from hedgerow.lists.model import agent_pattern
from hedgerow.logs.fields import alb_extract
from hedgerow.markers import rewrite
from hedgerow.markers.html.charset import carried_charset
from hedgerow.markers.html.content_coding import BrokenCoding, codec, known_codings
from hedgerow.markers.html.listing import is_listing
from hedgerow.markers.html.scanner import Scanner
from hedgerow.markers.resolve import PageLocation
from hedgerow.markers.rewrite import PageRewriter, SkeletonCache
from hedgerow.markers.rules import Patterns, Rules
from hedgerow.markers.token import Key, TokenCodec, TokenCodecs
from hedgerow.proxy import server as server_module
from hedgerow.proxy.connections import Connections
from hedgerow.proxy.server import make_server
from hedgerow.proxy.server_protocol import ServerLimits, StallCheck
from hedgerow.request.browser_report import claimed_browser
from hedgerow.request.header_anomalies import find_anomalies
from hedgerow.traps.robots_txt import disallow
from hedgerow.web.response import beginning_of
from hedgerow.web.response_headers import (
    marked_headers,
    marked_refresh,
    permitting_headers,
    private_headers,
    restored_etags,
)
from hedgerow.web.sync_driver import StepLock
from property_tests import examples
from proxy.harness import Site, ask, run
from real.servers import HEDGEROW, Running, free_port, wait_for

CODEC = TokenCodec([Key(1, bytes(range(64)), 0.0)], "example.org")
LINK = b'<a href="/x">x</a>'
START = b"<!DOCTYPE html><html><body>"
BR = (b"content-encoding", b"br")
PATIENCE = 60.0


def bomb(size: int, *, links: bytes = LINK) -> bytes:
    """A page of *size* bytes in a few hundred."""
    page = START + links * (size // len(links))
    return brotli.compress(page, quality=5)


@asynccontextmanager
async def serving(app, limits: ServerLimits, monkeypatch, **options):
    """Our server with these limits, which looks at its clock ten times a second; yields server and port."""
    monkeypatch.setattr(server_module, "_TICKS_PER_SECOND", 1)
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as door:
        server = make_server(app, "127.0.0.1", 0, limits=limits, grace_period=1, **options)
        task = asyncio.create_task(server.serve(sockets=[door]))
        while not server.started:
            await asyncio.sleep(0.005)
        try:
            yield server, door.getsockname()[1]
        finally:
            server.should_exit = True
            await task


async def hello(scope, receive, send):
    """An application that greets everybody."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


GET = b"GET / HTTP/1.1\r\nHost: site.example\r\n\r\n"


# ---- Websocket handshakes


@pytest.mark.parametrize("body", [b"Content-Length: 5", b"Content-Length: 0005", b"Transfer-Encoding: chunked"])
def test_a_websocket_handshake_with_a_body_is_refused(body):
    """Our own: it waited for ever, and 1,200 of them took all connections of a process with 1,024 files."""
    handshake = (
        b"GET / HTTP/1.1\r\nHost: site.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%b\r\n\r\n" % body
    )

    async def main():
        with pytest.MonkeyPatch.context() as patch:
            async with serving(hello, ServerLimits(), patch) as (_, port), asyncio.timeout(PATIENCE):
                return await ask(port, handshake)

    assert run(main()).startswith(b"HTTP/1.1 400 ")


# ---- Slow clients


def test_a_buffer_that_nobody_reads_is_noticed_even_if_nobody_waits_for_it():
    """Slow reading (slowhttptest -X): what fits into the buffer had no deadline, because nothing waits for it."""
    stall = StallCheck(ServerLimits(write_timeout=60))
    assert not any(stall.is_stalled(1000, float(now), paused=False) for now in range(60))
    assert stall.is_stalled(1000, 61.0, paused=False)


def test_a_client_that_reads_a_few_bytes_a_minute_is_disconnected():
    """Slow reading: each byte was progress, and the upstream's connection was occupied for days."""
    stall = StallCheck(ServerLimits(write_timeout=60))
    unsent, ended = 65_536, inf
    for now in range(0, 3600, 10):
        unsent -= 10
        if stall.is_stalled(unsent, float(now), paused=True):
            ended = now
            break
    # Its buffer at 500 bytes per second, and a minute.
    assert ended <= 60 + 65_536 / 500 + 10


def test_a_client_with_a_slow_line_is_not_disconnected():
    """A person with 2 KB per second gets a large file."""
    stall = StallCheck(ServerLimits(write_timeout=60))
    for now in range(3600):
        # The server refills the buffer whenever it is nearly empty.
        unsent = 65_536 - now * 2_000 % 49_152
        if unsent == 65_536:
            stall.resume()
        assert not stall.is_stalled(unsent, float(now), paused=now % 24 != 0)


def test_a_body_that_comes_byte_by_byte_is_refused(monkeypatch):
    """R-U-Dead-Yet, a slow POST: each byte moved the deadline."""

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await hello(scope, receive, send)
            return
        while (await receive()).get("more_body"):
            pass

    async def main():
        async with serving(app, ServerLimits(body_timeout=1.0, min_rate=500), monkeypatch) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\nHost: site.example\r\nContent-Length: 100000\r\n\r\n")

            async def drip():
                for _ in range(100_000):
                    writer.write(b"x")
                    await asyncio.sleep(0.2)

            dripping = asyncio.create_task(drip())
            try:
                async with asyncio.timeout(PATIENCE):
                    return await reader.readline()
            finally:
                dripping.cancel()
                writer.close()

    assert run(main()).startswith(b"HTTP/1.1 408 ")


def test_a_websocket_client_that_does_not_read_is_disconnected(monkeypatch):
    """Our own: nothing ended the connection of a client that reads no message, as long as there was no ping."""

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await hello(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.accept"})
        with suppress(OSError):
            while True:
                await send({"type": "websocket.send", "bytes": random.randbytes(100_000)})

    async def main():
        limits = ServerLimits(write_timeout=1.0)
        async with (
            serving(app, limits, monkeypatch) as (server, port),
            connect(f"ws://127.0.0.1:{port}/", proxy=None, max_queue=1, ping_interval=None) as websocket,
        ):
            await websocket.recv()
            async with asyncio.timeout(15):
                while server.server_state.connections:
                    await asyncio.sleep(0.05)

    run(main())


# ---- Many connections


class OneConnection:
    def __init__(self, idle_since: float = inf) -> None:
        self.idle_since = idle_since
        self.closed = False

    def close_idle(self) -> None:
        self.closed = True


def test_one_address_gets_only_its_share_of_connections():
    """Slowloris: one address took every connection of the server."""
    refused: Counter[str] = Counter()
    connections = Connections(100, 10, lambda _: False, refused)
    assert sum(connections.admit(OneConnection(), "192.0.2.1", 0.0) for _ in range(50)) == 10
    assert refused == {"address": 40}
    assert connections.admit(OneConnection(), "192.0.2.2", 0.0)


def test_all_addresses_of_an_ipv6_network_share_one_limit():
    """Our own: a household has 2**64 addresses."""
    connections = Connections(100, 10, lambda _: False)
    assert sum(connections.admit(OneConnection(), f"2001:db8::{n:x}", 0.0) for n in range(50)) == 10


def test_addresses_at_a_listener_for_both_families_are_not_taken_for_one_network():
    """A person is not refused because of another: `::ffff:192.0.2.1` is an IPv4 address."""
    connections = Connections(100, 10, lambda _: False)
    assert all(connections.admit(OneConnection(), f"::ffff:192.0.2.{n}", 0.0) for n in range(50))


def test_a_trusted_proxy_has_the_connections_of_all_its_clients():
    """The limit of one address must not apply to the proxy in front."""
    connections = Connections(100, 10, lambda peer: peer == "10.0.0.1")
    assert all(connections.admit(OneConnection(), "10.0.0.1", 0.0) for _ in range(50))


def test_people_behind_one_address_who_only_keep_connections_open_are_served():
    """A school: idle connections are closed for new ones, the longest idle first, and nobody is refused."""
    connections = Connections(100, 10, lambda _: False)
    idle = [OneConnection(float(n)) for n in range(10)]
    assert all(connections.admit(one, "192.0.2.1", 10.0) for one in idle)
    assert all(connections.admit(OneConnection(), "192.0.2.1", 20.0) for _ in range(3))
    assert [one.closed for one in idle] == [True] * 3 + [False] * 7


def test_the_server_refuses_with_503_and_serves_again_when_there_is_room(monkeypatch):
    """Slowloris against the total: heads that never end. Others are told at once, and served when these are gone."""

    async def main():
        limits = ServerLimits(connections=20, connections_per_address=1000, head_timeout=1.0)
        refused: Counter[str] = Counter()
        async with serving(hello, limits, monkeypatch, refused=refused) as (server, port):
            slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            for _, writer in slow:
                writer.write(b"GET / HTTP/1.1\r\n")
            async with asyncio.timeout(PATIENCE):
                while len(server.server_state.connections) < 20:
                    await asyncio.sleep(0.01)
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                assert (await reader.readline()).startswith(b"HTTP/1.1 503 ")
                writer.close()
                assert refused == {"total": 1}
                for reader, writer in slow:
                    assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
                    writer.close()
                while server.server_state.connections:
                    await asyncio.sleep(0.01)
                return await ask(port, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))

    assert run(main()).startswith(b"HTTP/1.1 200 ")


def test_heads_that_never_end_give_way_to_others(monkeypatch):
    """Slowloris with as many connections as there may be: for ten seconds at a time nobody else was served."""

    async def main():
        limits = ServerLimits(connections=20, connections_per_address=1000, head_timeout=60.0)
        last = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        async with serving(hello, limits, monkeypatch) as (server, port):
            with ExitStack() as stack:
                slow = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(20)]
                async with asyncio.timeout(PATIENCE):
                    for client in slow:
                        client.sendall(b"GET / HTTP/1.1\r\n")
                    while len(server.server_state.connections) < 20:
                        await asyncio.sleep(0.01)
                    while not (answer := await ask(port, last)).startswith(b"HTTP/1.1 200 "):
                        assert answer.startswith(b"HTTP/1.1 503 ")
                        await asyncio.sleep(0.1)
                    return len(server.server_state.connections)

    assert run(main()) < 20


def test_new_connections_are_not_accepted_one_by_one(monkeypatch):
    """Our own: a turn of the event loop accepted one connection, and under floods a turn takes long: people waited."""

    async def main():
        async with serving(hello, ServerLimits(), monkeypatch) as (server, port):
            turns = 0
            with ExitStack() as stack:
                for _ in range(64):
                    stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                async with asyncio.timeout(PATIENCE):
                    while len(server.server_state.connections) < 64:
                        await asyncio.sleep(0)
                        turns += 1
            return turns

    assert run(main()) < 20


def test_websockets_count_among_the_connections(monkeypatch):
    """Our own: an upgraded connection must not escape the limit, and must free its place when it ends."""

    async def app(scope, receive, send):
        if scope["type"] != "websocket":
            await hello(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.accept"})
        await receive()

    async def main():
        async with serving(app, ServerLimits(connections_per_address=3), monkeypatch) as (server, port):
            for _ in range(3):
                opened = [await connect(f"ws://127.0.0.1:{port}/", proxy=None) for _ in range(3)]
                assert b" 503 " in await ask(port, GET)
                for websocket in opened:
                    await websocket.close()
                async with asyncio.timeout(PATIENCE):
                    while server.server_state.connections:
                        await asyncio.sleep(0.01)

    run(main())


def test_the_limit_of_open_files_limits_connections(monkeypatch):
    """Our own: a process without a free file accepts nobody. The limit is raised first where that is allowed."""
    limit = [100, 100]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limit))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limit.__setitem__(slice(None), new))
    assert most_connections(settings()) == 50
    limit[:] = [1024, 1024]
    assert most_connections(settings()) == 568
    limit[:] = [1024, 1_000_000]
    assert most_connections(settings()) == 10_000
    assert limit == [10_456, 1_000_000]


@pytest.mark.slow
def test_more_idle_connections_than_files_leave_others_served(tmp_path):
    """Our own: at `ulimit -n 300`, 400 silent connections of other addresses reset or delayed everybody else."""
    port = free_port()

    async def main():
        async with Site(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as upstream:
            command = [HEDGEROW, "protect", upstream.url, "--listen", f"127.0.0.1:{port}"]
            limited = ["prlimit", "--nofile=300:300", "--", *command]
            text = f"directory = '{tmp_path}'\n[proxy]\nhead_timeout = 60.0\n"
            (tmp_path / "hedgerow.toml").write_text(text)
            running = Running(limited, tmp_path / "log", cwd=tmp_path)
            with ExitStack() as stack:
                stack.callback(running.stop)
                await asyncio.to_thread(wait_for, "hedgerow", lambda: "protecting" in (tmp_path / "log").read_text())
                for number in range(400):
                    client = stack.enter_context(socket.socket())
                    client.settimeout(PATIENCE)
                    client.bind((f"127.0.1.{number % 4 + 1}", 0))
                    client.connect(("127.0.0.1", port))
                await asyncio.sleep(1.5)
                async with asyncio.timeout(20):
                    return await ask(port, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))

    assert run(main()).startswith(b"HTTP/1.1 200 ")


# ---- Huge and compressed pages


def test_a_compressed_page_of_millions_of_links_lets_others_run():
    """Compression bomb (CVE-2026-44981, CrowdSec): 431 bytes took 8 s in one call, and nobody else was served."""
    body = bomb(4_000_000)
    assert len(body) < 500
    client = Client(Application(body, headers=[HTML, BR]))

    async def main():
        turns = 0

        async def others():
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        task = asyncio.create_task(others())
        await asyncio.sleep(0)
        await client.ask()
        task.cancel()
        return turns

    # In one call there was no turn for others. How many there are depends on how fast the machine is.
    assert asyncio.run(main()) > 5


def test_under_wsgi_a_compressed_page_lets_other_threads_run():
    """The same under WSGI, where the work was done in one step under a lock that all threads need."""

    class CountingLock(StepLock):
        steps = 0

        def __enter__(self) -> None:
            CountingLock.steps += 1
            super().__enter__()

    client = WsgiClient(WsgiApplication(bomb(4_000_000), headers=[HTML, BR]))
    client.hedgerow._lock = CountingLock()
    assert client.get().status == 200
    assert CountingLock.steps > 5


@pytest.mark.timeout(30)
def test_a_page_by_an_address_with_two_slashes_ends():
    """No link of such a page has a target to imitate, and a hidden link was sought for ever."""
    client = Client(Application(b'<body><a href="a.html">a</a></body>', headers=[HTML]))
    assert client.get("//docs/page.html").status == 200


@pytest.mark.parametrize("kind", [Client, WsgiClient])
def test_a_page_larger_than_the_limit_passes_unmarked_and_is_counted(kind):
    """Compression bomb: 50 MB of links are forwarded as the 431 bytes that came, and cost at most the limit."""
    body = bomb(50_000_000)
    client = kind(kind.application(body, headers=[HTML, BR]), "[marker]\npage_bytes = 1000000\n")
    answer = client.get()
    assert answer.body == body
    assert client.site.metrics().untouched == {"large": 1}


def test_a_page_of_too_many_links_passes_unmarked_and_is_counted():
    """Our own: links cost much more than other bytes, so they have a limit of their own."""
    page = START + LINK * 300
    client = Client(Application(page), "[marker]\npage_links = 200\n")
    assert client.get().body == page
    assert client.site.metrics().untouched == {"large": 1}


def test_of_a_page_that_comes_in_pieces_the_part_within_the_limit_is_marked():
    """A long page that a site streams is marked as far as the limit goes, and arrives whole."""
    pieces = [START + LINK * 100, *([b"".join(b'<a href="/%d">x</a>' % n for n in range(100))] * 50)]
    client = Client(Application(*pieces), "[marker]\npage_links = 200\n[traps]\nenabled = false\n")
    answer = client.get()
    assert 0 < len(marked_links_in(answer.body)) <= 300
    assert answer.body.endswith(pieces[-1] * 40)
    assert client.site.metrics().untouched == {"large": 1}


def test_a_bomb_behind_the_first_piece_of_a_page_is_cut_off():
    """Compression bomb, after the page has begun: the connection ends instead of decoding without end."""
    compressor = brotli.Compressor(quality=5)
    first = compressor.process(START + b"<p>" + b"word " * 20_000) + compressor.flush()
    rest = compressor.process(LINK * 5_000_000) + compressor.finish()
    client = Client(Application(first, rest, headers=[HTML, BR]), "[marker]\npage_bytes = 200000\n")
    with pytest.raises(BrokenCoding, match="bomb"):
        client.get()


def test_a_large_page_with_a_usual_growth_is_not_cut_off():
    """A large, well compressed page of a real site arrives whole, although only its start is marked."""
    compressor = brotli.Compressor(quality=5)
    page = START + b"".join(b"<p>paragraph %d of a long book" % n for n in range(60_000))
    pieces = [compressor.process(page[at : at + 10_000]) + compressor.flush() for at in range(0, len(page), 10_000)]
    pieces.append(compressor.finish())
    client = Client(Application(*pieces, headers=[HTML, BR]), "[marker]\npage_bytes = 200000\n")
    assert brotli.decompress(client.get().body).endswith(page[-1_000_000:])


def test_a_program_that_gets_a_bomb_lets_others_run():
    """The links of a program's first page are collected: also in steps, and not for ever."""
    client = Client(Application(bomb(20_000_000), headers=[HTML, BR]))

    async def main():
        turns = 0

        async def others():
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        task = asyncio.create_task(others())
        await asyncio.sleep(0)
        before = time.process_time()
        await client.ask(headers={"accept": "*/*", "user-agent": "curl/8"})
        task.cancel()
        return turns, time.process_time() - before

    turns, _ = asyncio.run(main())
    assert turns > 10


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_many_empty_members_are_decoded_in_steps(coding):
    """Our own: a body of thousands of empty gzip members or zstd frames decodes to nothing, in one call."""
    empty = gzip.compress(b"") if coding == "gzip" else zstd.compress(b"")
    decoder, _ = codec(coding.encode())
    assert len(list(decoder.feed(empty * (500_000 // len(empty))))) > 20


def test_frames_within_frames_are_marked_to_a_limited_depth():
    """Our own: each `srcdoc` in a `srcdoc` is scanned again, so hundreds of them cost hundreds of scans."""
    page = b"<a href=/x>x</a>"
    for _ in range(60):
        escaped = page.replace(b"&", b"&amp;").replace(b">", b"&gt;").replace(b" ", b"&#32;")
        page = b"<iframe srcdoc=" + escaped + b">"
    page = START + page
    client = Client(Application(page), "[traps]\nenabled = false\n")
    assert page[len(START) :] in client.get().body


# ---- Expressions that take long


def cost(function, text) -> float:
    """Seconds of CPU time, the least of three."""
    times = []
    for _ in range(3):
        began = time.process_time()
        function(text)
        times.append(time.process_time() - began)
    return min(times)


def assert_linear(function, start, pump, end, length: int = 5_000) -> None:
    """
    Four times the text may take ten times as long. A quadratic search takes sixteen times as long.

    Anything below two milliseconds counts as two, so that no noise decides.
    """
    short, long = (start + pump * (size // len(pump)) + end for size in (length, 4 * length))
    assert cost(function, long) < 10 * max(cost(function, short), 0.002)


def rewritten_refresh(value: bytes) -> None:
    rewriter = bait_rewriter(TokenCodecs([Key(1, KEY, 0.0)]).of("example.org"), b"abcdef", b"ghijkl", mode="clean")
    rewriter._begin()
    rewriter._new_value("refresh", value)


PROXIES = Proxies(["127.0.0.0/8"], "forwarded")
AGENT = {b"accept": b"*/*", b"accept-language": b"de"}
EXPRESSIONS = {
    "a Refresh header": lambda text: marked_refresh(text, lambda url: url),
    "a refresh in a page": rewritten_refresh,
    "a charset in a header": lambda text: carried_charset(b"text/html;" + text, b"<p>"),
    "a charset in a page": lambda text: carried_charset(b"text/html", text),
    "a listing": lambda text: is_listing(b"<title>Index of /</title>" + text, "/"),
    "a Link header": lambda text: marked_headers([(b"link", text)], lambda url: url, 200),
    "a content security policy": lambda text: permitting_headers(
        [(b"content-security-policy", text)], lambda: b"'sha256-x'", base=True
    ),
    "a cache control": lambda text: private_headers([(b"cache-control", text)]),
    "an ETag": restored_etags,
    "the start of a page": lambda text: beginning_of(text, final=True),
    "a user agent": lambda text: find_anomalies({b"user-agent": text, **AGENT}, scheme="https", host="example.org"),
    "a browser": lambda text: claimed_browser.__wrapped__(text.decode("latin-1")),
    "a Forwarded header": lambda text: Proxies(["127.0.0.0/8"], "forwarded").client(
        "127.0.0.1", text.decode("latin-1")
    ),
    "an address": lambda text: parse_address(text.decode("latin-1")),
    "a coding": known_codings.__wrapped__,
    "a log line": alb_extract,
    "a user agent of a list": lambda text: agent_pattern("*a*b*c*d*e*").fullmatch(text.decode("latin-1")),
    "robots.txt": lambda text: disallow(text, "/~"),
    "a scanned page": lambda text: Scanner().feed(text, final=True),
}
PUMPS = [
    b" ", b"\t", b"a", b"1", b"1.", b".", b"<", b">", b"<a ", b"<a href=x ", b" href=x", b"'", b'"', b'""', b";",
    b",", b"; ", b"=", b"\\", b'\\"', b"<!--", b"-->", b"<!-->", b"<?", b"url=", b"charset=", b"charset ",
    b"AppleWebKit/537.36 ", b"rv:1) Gecko/", b"Version/1 ", b"Chrome/", b"Electron/", b"for=", b'for="', b"W/",
    b"a=b;", b"&", b"&#", b"user-agent", b"\n", b"\r\n", b"h2 ", b"- ", b"private,", b"script-src ", b"'none' ",
    b"<svg>", b"<select>", b"<script>", b"<title>", b"http://", b"//", b"@", b"[", b"[::",
]  # fmt: skip
EDGES = [
    b"", b" ", b"x", b'"', b"<a ", b"<a href='", b"5", b"5;", b"5; url=", b"Mozilla/5.0 ",
    b"Mozilla/5.0 (Macintosh) AppleWebKit/605", b"charset=", b'W/"', b"<", b">", b"!", b"h2 ", b"<!doctype html>",
    b"=", b"https ", b"\n",
]  # fmt: skip


@pytest.mark.parametrize("name", EXPRESSIONS)
@examples(40)
@given(start=st.sampled_from(EDGES), pump=st.sampled_from(PUMPS), end=st.sampled_from(EDGES))
def test_text_of_strangers_is_read_in_linear_time(name, start, pump, end):
    """ReDoS (CVE-2025-53539, fastapi-guard): 60,000 spaces before a Refresh header took 29.7 s."""
    assert_linear(EXPRESSIONS[name], start, pump, end)


@pytest.mark.parametrize(
    ("name", "start", "pump", "end"),
    [
        ("a Refresh header", b"", b" ", b"x"),
        ("a refresh in a page", b"5; url='x", b" ", b"x"),
        ("a charset in a header", b"charset=", b" ", b"!"),
        ("a listing", b"<a ", b" href=x", b""),
    ],
)
def test_known_expressions_that_blew_up_take_linear_time(name, start, pump, end):
    """ReDoS: those that were found, each with the text that took longest."""
    assert_linear(EXPRESSIONS[name], start, pump, end, 15_000)


@examples(100)
@given(
    parts=st.lists(st.sampled_from(["", "a", "b", "ab", "/", "."]), min_size=2, max_size=41),
    has_query=st.booleans(),
    pump=st.sampled_from(["a", "ab", "/", "b", "aab"]),
    end=st.sampled_from(["", "!", "?", "?a"]),
)
def test_rules_with_many_wildcards_are_matched_in_linear_time(parts, has_query, pump, end):
    """ReDoS (CVE-2025-53539): a rule with eight `*` and a path of 50 bytes took 39 s."""
    pattern = ("*?" if has_query else "") + "*".join(parts)
    patterns = Patterns([pattern])
    assert_linear(patterns.match, "/?" if has_query else "/", pump, end)


def test_a_rule_of_forty_wildcards_is_matched_at_all():
    """The rule of the report, whose match did not end."""
    assert not Patterns(["/" + "*a" * 40 + "!"]).match("/" + "a" * 5_000)
    assert Patterns(["/" + "*a" * 40]).match("/" + "a" * 5_000)


@pytest.mark.parametrize("mode", ["clean", "opaque", "readable"])
@pytest.mark.parametrize("again", [False, True], ids=["new", "known"])
def test_a_page_of_many_links_is_filled_in_steps(monkeypatch, mode, again):
    """Our own: all 19,000 links of a page were marked in one step of 21 ms."""
    page = b"<html><body>" + b"".join(b'<a href="/p%d">x</a>' % n for n in range(5_500)) + b"</body></html>"

    def rewritten(cache: SkeletonCache) -> tuple[bytes, int]:
        place = PageLocation(b"http", b"example.org", b"/")
        steps = PageRewriter(place, Rules(mode), b"/~", cache, CODEC, b"visitr", b"parent", at=1e9).feeding(
            page, final=True
        )
        count = 0
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value, count
            count += 1

    caches = SkeletonCache(), SkeletonCache()
    if again:
        rewritten(caches[0])
        monkeypatch.setattr(rewrite, "_FILLED_AT_ONCE", 10**9)
        rewritten(caches[1])
        monkeypatch.undo()
    in_steps, steps = rewritten(caches[0])
    monkeypatch.setattr(rewrite, "_FILLED_AT_ONCE", 10**9)
    at_once, fewer = rewritten(caches[1])
    assert in_steps == at_once
    assert steps >= fewer + 5

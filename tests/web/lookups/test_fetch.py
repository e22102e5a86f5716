"""Fetching: what a stranger must not make us do."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from hedgerow.web.lookups.fetch import FetchError, fetch, is_public


class Names:
    """Knows some hosts, and may answer differently each time."""

    def __init__(self, **hosts) -> None:
        self.hosts = hosts
        self.asked = 0

    async def names(self, _):
        return []

    async def addresses(self, name, version):
        self.asked += 1
        return [a for a in self.hosts.get(name.partition(".")[0], []) if (":" in a) == (version == 6)]


@contextlib.asynccontextmanager
async def serving(answer: bytes, *, pause: float = 0.0):
    """A server that gives the same answer to everybody; `asked` are the requests."""
    asked, tasks = [], []

    async def serve(reader, writer):
        tasks.append(asyncio.current_task())
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                asked.append(await reader.readuntil(b"\r\n\r\n"))
                await asyncio.sleep(pause)
                writer.write(answer)
                await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], asked
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)


def get(answer: bytes, *, pause: float = 0.0, path: str = "/x?y", **options):
    async def run():
        async with serving(answer, pause=pause) as (port, asked):
            more = {"private": True, "schemes": frozenset({"http"}), **options}
            return await fetch(f"http://bot.example:{port}{path}", Names(bot=["127.0.0.1"]), **more), asked

    return asyncio.run(run())


def test_a_file_is_fetched():
    body, asked = get(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    assert body == b"hello"
    assert asked[0].startswith(b"GET /x?y HTTP/1.1\r\nhost: bot.example:")
    assert get(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")[0] == b"hello"
    assert get(b"HTTP/1.1 200 OK\r\n\r\nhello")[0] == b"hello"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/secret\r\nContent-Length: 0\r\n\r\n", "redirects are not"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "status 404"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000, "more than 1,000 bytes"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 500_000, "more than 1,000 bytes"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 3000, "head of its response is too long"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", "compressed"),
        (b"nonsense\r\n\r\n", "cannot be read"),
        (b"", "before its response was complete"),
    ],
)
def test_what_is_refused(answer, says):
    with pytest.raises(FetchError, match=says):
        get(answer, max_bytes=1000)


def test_what_takes_too_long():
    with pytest.raises(FetchError, match="longer than"):
        get(b"", pause=5.0, seconds=0.2)


@pytest.mark.parametrize(
    "url", ["http://bot.example/", "file:///etc/passwd", "https://", "https://a@bot.example/", "https://[::1", "x"]
)
def test_what_is_no_address_for_us(url):
    with pytest.raises(FetchError, match="address"):
        asyncio.run(fetch(url, Names(bot=["8.8.8.8"])))


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"], ["10.1.2.3"], ["192.168.0.1"], ["169.254.169.254"], ["172.16.0.1"], ["100.64.0.1"], ["0.0.0.0"],
        ["::1"], ["fe80::1"], ["fc00::1"], ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"], ["2002:7f00:1::"], ["224.0.0.1"],
        ["93.184.216.34", "127.0.0.1"], ["93.184.216.34", "::1"], ["::7f00:1"], ["240.0.0.1"],
    ],
)  # fmt: skip
def test_no_host_of_our_own_network_is_asked(addresses):
    """Not even where one of several addresses is a public one: which is taken would be the attacker's choice."""
    names = Names(bot=addresses)
    with pytest.raises(FetchError, match="not on the public network"):
        asyncio.run(fetch("https://bot.example/", names))
    assert names.asked == 2, "looked up once; what was checked is what is connected to"


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "[::ffff:10.0.0.1]"])
def test_nor_by_its_address(host):
    with pytest.raises(FetchError, match="not on the public network"):
        asyncio.run(fetch(f"https://{host}/", Names()))


def test_there_is_no_such_host():
    with pytest.raises(FetchError, match="no host"):
        asyncio.run(fetch("https://nowhere.example/", Names()))


def test_public_addresses():
    assert is_public("8.8.8.8")
    assert is_public("2606:4700::1")
    assert not is_public("")
    assert not is_public("example.org")

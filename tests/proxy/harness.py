"""Upstreams, servers and ASGI calls for the tests of the proxy."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

import uvloop

from hedgerow.proxy.proxy import Proxy
from hedgerow.proxy.server import make_server
from hedgerow.proxy.server_protocol import ServerLimits
from hedgerow.web.http_client.pool import Upstream

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def run(main):
    """Run *main* under uvloop, as in production."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(main, 300))


class Site:
    """An upstream that runs *play(site, reader, writer)* on each connection; bytes are the response to each request."""

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
    """Run *app* on our server and yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        server = make_server(app, "127.0.0.1", 0, limits=limits, grace_period=1)
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
    """Receive like a client that stays connected and sends nothing."""
    await asyncio.Event().wait()


async def call(proxy, scope, *received) -> list[dict]:
    """Return what the proxy sends when it receives exactly *received*."""
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


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


def hanging(start: bytes):
    async def play(site, reader, writer):
        await site.head(reader)
        writer.write(start)
        await reader.read()

    return play

"""HTTP on both sides: what a client sends to the real server, and what an upstream answers to the real client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import h11
import uvloop
from uvicorn.server import ServerState

from hedgerow.errors import UpstreamError
from hedgerow.proxy.proxy import Proxy
from hedgerow.proxy.server import make_server
from hedgerow.web.http_client.connection import Connection
from hedgerow.web.http_client.pool import Upstream

from .registry import target

DONE = b"HTTP/1.1 204 No Content\r\n\r\n"
TICKS = 200
LOOP = uvloop.new_event_loop()


class MemoryTransport(asyncio.Transport):
    """A connection without a socket: *on_write* gets what is written."""

    def __init__(self, on_write: Callable[[bytes], None]) -> None:
        super().__init__({"peername": ("192.0.2.1", 5000), "sockname": ("127.0.0.1", 80)})
        self.on_write = on_write
        self.closing = False
        self.protocol: Any = None

    def write(self, data: bytes) -> None:
        if not self.closing:
            self.on_write(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self.closing = True

    abort = close

    def is_closing(self) -> bool:
        return self.closing

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol


class MemoryUpstream(Upstream):
    """An upstream whose connections end in *answer*, which gets the connection and what was written to it."""

    answer: Callable[[Connection, bytes], None]

    async def _connect(self) -> Connection:
        connection = Connection(self, asyncio.get_running_loop())
        connection.connection_made(MemoryTransport(lambda data: self.answer(connection, data)))
        self._all.add(connection)
        return connection


class StrictServer:
    """Reads requests as h11 does, which refuses whatever is unclear, and answers each of them."""

    def __init__(self) -> None:
        self.requests: list[tuple[bytes, bytes]] = []
        self._readers: dict[Connection, h11.Connection] = {}

    def __call__(self, connection: Connection, data: bytes) -> None:
        reader = self._readers.setdefault(connection, h11.Connection(h11.SERVER, max_incomplete_event_size=400_000))
        reader.receive_data(data)
        # A RemoteProtocolError here is a request that another server could read differently.
        while (event := reader.next_event()) is not h11.NEED_DATA and event is not h11.PAUSED:
            if isinstance(event, h11.Request):
                self.requests.append((event.method, event.target))
            elif isinstance(event, h11.EndOfMessage):
                reader.send(h11.Response(status_code=204, headers=[]))
                reader.send(h11.EndOfMessage())
                if reader.our_state is h11.DONE and reader.their_state is h11.DONE:
                    reader.start_next_cycle()
                LOOP.call_soon(connection.data_received, DONE)


class _Faults(logging.Handler):
    """Keeps what the server logs as a failure."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.ERROR:
            self.found.append(record)


FAULTS = _Faults()
for _name in ("hedgerow.server", "uvicorn.error", "hedgerow"):
    logging.getLogger(_name).addHandler(FAULTS)
    logging.getLogger(_name).propagate = False


async def _settle(is_done: Callable[[], bool]) -> bool:
    for _ in range(TICKS):
        if is_done():
            return True
        await asyncio.sleep(0)
    return is_done()


def _pieces(cuts: bytes, data: bytes) -> list[bytes]:
    places = sorted({cut * len(data) // 256 for cut in cuts})
    pieces = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    # asyncio never delivers nothing.
    return [piece for piece in pieces if piece]


@target("request")
def request(data: bytes) -> None:
    """What the upstream gets is exactly what the application was asked, and a strict server can read it."""
    LOOP.run_until_complete(_request(_pieces(data[:2], data[2:])))


async def _request(pieces: list[bytes]) -> None:
    upstream = MemoryUpstream("http://127.0.0.1:1")
    server = upstream.answer = StrictServer()
    proxy = Proxy(upstream)
    seen: list[tuple[bytes, bytes]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        query = scope["query_string"]
        seen.append((scope["method"].encode(), scope["raw_path"] + (b"?" + query if query else b"")))
        await proxy(scope, receive, send)

    config = make_server(app, "127.0.0.1", 80, lifespan=False).config
    config.load()
    state = ServerState()
    answered = bytearray()
    transport = MemoryTransport(answered.extend)
    protocol = config.http_protocol_class(config=config, server_state=state, app_state={}, _loop=LOOP)
    transport.protocol = protocol
    protocol.connection_made(transport)
    FAULTS.found.clear()
    for piece in pieces:
        transport.protocol.data_received(piece)
        await asyncio.sleep(0)
        if transport.closing:
            break
    await _settle(lambda: not state.tasks)
    transport.closing = True
    transport.protocol.connection_lost(None)
    assert await _settle(lambda: not state.tasks), "a request goes on without its client"
    assert not FAULTS.found, FAULTS.found[0].getMessage() + str(FAULTS.found[0].exc_info)
    assert server.requests == seen[: len(server.requests)], (server.requests, seen)
    assert not answered or answered.startswith(b"HTTP/1.1 "), bytes(answered[:50])
    await upstream.close()


@target("upstream")
def upstream_response(data: bytes) -> None:
    """An answer of the upstream is a response or an UpstreamError, and h11 finds no other body in it."""
    if len(data) < 3:
        return
    LOOP.run_until_complete(_upstream(b"HEAD" if data[0] & 1 else b"GET", _pieces(data[1:3], data[3:])))


async def _upstream(method: bytes, pieces: list[bytes]) -> None:
    upstream = MemoryUpstream("http://127.0.0.1:1")
    begun: list[Connection] = []
    upstream.answer = lambda connection, _: begun.append(connection)
    asking = LOOP.create_task(_read(upstream, method))
    await _settle(lambda: bool(begun))
    for piece in pieces:
        if begun[0].closed:
            break
        begun[0].data_received(piece)
        await asyncio.sleep(0)
    # One may be sent again, and then gets nothing.
    for connection in list(upstream._all):
        connection.eof_received()
    await _settle(lambda: asking.done() or len(begun) > 1)
    for connection in list(upstream._all):
        connection.eof_received()
    assert await _settle(asking.done), "a response never ends"
    result = asking.result()
    await upstream.close()
    other = _read_by_h11(method, b"".join(pieces))
    assert result is None or other is None or result == other, (result, other)


async def _read(upstream: Upstream, method: bytes) -> tuple[int, bytes] | None:
    try:
        response = await upstream.request(method, b"/", [(b"host", b"a")])
        body = b""
        while piece := await response.read():
            body += piece
    except UpstreamError:
        return None
    return response.status, body


def _read_by_h11(method: bytes, data: bytes) -> tuple[int, bytes] | None:
    reader = h11.Connection(h11.CLIENT, max_incomplete_event_size=400_000)
    reader.send(h11.Request(method=method, target=b"/", headers=[("host", "a")]))
    reader.send(h11.EndOfMessage())
    status, body = 0, b""
    try:
        reader.receive_data(data)
        while (event := reader.next_event()) is not h11.PAUSED:
            if event is h11.NEED_DATA:
                reader.receive_data(b"")
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return status, body
            elif isinstance(event, h11.ConnectionClosed):
                return None
    except h11.RemoteProtocolError:
        return None
    return None

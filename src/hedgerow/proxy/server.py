"""
The uvicorn server, configured for a public site: with limits, deadlines, and short responses to malformed requests.

    make_server(app, host, port)                   a `uvicorn.Server`, ready to run
    └── _Server                                    checks the deadlines of all connections once a second
        ├── connections.py: Connections            how many there may be, in total and of one address
        ├── tls.py: TlsHandshake                   the handshake before it, if the listener speaks TLS
        └── server_protocol.py: ServerProtocol     uvicorn's HTTP protocol, with limits on size and slowness
            └── server_cycle.py: RequestCycle      uvicorn's request and response, cheaper and with clean failures

Limits apply while bytes arrive, so no client takes more memory than they allow. Deadlines are numbers that a sweep
checks: a timer for each would cost more than all other work on a short request.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, cast

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from hedgerow.proxy.connections import Connections
from hedgerow.proxy.server_protocol import ServerLimits, ServerProtocol, StallCheck
from hedgerow.proxy.tls import Certificate, TlsHandshake

_TICKS_PER_SECOND = 10
_ACCEPTED_AT_ONCE = 8
"""
Connections that one turn of the event loop accepts: uvloop takes a single one of each listening socket, so there are
as many duplicates of it. Under a flood a turn takes long, and a visitor would wait one for each connection before it.
"""


def make_server(
    app: Any,
    host: str,
    port: int,
    *,
    limits: ServerLimits | None = None,
    trusts: Callable[[str], bool] = lambda _: False,
    refused: Counter[str] | None = None,
    grace_period: int = 10,
    lifespan: bool = True,
    certificate: Certificate | None = None,
) -> uvicorn.Server:
    """
    Return a server for *app*. Call its `run()`, with a list of sockets if there are several workers.

    Peers that *trusts* names may have as many connections as they like. *refused* counts connections without room.
    With a *certificate* the server speaks TLS, and looks for a new one in its files once a second.

    After `should_exit` is set, running requests have *grace_period* seconds to finish. The program configures logging:
    refusals and failures go to `hedgerow.server`, the rest to uvicorn's loggers. Forwarded headers are not read here;
    `request.address` decides whether to trust them.
    """
    limits = limits or ServerLimits()
    admission = Connections(limits.connections, limits.connections_per_address, trusts, refused)
    protocol: Any = partial(ServerProtocol, limits=limits, admission=admission)
    if certificate is not None:
        protocol = partial(TlsHandshake, certificate=certificate, limits=limits, admission=admission)
    config = uvicorn.Config(
        app, host=host, port=port, loop="uvloop", interface="asgi3", lifespan="on" if lifespan else "off",
        http=cast("type[asyncio.Protocol]", protocol),
        ws=cast("type[asyncio.Protocol]", partial(_Websocket, limits=limits, admission=admission)),
        ws_max_size=limits.message, timeout_graceful_shutdown=grace_period,
        log_config=None, access_log=False, proxy_headers=False, server_header=False, date_header=False,
    )  # fmt: skip
    return _Server(config, certificate)


class _Server(uvicorn.Server):
    """uvicorn's server, with a sweep for overdue connections and for a new certificate."""

    def __init__(self, config: uvicorn.Config, certificate: Certificate | None) -> None:
        super().__init__(config)
        self._certificate = certificate

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        for one in sockets or ():
            # Workers share the socket. A duplicate gets the timeout of the object that it is made from: without this it
            # would be blocking for a moment, and so would another worker, which then waits in `accept` for a connection
            # and answers nobody.
            one.setblocking(False)
        each = [one.dup() for one in sockets or () for _ in range(_ACCEPTED_AT_ONCE - 1)]
        await super().startup(sockets=None if sockets is None else [*sockets, *each])

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        # The program handles signals. uvicorn would raise them again after its shutdown and kill the process.
        return contextlib.nullcontext()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_PER_SECOND == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, ServerProtocol | _Websocket):
                    connection.check(now)
            if self._certificate is not None:
                self._certificate.reload_if_changed()
        return await super().on_tick(counter)


class _Websocket(WebSocketsSansIOProtocol):
    """uvicorn's websocket, which accepts an HTTP response to a handshake as its end. Its client must read."""

    idle_since = inf

    def __init__(self, *args: Any, limits: ServerLimits, admission: Connections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stall = StallCheck(limits)
        self._admission = admission

    def connection_lost(self, exc: Exception | None) -> None:
        self._admission.release(self)
        super().connection_lost(exc)

    def check(self, now: float) -> None:
        """Close the connection of a client that does not read. Called once a second."""
        if self._stall.is_stalled(self.transport.get_write_buffer_size(), now, paused=not self.writable.is_set()):
            self.transport.abort()

    def close_idle(self) -> None:
        """Do nothing: a websocket is never idle."""

    def resume_writing(self) -> None:
        self._stall.resume()
        super().resume_writing()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True

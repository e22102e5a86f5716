"""
How uvicorn is run for a site that strangers attack: with limits, deadlines, and short answers to nonsense.

    make_server(app, host, port)             a `uvicorn.Server`, ready to run
    └── _Server                              looks at the deadlines of all connections once a second
        └── server_protocol.py: Protocol     uvicorn's HTTP protocol, with limits on what clients send and how slowly
            └── server_cycle.py: Cycle       uvicorn's request and response: cheaper, and quiet if the upstream fails

Limits are kept while bytes arrive, so no client takes more memory than they allow. Deadlines are numbers that
a sweep looks at: a timer for each would cost more than the rest of what is done around a short request.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Any, cast

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from hedgerow.proxy.server_protocol import ServerLimits, ServerProtocol

_TICKS_A_SECOND = 10


def make_server(
    app: Any, host: str, port: int, *, limits: ServerLimits | None = None, graceful: int = 10, lifespan: bool = True
) -> uvicorn.Server:
    """
    A server for *app*; `run()` it, with a list of sockets if there are several workers.

    When `should_exit` is set, requests under way have *graceful* seconds to finish. Logging is left to the program:
    refusals and failures go to `hedgerow.server`, the rest to uvicorn's own loggers. Forwarded headers are
    not read here, for whether to believe them is decided where visitors are identified.
    """
    limits = limits or ServerLimits()
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="uvloop",
        http=cast("type[asyncio.Protocol]", partial(ServerProtocol, limits=limits)),
        ws=_Websocket,
        ws_max_size=limits.message,
        interface="asgi3",
        lifespan="on" if lifespan else "off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=graceful,
    )
    return _Server(config)


class _Server(uvicorn.Server):
    """
    uvicorn's server, which also looks for connections that are overdue.

    Signals are left to the program: uvicorn would raise them once more after a graceful end, and the process would die
    of what it was asked for politely.
    """

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_A_SECOND == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, ServerProtocol):
                    connection.check(now)
        return await super().on_tick(counter)


class _Websocket(WebSocketsSansIOProtocol):
    """uvicorn's websocket, which takes an HTTP answer to a handshake for the end of it and not for an omission."""

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True

"""The application's robots.txt, asked for beside the requests, so that bots can be held to it."""

from __future__ import annotations

import asyncio
import logging

from hedgerow.core.visit import Visit
from hedgerow.request.robots_compliance import RobotsCompliance
from hedgerow.traps.robots_txt import LIMIT
from hedgerow.web.asgi_types import AsgiApp, Message, Scope

log = logging.getLogger(__name__)

_SECONDS = 10.0
_OK = 200
_CLIENT_ERRORS = range(400, 500)
KEPT = frozenset({b"host", b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"forwarded"})
"""The headers of a request that its question for the robots.txt has too."""


async def read_robots(app: AsgiApp, scope: Scope, robots_compliance: RobotsCompliance, visit: Visit) -> None:
    """
    Ask *app* for the robots.txt of the host of *visit*, and tell *robots_compliance*. An error leaves what is known.
    """
    asked = asyncio.Event()
    status = 0
    pieces: list[bytes] = []
    headers = [pair for pair in scope["headers"] if pair[0] in KEPT]

    async def receive() -> Message:
        if asked.is_set():
            await asyncio.sleep(_SECONDS)
            return {"type": "http.disconnect"}
        asked.set()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body" and sum(map(len, pieces)) <= LIMIT:
            pieces.append(message.get("body", b""))

    inner: Scope = {
        **scope, "type": "http", "method": "GET", "path": "/robots.txt", "raw_path": b"/robots.txt",
        "query_string": b"",
        "headers": [*headers, (b"user-agent", b"Hedgerow"), (b"accept", b"text/plain")],
    }  # fmt: skip
    try:
        async with asyncio.timeout(_SECONDS):
            await app(inner, receive, send)
    except Exception as error:  # noqa: BLE001 - whatever the application breaks on, the visit goes on
        log.info("the robots.txt of %s cannot be read: %s", ascii(visit.host), ascii(str(error)))
        return
    learn_robots(robots_compliance, visit, status, b"".join(pieces))


def learn_robots(robots_compliance: RobotsCompliance, visit: Visit, status: int, body: bytes) -> None:
    """Tell *robots_compliance* what the application has answered; an answer that says nothing leaves what is known."""
    if status == _OK:
        robots_compliance.learn(visit.host, body[:LIMIT], visit.at)
    elif status in _CLIENT_ERRORS:
        # There is none: everything may be fetched.
        robots_compliance.learn(visit.host, b"", visit.at)

"""
The endpoint of `hedgerow serve` for ban-list clients.

    GET  /client/lists?since=VERSION   the changes since a version, or everything, as lines without end
    POST /client/visits                a batch of visits, which are decided on and recorded as if they had come here

Each client has a token, which also names it in the log.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable
from itertools import islice
from typing import Final
from urllib.parse import parse_qs

import msgspec

from hedgerow.core.gate import reclassified
from hedgerow.core.visit import ANSWERED, Kind, Visit
from hedgerow.errors import DECODE_ERRORS, StoreAwayError
from hedgerow.request.account import visitor_of
from hedgerow.services.banlist.change_feed import ChangeFeed
from hedgerow.services.banlist.messages import (
    HEARTBEAT,
    LISTS_PATH,
    MOST_VISITS,
    VISITS_PATH,
    ListMessage,
    VisitMessage,
    VisitsReceived,
    encode_message,
)
from hedgerow.services.forward_auth import send_response
from hedgerow.web.app import Site
from hedgerow.web.asgi_types import Receive, Scope, Send
from hedgerow.web.response_headers import header, is_html
from hedgerow.web.waiter import ON_LOOP

log = logging.getLogger(__name__)

PATH: Final = "/client/"
_MAX_BODY = 16_000_000
_INTERVAL = 0.2
_LINES_AT_ONCE = 500
_VISITS_AT_ONCE = 50
_MAX_AGE, _MAX_LEAD = 600.0, 2.0
_GOOD = range(200, 300)
_PROBLEMS = {
    400: "This is no batch of visits.",
    401: "Show the token of a client: Authorization: Bearer TOKEN.",
    404: "There are /client/lists and /client/visits.",
    405: "GET /client/lists, POST /client/visits.",
    413: f"At most {_MAX_BODY:,} bytes and {MOST_VISITS} visits.",
    503: "The lists cannot be read now; keep what you have, and ask again.",
}


class BanlistEndpoint:
    """Serves the clients in the settings of *site*."""

    def __init__(self, site: Site, clock: Callable[[], float] = time.time) -> None:
        self._site = site
        self._clock = clock
        self._feed: ChangeFeed | None = None

    def open(self) -> None:
        """Start to look for changes if there are any clients."""
        if self._site.app.settings.serve.clients:
            site, follower = self._site, self._site.follower
            self._feed = ChangeFeed(
                follower.store if follower else None, site.blocks, self._clock,
                enforces=lambda: not site.app.settings.observe,
            )  # fmt: skip
            self._feed.start()

    def close(self) -> None:
        if self._feed is not None:
            self._feed.close()
            self._feed = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if path not in {LISTS_PATH, VISITS_PATH} or self._feed is None:
            await _problem(send, 404)
        elif not (name := self._client(scope)):
            await _problem(send, 401)
        elif (path, method) == (LISTS_PATH, "GET"):
            await self._stream(self._feed, name, scope, receive, send)
        elif (path, method) == (VISITS_PATH, "POST"):
            await self._receive_visits(receive, send)
        else:
            await _problem(send, 405)

    def _client(self, scope: Scope) -> str:
        """Return the name of the client with the token of a request, or ""."""
        scheme, _, shown = header(scope["headers"], b"authorization").partition(b" ")
        found = ""
        for client in self._site.app.settings.serve.clients:
            # Compare with all of them, so that the time reveals nothing.
            if hmac.compare_digest(shown.strip(), client.token.encode()):
                found = client.name
        return found if scheme.lower() == b"bearer" else ""

    async def _stream(self, feed: ChangeFeed, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        version = parse_qs(scope["query_string"].decode("latin-1")).get("since", [""])[0]
        if feed.failing and feed.since(version) is None:
            await _problem(send, 503)
            return
        headers = [(b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        log.info("the client %s follows the lists", ascii(name))
        async with ON_LOOP.watch_disconnect(receive) as wait:
            sent_at = 0.0
            while not self._site.closing:
                found = feed.since(version)
                if found is None:
                    try:
                        version = await _send_snapshot(feed, send)
                    except StoreAwayError as error:
                        # Without the end the client ignores it, keeps what it has, and asks again.
                        log.warning("cannot send the lists to the client %s: %s", ascii(name), error)
                        break
                    sent_at = self._clock()
                elif found[1] or self._clock() - sent_at > HEARTBEAT:
                    version = found[0]
                    await _send_more(send, b"".join((*found[1], encode_message(ListMessage(at=version)))))
                    sent_at = self._clock()
                if await wait(_INTERVAL):
                    return
            await send({"type": "http.response.body", "body": b""})

    async def _receive_visits(self, receive: Receive, send: Send) -> None:
        body = await _read(receive)
        try:
            batch = msgspec.json.decode(body, type=list[VisitMessage]) if body is not None else None
        except DECODE_ERRORS:
            await _problem(send, 400)
            return
        if batch is None or len(batch) > MOST_VISITS:
            await _problem(send, 413)
            return
        for number, seen in enumerate(batch, 1):
            await self._record(seen)
            if not number % _VISITS_AT_ONCE:
                # Let other requests run.
                await asyncio.sleep(0)
        await _send(send, 200, b"application/json", msgspec.json.encode(VisitsReceived(len(batch))))

    async def _record(self, seen: VisitMessage) -> None:
        """Decide on a visit that was answered before, for the sake of the next visits."""
        gate, now = self._site.app.gate, self._clock()
        # The clock of a client may be wrong.
        at = min(max(seen.at, now - _MAX_AGE), now + _MAX_LEAD)
        headers = [(name.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace"))
                   for name, value in seen.headers]  # fmt: skip
        visit = gate.identifier.visit(
            at, seen.address, seen.method, seen.target, headers, scheme=seen.scheme, in_order=False
        )
        if seen.account:
            visit = msgspec.structs.replace(visit, account=seen.account, visitor=visitor_of(seen.account, visit.prefix))
        visit = msgspec.structs.replace(visit, anomalies=(*visit.anomalies, ANSWERED))
        visit = as_answered(visit, seen.status, seen.content.encode("latin-1", "replace"))
        gate.record(visit, await gate.decide(visit), seen.status)


def as_answered(visit: Visit, status: int, content_type: bytes) -> Visit:
    """Correct the kind of a visit by its response: an image is not HTML, and few pages are anything else."""
    kind: Kind = visit.kind
    if status not in _GOOD or not content_type or visit.bot:
        return visit
    if is_html(content_type):
        if kind == "asset":
            kind = "page"
    elif kind == "page" and visit.method == "GET" and not content_type.startswith(b"application/xhtml+xml"):
        kind = "asset"
    return visit if kind == visit.kind else reclassified(visit, kind)


async def _send_snapshot(feed: ChangeFeed, send: Send) -> str:
    """Send everything, read in pieces by a thread, and return its version."""
    version, lines = feed.snapshot()
    while piece := await asyncio.to_thread(lambda: b"".join(islice(lines, _LINES_AT_ONCE))):
        await _send_more(send, piece)
    await _send_more(send, encode_message(ListMessage(at=version)))
    return version


async def _send_more(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _read(receive: Receive) -> bytes | None:
    """Return the body of a request, or None if it is too large or incomplete."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > _MAX_BODY:
            return None
        if not message.get("more_body", False):
            return b"".join(pieces)


async def _problem(send: Send, status: int) -> None:
    await _send(send, status, b"text/plain; charset=utf-8", _PROBLEMS[status].encode() + b"\n")


async def _send(send: Send, status: int, media: bytes, body: bytes) -> None:
    await send_response(send, status, [(b"content-type", media), (b"content-length", b"%d" % len(body))], body)

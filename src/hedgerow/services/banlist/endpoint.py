"""
Where ban-list clients speak to `hedgerow serve`: lists down, visits up.

    GET  /client/lists?since=VERSION   lines without end: what has changed since, or everything
    POST /client/visits                a batch of visits, decided on and written down as if they had come here

A client shows its own token, and is known by its name from then on.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final
from urllib.parse import parse_qs

import msgspec

from hedgerow.core.visit import BY_SCRIPT, Kind, Visit
from hedgerow.errors import StoreAwayError
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
)
from hedgerow.web.asgi_types import Receive, Scope, Send
from hedgerow.web.html_response import header, is_html
from hedgerow.web.site import Site
from hedgerow.web.waiter import ON_LOOP

log = logging.getLogger(__name__)

PATH: Final = "/client/"
_LARGEST = 16_000_000
_LOOK_EVERY = 0.2
_LINES_AT_ONCE = 500
_BREATHER = 50
_OLDEST, _NEWEST = 600.0, 2.0
_GOOD = range(200, 300)
_PROBLEMS = {
    400: "This is no batch of visits.",
    401: "Show the token of a client: Authorization: Bearer TOKEN.",
    404: "There are /client/lists and /client/visits.",
    405: "GET /client/lists, POST /client/visits.",
    413: f"At most {_LARGEST:,} bytes and {MOST_VISITS} visits.",
    503: "The lists cannot be read now; keep what you have, and ask again.",
}


class BanlistEndpoint:
    """Speaks to the clients that the settings of *site* name."""

    def __init__(self, site: Site, clock: Callable[[], float] = time.time) -> None:
        self._site = site
        self._clock = clock
        self._feed: ChangeFeed | None = None

    def open(self) -> None:
        """Look for changes from now on; only where there are clients."""
        if self._site.settings.serve.clients:
            follower = self._site.follower
            self._feed = ChangeFeed(follower.store if follower else None, self._site.state.blocks, self._clock)
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
            await self._take(receive, send)
        else:
            await _problem(send, 405)

    def _client(self, scope: Scope) -> str:
        """The name of the client whose token this is, or ""."""
        scheme, _, shown = header(scope["headers"], b"authorization").partition(b" ")
        found = ""
        for client in self._site.settings.serve.clients:
            # All of them, always: how long it takes tells nobody which.
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
        async with ON_LOOP.lookout(receive) as lookout:
            told_at = 0.0
            while not self._site.closing:
                found = feed.since(version)
                if found is None:
                    try:
                        version = await _tell_all(feed, send)
                    except StoreAwayError as error:
                        # Half of it is nothing: the client keeps what it has, and asks again.
                        log.warning("the client %s cannot be told the lists: %s", ascii(name), error)
                        break
                    told_at = self._clock()
                elif found[1] or self._clock() - told_at > HEARTBEAT:
                    version = found[0]
                    mark = msgspec.json.encode(ListMessage(at=version)) + b"\n"
                    await send({"type": "http.response.body", "body": b"".join((*found[1], mark)), "more_body": True})
                    told_at = self._clock()
                if await lookout.wait(_LOOK_EVERY):
                    return
            await send({"type": "http.response.body", "body": b""})

    async def _take(self, receive: Receive, send: Send) -> None:
        body = await _read(receive)
        if body is None:
            await _problem(send, 413)
            return
        try:
            batch = msgspec.json.decode(body, type=list[VisitMessage])
        except msgspec.DecodeError:
            await _problem(send, 400)
            return
        if len(batch) > MOST_VISITS:
            await _problem(send, 413)
            return
        for number, seen in enumerate(batch, 1):
            await self._see(seen)
            if not number % _BREATHER:
                # Others ask, too.
                await asyncio.sleep(0)
        answer = msgspec.json.encode(VisitsReceived(len(batch)))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _see(self, seen: VisitMessage) -> None:
        """Decide on a visit that has been answered long ago, for the sake of the next."""
        gate, now = self._site.gate, self._clock()
        # A client whose clock is wrong neither lives in the future nor fills windows of long ago.
        at = min(max(seen.at, now - _OLDEST), now + _NEWEST)
        headers = [(name.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace"))
                   for name, value in seen.headers]  # fmt: skip
        visit = gate.identifier.visit(
            at, seen.address, seen.method, seen.target, headers, scheme=seen.scheme, in_order=False
        )
        if seen.account:
            visit = msgspec.structs.replace(visit, account=seen.account, visitor=visitor_of(seen.account, visit.prefix))
        visit = as_answered(visit, seen.status, seen.content.encode("latin-1", "replace"))
        self._site.record(visit, await gate.decide_async(visit), seen.status)


def as_answered(visit: Visit, status: int, content_type: bytes) -> Visit:
    """The visit as the kind that its answer shows it to be: no image is written in HTML, and few pages are not."""
    kind: Kind = visit.kind
    if status not in _GOOD or not content_type or visit.bot:
        return visit
    if is_html(content_type):
        if kind == "asset":
            kind = "page"
    elif kind == "page" and visit.method == "GET" and not content_type.startswith(b"application/xhtml+xml"):
        kind = "asset"
    if kind == visit.kind:
        return visit
    anomalies = (*visit.anomalies, BY_SCRIPT) if visit.kind == "call" else visit.anomalies
    return msgspec.structs.replace(visit, kind=kind, anomalies=anomalies)


async def _tell_all(feed: ChangeFeed, send: Send) -> str:
    """Send everything, read in a thread, some at a time; the version that it is."""
    version, lines = feed.snapshot()
    while piece := await asyncio.to_thread(_some, lines):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    mark = msgspec.json.encode(ListMessage(at=version)) + b"\n"
    await send({"type": "http.response.body", "body": mark, "more_body": True})
    return version


def _some(lines: Iterator[bytes]) -> bytes:
    return b"".join(islice(lines, _LINES_AT_ONCE))


async def _read(receive: Receive) -> bytes | None:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > _LARGEST:
            return None
        if not message.get("more_body", False):
            return b"".join(pieces)


async def _problem(send: Send, status: int) -> None:
    body = _PROBLEMS[status].encode() + b"\n"
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

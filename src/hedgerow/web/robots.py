"""
The site's robots.txt.

On its way to a client, marked links are disallowed in it and unwelcome bots refused. It is also read in the background,
so that bots can be held to it.
"""

from __future__ import annotations

import logging
from urllib.parse import unquote_to_bytes, urljoin, urlsplit

from hedgerow.core.visit import Visit
from hedgerow.detectors.program_pages import LATE_ROBOTS
from hedgerow.request.robots_compliance import RobotsCompliance
from hedgerow.traps.robots_txt import LIMIT, disallow, refuse, with_license
from hedgerow.web.asgi_types import AsgiApp, Message, Receive, Scope
from hedgerow.web.response import ResponseRewriter
from hedgerow.web.response_headers import REDIRECTS, Headers, changed_headers, header, is_html
from hedgerow.web.waiter import Waiter

log = logging.getLogger(__name__)

_TIMEOUT = 10.0
_OK = 200
_CLIENT_ERRORS = range(400, 500)
_NOTHING = b"User-agent: *\nDisallow: /\n"
_MISSING = frozenset({401, 403, 404, 410})
_KEPT_HEADERS = frozenset({b"host", b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"forwarded"})
_MAX_HOPS = 5
_OWN_HEADERS = ((b"user-agent", b"Hedgerow"), (b"accept", b"text/plain"))


def without_body(receive: Receive) -> Receive:
    """Return a `receive` for the second request to an application: the first one took the empty body."""
    messages: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def received() -> Message:
        return messages.pop() if messages else await receive()

    return received


async def read_robots(app: AsgiApp, scope: Scope, compliance: RobotsCompliance, visit: Visit, waiter: Waiter) -> None:
    """Request the robots.txt of the host of *visit* from *app* for *compliance*. After an error nothing changes."""
    status = 0
    pieces: list[bytes] = []
    requests: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if not requests:
            await waiter.sleep(_TIMEOUT)
        return requests.pop() if requests else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body" and sum(map(len, pieces)) <= LIMIT:
            pieces.append(message.get("body", b""))

    headers = [*(pair for pair in scope["headers"] if pair[0] in _KEPT_HEADERS), *_OWN_HEADERS]
    inner: Scope = {
        **scope, "type": "http", "method": "GET", "path": "/robots.txt", "raw_path": b"/robots.txt",
        "query_string": b"", "headers": headers,
    }  # fmt: skip
    try:
        async with waiter.timeout(_TIMEOUT):
            await app(inner, receive, send)
    except Exception as error:  # noqa: BLE001 - whatever the application breaks on, the visit goes on
        log.info("the robots.txt of %s cannot be read: %s", ascii(visit.host), ascii(str(error)))
        return
    if status == _OK or status in _CLIENT_ERRORS:
        # Without a robots.txt everything may be fetched.
        compliance.learn(visit.host, b"".join(pieces)[:LIMIT] if status == _OK else b"", visit.at)


class RobotsResponseRewriter(ResponseRewriter):
    """
    Collects the whole robots.txt and adds to it; if the site has none, the client gets one.

    The application must be asked by GET, because the length that a HEAD reports depends on the whole file. A redirect
    that stays on the host is followed here: a crawler that follows it would get the file without our lines.
    """

    _size = 0
    _onward: str | None = None
    _address = ""
    _first_redirect: tuple[Message, bytes] | None = None
    """For the client, if it leads nowhere."""

    async def request(self, app: AsgiApp, scope: Scope, receive: Receive) -> None:
        await app(scope, receive, self)
        for _ in range(_MAX_HOPS):
            if self._onward is None:
                break
            url, self._onward = urlsplit(self._onward), None
            scheme, path = url.scheme, url.path or "/"
            headers = [(n, scheme.encode() if n == b"x-forwarded-proto" else value) for n, value in scope["headers"]]
            inner = {
                **scope, "scheme": scheme, "headers": headers, "query_string": url.query.encode("latin-1"),
                "raw_path": path.encode("latin-1"), "path": unquote_to_bytes(path).decode("utf-8", "replace"),
            }  # fmt: skip
            await app(inner, without_body(receive), self)
        await self._finish()

    async def __call__(self, message: Message) -> None:
        if self.visit.method == "HEAD" and self._start is None and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await super().__call__(message)

    async def _must_hold(self, start: Message) -> bool:
        status, headers = start["status"], start["headers"]
        if status == _OK and header(headers, b"content-encoding"):
            self._app.counters.count_skipped("coding", self.visit.target)
            return self._first_redirect is not None
        if status in REDIRECTS:
            self._onward = self._next_address(header(headers, b"location").decode("latin-1"))
        return self._first_redirect is not None or self._onward is not None or status == _OK or status in _MISSING

    def _next_address(self, location: str) -> str | None:
        """Return where a redirect leads, if that is on the same host."""
        scheme, host = "https" if self._secure else "http", self.visit.host
        try:
            address = urljoin(self._address or f"{scheme}://{host}{self.visit.target}", location)
            here, there = urlsplit(f"{scheme}://{host}"), urlsplit(address)
            same = there.hostname == here.hostname and (there.scheme != scheme or there.netloc == here.netloc)
        except ValueError:
            return None
        if same and there.scheme in {"http", "https"} and location.isprintable() and " " not in address:
            self._address = address
            return address
        if (there.path, there.query) != (self.visit.target, ""):
            # Not a mere change of the host, where the crawler would be sent for every page and ask again.
            self._warn(address)
        return None

    def _warn(self, address: str) -> None:
        skipped = self._app.counters.skipped
        skipped["robots-redirect"] += 1
        if skipped["robots-redirect"] == 1:
            lines = self._rewritten(b"").decode("utf-8", "replace").split("\n")
            log.warning(
                "robots.txt is redirected to %s, where these lines are missing: %s", ascii(address),
                ", ".join(line for line in lines if line),
            )  # fmt: skip

    async def _begin(self, message: Message, start: Message) -> None:
        piece, more = message.get("body", b""), message.get("more_body", False)
        if self._size <= LIMIT:
            self._held.append(piece)
            self._size += len(piece)
        headers: Headers = start["headers"]
        is_file = start["status"] == _OK and not header(headers, b"content-encoding")
        if not is_file and start["status"] not in _MISSING:
            if not more:
                self._pass_over(start)
            return
        if more and self._size <= LIMIT:
            return
        if is_file and not is_html(header(headers, b"content-type")):
            body, kept = self._rewritten(b"".join(self._held)), changed_headers(headers)
        else:
            # There is none, or the application answers everything with its start page.
            body, kept = self._rewritten(b""), [(b"content-type", b"text/plain; charset=utf-8")]
        self.status = _OK
        self._is_over = self.started = True
        kept.append((b"content-length", b"%d" % len(body)))
        await self._send({"type": "http.response.start", "status": self.status, "headers": kept})
        await self._send({"type": "http.response.body", "body": b"" if self.visit.method == "HEAD" else body})

    def _pass_over(self, start: Message) -> None:
        """Send nothing of a redirect, or of what it leads to if that is no robots.txt."""
        if self._first_redirect is None:
            self._first_redirect = (start, b"".join(self._held))
        self._start, self._size = None, 0
        self._held.clear()

    async def _finish(self) -> None:
        """Send the first redirect to a client that has got nothing yet: it leads to no robots.txt."""
        if self._first_redirect is None or self.started:
            return
        start, body = self._first_redirect
        self.status, self.started = start["status"], True
        await self._send(start)
        await self._send({"type": "http.response.body", "body": b"" if self.visit.method == "HEAD" else body})

    def _rewritten(self, robots: bytes) -> bytes:
        app = self._app
        if any(evidence.code == LATE_ROBOTS for evidence in self.decision.evidence):
            # The program has a page whose links are not marked, so only this can keep it from following them.
            return _NOTHING
        if app.license_link:
            robots = with_license(robots, app.settings.bots.license)
        if app.refused_agents:
            robots = refuse(robots, app.refused_agents)
        if not app.changes_pages:
            return robots
        robots = disallow(robots, app.settings.marker.prefix)
        return disallow(robots, "/*~=") if "clean" in app.rules.modes else robots

"""The site's robots.txt on its way to the client: marked links are disallowed, and unwelcome bots refused."""

from __future__ import annotations

from hedgerow.traps.robots_txt import LIMIT, disallow, refuse
from hedgerow.web.asgi_types import Message
from hedgerow.web.response import ResponseRewriter
from hedgerow.web.response_headers import Headers, changed_headers, header, is_html

_OK = 200
_MISSING = frozenset({401, 403, 404, 410})


class RobotsResponseRewriter(ResponseRewriter):
    """
    Gathers the whole robots.txt and adds to it; where the site has none, the client gets one.

    The application is always asked by GET, because the length that a HEAD reports depends on the whole file.
    """

    _size = 0

    async def __call__(self, message: Message) -> None:
        if self.visit.method == "HEAD" and self._start is None and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await super().__call__(message)

    async def _must_hold(self, start: Message) -> bool:
        if start["status"] == _OK and header(start["headers"], b"content-encoding"):
            self._app.counters.count_skipped("coding", self.visit.target)
            return False
        return start["status"] == _OK or start["status"] in _MISSING

    async def _begin(self, message: Message, start: Message) -> None:
        piece = message.get("body", b"")
        self._held.append(piece)
        self._size += len(piece)
        if message.get("more_body", False) and self._size <= LIMIT:
            return
        headers: Headers = start["headers"]
        if start["status"] == _OK and not is_html(header(headers, b"content-type")):
            body = self._rewritten(b"".join(self._held))
            kept = changed_headers(headers)
        else:
            # There is none, or the application answers everything with its start page.
            body = self._rewritten(b"")
            kept = [(b"content-type", b"text/plain; charset=utf-8")]
            self.status = _OK
        self._is_over = self.started = True
        kept.append((b"content-length", b"%d" % len(body)))
        await self._send({"type": "http.response.start", "status": self.status, "headers": kept})
        await self._send({"type": "http.response.body", "body": b"" if self.visit.method == "HEAD" else body})

    def _rewritten(self, robots: bytes) -> bytes:
        app = self._app
        if app.refused_agents:
            robots = refuse(robots, app.refused_agents)
        return disallow(robots, app.settings.marker.prefix) if app.changes_pages else robots

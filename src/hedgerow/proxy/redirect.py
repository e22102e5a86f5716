"""The listener for plain http beside a listener with TLS: it sends every request to https."""

from __future__ import annotations

from hedgerow.proxy.acme import Answers
from hedgerow.web.asgi_types import Receive, Scope, Send
from hedgerow.web.response_headers import header

_HTTPS_PORT = 443
_READS = frozenset({"GET", "HEAD"})


class Redirect:
    """
    An ASGI application that sends every request to the same address with https, on *port*.

    Requests that may have a body get 308, which keeps their method. *answers* are for a certificate authority.
    """

    def __init__(self, port: int, answers: Answers | None = None) -> None:
        self._answers = answers.of if answers is not None else {}
        self._port = b"" if port == _HTTPS_PORT else b":%d" % port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        if scope["type"] != "http":
            return
        if (answer := self._answers.get(scope["raw_path"])) is not None:
            headers = [(b"content-type", b"application/octet-stream"), (b"content-length", b"%d" % len(answer))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": answer})
            return
        host = _without_port(header(scope["headers"], b"host"))
        if not host:
            # HTTP/1.0 without a host: nobody can tell where to go.
            await _respond(send, 400, [(b"cache-control", b"no-store")])
            return
        path = scope["raw_path"] if scope["raw_path"].startswith(b"/") else b"/"
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        location = (b"location", b"https://" + host + self._port + path + query)
        # Not for ever: an operator who goes back to http must not lose the visitors of before.
        await _respond(send, 301 if scope["method"] in _READS else 308, [location, (b"cache-control", b"max-age=300")])


async def _respond(send: Send, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def _without_port(host: bytes) -> bytes:
    """
    Return the name or address in a Host header, which the server has checked.

    >>> _without_port(b"example.org:80"), _without_port(b"[::1]:80"), _without_port(b"[::1]"), _without_port(b"")
    (b'example.org', b'[::1]', b'[::1]', b'')
    """
    return host[: host.index(b"]") + 1] if host.startswith(b"[") else host.partition(b":")[0]

"""
The site behind Hedgerow, and servers for it: run under the Python to record.

    application.py upstream PORT SEEN           the site alone, for a reverse proxy in front of it
    application.py asgi PORT SEEN CONFIG        behind the ASGI middleware, on uvicorn
    application.py wsgi PORT SEEN CONFIG        behind the WSGI middleware, on wsgiref
    application.py client PORT SEEN URL TOKEN   behind the ban-list client's WSGI middleware, on wsgiref

Each request that reaches the site is appended to the file SEEN, so that a recording shows what Hedgerow passed on.
"""

from __future__ import annotations

import gzip
import json
import signal
import sys
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, make_server

Pairs = list[tuple[str, str]]
HTML = ("Content-Type", "text/html; charset=utf-8")
_START_TIME = "Thu, 01 Jan 2026 00:00:00 GMT"
_BYTES = bytes(range(256)) * 8
_SLOW = 20.0


class Reply(NamedTuple):
    status: int
    headers: Pairs
    body: bytes


def page(title: str, body: str, head: str = "") -> bytes:
    return (
        f"<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><title>{title}</title>{head}</head>\n"
        f"<body>\n<h1>{title}</h1>\n{body}\n</body></html>\n"
    ).encode()


_LINKS = "".join(f'<li><a href="/page/{n}">Page {n}</a></li>\n' for n in range(1, 6))
_HOME = page(
    "Home",
    f'<ul>\n{_LINKS}</ul>\n<p><a href="/app/one?tab=2#top">Application</a> <a href="style.css">Style</a> '
    '<a href="https://elsewhere.example/">Elsewhere</a> <a href=/api/items>Items</a> '
    '<a href="mailto:a@b.c">Mail</a></p>\n'
    '<form action="/comment" method=post><input name=text><button>Send</button></form>\n'
    '<iframe src="/frame"></iframe><img src="/image.png" alt=""><script>var path = "/page/1";</script>',
    '<link rel=stylesheet href="/style.css"><link rel=next href="/page/2">',
)
_DEEP = page("Deep", '<p><a href="../other">Other</a> <a href="?q=1">Query</a> <a href="#end">End</a></p>')
_SCRIPTED = page("Scripted", '<div id="root"></div><script src="/_next/static/main.js"></script>')
_LATIN = "<html><head><title>Hügel</title></head><body><a href='/straße'>Straße</a></body></html>".encode("latin-1")


def reply_to(method: str, target: str, headers: Pairs, body: bytes) -> Reply:  # noqa: PLR0912 - one branch a page
    """What the site answers."""
    path = target.partition("?")[0]
    names = {name.lower(): value for name, value in headers}
    if path == "/":
        return _ranged(names, [HTML, ("Cache-Control", "public, max-age=60"), ("ETag", '"home"')], _HOME)
    if path.startswith(("/page/", "/app/")):
        return Reply(200, [HTML], page(path, f'<p><a href="/">Home</a> <a href="{path}/more">More</a></p>'))
    if path == "/deep/er/page":
        return Reply(200, [HTML, ("Content-Security-Policy", "default-src 'self'; base-uri 'none'")], _DEEP)
    if path == "/style.css":
        return _ranged(names, [("Content-Type", "text/css"), ("Last-Modified", _START_TIME)], b"a{color:green}\n" * 3)
    if path == "/image.png":
        return _ranged(names, [("Content-Type", "image/png"), ("ETag", '"picture"')], _BYTES)
    if path == "/robots.txt":
        text = b"User-agent: *\nDisallow: /private\n\nUser-agent: GoodBot\nAllow: /\n"
        return Reply(200, [("Content-Type", "text/plain")], text)
    if path.startswith("/api/"):
        return Reply(200, [("Content-Type", "application/json")], b'{"items": [1, 2, 3]}')
    if path == "/fragment":
        return Reply(200, [HTML], b'<li><a href="/page/7">Seven</a></li>\n')
    if path == "/moved":
        return Reply(302, [("Location", "/page/3?from=moved"), ("Set-Cookie", "seen=1; Path=/moved")], b"")
    if path == "/headers":
        more = [("Link", '</page/2>; rel="next"'), ("Refresh", "5; url=/page/4"), ("Set-Cookie", "a=b; Path=/headers")]
        return Reply(200, [HTML, *more, ("Referrer-Policy", "no-referrer")], page("Headers", '<a href="/page/5">5</a>'))
    if path == "/latin":
        return Reply(200, [("Content-Type", "text/html; charset=iso-8859-1")], _LATIN)
    if path == "/scripted":
        return Reply(200, [HTML], _SCRIPTED)
    if path == "/coded":
        coded = gzip.compress(_HOME, mtime=0)
        return Reply(200, [HTML, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")], coded)
    if path == "/empty":
        return Reply(204, [], b"")
    if path == "/comment" and method == "POST":
        return Reply(200, [HTML], page("Thanks", f"<p>{len(body)} bytes of {names.get('content-type', 'nothing')}</p>"))
    return Reply(404, [HTML], page("Not here", '<p><a href="/">Home</a></p>'))


def _ranged(names: dict[str, str], headers: Pairs, body: bytes) -> Reply:
    """All of *body*, the range of it that was asked for, or the answer that it has not changed."""
    tag = dict(headers).get("ETag")
    if tag is not None and names.get("if-none-match") == tag:
        return Reply(304, headers, b"")
    asked = names.get("range", "")
    if not asked.startswith("bytes=") or "," in asked:
        return Reply(200, [*headers, ("Accept-Ranges", "bytes")], body)
    first, _, last = asked.removeprefix("bytes=").partition("-")
    begin, end = int(first), min(int(last or len(body) - 1), len(body) - 1)
    return Reply(206, [*headers, ("Content-Range", f"bytes {begin}-{end}/{len(body)}")], body[begin : end + 1])


class Site:
    """Answers requests and writes down what it received."""

    def __init__(self, seen: Path) -> None:
        self._seen = seen

    def __call__(self, method: str, target: str, headers: Pairs, body: bytes) -> Reply:
        line = json.dumps({"method": method, "target": target, "headers": headers, "body": len(body)})
        with self._seen.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        return reply_to(method, target, headers, body)


# ---- The site alone


def upstream(port: int, site: Site) -> None:
    """Serve the site over HTTP/1.1."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def version_string(self) -> str:
            return "site"

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            pieces = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)

        def handle_any(self) -> None:
            reply = site(self.command, self.path, list(self.headers.items()), self._body())
            if self.path == "/broken":
                self.close_connection = True
                return
            if self.path == "/slow":
                time.sleep(_SLOW)
            self.send_response(reply.status)
            for name, value in reply.headers:
                self.send_header(name, value)
            if reply.status not in {204, 304}:
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = handle_any

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    server.serve_forever()


# ---- Behind middleware


def asgi_of(site: Site) -> Any:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        raw, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        reply = site(scope["method"], f"{raw}?{query}" if query else raw, headers, body)
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in with_length(reply)]
        await send({"type": "http.response.start", "status": reply.status, "headers": encoded})
        if scope["method"] != "HEAD":
            await send({"type": "http.response.body", "body": reply.body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return application


def wsgi_of(site: Site) -> Any:
    def application(environ: Any, start_response: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
        headers = [
            (name.removeprefix("HTTP_").replace("_", "-").lower(), value)
            for name, value in sorted(environ.items())
            if name.startswith("HTTP_") or (name in {"CONTENT_TYPE", "CONTENT_LENGTH"} and value)
        ]
        reply = site(environ["REQUEST_METHOD"], f"{path}?{query}" if query else path, headers, body)
        start_response(f"{reply.status} Reply", with_length(reply))
        return [reply.body] if environ["REQUEST_METHOD"] != "HEAD" else []

    return application


def with_length(reply: Reply) -> Pairs:
    if reply.status in {204, 304}:
        return reply.headers
    return [*reply.headers, ("Content-Length", str(len(reply.body)))]


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def serve_wsgi(port: int, application: Any) -> None:
    with make_server("127.0.0.1", port, application, handler_class=_QuietHandler) as server:
        server.serve_forever(0.05)


def asgi(port: int, site: Site, config: str) -> None:
    import uvicorn

    from hedgerow.asgi import Hedgerow

    uvicorn.run(Hedgerow(asgi_of(site), config=config), host="127.0.0.1", port=port, log_level="warning", ws="none")


def wsgi(port: int, site: Site, config: str) -> None:
    from hedgerow.wsgi import Hedgerow

    serve_wsgi(port, Hedgerow(wsgi_of(site), config=config))


def client(port: int, site: Site, url: str, token: str) -> None:
    from hedgerow.client import Client, WsgiClient

    lists = Client(url, token, trusted_proxies=["127.0.0.1/32"], account_cookie="sid")
    serve_wsgi(port, WsgiClient(wsgi_of(site), lists))


def main() -> None:
    # Leave by an exception, so that what Hedgerow still has to write is written.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    form, port, seen, *rest = sys.argv[1:]
    forms: dict[str, Callable[..., None]] = {"upstream": upstream, "asgi": asgi, "wsgi": wsgi, "client": client}
    forms[form](int(port), Site(Path(seen)), *rest)


if __name__ == "__main__":
    main()

"""
Serves a folder: `static_server.py PORT FOLDER [--fallback]`.

`/about` is answered with `about.html`. With `--fallback` an address without a file gets `index.html`, as applications
expect that build their pages in the browser. A form is answered with a redirect to the page that it was sent to.
"""

from __future__ import annotations

import sys
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fallback = False

    def send_head(self):
        name = self.path.partition("?")[0].partition("#")[0]
        root = Path(self.directory)
        path = root / name.lstrip("/")
        if not path.exists():
            page = path.with_name(path.name + ".html")
            if page.exists():
                self.path = name + ".html"
            elif self.fallback and "." not in path.name:
                self.path = "/index.html"
        return super().send_head()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", self.path + "?sent=1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    Handler.fallback = "--fallback" in sys.argv
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), partial(Handler, directory=sys.argv[2])).serve_forever()

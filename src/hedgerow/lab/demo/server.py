"""
A web server for a folder, if nginx is not installed: `python -m hedgerow.lab.demo.server PORT FOLDER LOG`.

It logs as the demo's nginx does: client address, status and target, separated by tabs.
"""

from __future__ import annotations

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *args: object, log: Path, directory: str) -> None:
        self._log = log
        super().__init__(*args, directory=directory)  # type: ignore[arg-type]

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:  # noqa: ARG002 - signature of the base class
        address = self.headers.get("X-Forwarded-For", self.client_address[0])
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"{address}\t{int(code)}\t{self.path}\n")

    def log_message(self, *_: object) -> None:
        """Log nothing: errors are in the log by their status."""


if __name__ == "__main__":
    port, folder, log = sys.argv[1:]
    ThreadingHTTPServer.request_queue_size = 128
    ThreadingHTTPServer(("127.0.0.1", int(port)), partial(_Handler, directory=folder, log=Path(log))).serve_forever()

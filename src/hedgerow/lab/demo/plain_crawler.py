"""
A plain crawler that needs nothing installed: `python -m hedgerow.lab.demo.plain_crawler URL ADDRESS`.

Breadth-first from the given address, eight requests at once, every link of its own origin. It stores nothing.
"""

from __future__ import annotations

import http.client
import re
import sys
import threading
from html import unescape
from queue import Empty, Queue
from urllib.parse import urldefrag, urljoin, urlsplit

_CLIENTS = 8
_MAX_PAGES = 3000
_IDLE_TIMEOUT = 2.0
_LINK = re.compile(r"""<a\s[^>]*?href\s*=\s*["']([^"']+)""", re.IGNORECASE)
_AGENT = "Mozilla/5.0 (compatible; a small crawler; hedgerow demo)"


class _Crawler:
    def __init__(self, url: str, address: str) -> None:
        self._origin = urlsplit(url)
        self._address = address
        self._waiting: Queue[str] = Queue()
        self._known: set[str] = set()
        self._lock = threading.Lock()
        self._add(url)

    def _add(self, url: str) -> None:
        with self._lock:
            if url in self._known or len(self._known) >= _MAX_PAGES or urlsplit(url)[:2] != self._origin[:2]:
                return
            self._known.add(url)
        self._waiting.put(url)

    def run(self) -> None:
        clients = [threading.Thread(target=self._work, daemon=True) for _ in range(_CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()

    def _work(self) -> None:
        host, port = self._origin.hostname or "", self._origin.port
        connection = http.client.HTTPConnection(host, port, timeout=10, source_address=(self._address, 0))
        while True:
            try:
                url = self._waiting.get(timeout=_IDLE_TIMEOUT)
            except Empty:
                connection.close()
                return
            try:
                self._read(connection, url)
            except (OSError, http.client.HTTPException):
                connection.close()

    def _read(self, connection: http.client.HTTPConnection, url: str) -> None:
        parts = urlsplit(url)
        connection.request("GET", parts._replace(scheme="", netloc="").geturl() or "/", headers={"User-Agent": _AGENT})
        response = connection.getresponse()
        body = response.read()
        if response.status == http.client.OK and response.getheader("Content-Type", "").startswith("text/html"):
            for link in _LINK.findall(body.decode("utf-8", "replace")):
                self._add(urldefrag(urljoin(url, unescape(link)))[0])


if __name__ == "__main__":
    _Crawler(*sys.argv[1:]).run()

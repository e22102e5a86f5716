"""
A plain crawler that needs nothing installed: `python -m hedgerow.lab.demo.plain_crawler URL ADDRESS`.

Breadth-first from the given address, eight requests at once, every link of its own origin. It stores nothing.
"""

from __future__ import annotations

import http.client
import re
import sys
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from html import unescape
from urllib.parse import urldefrag, urljoin, urlsplit

_CLIENTS = 8
_MAX_PAGES = 3000
_LINK = re.compile(r"""<a\s[^>]*?href\s*=\s*["']([^"']+)""", re.IGNORECASE)
_AGENT = "Mozilla/5.0 (compatible; a small crawler; hedgerow demo)"


def _crawl(start: str, address: str) -> None:
    origin = urlsplit(start)
    thread = threading.local()

    def connect() -> None:
        thread.connection = http.client.HTTPConnection(
            origin.hostname or "", origin.port, timeout=10, source_address=(address, 0)
        )

    def links_of(url: str) -> list[str]:
        target = urlsplit(url)._replace(scheme="", netloc="").geturl() or "/"
        try:
            thread.connection.request("GET", target, headers={"User-Agent": _AGENT})
            response = thread.connection.getresponse()
            body = response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            thread.connection.close()
            return []
        if response.status != http.client.OK or not response.getheader("Content-Type", "").startswith("text/html"):
            return []
        return [urldefrag(urljoin(url, unescape(link)))[0] for link in _LINK.findall(body)]

    with ThreadPoolExecutor(_CLIENTS, initializer=connect) as clients:
        known = {start}
        running = {clients.submit(links_of, start)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for link in (link for page in done for link in page.result()):
                if link not in known and len(known) < _MAX_PAGES and urlsplit(link)[:2] == origin[:2]:
                    known.add(link)
                    running.add(clients.submit(links_of, link))


if __name__ == "__main__":
    _crawl(*sys.argv[1:])

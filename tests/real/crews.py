"""Crawlers that change their address from page to page, and send what a browser sends."""

from __future__ import annotations

import http.client
import random
import re
import time
from collections import deque
from collections.abc import Callable, Iterable
from html import unescape
from urllib.parse import urldefrag, urljoin, urlsplit

from . import crawling
from .crawling import CHROME, Titles
from .servers import PATIENCE

_LINK = re.compile(r"""<a\s[^>]*?href="([^"]+)"[^>]*>""")
_PER_NETWORK = 250


class Crew:
    """
    Follows links breadth-first, *each* requests from one address; with *strip* it removes marks from links.

    Each address is in a network (/24) of its own. With *again* it knows when it is refused: then the address is not
    used any more, and another one tries the link once more, later. *times* addresses use each link, so that it looks
    like one that was posted. *start* are the addresses that it begins with.
    """

    def __init__(
        self,
        url: str,
        titles: Titles,
        each: int,
        *,
        strip: bool = False,
        again: bool = False,
        times: int = 1,
        network: int = 100,
        order: str = "breadth",
        start: Iterable[str] = ("/",),
        reads: Callable[[bytes], bytes] = bytes,
    ) -> None:
        self.url, self.titles, self.each, self.strip, self.network = url, titles, each, strip, network
        self._again, self._order, self._reads, self._times = again, order, reads, times
        self._start = [url + path for path in start]
        self._random = random.Random(1)
        self._used = 0
        self.requests = 0
        self.addresses = 0
        self.got: list[tuple[str, bytes]] = []

    @property
    def pages(self) -> set[str]:
        return crawling.recognised(self.got, self.titles)

    def run(self, requests: int, *, seconds: float = 600.0) -> int:
        end = time.monotonic() + seconds
        frontier, seen, tried = deque(self._start), set(self._start), set[str]()
        while frontier and self.requests < requests and time.monotonic() < end:
            if self._order == "random":
                frontier.rotate(self._random.randrange(len(frontier)))
            url = frontier.popleft()
            for _ in range(self._times):
                status, body = self.get(url)
            if status != http.client.OK:
                self._refused(url, frontier, tried)
                continue
            self.got.append((crawling.name_of(urlsplit(url).path), crawling.title_of(body)))
            for link in _LINK.findall(self._reads(body).decode()):
                target, _ = urldefrag(urljoin(url, unescape(link)))
                plain = crawling.without_marks(target.encode()).decode()
                if target.startswith(self.url) and plain not in seen:
                    seen.add(plain)
                    frontier.append(plain if self.strip else target)
        return len(self.pages)

    def _refused(self, url: str, frontier: deque[str], tried: set[str]) -> None:
        if self._again:
            self._used = 0
            if url not in tried:
                tried.add(url)
                frontier.append(url)

    def get(self, url: str) -> tuple[int, bytes]:
        if self._used % self.each == 0:
            self.addresses += 1
        self._used = self._used % self.each + 1
        number = self.addresses - 1
        self.requests += 1
        address = f"127.{self.network + number // _PER_NETWORK}.{number % _PER_NETWORK}.7"
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE, source_address=(address, 0))
        headers = {**CHROME, "Sec-Fetch-Site": "same-origin", "Accept-Encoding": "identity"}
        connection.request("GET", parts.path + (f"?{parts.query}" if parts.query else ""), headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body

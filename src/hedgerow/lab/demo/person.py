"""A person, for the demo: reads a site while crawlers are stopped around it, and must not notice."""

from __future__ import annotations

import http.client
import random
import re
import threading
from html import unescape
from urllib.parse import urldefrag, urljoin, urlsplit

_PATIENCE = 30.0


class Person:
    """
    Somebody at *address* who reads page after page until stopped.

    Sends a browser's headers, fetches what a page brings along, and follows links that have a text to click on.
    `disturbed` has a line for each request that was not answered as it should be.
    """

    _LINK = re.compile(r"<a\s[^>]*?href=\"([^\"]+)\"[^>]*>\s*[^<\s]")
    _STYLE = re.compile(r"<link\s[^>]*?rel=\"stylesheet\"[^>]*?href=\"([^\"]+)\"")
    _HEADERS = {  # noqa: RUF012 - never changed
        "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "Accept-Language": "en-GB,en;q=0.7",
        "Sec-Fetch-Mode": "navigate",
    }

    def __init__(self, url: str, address: str) -> None:
        self._url = url
        self._address = address
        self.requests = 0
        self.disturbed: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(_PATIENCE)

    def _read(self) -> None:
        dice = random.Random()  # noqa: S311 - not a secret
        place = urlsplit(self._url)
        connection = http.client.HTTPConnection(
            place.hostname or "", place.port, timeout=_PATIENCE, source_address=(self._address, 0)
        )
        here, before = self._url + "/", ""
        cached: set[str] = set()
        while not self._over.is_set():
            text = self._ask(connection, here, before, "document")
            for style in {urljoin(here, found) for found in self._STYLE.findall(text)} - cached:
                cached.add(style)
                if self._is_here(style):
                    self._ask(connection, style, here, "style")
            links = {urldefrag(urljoin(here, unescape(link)))[0] for link in self._LINK.findall(text)}
            near = sorted(link for link in links if self._is_here(link))
            # At a dead end the address of the start page is typed in again.
            here, before = (dice.choice(near), here) if near else (self._url + "/", "")
            self._over.wait(dice.uniform(0.4, 1.6))
        connection.close()

    def _is_here(self, url: str) -> bool:
        return url.startswith(self._url + "/")

    def _ask(self, connection: http.client.HTTPConnection, url: str, before: str, what: str) -> str:
        came = {"Sec-Fetch-Site": "same-origin", "Referer": before} if before else {"Sec-Fetch-Site": "none"}
        headers = {**self._HEADERS, "Sec-Fetch-Dest": what, **came}
        self.requests += 1
        try:
            connection.request("GET", url.removeprefix(self._url), headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            self.disturbed.append(f"{url}: {error!r}")
            return ""
        if answer.status >= http.client.BAD_REQUEST or answer.getheader("Hedgerow-Decision"):
            self.disturbed.append(f"{url}: {answer.status} {answer.reason}")
        return text

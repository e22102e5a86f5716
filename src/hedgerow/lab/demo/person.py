"""A simulated person who reads the site while crawlers are stopped around it, and must not notice."""

from __future__ import annotations

import http.client
import random
import re
import threading
from html import unescape
from urllib.parse import urldefrag, urljoin, urlsplit

_TIMEOUT = 30.0


class Person:
    """
    Somebody at *address* who reads page after page until stopped.

    Sends the headers of a browser, fetches style sheets, and follows links that have a text. `disturbed` has a line for
    each unexpected response.
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
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(_TIMEOUT)

    def _read(self) -> None:
        rng = random.Random()  # noqa: S311 - not secret
        origin = urlsplit(self._url)
        connection = http.client.HTTPConnection(
            origin.hostname or "", origin.port, timeout=_TIMEOUT, source_address=(self._address, 0)
        )
        page, referrer = self._url + "/", ""
        cached: set[str] = set()
        while not self._stopped.is_set():
            text = self._request(connection, page, referrer, "document")
            for style in {urljoin(page, style) for style in self._STYLE.findall(text)} - cached:
                cached.add(style)
                if self._is_own(style):
                    self._request(connection, style, page, "style")
            links = {urldefrag(urljoin(page, unescape(link)))[0] for link in self._LINK.findall(text)}
            own_links = sorted(link for link in links if self._is_own(link))
            # At a dead end, enter the address of the start page again.
            page, referrer = (rng.choice(own_links), page) if own_links else (self._url + "/", "")
            self._stopped.wait(rng.uniform(0.4, 1.6))
        connection.close()

    def _is_own(self, url: str) -> bool:
        return url.startswith(self._url + "/")

    def _request(self, connection: http.client.HTTPConnection, url: str, referrer: str, destination: str) -> str:
        navigation = {"Sec-Fetch-Site": "same-origin", "Referer": referrer} if referrer else {"Sec-Fetch-Site": "none"}
        headers = {**self._HEADERS, "Sec-Fetch-Dest": destination, **navigation}
        self.requests += 1
        try:
            connection.request("GET", url.removeprefix(self._url), headers=headers)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            self.disturbed.append(f"{url}: {error!r}")
            return ""
        if response.status >= http.client.BAD_REQUEST or response.getheader("Hedgerow-Decision"):
            self.disturbed.append(f"{url}: {response.status} {response.reason}")
        return text

"""A simulated person who reads the site while crawlers are stopped around it, and must not notice."""

from __future__ import annotations

import http.client
import json
import random
import re
import threading
from hashlib import sha256
from html import unescape
from urllib.parse import urldefrag, urlencode, urljoin, urlsplit

_TIMEOUT = 30.0


class Person:
    """Somebody with a browser who reads page after page. `disturbed` has a line for each unexpected response."""

    _LINK = re.compile(r"<a\s[^>]*?href=\"([^\"]+)\"[^>]*>\s*[^<\s]")
    _STYLE = re.compile(r"<link\s[^>]*?rel=\"stylesheet\"[^>]*?href=\"([^\"]+)\"")
    _HEADERS = {  # noqa: RUF012 - never changed
        "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        # A less known browser gets hidden links without text, which are easy to leave out here.
        "Accept": "text/html,*/*;q=0.8",
        "Accept-Language": "en-GB,en;q=0.7",
        "Sec-Fetch-Mode": "navigate",
    }

    def __init__(self, url: str, address: str) -> None:
        self._url = url
        self._address = address
        self.requests = 0
        self.disturbed: list[str] = []
        self._cookies: dict[str, str] = {}
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
            if "/page.js" in text:
                self._clear(connection, page)
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

    def _clear(self, connection: http.client.HTTPConnection, page: str) -> None:
        """Do what the script of a page does: solve a calculation for a clearance."""
        task = self._request(connection, self._url + "/.hedgerow/task", page, "empty", body=b"")
        if not task:
            return
        told = json.loads(task)
        asked = told["question"]
        for number in range(asked["most"] + 1):
            if sha256(f"{asked['salt']}{number}".encode()).hexdigest() == asked["digest"]:
                fields = {"ticket": told["ticket"], "challenge": told["challenge"], "answer": number}
                self._request(
                    connection, self._url + "/.hedgerow/clear", page, "empty", body=urlencode(fields).encode()
                )
                return

    def _request(
        self,
        connection: http.client.HTTPConnection,
        url: str,
        referrer: str,
        destination: str,
        *,
        body: bytes | None = None,
    ) -> str:
        """Request a page or what it loads, or send what its script sends: *body*."""
        navigation = {"Sec-Fetch-Site": "same-origin", "Referer": referrer} if referrer else {"Sec-Fetch-Site": "none"}
        headers = {**self._HEADERS, "Sec-Fetch-Dest": destination, **navigation}
        if body is not None:
            headers |= {"Sec-Fetch-Mode": "cors", "Accept": "*/*", "Content-Type": "application/x-www-form-urlencoded"}
        if self._cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        self.requests += 1
        try:
            connection.request("GET" if body is None else "POST", url.removeprefix(self._url), body, headers)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
            for cookie in response.headers.get_all("Set-Cookie", ()):
                name, _, value = cookie.partition(";")[0].partition("=")
                self._cookies[name] = value
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            self.disturbed.append(f"{url}: {error!r}")
            return ""
        if response.status >= http.client.BAD_REQUEST or response.getheader("Hedgerow-Decision"):
            self.disturbed.append(f"{url}: {response.status} {response.reason}")
        return text

"""People as a browser sends them: pages with all they bring along, referrers, kept connections, and time in between."""

from __future__ import annotations

import asyncio
import html
import random
import re
from collections.abc import Callable, Mapping
from urllib.parse import urldefrag, urljoin

import httpx

from challenge.solver import solve
from driving import traps_in

from .crawling import BROWSER
from .servers import PATIENCE

_LINK = re.compile(r"""<a\s[^>]*?href\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
_ASSET = re.compile(r"""(?:<link\s[^>]*?rel="stylesheet"[^>]*?href|<(?:img|object)\s[^>]*?(?:src|data))="([^"]+)""")

_NAVIGATION = {"Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-User": "?1"}
_SCRIPT = {"Sec-Fetch-Dest": "empty", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin", "Accept": "*/*"}
_STYLE = {"Sec-Fetch-Dest": "style", "Sec-Fetch-Mode": "no-cors", "Accept": "text/css,*/*;q=0.1"}


class Reader:
    """One person at *address*. What was not as it should be is in `disturbed`."""

    def __init__(self, url: str, address: str, *, seed: int, pause: float = 0.25) -> None:
        self._url = url
        self._address = address
        self._random = random.Random(seed)
        self._pause = pause
        self.pages = 0
        self.been: set[str] = set()
        self.requests = 0
        self.disturbed: list[str] = []

    async def read(self, pages: int, crawling: Callable[[], bool]) -> None:
        """Read *pages* pages, and go on for as long as somebody is crawling."""
        async with self.client() as client:
            here, before = self._url + "/", ""
            while self.pages < pages or crawling():
                links = await self._page(client, here, before)
                before = here
                here = self._random.choice(links) if links else self._url + "/"
                await asyncio.sleep(self._dwell())

    def _dwell(self) -> float:
        """Seconds on one page."""
        return self._pause * self._random.uniform(0.5, 1.5)

    def client(self) -> httpx.AsyncClient:
        transport = httpx.AsyncHTTPTransport(local_address=self._address, trust_env=False)
        return httpx.AsyncClient(transport=transport, headers=BROWSER, timeout=PATIENCE, trust_env=False)

    async def _page(self, client: httpx.AsyncClient, url: str, before: str) -> list[str]:
        site = "same-origin" if before else "none"
        headers = {**_NAVIGATION, "Sec-Fetch-Site": site, **({"Referer": before} if before else {})}
        text = await self._get(client, url, headers)
        self.pages += 1
        self.been.add(url)
        if "/page.js" in text:
            await self._clear(client, url)
        assets = {urljoin(url, asset) for asset in _ASSET.findall(text)}
        wanted = {**_STYLE, "Sec-Fetch-Site": "same-origin", "Referer": url}
        await asyncio.gather(*(self._get(client, asset, wanted) for asset in assets if self._is_here(asset)))
        # What has no box on the screen cannot be clicked.
        seen = set(_LINK.findall(text)) - {html.escape(trap) for trap in traps_in(text.encode())}
        links = {urldefrag(urljoin(url, html.unescape(link)))[0] for link in seen}
        return sorted(link for link in links if self._is_here(link))

    async def _clear(self, client: httpx.AsyncClient, page: str) -> None:
        """Do what the script of a page does: solve a calculation for a clearance."""
        headers = {**_SCRIPT, "Referer": page}
        task = await client.post(self._url + "/.hedgerow/task", headers=headers)
        if task.status_code == 200:
            told = task.json()
            answer = {name: told[name] for name in ("ticket", "challenge")} | {"answer": solve(task.text)}
            await client.post(self._url + "/.hedgerow/clear", headers=headers, data=answer)

    def _is_here(self, url: str) -> bool:
        return url.startswith(self._url + "/")

    async def _get(self, client: httpx.AsyncClient, url: str, headers: Mapping[str, str]) -> str:
        self.requests += 1
        try:
            answer = await client.get(url, headers=headers)
        except httpx.HTTPError as error:
            self.disturbed.append(f"{self._address} {url}: {error!r}")
            return ""
        if answer.status_code != 200 or "hedgerow-decision" in answer.headers:
            self.disturbed.append(f"{self._address} {url}: {answer.status_code}")
        return answer.text

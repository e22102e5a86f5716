"""
Crawlers, each with an origin filter, an address of its own, and an end.

What a crawler got is a set of page names. A page counts when it came with status 200 and the title that a page has in
the site's folder: refusals, decoys and httrack's stored error pages do not. Where links are marked, the name that it
came under says nothing: it is known by its title.
"""

from __future__ import annotations

import asyncio
import html
import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

import httpx

from attached import attached
from driving import TRAP

from .servers import PATIENCE, clean_environment

MOST_REQUESTS = 3000
LONGEST = 150.0
"""Seconds after which a crawler is held to go round in circles. Those that go well end by themselves."""
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.DOTALL | re.IGNORECASE)
_LINK = re.compile(rb"""<a\s[^>]*?href\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
_NAME = "index.html"

BREADTH_FIRST = {
    "DEPTH_PRIORITY": 1,
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
}

Titles = Mapping[str, bytes]


def title_of(page: bytes) -> bytes:
    """The title of a page, in UTF-8 and without entities, however the crawler stored it."""
    found = _TITLE.search(page)
    text = found[1] if found else b""
    return " ".join(html.unescape(text.decode("utf-8", "replace")).split()).encode()


def titles_in(folder: Path) -> dict[str, bytes]:
    """The pages of a site's folder and their titles."""
    return {path.name: title_of(path.read_bytes()) for path in folder.glob("*.html")}


def name_of(target: str) -> str:
    return target.partition("?")[0].removeprefix("/") or _NAME


def recognised(found: Iterable[tuple[str, bytes]], titles: Titles) -> set[str]:
    """
    The pages of the site among those that were *found*, each a name and a title.

    A few titles are those of two pages: such a page counts only where it has its own name.
    """
    times = Counter(titles.values())
    names = {title: name for name, title in titles.items() if times[title] == 1}
    known = (name if titles.get(name) == title else names.get(title, "") for name, title in found)
    return {name for name in known if name}


def stored(folder: Path, titles: Titles) -> set[str]:
    """The pages of the site among the files that a crawler left in *folder*."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix not in {".log", ".zip"})
    return recognised(((path.name, title_of(path.read_bytes())) for path in files), titles)


def _run(command: list[str], folder: Path, *, until: Callable[[], bool] = bool) -> str:
    """Run a crawler to its end, or *until* it has done enough, or for `LONGEST`; returns what it said."""
    with (folder / "crawler.log").open("wb+") as log:
        process = subprocess.Popen(
            attached(command), cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=clean_environment()
        )
        end = time.monotonic() + LONGEST
        while process.poll() is None and not until() and time.monotonic() < end:
            time.sleep(0.02)
        if process.poll() is None:
            process.kill()
            process.wait()
        log.seek(0)
        return log.read().decode("utf-8", "replace")


def wget(program: str, url: str, address: str, folder: Path, *options: str, until: Callable[[], bool] = bool) -> None:
    """wget, all levels. It stays on its host; without `robots=off` in *options* it obeys robots.txt."""
    command = [program, "-nv", "-r", "-l", "inf", "--tries=1", "--max-redirect=2", "--no-config"]
    bounds = [f"--timeout={PATIENCE:.0f}", f"--bind-address={address}"]
    _run([*command, *bounds, "-P", str(folder), *options, url + "/"], folder, until=until)


def httrack(program: str, url: str, folder: Path) -> None:
    """httrack, from 127.0.0.1: its option for another address is without effect."""
    options = ["-q", "-s0", "--disable-security-limits", "--max-rate", "0", "-c16", "-%c0", "-B"]
    bounds = [f"-E{LONGEST:.0f}", f"-T{PATIENCE:.0f}", "-R0"]
    _run([program, url + "/", "-O", str(folder), *options, *bounds, "-*", f"+{url}/*"], folder)


def scrapy(url: str, address: str, folder: Path, titles: Titles, *, order: str = "depth") -> set[str]:
    """scrapy with `spider.py` and 32 requests at once. Its own order is depth-first."""
    out = folder / "scrapy.jsonl"
    chosen = {
        "ROBOTSTXT_OBEY": False,
        "CONCURRENT_REQUESTS": 32,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 32,
        "DOWNLOAD_BIND_ADDRESS": address,
        "DOWNLOAD_TIMEOUT": PATIENCE,
        "CLOSESPIDER_TIMEOUT": int(LONGEST / 2),
        "CLOSESPIDER_PAGECOUNT": MOST_REQUESTS,
        "TELNETCONSOLE_ENABLED": False,
        "LOG_LEVEL": "WARNING",
        **(BREADTH_FIRST if order == "breadth" else {}),
    }
    command = [sys.executable, "-m", "scrapy", "runspider", str(Path(__file__).with_name("spider.py"))]
    command += ["-a", f"start={url}/", "-a", f"out={out}", "-a", f"order={order}"]
    for name, value in chosen.items():
        command += ["-s", f"{name}={value}"]
    said = _run(command, folder)
    assert out.exists(), said
    got = [json.loads(line) for line in out.read_text().splitlines()]
    return recognised(((name, title.encode()) for name, title in got), titles)


BROWSER = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36",
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    "Accept-Language": "en-GB,en;q=0.9",
}


CHROME = {
    "Connection": "keep-alive",
    "sec-ch-ua": '"Chromium";v="140", "Not=A?Brand";v="24", "Google Chrome";v="140"',
    "sec-ch-ua-mobile": "?0",
    "sec-ch-ua-platform": '"Linux"',
    "Upgrade-Insecure-Requests": "1",
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/140.0.0.0 Safari/537.36",
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
    "Sec-Fetch-Site": "none",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-User": "?1",
    "Sec-Fetch-Dest": "document",
    "Accept-Encoding": "gzip, deflate",
    "Accept-Language": "en-GB,en;q=0.9",
}
"""What Chrome sends when somebody types an address, in its order."""
_EMPTY_LINK = re.compile(rb"<a\s[^>]*>\s*</a>")
_MARK = re.compile(rb"[?&](?:amp;)?~=[\w.-]+")


def with_text(body: bytes) -> bytes:
    """A page without its links that have no text."""
    return _EMPTY_LINK.sub(b"", body)


def visible(body: bytes) -> bytes:
    """A page without its hidden links, as only a browser could know them."""
    return TRAP.sub(b"", body)


def without_marks(body: bytes) -> bytes:
    """A page without empty links, and with the addresses that the site gave its links."""
    return _MARK.sub(b"", with_text(body))


class Crawler:
    """
    A crawler of our own: no referrer, a browser's user agent, *headers* with every request; or *only* these.

    *order* is "breadth", "depth" or "random". *reads* is what it sees of a page's source. With *as_browser* it sends
    what Chrome sends for a click, in Chrome's order and with the referrer, and nothing else.
    """

    def __init__(
        self,
        url: str,
        address: str,
        titles: Titles,
        *,
        headers: Mapping[str, str] | None = None,
        order: str = "breadth",
        concurrency: int = 8,
        most: int = MOST_REQUESTS,
        pause: float = 0.0,
        reads: Callable[[bytes], bytes] = bytes,
        only: Mapping[str, str] | None = None,
        as_browser: bool = False,
        start: Iterable[str] = ("/",),
        longest: float = LONGEST,
    ) -> None:
        self._url = url
        self._origin = urlsplit(url).netloc
        self._address = address
        self._titles = titles
        self._headers = dict(only) if only is not None else {**({} if as_browser else BROWSER), **(headers or {})}
        self._order = order
        self._concurrency = concurrency
        self._most = most
        self._pause = pause
        self._reads = reads
        self._random = random.Random(1)
        self._as_browser = as_browser
        self._longest = longest
        self._frontier = [url + path for path in start]
        self._seen = set(self._frontier)
        self._parents: dict[str, str] = {}
        self.requests = 0
        self._got: list[tuple[str, bytes]] = []
        self.statuses: dict[int, int] = {}

    @property
    def pages(self) -> set[str]:
        return recognised(self._got, self._titles)

    def run(self) -> set[str]:
        asyncio.run(self.crawl())
        return self.pages

    async def crawl(self) -> None:
        end = time.monotonic() + self._longest
        transport = httpx.AsyncHTTPTransport(local_address=self._address, trust_env=False)
        client = httpx.AsyncClient(
            transport=transport, headers=self._headers, timeout=PATIENCE, follow_redirects=False, trust_env=False
        )
        if self._as_browser:
            client.headers = httpx.Headers()
        async with client:
            running: set[asyncio.Task[None]] = set()
            while (self._frontier or running) and time.monotonic() < end:
                while self._frontier and len(running) < self._concurrency and self.requests < self._most:
                    self.requests += 1
                    running.add(asyncio.create_task(self._fetch(client, self._next())))
                if not running:
                    return
                _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _next(self) -> str:
        if self._order == "breadth":
            return self._frontier.pop(0)
        if self._order == "depth":
            return self._frontier.pop()
        return self._frontier.pop(self._random.randrange(len(self._frontier)))

    def _headers_for(self, url: str) -> dict[str, str]:
        if not self._as_browser:
            return {}
        parent = self._parents.get(url)
        clicked = {"Sec-Fetch-Site": "same-origin", "Referer": parent.partition("?")[0]} if parent else {}
        return {**CHROME, **clicked, **self._headers}

    async def _fetch(self, client: httpx.AsyncClient, url: str) -> None:
        if self._pause:
            await asyncio.sleep(self._pause)
        try:
            answer = await client.get(url, headers=self._headers_for(url))
        except httpx.HTTPError:
            return
        self.statuses[answer.status_code] = self.statuses.get(answer.status_code, 0) + 1
        body = answer.content
        name = name_of(urlsplit(url).path)
        if answer.status_code not in {200, 206} or b"<a" not in body:
            return
        self._got.append((name, title_of(body)))
        for link in _LINK.findall(self._reads(body)):
            target, _ = urldefrag(urljoin(url, html.unescape(link.decode("utf-8", "replace"))))
            # Each view of a page has other marks. Whoever knows them takes the addresses without for one page.
            known = _MARK.sub(b"", target.encode()).decode() if self._as_browser else target
            if urlsplit(target).netloc == self._origin and known not in self._seen:
                self._seen.add(known)
                self._parents[target] = url
                self._frontier.append(target)

"""
Crawlers of many makes. Each stays on the site's origin, and ends by itself or is stopped after its time.

Programs and packages of others run as they come, with the options that keep them on the site. The last four are the
project's own, from `tests/real`: they do what is known of crawlers that rotate addresses, share the work or solve
challenges.
"""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from attached import attached
from bench.arena import browsers
from bench.arena.protections import PYTHON, ROOT
from real import crawling
from real.crawling import Crawler, visible, with_text, without_marks
from real.crews import Crew
from real.people import Reader
from real.servers import clean_environment, find_program

REQUESTS = 3000
"""So many at most, where a crawler can be told."""
PAUSE = 0.5
_SCRIPTS = Path(__file__).with_name("scripts")
_SPIDER = ROOT / "tests" / "real" / "spider.py"
_WAPITI = ROOT / "build" / "wapiti" / "bin" / "wapiti"
_START = 30.0
"""Seconds after which a program that has asked for nothing is taken as started."""
_ADDRESS = "127.40.0.9"
_SOLVER = "127.40.0.10"
_ADDRESSES = 20
ENDED, STOPPED = "ended", "stopped"


@dataclass(frozen=True)
class Target:
    """What a crawler is given. *pages* are the addresses of all pages, for those that work through a list."""

    url: str
    pages: tuple[str, ...]
    folder: Path
    seconds: float
    begun: Callable[[], bool]
    """Whether the site has given a page to a crawler: a program that starts slowly gets as much time as others."""


@dataclass(frozen=True)
class Make:
    """A crawler. *crawl* says whether it ended by itself."""

    name: str
    kind: str
    crawl: Callable[[Target], str]
    pool: str = "fast"
    lacks: str = ""
    """What is not installed for it."""


def _command(make: Callable[[Target], list[str]]) -> Callable[[Target], str]:
    def crawl(to: Target) -> str:
        with (to.folder / "crawler.log").open("wb") as log:
            process = subprocess.Popen(
                attached(make(to), by="KILL"), cwd=to.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=clean_environment(HOME=str(to.folder), CRAWL4_AI_BASE_DIRECTORY=str(to.folder), TERM="xterm"),
            )  # fmt: skip
            latest = time.monotonic() + _START
            while process.poll() is None and not to.begun() and time.monotonic() < latest:
                time.sleep(0.1)
            try:
                process.wait(to.seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                return STOPPED
        return ENDED

    return crawl


def _program(name: str, package: str = "") -> str:
    return "" if find_program(name) else package or name


def _package(name: str) -> str:
    return "" if any(ROOT.glob(f"build/arena/lib/*/site-packages/{name}")) else name


def _wget(to: Target, *options: str) -> list[str]:
    common = ["-q", "-r", "-l", "inf", "--tries=1", "--max-redirect=2", "--no-config", f"--bind-address={_ADDRESS}"]
    return [find_program("wget") or "wget", *common, *options, "-P", str(to.folder), to.url + "/"]


def _httrack(to: Target) -> list[str]:
    options = ["-q", "-s0", "--disable-security-limits", "--max-rate", "0", "-c16", "-%c0", "-B", "-R0"]
    program = find_program("httrack") or "httrack"
    return [program, to.url + "/", "-O", str(to.folder), *options, "-*", f"+{to.url}/*"]


def _scrapy(order: str, delay: float, to: Target) -> list[str]:
    settings = {
        "ROBOTSTXT_OBEY": False, "CONCURRENT_REQUESTS": 32, "CONCURRENT_REQUESTS_PER_DOMAIN": 32 if not delay else 1,
        "DOWNLOAD_DELAY": delay, "DOWNLOAD_BIND_ADDRESS": _ADDRESS, "CLOSESPIDER_PAGECOUNT": REQUESTS,
        "TELNETCONSOLE_ENABLED": False, "LOG_LEVEL": "WARNING",
        **(crawling.BREADTH_FIRST if order == "breadth" else {}),
    }  # fmt: skip
    command = [sys.executable, "-m", "scrapy", "runspider", str(_SPIDER), "-a", f"start={to.url}/"]
    command += ["-a", f"out={to.folder / 'scrapy.jsonl'}", "-a", f"order={order}"]
    for name, value in settings.items():
        command += ["-s", f"{name}={value}"]
    return command


def _script(name: str, to: Target) -> list[str]:
    return [str(PYTHON), str(_SCRIPTS / name), to.url, str(REQUESTS)]


def _wapiti(to: Target) -> list[str]:
    options = ["-m", "", "--flush-session", "--max-scan-time", f"{to.seconds:.0f}", "--no-bugreport"]
    return [str(_WAPITI), "-u", to.url + "/", *options, "--store-session", str(to.folder), "-o", str(to.folder / "r")]


def _lynx(to: Target) -> list[str]:
    """It follows links of its first host only, and works only at a terminal."""
    return ["script", "-qc", f"{find_program('lynx')} -crawl -traversal -accept_all_cookies {to.url}/", "/dev/null"]


def _list_of(to: Target) -> Path:
    listed = to.folder / "pages.txt"
    listed.write_text("\n".join(Random(3).sample(to.pages, len(to.pages))))
    return listed


def _aria2(to: Target) -> list[str]:
    options = ["-q", "-j", "8", "-m1", f"--interface={_ADDRESS}", "--allow-overwrite=true", "--no-conf"]
    return [find_program("aria2c") or "aria2c", *options, "-d", str(to.folder), "-i", str(_list_of(to))]


def _curl(to: Target) -> list[str]:
    config = to.folder / "curl.conf"
    pages = _list_of(to).read_text().splitlines()
    config.write_text("".join(f'url = "{page}"\noutput = "/dev/null"\n' for page in pages))
    pace = ["-s", "-q", "--interface", _ADDRESS, "--rate", f"{60 / PAUSE:.0f}/m"]
    return [find_program("curl") or "curl", *pace, "-A", crawling.BROWSER["User-Agent"], "-K", str(config)]


def _linkchecker(to: Target) -> list[str]:
    return [find_program("linkchecker") or "linkchecker", "-o", "none", "--no-robots", "-t", "8", to.url + "/"]


def _browser(walk: browsers.Walk, order: str, to: Target) -> str:
    end = time.monotonic() + to.seconds
    walk(to.url, order, 0.05, REQUESTS, to.seconds)
    return STOPPED if time.monotonic() >= end else ENDED


def _quiet(to: Target) -> str:
    """One address, only links with text, half a second between requests, all headers of Chrome."""
    crawler = Crawler(
        to.url, _ADDRESS, {}, concurrency=1, most=REQUESTS, pause=PAUSE, reads=_links_with_text, as_browser=True,
        longest=to.seconds,
    )  # fmt: skip
    return _timed(crawler.run, to)


def _links_with_text(body: bytes) -> bytes:
    return with_text(visible(body))


def _rotating(to: Target) -> str:
    crew = Crew(to.url, {}, 1, again=True, reads=visible)
    return _timed(lambda: crew.run(REQUESTS, seconds=to.seconds), to)


def _distributed(to: Target) -> str:
    starts = Random(5).sample(to.pages, _ADDRESSES)
    crawlers = [
        Crawler(
            to.url, f"127.{50 + number}.0.3", {}, order="random", concurrency=1, most=60, pause=PAUSE, reads=visible,
            as_browser=True, start=[start.removeprefix(to.url)], longest=to.seconds,
        )
        for number, start in enumerate(starts)
    ]  # fmt: skip

    async def everybody() -> None:
        await asyncio.gather(*(crawler.crawl() for crawler in crawlers))

    return _timed(lambda: asyncio.run(everybody()), to)


class SolvingCrawler(Reader):
    """Fetches pages with what they bring along, and solves each calculation natively; breadth-first, five a second."""

    async def crawl(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        frontier, seen = [(self._url + "/", "")], {self._url + "/"}
        async with self.client() as client:
            while frontier and time.monotonic() < end:
                url, before = frontier.pop(0)
                for link in await self._page(client, url, before):
                    known = without_marks(link.encode()).decode()
                    if known not in seen:
                        seen.add(known)
                        frontier.append((link, url))
                await asyncio.sleep(self._pause)


def _solving(to: Target) -> str:
    return _timed(lambda: asyncio.run(SolvingCrawler(to.url, _SOLVER, seed=1, pause=0.2).crawl(to.seconds)), to)


def _timed(run: Callable[[], object], to: Target) -> str:
    end = time.monotonic() + to.seconds
    run()
    return STOPPED if time.monotonic() >= end else ENDED


def makes() -> Sequence[Make]:
    """All of them, with what this machine lacks for each."""
    fast, slow = "fast", "slow"
    node = ROOT / "build" / "arena" / "node_modules" / "puppeteer-extra-plugin-stealth"
    driver = find_program("chromedriver") or "chromedriver"
    chromium = _program("chromium")
    stealth = chromium or ("" if importlib.util.find_spec("playwright_stealth") else "playwright-stealth")
    undetected = chromium or _program("chromedriver", "chromium-driver")
    undetected = undetected or (
        "" if importlib.util.find_spec("undetected_chromedriver") else "undetected-chromedriver"
    )
    puppeteer = chromium or _program("node", "nodejs") or ("" if node.is_dir() else node.name)
    by_puppeteer = partial(browsers.puppeteer_stealth, ROOT / "build" / "arena")
    by_chromium, by_stealth = browsers.walk_by(browsers.chromium), browsers.walk_by(browsers.playwright_stealth)
    by_undetected = browsers.walk_by(partial(browsers.undetected_chromedriver, driver))
    off, wait = ("-e", "robots=off"), ("-w", f"{PAUSE:g}", "--random-wait")
    return (
        Make("wget", fast, _command(lambda to: _wget(to, *off)), lacks=_program("wget")),
        Make("wget, waits 0.5 s", "polite", _command(lambda to: _wget(to, *wait)), slow, _program("wget")),
        Make("httrack", fast, _command(_httrack), lacks=_program("httrack")),
        Make("scrapy, depth first", fast, _command(partial(_scrapy, "depth", 0.0))),
        Make("scrapy, random order", fast, _command(partial(_scrapy, "random", 0.0))),
        Make("scrapy, breadth first, 0.5 s", slow, _command(partial(_scrapy, "breadth", PAUSE)), slow),
        Make("crawlee", fast, _command(partial(_script, "with_crawlee.py")), lacks=_package("crawlee")),
        Make("wapiti", fast, _command(_wapiti), lacks="" if _WAPITI.exists() else "wapiti3"),
        Make("lynx -crawl", fast, _command(_lynx), lacks=_program("lynx")),
        Make("linkchecker, 10 a second", fast, _command(_linkchecker), lacks=_program("linkchecker")),
        Make("aria2, list of pages", fast, _command(_aria2), lacks=_program("aria2c", "aria2")),
        Make("curl, list of pages, 0.5 s", slow, _command(_curl), slow, _program("curl")),
        Make("trafilatura", "LLM", _command(partial(_script, "with_trafilatura.py")), lacks=_package("trafilatura")),
        Make("crawl4ai", "LLM", _command(partial(_script, "with_crawl4ai.py")), lacks=_package("crawl4ai")),
        Make("Chromium by Playwright", "browser", partial(_browser, by_chromium, "breadth"), "browser", chromium),
        Make("playwright-stealth", "browser", partial(_browser, by_stealth, "click"), "browser", stealth),
        Make("puppeteer-stealth", "browser", partial(_browser, by_puppeteer, "click"), "browser", puppeteer),
        Make("undetected-chromedriver", "browser", partial(_browser, by_undetected, "click"), "browser", undetected),
        Make("visible links, headers of Chrome, 0.5 s", slow, _quiet, slow),
        Make("rotating: an address per page", "rotating", _rotating, slow),
        Make("20 addresses, 0.5 s", "distributed", _distributed, slow),
        Make("solves calculations, 0.2 s", "solving", _solving, slow),
    )  # fmt: skip

"""The crawlers of the demo: those that are installed, and a plain one that always is."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from hedgerow.lab.demo.processes import find_program

Command = Callable[[str, str, Path], list[str]]
"""Makes the command of a crawler from the URL of the site, the crawler's address and a folder for its files."""

_SCRAPY_SETTINGS = (
    "CONCURRENT_REQUESTS=32", "CONCURRENT_REQUESTS_PER_DOMAIN=32", "ROBOTSTXT_OBEY=False",
    "TELNETCONSOLE_ENABLED=False", "DOWNLOAD_TIMEOUT=10",
)  # fmt: skip


@dataclass
class DemoCrawler:
    """A crawler and the pages it got. One that *needs_relay* cannot choose its own address."""

    name: str
    command: Command
    needs_relay: bool = False
    unprotected: str = ""
    protected: str = ""
    after: str = ""
    reason: str = ""


def installed_crawlers() -> Iterator[DemoCrawler]:
    yield DemoCrawler("small Python crawler", _python)
    if wget := find_program("wget"):
        yield DemoCrawler("wget", _wget(wget, "-e", "robots=off"))
        yield DemoCrawler("wget with robots.txt", _wget(wget))
    if httrack := find_program("httrack"):
        yield DemoCrawler("httrack", _httrack(httrack), needs_relay=True)
    if importlib.util.find_spec("scrapy"):
        yield DemoCrawler("scrapy, 32 at once", _scrapy)


def _python(url: str, address: str, _: Path) -> list[str]:
    return [sys.executable, "-m", "hedgerow.lab.demo.plain_crawler", url + "/", address]


def _wget(program: str, *options: str) -> Command:
    fixed = [program, "-q", "-r", "-l", "inf", "--no-config", "--tries=1", "--timeout=10", *options]
    return lambda url, address, folder: [*fixed, f"--bind-address={address}", "-P", str(folder), url + "/"]


def _httrack(program: str) -> Command:
    options = ["-q", "-s0", "--disable-security-limits", "--max-rate", "0", "-c16", "-%c0", "-B", "-R0", "-T10"]
    return lambda url, _, folder: [program, url + "/", "-O", str(folder), *options, "-*", f"+{url}/*"]


def _scrapy(url: str, address: str, _: Path) -> list[str]:
    spider = str(files("hedgerow.lab.demo").joinpath("scrapy_spider.py"))
    command = [sys.executable, "-m", "scrapy", "runspider", spider, "-a", f"start={url}/"]
    for setting in (*_SCRAPY_SETTINGS, f"DOWNLOAD_BIND_ADDRESS={address}"):
        command += ["-s", setting]
    return command

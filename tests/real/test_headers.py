"""What real clients' headers give: a browser nothing, programs little."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser

from hedgerow.core.visit import ARRIVAL, BY_PROGRAM
from hedgerow.detectors.header_anomalies import CODES

from .browsing import CHROMIUM, Person, tab
from .servers import PATIENCE, Nginx, Protect, clean_environment

_REQUESTS = "import requests,sys; s=requests.Session(); s.trust_env=False; s.get(sys.argv[1])"
_AIOHTTP = """
import aiohttp, asyncio, sys
async def main():
    async with aiohttp.ClientSession() as session, session.get(sys.argv[1]) as answer:
        await answer.read()
asyncio.run(main())
"""
_SCRAPY = """
import scrapy, sys
from scrapy.crawler import CrawlerProcess
class One(scrapy.Spider):
    name = "one"
    start_urls = [sys.argv[1]]
    def parse(self, response): pass
process = CrawlerProcess({"ROBOTSTXT_OBEY": False, "TELNETCONSOLE_ENABLED": False, "LOG_LEVEL": "WARNING"})
process.crawl(One)
process.start()
"""


def _ran(*command: str, cwd: Path) -> None:
    subprocess.run(command, cwd=cwd, env=clean_environment(), check=True, timeout=PATIENCE, capture_output=True)


def test_a_browser_gives_no_sign_at_all(browser: Browser, site: Nginx, protect: Callable[..., Protect]) -> None:
    """
    Chromium as a person has it: on loopback, where it sends what it sends over https.

    Driven without a screen it calls itself "HeadlessChrome"; the user agent of a person's has that one word less.
    """
    hedgerow = protect(site.url, settings='[marker]\nmode = "readable"\n')
    agent = browser.new_page().evaluate("navigator.userAgent").replace("Headless", "")
    version = agent.partition("Chrome/")[2].partition(".")[0]
    hints = f'"Chromium";v="{version}", "Not)A;Brand";v="24"'
    with tab(browser, user_agent=agent, extra_http_headers={"sec-ch-ua": hints}) as page:
        Person(page, hedgerow.url, seed=3).walk(12)
    hedgerow.stop()
    # A new tab asks for its page before it is told its other name, and the icon is the browser's own.
    visits = [visit for visit in hedgerow.visits() if "HeadlessChrome" not in visit["user_agent"]]
    assert len([visit for visit in visits if visit["kind"] == "page"]) >= 6
    assert any(visit["target"].endswith("/solve.js") for visit in visits)
    assert {visit["signs"] for visit in visits} == {""}
    found = [e for visit in visits for e in json.loads(visit["evidence"]) if e["detector"] == "headers"]
    assert found == []
    # The clearance that it sends was obtained under its other name.
    others = {sign for visit in hedgerow.visits() if visit not in visits for sign in visit["signs"].split()}
    assert others <= {"automation", "clearance-user-agent"}


def test_a_browser_without_a_screen_says_so(site: Nginx, protect: Callable[..., Protect], tmp_path: Path) -> None:
    hedgerow = protect(site.url)
    _ran(
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"--user-data-dir={tmp_path}",
        hedgerow.url + "/", cwd=tmp_path,
    )  # fmt: skip
    hedgerow.stop()
    assert hedgerow.visits()[0]["signs"] == "automation"


def test_programs_give_little(
    site: Nginx, protect: Callable[..., Protect], program: Callable[[str], str], tmp_path: Path
) -> None:
    hedgerow = protect(site.url)
    url = hedgerow.url + "/index.html"
    commands = {
        "curl": (program("curl"), "-sS", "--noproxy", "*", "-o", "page", url),
        "Wget": (program("wget"), "--no-config", "-q", "-O", "page", url),
        "python-requests": (sys.executable, "-c", _REQUESTS, url),
        "aiohttp": (sys.executable, "-c", _AIOHTTP, url),
        "Scrapy": (sys.executable, "-c", _SCRAPY, url),
        "liar": (
            program("curl"), "-sS", "--noproxy", "*", "-o", "page", "-A",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36",
            url,
        ),
    }  # fmt: skip
    for command in commands.values():
        _ran(*command, cwd=tmp_path)
    assert hedgerow.blocked() == {}
    hedgerow.stop()
    found = {}
    for visit in hedgerow.visits():
        assert visit["action"] == "pass"
        name = next((name for name in commands if name.lower() in visit["user_agent"].lower()), "liar")
        evidence = [e for e in json.loads(visit["evidence"]) if e["detector"] == "headers"]
        found[name] = (visit["signs"], round(sum(e["weight"] for e in evidence), 3))
    assert set(found) == set(commands)
    for name, (anomalies, weight) in found.items():
        codes = set(anomalies.split())
        assert codes <= {*CODES, BY_PROGRAM, ARRIVAL}
        # Scrapy asks for a page as a browser does over plain HTTP, so it is counted like one. The others do not.
        assert codes & {BY_PROGRAM, ARRIVAL} == {ARRIVAL if name == "Scrapy" else BY_PROGRAM}
        if name == "liar":
            assert "browser-no-fetch" in anomalies
            assert weight >= 0.3
        else:
            assert anomalies.startswith("program")
            assert weight <= 0.1

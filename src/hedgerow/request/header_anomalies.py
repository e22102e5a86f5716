"""
Signs: what is odd about a request's headers, as codes. What each is worth is `detect/headers.py`'s to say.

Two kinds. What is missing (a user agent, a language) is normal for programs: small. What contradicts the browser that a
user agent names is not: Chrome sends `Sec-CH-UA`, Firefox never does. Care is taken where browsers differ from
themselves: over plain http they send no `Sec-Fetch-*` and no `Sec-CH-UA`, but for the machine itself (`localhost`,
127.0.0.1); a proxy in front of us may have changed the order of headers and the version of HTTP, so both count only
where the client speaks to us directly; who names a bot names no browser.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_LONGEST_AGENT = 1000
_LONGEST_LOCAL = 64

# Since when a browser sends what, over https.
_CHROME_HINTS = 90
_FETCHES = {"chrome": 80, "firefox": 90, "safari": 17}

# Programs that say so. Who names one names no browser.
_PROGRAM = re.compile(
    r"^(?:curl|wget|python|aiohttp|httpx|scrapy|go-http-client|java|okhttp|apache-httpclient|libwww-perl|lwp|node|axios"
    r"|got|undici|ruby|php|guzzlehttp|restsharp|postmanruntime|insomnia|httpie|colly|mechanize|faraday|reqwest|rust|dart"
    r"|git|typhoeus|winhttp|powershell|fasthttp|deno|bun|perl|elinks|lua|aria2|urllib|pycurl)\b",
    re.IGNORECASE,
)
_AUTOMATION = re.compile(r"HeadlessChrome|PhantomJS|SlimerJS|Puppeteer|Playwright|Selenium|Electron/.*Nightmare")
_NAMED = re.compile(r"bot\b|crawl|spider|compatible;|\+?https?://|@", re.IGNORECASE)
_CHROME = re.compile(r"Mozilla/5\.0 .*AppleWebKit/537\.36 .*Chrome/(\d{1,4})")
_FIREFOX = re.compile(r"Mozilla/5\.0 .*rv:(\d{1,4})[\d.]*\) Gecko/.* Firefox/(\d{1,4})")
_SAFARI = re.compile(r"Mozilla/5\.0 \((?:Macintosh|iPhone|iPad)[^)]*\) AppleWebKit/6\d\d.*Version/(\d{1,4}).*Safari/")
_HINT = re.compile(r'"(?:Chromium|Google Chrome)";\s*v="(\d{1,4})')
_LOCAL = re.compile(r"(?:localhost|[a-z0-9.-]+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?\Z", re.IGNORECASE)
_ORDERS = {
    "chrome": (b"user-agent", b"accept", b"accept-encoding", b"accept-language"),
    "firefox": (b"user-agent", b"accept", b"accept-language", b"accept-encoding"),
}


_SECURE = frozenset({"https", "wss"})
_is_ordered = frozenset(_ORDERS["chrome"]).__contains__


class _Headers(NamedTuple):
    """All that signs are told from. *order* is that of the headers whose order tells."""

    order: tuple[bytes, ...]
    agent: bytes
    accept: bytes | None
    language: bytes | None
    encoding: bytes | None
    hints: bytes | None
    mode: bytes | None
    secure: bool
    direct: bool
    old_http: bool


def find_anomalies(
    fields: Mapping[bytes, bytes], *, scheme: str, host: str, version: str = "", direct: bool = True
) -> tuple[str, ...]:
    """
    The signs of a request. *fields* are its headers in the order in which they came.

    *scheme* is what the client used, as far as anybody knows. *direct*: no proxy of ours stands between.
    """
    get = fields.get
    headers = _Headers(
        tuple(filter(_is_ordered, fields)) if direct else (),
        get(b"user-agent", b""), get(b"accept"), get(b"accept-language"), get(b"accept-encoding"), get(b"sec-ch-ua"),
        get(b"sec-fetch-mode"), scheme in _SECURE or _is_local(host), direct, version == "1.0",
    )  # fmt: skip
    agent = headers.agent[:_LONGEST_AGENT].decode("latin-1").strip()
    found: list[str] = []
    if not agent:
        found.append("no-agent")
    elif _AUTOMATION.search(agent) or (headers.hints and b"HeadlessChrome" in headers.hints):
        found.append("automation")
    elif _PROGRAM.match(agent):
        found.append("program")
    elif agent in {"Mozilla", "Mozilla/4.0", "Mozilla/5.0", "-"} or not any(c.isalpha() for c in agent):
        found.append("odd-agent")
    browser, number = ("", 0) if _NAMED.search(agent) else _browser(agent)
    if browser:
        found += _contradictions(headers, browser, number)
    else:
        found += [
            code for code, value in (("no-accept", headers.accept), ("no-language", headers.language)) if value is None
        ]
    return tuple(found)


def _is_local(host: str) -> bool:
    return len(host) < _LONGEST_LOCAL and _LOCAL.match(host) is not None


def _browser(agent: str) -> tuple[str, int]:
    """The browser that a user agent names, by its engine, and its version."""
    if found := _CHROME.match(agent):
        return "chrome", int(found[1])
    if found := _FIREFOX.match(agent):
        return "firefox", int(found[2])
    if found := _SAFARI.match(agent):
        return "safari", int(found[1])
    return "", 0


def _contradictions(headers: _Headers, browser: str, number: int) -> list[str]:
    found = []
    if headers.accept is None or headers.language is None:
        # Any browser sends both with everything.
        found.append("browser-plain")
    if headers.encoding is None:
        found.append("browser-no-encoding")
    if headers.mode == b"navigate" and headers.accept is not None and b"html" not in headers.accept:
        found.append("browser-accept")
    if headers.secure and number >= _FETCHES[browser] and headers.mode is None:
        found.append("browser-no-fetch")
    found += _hints(headers, browser, number)
    if headers.direct and headers.old_http:
        found.append("browser-http")
    # Those that are missing say nothing.
    expected = tuple(name for name in _ORDERS.get(browser, headers.order) if name in headers.order)
    if headers.order != expected and b"Brave" not in (headers.hints or b""):
        found.append("browser-order")
    return found


def _hints(headers: _Headers, browser: str, number: int) -> list[str]:
    """What `Sec-CH-UA` says against the user agent."""
    if headers.hints is None:
        missing = browser == "chrome" and headers.secure and number >= _CHROME_HINTS
        return ["browser-no-hints"] if missing else []
    if browser != "chrome":
        return ["browser-hints"]
    named = _HINT.search(headers.hints.decode("latin-1"))
    return ["browser-version"] if named is not None and int(named[1]) != number else []

"""
Header anomalies: codes for what is unusual about a request's headers. The detector of the same name weighs them.

Missing headers (user agent, language) are common for programs. Headers that contradict the browser in the user agent
are stronger: Chrome sends `Sec-CH-UA`, Firefox never does. Three exceptions avoid false alarms:

- Over plain HTTP browsers send no `Sec-Fetch-*` and no `Sec-CH-UA`, except to `localhost` and 127.0.0.1.
- A proxy may change the order of headers and the HTTP version. Both count only if the client connects directly.
- A user agent that names a bot is not compared with any browser.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_MAX_AGENT_LENGTH = 1000
_MAX_LOCAL_HOST_LENGTH = 64

# The first version of each browser that sends Sec-CH-UA and Sec-Fetch-* over HTTPS.
_HINTS_SINCE_CHROME = 90
_FETCH_METADATA_SINCE = {"chrome": 80, "firefox": 90, "safari": 17}

# User agents of programs.
_PROGRAM = re.compile(
    r"^(?:curl|wget|python|aiohttp|httpx|scrapy|go-http-client|java|okhttp|apache-httpclient|libwww-perl|lwp|node|axios"
    r"|got|undici|ruby|php|guzzlehttp|restsharp|postmanruntime|insomnia|httpie|colly|mechanize|faraday|reqwest|rust|dart"
    r"|git|typhoeus|winhttp|powershell|fasthttp|deno|bun|perl|elinks|lua|aria2|urllib|pycurl)\b",
    re.IGNORECASE,
)
_AUTOMATION = re.compile(r"HeadlessChrome|PhantomJS|SlimerJS|Puppeteer|Playwright|Selenium|Electron/.*Nightmare")
_SELF_IDENTIFIED = re.compile(r"bot\b|crawl|spider|compatible;|\+?https?://|@", re.IGNORECASE)
_CHROME = re.compile(r"Mozilla/5\.0 .*AppleWebKit/537\.36 .*Chrome/(\d{1,4})")
_FIREFOX = re.compile(r"Mozilla/5\.0 .*rv:(\d{1,4})[\d.]*\) Gecko/.* Firefox/(\d{1,4})")
_SAFARI = re.compile(r"Mozilla/5\.0 \((?:Macintosh|iPhone|iPad)[^)]*\) AppleWebKit/6\d\d.*Version/(\d{1,4}).*Safari/")
_HINTED_VERSION = re.compile(r'"(?:Chromium|Google Chrome)";\s*v="(\d{1,4})')
_LOCAL = re.compile(r"(?:localhost|[a-z0-9.-]+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?\Z", re.IGNORECASE)
_HEADER_ORDERS = {
    "chrome": (b"user-agent", b"accept", b"accept-encoding", b"accept-language"),
    "firefox": (b"user-agent", b"accept", b"accept-language", b"accept-encoding"),
}
_SECURE = frozenset({"https", "wss"})
_is_ordered = frozenset(_HEADER_ORDERS["chrome"]).__contains__


class _Headers(NamedTuple):
    """The headers that anomalies depend on. *order* is the order of those with a fixed order in browsers."""

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
    Return the codes of a request's anomalies. *fields* are its headers in the order received.

    *scheme* is the client's, "" if unknown. *direct* is true if no proxy of the site stands in between.
    """
    get = fields.get
    headers = _Headers(
        tuple(filter(_is_ordered, fields)) if direct else (),
        get(b"user-agent", b""), get(b"accept"), get(b"accept-language"), get(b"accept-encoding"), get(b"sec-ch-ua"),
        get(b"sec-fetch-mode"), scheme in _SECURE or _is_local(host), direct, version == "1.0",
    )  # fmt: skip
    agent = headers.agent[:_MAX_AGENT_LENGTH].decode("latin-1").strip()
    found: list[str] = []
    if not agent:
        found.append("no-agent")
    elif _AUTOMATION.search(agent) or (headers.hints and b"HeadlessChrome" in headers.hints):
        found.append("automation")
    elif _PROGRAM.match(agent):
        found.append("program")
    elif agent in {"Mozilla", "Mozilla/4.0", "Mozilla/5.0", "-"} or not any(c.isalpha() for c in agent):
        found.append("odd-agent")
    browser, number = ("", 0) if _SELF_IDENTIFIED.search(agent) else _browser(agent)
    if browser:
        found += _contradictions(headers, browser, number)
    else:
        found += [
            code for code, value in (("no-accept", headers.accept), ("no-language", headers.language)) if value is None
        ]
    return tuple(found)


def _is_local(host: str) -> bool:
    return len(host) < _MAX_LOCAL_HOST_LENGTH and _LOCAL.match(host) is not None


def _browser(agent: str) -> tuple[str, int]:
    """Return the browser engine and version that a user agent names."""
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
        # Browsers send both with every request.
        found.append("browser-plain")
    if headers.encoding is None:
        found.append("browser-no-encoding")
    if headers.mode == b"navigate" and headers.accept is not None and b"html" not in headers.accept:
        found.append("browser-accept")
    if headers.secure and number >= _FETCH_METADATA_SINCE[browser] and headers.mode is None:
        found.append("browser-no-fetch")
    found += _hints(headers, browser, number)
    if headers.direct and headers.old_http:
        found.append("browser-http")
    # Missing headers do not affect the order.
    expected = tuple(name for name in _HEADER_ORDERS.get(browser, headers.order) if name in headers.order)
    if headers.order != expected and b"Brave" not in (headers.hints or b""):
        found.append("browser-order")
    return found


def _hints(headers: _Headers, browser: str, number: int) -> list[str]:
    """Compare `Sec-CH-UA` with the user agent."""
    if headers.hints is None:
        missing = browser == "chrome" and headers.secure and number >= _HINTS_SINCE_CHROME
        return ["browser-no-hints"] if missing else []
    if browser != "chrome":
        return ["browser-hints"]
    hinted = _HINTED_VERSION.search(headers.hints.decode("latin-1"))
    return ["browser-version"] if hinted is not None and int(hinted[1]) != number else []

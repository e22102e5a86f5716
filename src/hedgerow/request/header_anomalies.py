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
from collections.abc import Iterable, Mapping

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
# Atomic groups take the first of what they look for and never another, so that matching takes linear time.
_CHROME = re.compile(r"Mozilla/5\.0 (?>.*?AppleWebKit/537\.36 )(?>.*?Chrome/(\d{1,4}))")
_FIREFOX = re.compile(r"Mozilla/5\.0 (?>.*?rv:(\d{1,4})[\d.]*+\) Gecko/)(?>.*? Firefox/(\d{1,4}))")
_SAFARI = re.compile(
    r"Mozilla/5\.0 \((?:Macintosh|iPhone|iPad)[^)]*\) AppleWebKit/6\d\d(?>.*?Version/(\d{1,4}))(?>.*?Safari/)"
)
_HINTED_VERSION = re.compile(r'"(?:Chromium|Google Chrome)";\s*v="(\d{1,4})')
_LOCAL = re.compile(r"(?:localhost|[a-z0-9.-]+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?\Z", re.IGNORECASE)
_HEADER_ORDERS = {
    "chrome": (b"user-agent", b"accept", b"accept-encoding", b"accept-language"),
    "firefox": (b"user-agent", b"accept", b"accept-language", b"accept-encoding"),
}
_WORKERS = frozenset({b"worker", b"sharedworker", b"serviceworker"})
"""What Chromium loads with its headers in another order."""
_SECURE = frozenset({"https", "wss"})


_ORDERED = frozenset(_HEADER_ORDERS["chrome"])


# Signs of a program, or of one that poses as a browser and does not send what all browsers send.
_NOT_A_BROWSER = frozenset({
    "program", "no-agent", "odd-agent", "no-accept", "no-language", "browser-plain", "browser-no-fetch",
})  # fmt: skip


def is_browser(anomalies: Iterable[str]) -> bool:
    """
    Return whether a request with these *anomalies* has all that a browser sends.

    >>> is_browser(("browser-order",)), is_browser(("no-language",))
    (True, False)
    """
    return _NOT_A_BROWSER.isdisjoint(anomalies)


def find_anomalies(
    fields: Mapping[bytes, bytes], *, scheme: str, host: str, version: str = "", direct: bool = True
) -> tuple[str, ...]:
    """
    Return the codes of a request's anomalies. *fields* are its headers in the order received.

    *scheme* is the client's, "" if unknown. *direct* is true if no proxy of the site stands in between.
    """
    agent = fields.get(b"user-agent", b"")[:_MAX_AGENT_LENGTH].decode("latin-1").strip()
    codes: list[str] = []
    if not agent:
        codes.append("no-agent")
    elif _AUTOMATION.search(agent) or b"HeadlessChrome" in fields.get(b"sec-ch-ua", b""):
        codes.append("automation")
    elif _PROGRAM.match(agent):
        codes.append("program")
    elif agent in {"Mozilla", "Mozilla/4.0", "Mozilla/5.0", "-"} or not any(c.isalpha() for c in agent):
        codes.append("odd-agent")
    browser, number = ("", 0) if _SELF_IDENTIFIED.search(agent) else _browser(agent)
    if browser:
        secure = scheme in _SECURE or _is_local(host)
        codes += _contradictions(fields, browser, number, secure=secure)
        if direct:
            codes += _transport_contradictions(fields, browser, version)
    else:
        codes += [
            code for code, name in (("no-accept", b"accept"), ("no-language", b"accept-language")) if name not in fields
        ]
    return tuple(codes)


def _is_local(host: str) -> bool:
    return len(host) < _MAX_LOCAL_HOST_LENGTH and _LOCAL.match(host) is not None


def _browser(agent: str) -> tuple[str, int]:
    if match := _CHROME.match(agent):
        return "chrome", int(match[1])
    if match := _FIREFOX.match(agent):
        return "firefox", int(match[2])
    if match := _SAFARI.match(agent):
        return "safari", int(match[1])
    return "", 0


def _contradictions(fields: Mapping[bytes, bytes], browser: str, number: int, *, secure: bool) -> list[str]:
    codes = []
    accept, mode = fields.get(b"accept"), fields.get(b"sec-fetch-mode")
    if accept is None or b"accept-language" not in fields:
        # Browsers send both with every request.
        codes.append("browser-plain")
    if b"accept-encoding" not in fields:
        codes.append("browser-no-encoding")
    if mode == b"navigate" and accept is not None and b"html" not in accept:
        codes.append("browser-accept")
    if secure and number >= _FETCH_METADATA_SINCE[browser] and mode is None:
        codes.append("browser-no-fetch")
    hints = fields.get(b"sec-ch-ua")
    if hints is None:
        if browser == "chrome" and secure and number >= _HINTS_SINCE_CHROME:
            codes.append("browser-no-hints")
    elif browser != "chrome":
        codes.append("browser-hints")
    elif (hinted := _HINTED_VERSION.search(hints.decode("latin-1"))) and int(hinted[1]) != number:
        codes.append("browser-version")
    return codes


def _transport_contradictions(fields: Mapping[bytes, bytes], browser: str, version: str) -> list[str]:
    codes = ["browser-http"] if version == "1.0" else []
    order = tuple(filter(_ORDERED.__contains__, fields))
    # Missing headers do not affect the order.
    expected = tuple(name for name in _HEADER_ORDERS.get(browser, order) if name in order)
    is_usual = fields.get(b"sec-fetch-dest") not in _WORKERS and b"Brave" not in fields.get(b"sec-ch-ua", b"")
    if order != expected and is_usual:
        codes.append("browser-order")
    return codes

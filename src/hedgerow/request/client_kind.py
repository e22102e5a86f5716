"""
Client kinds: whether a request is a browser loading a page, a script of a page, or a program.

Programs are package managers, WebDAV and S3 clients, rclone, curl, wget, feed readers, preview bots and editors. They
store what they get, or read it for other purposes than a person does. The user agent plays no part: it is easy to
change, and programs that embed a browser keep the browser's.

Browsers say in `Sec-Fetch-*` what a request is for, but not over plain HTTP and not in older versions. Then two facts
are left. A browser names HTML in `Accept` when it loads a page, and it sends `Accept-Language` with every request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from hedgerow.challenge.client_preferences import prefers_html
from hedgerow.core.request_kind import is_prefetch

Client = Literal["browser", "script", "program"]

METHODS_OF_BROWSERS = frozenset({"GET", "HEAD", "POST"})
_WINDOWS = frozenset({b"document", b"frame", b"iframe", b"embed", b"object", b"fencedframe"})
# How the Accept header of Chromium, Firefox and Safari begins when they load a page, and of no text browser.
_ACCEPTED_PAGE = b"text/html,application/xhtml+xml,"
# The engines of these browsers. A client that names itself as a bot may read no style sheets.
_STYLING_ENGINE = re.compile(r"Mozilla/5\.0 \((?!compatible)[^)]*\) (?:AppleWebKit|Gecko)/\d")
_BOT = re.compile(r"bot\b|crawl|spider|https?://|@", re.IGNORECASE)
_LONGEST_AGENT = 500


def client_kind(method: str, headers: Mapping[bytes, bytes]) -> Client:
    """
    Return what sent a request.

    >>> client_kind("GET", {b"accept": b"*/*"}), client_kind("GET", {b"accept": b"text/html,*/*;q=0.8"})
    ('program', 'browser')
    >>> client_kind("GET", {b"sec-fetch-mode": b"cors"}), client_kind("PROPFIND", {b"depth": b"1"})
    ('script', 'program')
    """
    mode, destination = headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")
    if mode is not None or destination is not None:
        is_page = mode == b"navigate" if mode is not None else destination in _WINDOWS
        return "browser" if is_page or is_prefetch(headers) else "script"
    if b"depth" in headers or b"translate" in headers:
        # WebDAV. Windows asks with `Translate: f` for the source of a page.
        return "program"
    if b"x-requested-with" in headers or b"upgrade" in headers:
        return "script"
    wants_page = prefers_html(headers.get(b"accept", b"").decode("latin-1")) or is_prefetch(headers)
    if b"accept-language" in headers:
        return "browser" if wants_page else "script"
    # A browser that loads a page asks for all of it.
    return "browser" if wants_page and method in METHODS_OF_BROWSERS and b"range" not in headers else "program"


def claims_styles(user_agent: str, accept: bytes, destination: bytes) -> bool:
    """
    Return whether a request claims to come from a browser that loads a page and applies its style sheets.

    Text browsers do not, and neither does a script that may use only a part of the page. *destination* is the header
    `Sec-Fetch-Dest`, or b"".

    >>> chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36"
    >>> claims_styles(chrome, b"text/html,application/xhtml+xml,*/*;q=0.8", b"document")
    True
    >>> claims_styles("Lynx/2.9.2 libwww-FM/2.14", b"text/html, text/plain, text/sgml, */*;q=0.01", b"")
    False
    """
    return (
        accept.startswith(_ACCEPTED_PAGE)
        and destination in {b"", *_WINDOWS}
        and len(user_agent) <= _LONGEST_AGENT
        and _STYLING_ENGINE.match(user_agent) is not None
        and _BOT.search(user_agent) is None
    )

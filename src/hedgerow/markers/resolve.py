"""
Where a link of a page leads, if it stays on the site.

Resolving by the book costs more than everything else about a link, and nearly all links of a site are one of two simple
forms, so those come first: a plain absolute path, and a plain name relative to the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

# Bytes that a browser sends as they are in a path and query, less those that need a second look.
_PLAIN_PATH = re.compile(rb"/(?![/\\])(?:[A-Za-z0-9_~!$&()*+,;=:@?-]|%(?!2[eE])|/(?!\.)|\.(?!\.?(?:[/?]|\Z)))*+\Z")
_PLAIN_NAME = re.compile(
    rb"[A-Za-z0-9_~!$()*+,;=@-](?:[A-Za-z0-9_~!$&()*+,;=@-]|%(?!2[eE])|\.(?!\.))*+"
    rb"(?:\?[A-Za-z0-9_~!$&()*+,;=:@%?/.-]*+)?\Z"
)
_SCHEME = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*):")
_CONTROL = bytes(range(33))
_REMOVED = b"\t\n\r"
# What a browser escapes in a path, in a query and in a fragment, besides controls and what is not ASCII.
_IN_PATH = re.compile(rb"[\x00-\x20\x7f-\xff\"<>`{}^|]")
_IN_QUERY = re.compile(rb"[\x00-\x20\x7f-\xff\"<>']")
_IN_FRAGMENT = re.compile(rb"[\x00-\x20\x7f-\xff\"<>`]")
_DEFAULT_PORTS = {b"http": b"80", b"https": b"443"}


class PageLocation(NamedTuple):
    """
    Where a page is, as the browser sees it: scheme, host (with its port) and target (path and query).

    Relative links start from *target*.
    """

    scheme: bytes
    host: bytes
    target: bytes


def resolve(url: bytes, place: PageLocation) -> tuple[bytes, bytes] | None:
    """
    The target on this site that *url* leads to, and its fragment with "#"; None where it leads elsewhere or nowhere.

    >>> here = PageLocation(b"http", b"example.org", b"/docs/start.html?x=1")
    >>> resolve(b"next.html#top", here), resolve(b"../a b", here), resolve(b"//other.example/", here)
    ((b'/docs/next.html', b'#top'), (b'/a%20b', b''), None)
    """
    if url[:1] == b"#":
        return None
    head, hash_, fragment = url.partition(b"#")
    fragment = hash_ + fragment
    if _PLAIN_PATH.match(head):
        return head, fragment
    if _PLAIN_NAME.match(head) and not place.target.startswith(b"//"):
        path = place.target.partition(b"?")[0]
        return path[: path.rfind(b"/") + 1] + head, fragment
    return _resolve_slowly(url, place)


def resolve_all(urls: Iterable[bytes], place: PageLocation) -> list[tuple[bytes, bytes] | None]:
    """Resolve each of *urls*: see `resolve`."""
    return [resolve(url, place) for url in urls]


def _resolve_slowly(url: bytes, place: PageLocation) -> tuple[bytes, bytes] | None:
    """
    By the book (WHATWG URL), for http and https.

    Which of the two does not matter: behind a proxy that speaks TLS we do not always know what the browser sees.
    """
    url = url.strip(_CONTROL).translate(None, _REMOVED)
    scheme = _SCHEME.match(url)
    if scheme is not None:
        if scheme[1].lower() not in {b"http", b"https"}:
            return None
        url = url[scheme.end() :]
        slashes = len(url) - len(url.lstrip(b"/\\"))
        if slashes >= 2:  # noqa: PLR2004
            url = b"//" + url[slashes:]
    head, hash_, fragment = url.partition(b"#")
    path, question, query = head.partition(b"?")
    path = path.replace(b"\\", b"/")
    if path.startswith(b"//"):
        host, slash, path = path[2:].partition(b"/")
        spoken = scheme[1].lower() if scheme is not None else place.scheme
        if _host(host, spoken) != _host(place.host, place.scheme):
            return None
        path = slash + path or b"/"
    elif not path:
        if not question:
            return None
        path = place.target.partition(b"?")[0]
    elif not path.startswith(b"/"):
        here = place.target.partition(b"?")[0]
        path = here[: here.rfind(b"/") + 1] + path
    path = _without_dots(path)
    if path.startswith(b"//"):
        # Such as `/.//evil.example`: on this site, but written as it is it would name a host.
        return None
    target = _escape(path, _IN_PATH) + question + _escape(query, _IN_QUERY)
    return target, hash_ + _escape(fragment, _IN_FRAGMENT)


def _host(host: bytes, scheme: bytes) -> bytes:
    host = host.rpartition(b"@")[2].lower()
    return host.removesuffix(b":" + _DEFAULT_PORTS[scheme]).removesuffix(b":")


def _without_dots(path: bytes) -> bytes:
    """
    A path without `.` and `..`, escaped or not, as a browser asks for it.

    >>> _without_dots(b"/a/./b/../c/%2e%2E/d/.")
    b'/a/d/'
    """
    kept: list[bytes] = []
    segments = path.split(b"/")[1:]
    for index, segment in enumerate(segments):
        plain = segment.lower().replace(b"%2e", b".")
        last = index == len(segments) - 1
        if plain == b"..":
            if kept:
                kept.pop()
            if last:
                kept.append(b"")
        elif plain == b".":
            if last:
                kept.append(b"")
        else:
            kept.append(segment)
    return b"/" + b"/".join(kept)


def _escape(text: bytes, escaped: re.Pattern[bytes]) -> bytes:
    return escaped.sub(lambda match: b"%%%02X" % match[0][0], text)

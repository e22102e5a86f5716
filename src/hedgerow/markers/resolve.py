"""
Resolve the links of a page: which target of the site they lead to.

Resolving by the URL standard costs more than all other work on a link. Nearly all links of a site have one of two
simple forms, so these are tried first: a plain absolute path, and a plain name relative to the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

# Bytes that a browser sends unchanged in a path and query, without those that need a closer look.
_PLAIN_PATH = re.compile(rb"/(?![/\\])(?:[A-Za-z0-9_~!$&()*+,;=:@?-]|%(?!2[eE])|/(?!\.)|\.(?!\.?(?:[/?]|\Z)))*+\Z")
_PLAIN_NAME = re.compile(
    rb"[A-Za-z0-9_~!$()*+,;=@-](?:[A-Za-z0-9_~!$&()*+,;=@-]|%(?!2[eE])|\.(?!\.))*+"
    rb"(?:\?[A-Za-z0-9_~!$&()*+,;=:@%?/.-]*+)?\Z"
)
_SCHEME = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*):")
_CONTROL = bytes(range(33))
_REMOVED = b"\t\n\r"
# What a browser escapes in a path, in a query and in a fragment, including control and non-ASCII characters.
_IN_PATH = re.compile(rb"[\x00-\x20\x7f-\xff\"<>`{}^|]")
_IN_QUERY = re.compile(rb"[\x00-\x20\x7f-\xff\"<>']")
_IN_FRAGMENT = re.compile(rb"[\x00-\x20\x7f-\xff\"<>`]")
_DEFAULT_PORTS = {b"http": b"80", b"https": b"443"}


class PageLocation(NamedTuple):
    """The address of a page: scheme (empty if unknown), host (with its port) and target (path and query)."""

    scheme: bytes
    host: bytes
    target: bytes


def resolve(url: bytes, location: PageLocation) -> tuple[bytes, bytes] | None:
    """
    Return the target on this site that *url* leads to, and its fragment with "#"; None for other sites and schemes.

    A link from http to https is one to another scheme: a mark must not turn it into a link that stays on http. If the
    page's scheme is unknown, both count as its own.

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
    if _PLAIN_NAME.match(head) and not location.target.startswith(b"//"):
        path = location.target.partition(b"?")[0]
        return path[: path.rfind(b"/") + 1] + head, fragment
    return _resolve_slowly(url, location)


def as_name(target: bytes, location: PageLocation) -> bytes:
    """
    Return *target* as the page at *location* may write it: its name, if it stands in the same folder.

    >>> here = PageLocation(b"http", b"example.org", b"/docs/start.html")
    >>> as_name(b"/docs/next.html?x=1", here), as_name(b"/docs/a/b", here), as_name(b"/docs/", here)
    (b'next.html?x=1', b'/docs/a/b', b'/docs/')
    """
    path = location.target.partition(b"?")[0]
    folder = path[: path.rfind(b"/") + 1]
    name = target[len(folder) :]
    is_here = target.startswith(folder) and not path.startswith(b"//")
    return name if is_here and _PLAIN_NAME.match(name) else target


def resolve_all(urls: Iterable[bytes], location: PageLocation) -> list[tuple[bytes, bytes] | None]:
    """Resolve each of *urls*: see `resolve`."""
    return [resolve(url, location) for url in urls]


def _resolve_slowly(url: bytes, location: PageLocation) -> tuple[bytes, bytes] | None:
    """Resolve by the WHATWG URL standard, for http and https."""
    url = url.strip(_CONTROL).translate(None, _REMOVED)
    scheme = _SCHEME.match(url)
    if scheme is not None:
        if scheme[1].lower() not in ({location.scheme} if location.scheme else _DEFAULT_PORTS):
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
        own_scheme = location.scheme or (scheme[1].lower() if scheme is not None else b"")
        if _host(host, own_scheme) != _host(location.host, own_scheme):
            return None
        path = slash + path or b"/"
    elif not path:
        if not question:
            return None
        path = location.target.partition(b"?")[0]
    elif not path.startswith(b"/"):
        here = location.target.partition(b"?")[0]
        path = here[: here.rfind(b"/") + 1] + path
    path = _without_dots(path)
    if path.startswith(b"//"):
        # Such as `/.//evil.example`: it is on this site, but its resolved form would name a host.
        return None
    target = _escape(path, _IN_PATH) + question + _escape(query, _IN_QUERY)
    return target, hash_ + _escape(fragment, _IN_FRAGMENT)


def _host(host: bytes, scheme: bytes) -> bytes:
    host = host.rpartition(b"@")[2].lower()
    return host.removesuffix(b":" + _DEFAULT_PORTS.get(scheme, b"")).removesuffix(b":")


def _without_dots(path: bytes) -> bytes:
    """
    Return a path without `.` and `..`, escaped or not, as a browser asks for it.

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

"""
Headers of an answer that carry addresses, or that decide who sees ours: Location, Refresh, Link, Set-Cookie,
Referrer-Policy, Cache-Control.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Mark = Callable[[bytes], bytes | None]
"""The marked form of a link, or None where it stays as it is."""

_PARAMETER = rb"\s*+;\s*+[^\s;,=]++(?:\s*+=\s*+(?:\"(?:[^\"\\]++|\\.)*+\"|[^;,]*+))?+"
_LINK = re.compile(rb"<([^<>]*+)>((?:" + _PARAMETER + rb")*+)")
_EACH = re.compile(_PARAMETER)
_REL = re.compile(rb"\s*+;\s*+rel\s*+=\s*+(?:\"([^\"]*+)\"|([^;,\s]*+))", re.IGNORECASE)
_REFRESH = re.compile(rb"(\s*[\d.]*\s*[;,]\s*(?:url\s*=\s*)?)([\"']?)([^\"']+)\2", re.IGNORECASE)
_COOKIE_PATH = re.compile(rb"(;\s*path\s*=)[^;]*", re.IGNORECASE)
_SHARED = re.compile(rb"\s*(?:public|s-maxage\s*=\s*\d+|private|immutable)\s*\Z", re.IGNORECASE)
_LOOSE = (b"unsafe-url", b"no-referrer-when-downgrade", b"origin-when-cross-origin")
_STRICT = (b"no-referrer", b"same-origin", b"strict-origin", b"strict-origin-when-cross-origin", b"origin")
_PAGES = frozenset({b"next", b"prev", b"previous", b"first", b"last", b"up", b"index", b"contents", b"canonical",
                    b"alternate", b"help", b"author", b"license", b"bookmark", b"shortlink"})  # fmt: skip


def marked_link(value: bytes, mark: Mark) -> bytes:
    """
    A Link header with those links marked that lead to pages.

    >>> marked_link(b'</a>; rel=next, </s.css>; rel=preload', lambda url: b"/~" + url[1:])
    b'</~a>; rel=next, </s.css>; rel=preload'
    """

    def one(match: re.Match[bytes]) -> bytes:
        relation = next(filter(None, map(_REL.match, _EACH.findall(match[2]))), None)
        names = (relation[1] or relation[2] or b"").lower().split() if relation else []
        marked = mark(match[1]) if _PAGES.intersection(names) else None
        return b"<" + (match[1] if marked is None else marked) + b">" + match[2]

    return _LINK.sub(one, value)


def marked_refresh(value: bytes, mark: Mark) -> bytes:
    """
    A Refresh header with its target marked.

    >>> marked_refresh(b"5; url=/a", lambda url: b"/~" + url[1:])
    b'5; url=/~a'
    """
    match = _REFRESH.match(value)
    marked = mark(match[3].strip()) if match else None
    return value if match is None or marked is None else match[1] + marked


def widened_cookie(value: bytes) -> bytes:
    """
    A Set-Cookie for the whole site: at a marked address no other path fits.

    >>> widened_cookie(b"a=1; Path=/wiki/; HttpOnly"), widened_cookie(b"__Host-a=1; Path=/")
    (b'a=1; Path=/; HttpOnly', b'__Host-a=1; Path=/')
    """
    name, _, attributes = value.partition(b";")
    if _COOKIE_PATH.search(b";" + attributes):
        return name + _COOKIE_PATH.sub(rb"\1/", b";" + attributes)
    return value + b"; Path=/"


def private(value: bytes) -> bytes:
    """
    A Cache-Control for one visitor alone: no cache may give this page to another.

    >>> private(b"public, max-age=60, s-maxage=600"), private(b"")
    (b'private, max-age=60', b'private')
    """
    kept = [part.strip() for part in value.split(b",") if part.strip() and not _SHARED.match(part)]
    if any(part.lower().startswith(b"no-store") for part in kept):
        return b", ".join(kept)
    return b", ".join([b"private", *kept])


def keeps_referrers(policy: bytes) -> bool:
    """Whether a Referrer-Policy keeps our addresses from other sites: the last word that is known counts."""
    words = [word.strip().lower() for word in policy.split(b",")]
    known = [word for word in words if word in _STRICT or word in _LOOSE]
    return bool(known) and known[-1] in _STRICT

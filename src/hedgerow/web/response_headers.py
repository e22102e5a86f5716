"""
Headers of a response whose body changes, or that carry addresses: ETag, Location, Refresh, Link, Set-Cookie,
Referrer-Policy, Cache-Control, Content-Security-Policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from hedgerow.markers.html.csp import allow_base, allow_style

Headers = list[tuple[bytes, bytes]]
Mark = Callable[[bytes], bytes | None]
"""Returns the marked form of a link, or None where it stays as it is."""

# Headers that describe the exact bytes of the body.
_OF_THE_BYTES = frozenset(
    {b"content-length", b"content-md5", b"digest", b"content-digest", b"repr-digest", b"accept-ranges"}
)
_OUR_ETAG = re.compile(rb'W/"([^"]*)-h([sw])"')
_PARAMETER = rb"\s*+;\s*+[^\s;,=]++(?:\s*+=\s*+(?:\"(?:[^\"\\]++|\\.)*+\"|[^;,]*+))?+"
_LINK = re.compile(rb"<([^<>]*+)>((?:" + _PARAMETER + rb")*+)")
_EACH = re.compile(_PARAMETER)
_REL = re.compile(rb"\s*+;\s*+rel\s*+=\s*+(?:\"([^\"]*+)\"|([^;,\s]*+))", re.IGNORECASE)
_REFRESH = re.compile(rb"(\s*[\d.]*\s*[;,]\s*(?:url\s*=\s*)?)([\"']?)([^\"']+)\2", re.IGNORECASE)
_COOKIE_PATH = re.compile(rb"(;\s*path\s*=)[^;]*", re.IGNORECASE)
_SHARED = re.compile(rb"\s*(?:public|s-maxage\s*=\s*\d+|private|immutable)\s*\Z", re.IGNORECASE)
_LOOSE = (b"unsafe-url", b"no-referrer-when-downgrade", b"origin-when-cross-origin")
_STRICT = (b"no-referrer", b"same-origin", b"strict-origin", b"strict-origin-when-cross-origin", b"origin")
_POLICIES = frozenset({b"content-security-policy", b"content-security-policy-report-only"})
_PAGES = frozenset({b"next", b"prev", b"previous", b"first", b"last", b"up", b"index", b"contents", b"canonical",
                    b"alternate", b"help", b"author", b"license", b"bookmark", b"shortlink"})  # fmt: skip


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes:
    """Return the value of a header, or b""."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return b""


def is_html(content_type: bytes) -> bool:
    return content_type[:9].lower() == b"text/html" and content_type[9:10] in b"; \t"


# ---- A body that is no longer the upstream's to the byte


def changed_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """
    Return the headers of a response whose body is changed.

    Its ETag becomes a weak one with a suffix, so that the upstream's own can be restored when it comes back. Ranges are
    not offered: those of the changed body are not those of the upstream's.
    """
    pairs = [(key, key.lower(), value) for key, value in headers]
    return [
        (key, _with_suffix(value) if name == b"etag" else value)
        for key, name, value in pairs
        if name not in _OF_THE_BYTES
    ]


def _with_suffix(etag: bytes) -> bytes:
    weak = etag.startswith(b"W/")
    tag = etag.removeprefix(b"W/")
    if len(tag) < 2 or not (tag.startswith(b'"') and tag.endswith(b'"')):  # noqa: PLR2004 - two quotes
        return etag
    return b"W/" + tag[:-1] + (b'-hw"' if weak else b'-hs"')


def has_our_etag(value: bytes) -> bool:
    """Return whether an If-None-Match names a body that was changed."""
    return _OUR_ETAG.search(value) is not None


def restored_etags(value: bytes) -> bytes:
    """
    Return If-None-Match or If-Match as the upstream knows it.

    >>> restored_etags(b'W/"a-hs", W/"b-hw", "c"')
    b'"a", W/"b", "c"'
    """
    return _OUR_ETAG.sub(lambda m: (b'W/"' if m[2] == b"w" else b'"') + m[1] + b'"', value)


# ---- Addresses


def marked_headers(headers: Headers, mark: Mark) -> Headers:
    """Return the headers of any response, with its addresses marked."""
    return [(name, _marked_header(name.lower(), value, mark)) for name, value in headers]


def _marked_header(name: bytes, value: bytes, mark: Mark) -> bytes:
    if name in {b"location", b"content-location"}:
        marked = mark(value)
        return value if marked is None else marked
    if name == b"refresh":
        return marked_refresh(value, mark)
    if name == b"link":
        return marked_link(value, mark)
    return widened_cookie(value) if name == b"set-cookie" else value


def marked_link(value: bytes, mark: Mark) -> bytes:
    """
    Return a Link header with those links marked that lead to pages.

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
    Return a Refresh header with its target marked.

    >>> marked_refresh(b"5; url=/a", lambda url: b"/~" + url[1:])
    b'5; url=/~a'
    """
    match = _REFRESH.match(value)
    marked = mark(match[3].strip()) if match else None
    return value if match is None or marked is None else match[1] + marked


def widened_cookie(value: bytes) -> bytes:
    """
    Return a Set-Cookie for the whole site: at a marked address no other path fits.

    >>> widened_cookie(b"a=1; Path=/wiki/; HttpOnly"), widened_cookie(b"__Host-a=1; Path=/")
    (b'a=1; Path=/; HttpOnly', b'__Host-a=1; Path=/')
    """
    name, _, attributes = value.partition(b";")
    if _COOKIE_PATH.search(b";" + attributes):
        return name + _COOKIE_PATH.sub(rb"\1/", b";" + attributes)
    return value + b"; Path=/"


# ---- A page that is rewritten for one visitor


def permitting_headers(headers: Headers, style_hash: Callable[[], bytes] | None, *, base: bool) -> Headers:
    """Return headers whose content security policies allow the style of hidden links, and our *base* element."""
    if not any(name.lower() in _POLICIES for name, _ in headers):
        return headers
    if style_hash is not None:
        allowed = style_hash()
        headers = [(n, allow_style(v, allowed) if n.lower() in _POLICIES else v) for n, v in headers]
    return [(n, allow_base(v) if n.lower() in _POLICIES else v) for n, v in headers] if base else headers


def private_headers(headers: Headers) -> Headers:
    """Return the headers of a page with marked links: no cache may share it, and no other site may see its address."""
    names = {name.lower() for name, _ in headers}
    kept = [
        (n, private(v) if n.lower() == b"cache-control" else v)
        for n, v in headers
        if n.lower() != b"referrer-policy" or keeps_referrers(v)
    ]
    if b"cache-control" not in names:
        kept.append((b"cache-control", b"private"))
    if not any(name.lower() == b"referrer-policy" for name, _ in kept):
        kept.append((b"referrer-policy", b"strict-origin-when-cross-origin"))
    return kept


def private(value: bytes) -> bytes:
    """
    Return a Cache-Control for one visitor alone.

    >>> private(b"public, max-age=60, s-maxage=600"), private(b"")
    (b'private, max-age=60', b'private')
    """
    kept = [part.strip() for part in value.split(b",") if part.strip() and not _SHARED.match(part)]
    if any(part.lower().startswith(b"no-store") for part in kept):
        return b", ".join(kept)
    return b", ".join([b"private", *kept])


def keeps_referrers(policy: bytes) -> bool:
    """Return whether a Referrer-Policy hides our addresses from other sites: the last known word counts."""
    words = [word.strip().lower() for word in policy.split(b",")]
    known = [word for word in words if word in _STRICT or word in _LOOSE]
    return bool(known) and known[-1] in _STRICT

"""
Headers of a response whose body changes, or that carry addresses: ETag, Location, Refresh, Link, Referrer-Policy,
Cache-Control, Content-Security-Policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from hedgerow.markers.html.csp import (
    allow_base,
    allow_files,
    allow_script,
    allow_style,
    demands_trusted_types,
    script_nonce,
)
from hedgerow.markers.scripts import LOADER, LOADER_HASH

Headers = list[tuple[bytes, bytes]]
Mark = Callable[[bytes], bytes | None]
"""Returns the marked form of a link, or None where it stays as it is."""

# Headers that describe the exact bytes of the body.
_OF_THE_BYTES = frozenset(
    {b"content-length", b"content-md5", b"digest", b"content-digest", b"repr-digest", b"accept-ranges"}
)
_ETAG = re.compile(rb'(W/)?"(.*)"', re.DOTALL)
_OUR_ETAG = re.compile(rb'W/"([^"]*)-h([sw])"')
_PARAMETER = rb"\s*+;\s*+[^\s;,=]++(?:\s*+=\s*+(?:\"(?:[^\"\\]++|\\.)*+\"|[^;,]*+))?+"
_LINK = re.compile(rb"<([^<>]*+)>((?:" + _PARAMETER + rb")*+)")
_EACH = re.compile(_PARAMETER)
_REL = re.compile(rb"\s*+;\s*+rel\s*+=\s*+(?:\"([^\"]*+)\"|([^;,\s]*+))", re.IGNORECASE)
_REFRESH = re.compile(rb"(\s*+[\d.]*+\s*+[;,]\s*+(?:url\s*+=\s*+)?+)([\"']?+)([^\"']++)\2", re.IGNORECASE)
_SHARED = re.compile(rb"\s*(?:public|s-maxage\s*=\s*\d+|private|immutable)\s*\Z", re.IGNORECASE)
_LOOSE = (b"unsafe-url", b"no-referrer-when-downgrade", b"origin-when-cross-origin")
_STRICT = (b"no-referrer", b"same-origin", b"strict-origin", b"strict-origin-when-cross-origin", b"origin")
POLICIES = frozenset({b"content-security-policy", b"content-security-policy-report-only"})
_PAGES = frozenset({b"next", b"prev", b"previous", b"first", b"last", b"up", b"index", b"contents", b"help", b"author",
                    b"license", b"bookmark"})  # fmt: skip
REDIRECTS = frozenset({301, 302, 303, 307, 308})


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes:
    """Return the value of a header, or b""."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return b""


def is_html(content_type: bytes) -> bool:
    return content_type[:9].lower() == b"text/html" and content_type[9:10] in b"; \t"


def is_attachment(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a client saves the response instead of showing it."""
    return header(headers, b"content-disposition").lstrip()[:10].lower() == b"attachment"


# ---- A body that differs from the upstream's


def changed_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """
    Return the headers of a response whose body is changed.

    Its ETag becomes a weak one with a suffix, so that the upstream's own can be restored when a client sends it. Ranges
    are not offered, because those of the changed body differ from the upstream's.
    """
    return [
        (name, _with_suffix(value) if name.lower() == b"etag" else value)
        for name, value in headers
        if name.lower() not in _OF_THE_BYTES
    ]


def _with_suffix(etag: bytes) -> bytes:
    match = _ETAG.fullmatch(etag)
    return etag if match is None else b'W/"%b-h%b"' % (match[2], b"w" if match[1] else b"s")


def has_our_etag(value: bytes) -> bool:
    """Return whether an If-None-Match header names a changed body."""
    return _OUR_ETAG.search(value) is not None


def restored_etags(value: bytes) -> bytes:
    """
    Return If-None-Match or If-Match with the ETags of the upstream.

    >>> restored_etags(b'W/"a-hs", W/"b-hw", "c"')
    b'"a", W/"b", "c"'
    """
    return _OUR_ETAG.sub(lambda m: (b'W/"' if m[2] == b"w" else b'"') + m[1] + b'"', value)


# ---- Addresses


def marked_headers(headers: Headers, mark: Mark, status: int) -> Headers:
    """
    Return the headers of any response, with those addresses marked that lead a person to a page.

    Others name something for a program: what was created, where a body can be found, the next page of an API.
    """
    is_page = is_html(header(headers, b"content-type"))
    return [(name, _marked_header(name.lower(), value, mark, status, is_page=is_page)) for name, value in headers]


def _marked_header(name: bytes, value: bytes, mark: Mark, status: int, *, is_page: bool) -> bytes:
    if name == b"location" and status in REDIRECTS:
        marked = mark(value)
        return value if marked is None else marked
    if name == b"refresh":
        return marked_refresh(value, mark)
    if name == b"link" and is_page:
        return marked_link(value, mark)
    return value


def marked_link(value: bytes, mark: Mark) -> bytes:
    """
    Return a Link header with its links to pages marked.

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


# ---- A page that is rewritten for one visitor


def permitting_headers(
    headers: Headers, style_hash: Callable[[], bytes] | None, *, base: bool, script_hash: bytes = b""
) -> Headers:
    """Return headers whose content security policies allow the style of hidden links, our script and *base* element."""
    if not any(name.lower() in POLICIES for name, _ in headers):
        return headers
    allowed = style_hash() if style_hash is not None else b""

    def permitting(policy: bytes) -> bytes:
        policy = allow_style(policy, allowed) if allowed else policy
        policy = allow_script(policy, script_hash) if script_hash else policy
        return allow_base(policy) if base else policy

    return [(name, permitting(value) if name.lower() in POLICIES else value) for name, value in headers]


def page_script(
    headers: Headers, host: bytes, path: bytes, script: bytes, attributes: bytes, *, at_once: bool
) -> tuple[Headers, bytes]:
    """
    Return headers whose policies allow our *script*, and the element that loads it, with *attributes*.

    *path* is the path of all our files. A policy that demands a nonce of scripts gets the one that it names. Unless the
    script is needed *at_once*, a small script in the page loads it after the page, which then does not wait for it.
    """
    policies = [value for name, value in headers if name.lower() in POLICIES]
    at_once = at_once or any(demands_trusted_types(value) for value in policies)
    if policies:
        nonce = next((found for value in policies if (found := script_nonce(value))), b"")
        attributes = (b' nonce="%b"' % nonce if nonce else b"") + attributes

        def permitting(policy: bytes) -> bytes:
            return allow_files(policy if at_once else allow_script(policy, LOADER_HASH), host + path)

        headers = [(name, permitting(value) if name.lower() in POLICIES else value) for name, value in headers]
    if at_once:
        return headers, b'<script src="%b" async%b></script>' % (script, attributes)
    return headers, b'<script type="module" async data-src="%b"%b>%b</script>' % (script, attributes, LOADER)


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
    Return a Cache-Control that allows no shared cache.

    >>> private(b"public, max-age=60, s-maxage=600"), private(b"")
    (b'private, max-age=60', b'private')
    """
    kept = [part.strip() for part in value.split(b",") if part.strip() and not _SHARED.match(part)]
    if any(part.lower().startswith(b"no-store") for part in kept):
        return b", ".join(kept)
    return b", ".join([b"private", *kept])


def keeps_referrers(policy: bytes) -> bool:
    """Return whether a Referrer-Policy hides marked addresses from other sites. The last known word counts."""
    words = [word.strip().lower() for word in policy.split(b",")]
    known = [word for word in words if word in _STRICT or word in _LOOSE]
    return bool(known) and known[-1] in _STRICT

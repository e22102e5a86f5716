"""
Cookies with a path, for a browser that sees opaque addresses.

A browser sends a cookie for `/wiki/` to `/wiki/a`, but not to `/~TOKEN`, which leads there. So it gets, besides the
cookie itself, a copy for the whole site. The copy's name contains path and name of the cookie, so two cookies with one
name on two paths stay apart. A request to an opaque address gets its cookies from the copies.

Scripts on an opaque page could not see a cookie of this path. A cookie that scripts may read is therefore also set for
the whole site under its own name, unless the site has such a cookie already.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from email.utils import mktime_tz, parsedate_tz
from typing import NamedTuple

COPY = b"hedgerow-path."
"""The name of a copy starts with this."""

_MAX_PATH = 300
# The first byte of a copy's value.
_FOR_SITE, _FOR_SCRIPTS = b"h", b"s"
_DIGITS = re.compile(rb"-?\d+\Z")


class _SetCookie(NamedTuple):
    """A Set-Cookie header. *attributes* are those other than the path, as they are written."""

    name: bytes
    value: bytes
    path: bytes
    attributes: tuple[bytes, ...]
    is_script_visible: bool
    is_expired: bool

    def written(self, name: bytes, path: bytes, flag: bytes = b"") -> bytes:
        return b";".join([b"%b=%b%b" % (name, flag, self.value), b" Path=" + path, *self.attributes])


class _Copy(NamedTuple):
    """A copy of a cookie; *for_scripts* if the cookie was also set for the whole site under its own name."""

    path: bytes
    name: bytes
    value: bytes
    for_scripts: bool


def default_path(path: bytes) -> bytes:
    """
    Return the path of a cookie without one, as browsers do (RFC 6265, 5.1.4).

    >>> default_path(b"/wiki/a/b"), default_path(b"/a"), default_path(b"/wiki/")
    (b'/wiki/a', b'/', b'/wiki')
    """
    return path[: path.rindex(b"/")] or b"/" if path.startswith(b"/") else b"/"


def is_within(path: bytes, cookie_path: bytes) -> bool:
    """
    Return whether a cookie for *cookie_path* is sent to *path*.

    >>> is_within(b"/wiki/a", b"/wiki"), is_within(b"/wikis", b"/wiki"), is_within(b"/wiki", b"/wiki/")
    (True, False, False)
    """
    if not path.startswith(cookie_path):
        return False
    return cookie_path.endswith(b"/") or path[len(cookie_path) :][:1] in b"/"


def spread_cookie(value: bytes, path: bytes, cookies: bytes, at: float, *, hidden: bool) -> list[bytes]:
    """
    Return the Set-Cookie headers for a browser in place of *value*, from a response of *path* at the time *at*.

    *cookies* is the Cookie header of the request. It was *hidden* if the browser knows another path than the site.
    """
    cookie = _parse(value, path, at)
    if cookie is None or cookie.path == b"/" or len(cookie.path) > _MAX_PATH:
        return [value]
    own, name = cookie.written(cookie.name, cookie.path), _copy_name(cookie)
    if _is_set_for_scripts(cookie, cookies, hidden=hidden):
        return [own, cookie.written(name, b"/", _FOR_SCRIPTS), cookie.written(cookie.name, b"/")]
    return [own, cookie.written(name, b"/", _FOR_SITE)]


def restored_cookies(cookies: bytes, path: bytes, *, hidden: bool) -> bytes:
    """
    Return the Cookie header as the site would get it for *path* without opaque addresses.

    >>> copy = COPY + b"L3dpa2k.sid=h1"
    >>> restored_cookies(b"a=b; " + copy, b"/wiki/x", hidden=True)
    b'sid=1; a=b'
    >>> restored_cookies(b"a=b; " + copy, b"/shop", hidden=True)
    b'a=b'
    """
    if COPY not in cookies:
        return cookies
    copies, others = _split(cookies)
    by_path = sorted(copies, key=lambda copy: len(copy.path))
    for_scripts = {(copy.name, copy.value): copy for copy in by_path if copy.for_scripts}
    matching = sorted((c for c in copies if is_within(path, c.path)), key=lambda copy: -len(copy.path))
    restored = [b"%b=%b" % (copy.name, copy.value) for copy in matching] if hidden else []
    for pair in others:
        name, _, value = pair.partition(b"=")
        copy = for_scripts.get((name.strip(), value.strip()))
        # What is the same as such a copy is that cookie, or was set for scripts.
        if copy is None or (copy in matching and pair not in restored):
            restored.append(pair)
    return b"; ".join(restored)


def _parse(header: bytes, path: bytes, at: float) -> _SetCookie | None:
    pair, *attributes = header.split(b";")
    name, equals, value = pair.partition(b"=")
    if not equals or not name.strip():
        return None
    kept, cookie_path, script_visible, expired, has_age = [], default_path(path), True, False, False
    for attribute in attributes:
        key, _, word = (part.strip() for part in attribute.partition(b"="))
        key = key.lower()
        if key == b"path":
            cookie_path = word if word.startswith(b"/") else default_path(path)
            continue
        kept.append(attribute)
        if key == b"httponly":
            script_visible = False
        elif key == b"max-age" and _DIGITS.match(word):
            # It goes before Expires.
            expired, has_age = int(word[:12]) <= 0, True
        elif key == b"expires" and not has_age:
            expired = _is_past(word.decode("latin-1"), at)
    return _SetCookie(name.strip(), value.strip(), cookie_path, tuple(kept), script_visible, expired)


def _is_past(date: str, at: float) -> bool:
    """
    Return whether the date of a cookie is before *at*. One that cannot be read never is.

    >>> [_is_past(date, 1e9) for date in ("Thu, 01-Jan-1970 00:00:00 GMT", "Thu, 01 Jan 2099 00:00:00 GMT", "x")]
    [True, False, False]
    """
    parsed = parsedate_tz(date)
    try:
        return parsed is not None and mktime_tz(parsed) <= at
    except (ValueError, OverflowError):
        return False


def _copy_name(cookie: _SetCookie) -> bytes:
    return b"%b%b.%b" % (COPY, urlsafe_b64encode(cookie.path).rstrip(b"="), cookie.name)


def _split(cookies: bytes) -> tuple[list[_Copy], list[bytes]]:
    """Return the copies in a Cookie header, and all other cookies."""
    copies, others = [], []
    for pair in _pairs(cookies):
        if not pair.startswith(COPY):
            others.append(pair)
            continue
        encoded, _, rest = pair[len(COPY) :].partition(b".")
        name, _, value = rest.partition(b"=")
        try:
            path = urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4))
        except ValueError:
            continue
        if name and value[:1] in {_FOR_SITE, _FOR_SCRIPTS}:
            copies.append(_Copy(path, name, value[1:], value.startswith(_FOR_SCRIPTS)))
    return copies, others


def _pairs(cookies: bytes) -> Iterator[bytes]:
    return (pair.strip() for pair in cookies.split(b";") if pair.strip())


def _is_set_for_scripts(cookie: _SetCookie, cookies: bytes, *, hidden: bool) -> bool:
    """
    Return whether a cookie is also set, or deleted, for the whole site under its own name.

    A cookie of the site itself that has this name is never changed. It is told from ours by its value: ours has that of
    a copy. Before there were copies, cookies were widened; such a one is deleted when the site deletes its own.
    """
    copies, others = _split(cookies)
    values = [value.strip() for name, _, value in (pair.partition(b"=") for pair in others) if name == cookie.name]
    same_name = [copy for copy in copies if copy.name == cookie.name]
    if not cookie.is_expired:
        ours = {copy.value for copy in same_name if copy.for_scripts}
        return cookie.is_script_visible and ours.issuperset(values)
    if not same_name:
        return hidden and bool(values)
    here = [copy.value for copy in same_name if copy.for_scripts and copy.path == cookie.path]
    # To its own path the browser also sends the cookie itself.
    return any(values.count(value) > (0 if hidden else 1) for value in here)

"""The account of a request, from a cookie, a header of a trusted proxy, or a callable of the site."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b

from hedgerow.challenge.clearance import own_cookie
from hedgerow.core.state import ACCOUNT

Headers = Iterable[tuple[bytes, bytes]]
AccountOf = Callable[[Mapping[str, str]], str | None]
"""Receives the request's headers (lower-case names) and returns the account's name or None."""

_MAX_NAME_BYTES = 100


def cookie_value(header: bytes, name: bytes) -> bytes:
    """
    Return the value of cookie *name* in a Cookie header, or b"".

    >>> cookie_value(b"a=1; sid=x=y; b", b"sid")
    b'x=y'
    """
    if name not in header:
        return b""
    for pair in header.split(b";"):
        key, _, value = pair.partition(b"=")
        if key.strip() == name:
            return value.strip().strip(b'"')
    return b""


def own_cookie_value(header: bytes, name: bytes, scheme: str) -> bytes:
    """
    Return the value of one of Hedgerow's cookies. Over https only the name counts that no other host can set.

    >>> own_cookie_value(b"hedgerow=x", b"hedgerow", "http"), own_cookie_value(b"hedgerow=x", b"hedgerow", "https")
    (b'x', b'')
    """
    found = cookie_value(header, own_cookie(name, secure=True))
    return found if found or scheme in {"https", "wss"} else cookie_value(header, name)


def visitor_of(account: str, prefix: str) -> str:
    """Return the key of a visitor: the account if known, else the address prefix."""
    return ACCOUNT + account if account else prefix


def _storable_name(text: str) -> str:
    """
    Return an account's name in a form that every store accepts.

    A long name becomes its digest, so two names with the same beginning stay different. A lone surrogate, which the
    site's callable may return, is replaced: no store accepts it.
    """
    name = text.encode("utf-8", "replace")
    return name.decode() if len(name) <= _MAX_NAME_BYTES else blake2b(name, digest_size=16).hexdigest()


class Accounts:
    """
    Finds the account of a request. The first source that gives a name wins: *callable_*, *header*, *cookie*.

    *callable_* is the site's own code (middleware). *header* counts only from a trusted proxy. *cookie* names the
    session cookie; its value is a secret, so the account's name is a digest of it.
    """

    def __init__(self, *, cookie: str = "", header: str = "", callable_: AccountOf | None = None) -> None:
        self._cookie = cookie.encode()
        self._header = header.lower().encode()
        self._callable = callable_

    def __bool__(self) -> bool:
        return bool(self._cookie or self._header or self._callable)

    def account(self, headers: Headers, *, trusted: bool) -> str:
        return self.proven(headers, trusted=trusted) or self.claimed(headers)

    def proven(self, headers: Headers, *, trusted: bool) -> str:
        """Return the account that the site itself names, or ""."""
        if self._callable is not None:
            name = self._callable({k.decode("latin-1").lower(): v.decode("latin-1") for k, v in headers})
            if name:
                return _storable_name(str(name))
        if self._header and trusted:
            for key, value in headers:
                if key == self._header and value.strip():
                    return _storable_name(value.strip().decode("utf-8", "replace"))
        return ""

    def claimed(self, headers: Headers) -> str:
        """Return the account of the session cookie, or "". Anybody can invent such a cookie."""
        if self._cookie:
            for key, value in headers:
                if key == b"cookie":
                    secret = cookie_value(value, self._cookie)
                    if secret:
                        return blake2b(secret, digest_size=8).hexdigest()
        return ""

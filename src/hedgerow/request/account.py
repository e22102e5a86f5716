"""Accounts: which account a request belongs to, from a cookie, from a header of a trusted proxy, or from a callable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b

from hedgerow.core.state import ACCOUNT

Headers = Iterable[tuple[bytes, bytes]]
AccountOf = Callable[[Mapping[str, str]], str | None]
"""Gets the request's headers (lower-case names) and returns the account's name, or None."""

_LONGEST_NAME = 100


def cookie_value(header: bytes, name: bytes) -> bytes:
    """
    The value of cookie *name* in a Cookie header, or b"".

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


def visitor_of(account: str, prefix: str) -> str:
    """Who is asking: the account where one is known, else the address prefix."""
    return ACCOUNT + account if account else prefix


def _name(text: str) -> str:
    """
    An account's name as stores can keep it: a long one is named by its digest, so two that begin alike stay two.

    Half a surrogate pair, which the site's own code may give us, is no character: no store takes it.
    """
    name = text.encode("utf-8", "replace")
    return name.decode() if len(name) <= _LONGEST_NAME else blake2b(name, digest_size=16).hexdigest()


class Accounts:
    """
    Finds the account of a request.

    *cookie* names a session cookie: its value is a secret, so the account is named by a digest of it. *header* is
    believed only from a trusted proxy. *callable_* is the site's own code (middleware). The first that answers wins.
    """

    def __init__(self, *, cookie: str = "", header: str = "", callable_: AccountOf | None = None) -> None:
        self._cookie = cookie.encode()
        self._header = header.lower().encode()
        self._callable = callable_

    def __bool__(self) -> bool:
        return bool(self._cookie or self._header or self._callable)

    def account(self, headers: Headers, *, trusted: bool) -> str:
        """The account's name, or "" where none is known."""
        if self._callable is not None:
            found = self._callable({k.decode("latin-1").lower(): v.decode("latin-1") for k, v in headers})
            if found:
                return _name(str(found))
        if self._header and trusted:
            for key, value in headers:
                if key == self._header and value.strip():
                    return _name(value.strip().decode("utf-8", "replace"))
        if self._cookie:
            for key, value in headers:
                if key == b"cookie":
                    secret = cookie_value(value, self._cookie)
                    if secret:
                        return blake2b(secret, digest_size=8).hexdigest()
        return ""

"""
Who may use the admin listener: one rule for everything on it but its health, which says nothing about visitors.

Programs send the token of the settings as `Authorization: Bearer TOKEN`. In a browser an operator enters it once, and
gets a cookie for some hours. Without a token in the settings only this machine may ask. Whoever asks must do so by a
name of the listener: a page of another site in an operator's browser can neither reach it by a name of its own (DNS
rebinding) nor post to it.
"""

from __future__ import annotations

import hmac
import html
import re
import secrets
import time
from importlib.resources import files
from urllib.parse import parse_qs

from hedgerow.core.address import is_loopback
from hedgerow.settings.checks import socket_path, split_listen
from hedgerow.settings.tables import AdminSettings
from hedgerow.web import health
from hedgerow.web.asgi_types import Message, Receive, Scope
from hedgerow.web.response_headers import header

COOKIE = b"hedgerow-admin"
_SECONDS = 12 * 3600
_MAX_POST = 10_000
_PORT = re.compile(r":\d+\Z", re.ASCII)
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_SAFE_METHODS = frozenset({"GET", "HEAD"})


class Refused(Exception):  # noqa: N818 - the client's mistake, not a fault of ours
    """The request is answered with *status* and *text*; in a browser, with *login* also by a form for the token."""

    def __init__(self, status: int, text: str, *, login: bool = False) -> None:
        super().__init__(text)
        self.status, self.text, self.login = status, text, login


class Access:
    """Checks requests to the admin listener. Cookies of another process, or of another token, are not valid."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def check(self, scope: Scope, own: AdminSettings) -> None:
        """Raise `Refused` if the request must not be answered."""
        if not _is_addressed(scope, own.listen):
            raise Refused(421, "Speak to the admin listener by its own address.")
        if scope["method"] not in _SAFE_METHODS and _is_cross_site(scope):
            raise Refused(403, "Not from another site.")
        if scope["path"] in health.PATHS and scope["method"] in _SAFE_METHODS:
            return
        if not own.token:
            if not _is_local(scope):
                raise Refused(403, "Without a token only this machine may ask. Set token in [admin].")
        elif not (self._has_token(scope, own.token) or self._has_cookie(scope, own.token)):
            raise Refused(401, "Send the token of the settings: Authorization: Bearer TOKEN.", login=True)

    async def log_in(self, scope: Scope, receive: Receive, own: AdminSettings) -> bytes:
        """Return the cookie for the token in a form; raise `Refused` if it is not the right one."""
        if not _is_addressed(scope, own.listen):
            raise Refused(421, "Speak to the admin listener by its own address.")
        if _is_cross_site(scope):
            raise Refused(403, "Not from another site.")
        token = (await read_form(receive)).get("token", [""])[0].strip()
        if not own.token or not is_same(token.encode(), own.token.encode()):
            raise Refused(401, "This is not the token of the settings.", login=True)
        until = b"%d" % (time.time() + _SECONDS)
        value = until + b"." + self._signature(until, own.token)
        return b"%b=%b; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict" % (COOKIE, value, _SECONDS)

    @staticmethod
    def log_out() -> bytes:
        """Return the cookie that ends a session."""
        return b"%b=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict" % COOKIE

    @staticmethod
    def _has_token(scope: Scope, token: str) -> bool:
        scheme, _, shown = header(scope["headers"], b"authorization").partition(b" ")
        return scheme.lower() == b"bearer" and is_same(shown.strip(), token.encode())

    def _has_cookie(self, scope: Scope, token: str) -> bool:
        for pair in header(scope["headers"], b"cookie").split(b";"):
            name, _, value = pair.strip().partition(b"=")
            until, _, signature = value.partition(b".")
            if name == COOKIE and is_same(signature, self._signature(until, token)):
                return until.isdigit() and time.time() < int(until)
        return False

    def _signature(self, until: bytes, token: str) -> bytes:
        return hmac.digest(self._secret, until + b" " + token.encode(), "sha256").hex().encode()


def is_same(one: bytes, other: bytes) -> bool:
    """Return whether two secrets are equal, in a time that tells nothing about them."""
    return hmac.compare_digest(one, other)


async def read_form(receive: Receive) -> dict[str, list[str]]:
    """Return the fields of a small form."""
    body = b""
    message: Message = {"more_body": True}
    while message.get("more_body") and len(body) < _MAX_POST:
        message = await receive()
        body += message.get("body", b"")
    return parse_qs(body.decode("latin-1"), encoding="utf-8", errors="replace")


def login_page(text: str) -> bytes:
    """Return the page in which an operator enters the token."""
    template = files("hedgerow.data").joinpath("login.html").read_text("utf-8")
    return template.replace("{text}", html.escape(text)).encode()


def _is_addressed(scope: Scope, listen: str) -> bool:
    """Return whether the request names the listener by its address, its name in the settings, or as local."""
    host = _PORT.sub("", header(scope["headers"], b"host").decode("latin-1").lower())
    names = set(_LOCAL_NAMES)
    if listen and not socket_path(listen):
        names.add(split_listen(listen)[0].lower())
    if (server := scope.get("server")) and not socket_path(listen):
        names.add(server[0])
    return host != "" and host.removeprefix("[").removesuffix("]") in names


def _is_cross_site(scope: Scope) -> bool:
    """Return whether a page of another site sends this request."""
    origin, host = header(scope["headers"], b"origin"), header(scope["headers"], b"host")
    if origin and origin.partition(b"://")[2] != host:
        return True
    return header(scope["headers"], b"sec-fetch-site") not in {b"", b"same-origin", b"none"}


def _is_local(scope: Scope) -> bool:
    """Return whether the peer is on this machine. The peer of a Unix socket has no address."""
    client = scope.get("client")
    return not client or not client[0] or is_loopback(client[0])

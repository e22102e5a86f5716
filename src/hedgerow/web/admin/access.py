"""
Who may use the admin listener: one rule for everything on it but its health, which says nothing about visitors.

Programs send a token of the settings as `Authorization: Bearer TOKEN`. A command adds the user who runs it as
`X-Hedgerow-User`, for the audit log: whoever may act as a program is believed that. In a browser an operator enters the
token once, or a name and a password, and gets a cookie for some hours. Without any of them in the settings only this
machine may ask.
Whoever asks must do so by a name of the listener: a page of another site in an operator's browser can neither reach it
by a name of its own (DNS rebinding) nor post to it.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from urllib.parse import parse_qs, quote

import msgspec

from hedgerow.core.address import is_loopback
from hedgerow.lists.model import clean_text
from hedgerow.settings.checks import socket_path, split_listen
from hedgerow.settings.tables import AdminRole, AdminSettings
from hedgerow.web import health
from hedgerow.web.admin.login_limit import LoginLimit
from hedgerow.web.admin.passwords import is_password, nobody
from hedgerow.web.admin.sessions import Session, Sessions
from hedgerow.web.asgi_types import Message, Receive, Scope
from hedgerow.web.response_headers import header

_MAX_POST = 10_000
_PORT = re.compile(r":\d+\Z", re.ASCII)
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_SAFE_METHODS = frozenset({"GET", "HEAD"})
LOG_IN = "Log in, or send the token: Authorization: Bearer TOKEN."
"""What a program is told; a person gets a form."""
_PAGE = re.compile(r"(?:/sites/[\w.-]+)?/dashboard/\w")
_SAFE = "/?&=%:,.+-_~"
USER_HEADER = b"x-hedgerow-user"
_MAX_USER = 100
_OPEN = "/static/"
"""Style and scripts of the dashboard, which the login form needs too."""
FORM_TYPES = frozenset({b"", b"application/x-www-form-urlencoded", b"multipart/form-data", b"text/plain"})
"""What a form of any site can send."""


class Refused(Exception):  # noqa: N818 - the client's mistake, not a fault of ours
    """The request is answered with *status* and *text*; in a browser, with *login* also by a form to log in."""

    def __init__(self, status: int, text: str, *, login: bool = False, retry_after: int = 0) -> None:
        super().__init__(text)
        self.status, self.text, self.login, self.retry_after = status, text, login, retry_after


class User(msgspec.Struct, frozen=True):
    """
    Who asks. *name* is for the audit log. *form_token* must come back with each form.

    *is_program* is true for a request with a token in its header, which no page of another site can send.
    """

    name: str
    role: AdminRole
    address: str
    form_token: str
    session: Session | None = None
    is_program: bool = False

    @property
    def may_change(self) -> bool:
        return self.role == "operator"


class Access:
    """Checks requests to the admin listener. Sessions of another process are not valid."""

    def __init__(self) -> None:
        self._sessions = Sessions()
        self._limit = LoginLimit()
        # Each check of a password takes 19 MB and a core.
        self._checking = asyncio.Semaphore(1)

    def check(self, scope: Scope, own: AdminSettings) -> User | None:
        """Return who asks, None for what everybody may see. Raise `Refused` if the request must not be answered."""
        self._check_origin(scope, own)
        is_safe = scope["method"] in _SAFE_METHODS
        if is_safe and (scope["path"] in health.PATHS or scope["path"].startswith(_OPEN)):
            return None
        user = self._user(scope, own)
        if user is None:
            if not own.needs_login:
                raise Refused(403, "Without a token only this machine may ask. Set token or users in [admin].")
            raise Refused(401, LOG_IN, login=True)
        if not is_safe and scope["path"] != "/logout" and not user.may_change:
            raise Refused(403, "A viewer cannot change anything.")
        return user

    def _user(self, scope: Scope, own: AdminSettings) -> User | None:
        client = scope.get("client")
        address = client[0] if client and client[0] else "local"
        if not own.needs_login:
            if not _is_local(scope):
                return None
            return User(_named("local", scope), "operator", address, self._sessions.form_token(None))
        scheme, _, shown = header(scope["headers"], b"authorization").partition(b" ")
        if scheme.lower() == b"bearer":
            roles: tuple[tuple[str, AdminRole], ...] = ((own.token, "operator"), (own.viewer_token, "viewer"))
            for token, role in roles:
                if token and is_same(shown.strip(), token.encode()):
                    return User(_named(f"token ({role})", scope), role, address, "", is_program=True)
        session = self._sessions.find(header(scope["headers"], b"cookie"), own)
        if session is None:
            return None
        name = session.name or f"token ({session.role})"
        return User(name, session.role, address, self._sessions.form_token(session), session)

    async def log_in(self, scope: Scope, receive: Receive, own: AdminSettings) -> tuple[bytes, bytes]:
        """
        Return the cookie for the user or token in a form, and the page that was asked for. Raise `Refused` if user or
        token is not the right one.
        """
        self._check_origin(scope, own)
        client, now = (scope.get("client") or ("",))[0] or "local", time.time()
        if wait := self._limit.wait(client, now):
            minutes = int(wait // 60) + 1
            text = f"Too many wrong logins. Try again in {minutes} minute{'s' if minutes > 1 else ''}."
            raise Refused(429, text, login=True, retry_after=int(wait) + 1)
        # Counted before it is checked, so that attempts at the same time count as well.
        self._limit.fail(client, now)
        form = await read_form(receive)
        name = form.get("name", [""])[0].strip()
        shown = form.get("password" if name else "token", form.get("password", [""]))[0]
        cookie = await self._new_session(name, shown, own)
        if cookie is None:
            raise Refused(401, "This is not a user with this password, nor a token of the settings.", login=True)
        self._limit.succeed(client)
        return cookie, page_of(form.get("back", [""])[0])

    async def _new_session(self, name: str, shown: str, own: AdminSettings) -> bytes | None:
        if not name:
            roles: tuple[tuple[str, AdminRole], ...] = ((own.token, "operator"), (own.viewer_token, "viewer"))
            for token, role in roles:
                if token and is_same(shown.strip().encode("utf-8", "replace"), token.encode()):
                    return self._sessions.start("", role, token, own)
            return None
        user = next((one for one in own.users if one.name == name), None)
        async with self._checking:
            stored = user.password if user is not None else nobody()
            is_right = await asyncio.to_thread(is_password, shown, stored)
        return self._sessions.start(user.name, user.role, user.password, own) if user and is_right else None

    def log_out(self, user: User) -> bytes:
        """Return the cookie that ends a session."""
        return self._sessions.end(user.session)

    @staticmethod
    def _check_origin(scope: Scope, own: AdminSettings) -> None:
        if not _is_addressed(scope, own.listen):
            raise Refused(421, "Speak to the admin listener by its own address.")
        if scope["method"] not in _SAFE_METHODS and _is_cross_site(scope):
            raise Refused(403, "Not from another site.")


def _named(name: str, scope: Scope) -> str:
    """Return the *name* for the audit log, after that of the user who runs a command."""
    user = clean_text(header(scope["headers"], USER_HEADER).decode("utf-8", "replace"))[:_MAX_USER]
    return f"{user}, {name}" if user else name


def page_of(path: str) -> bytes:
    """
    Return the page of the dashboard at *path*, or the first one if it is none.

    >>> page_of("/dashboard/visitor?visitor=192.0.2.1"), page_of("//evil.example/dashboard/"), page_of("")
    (b'/dashboard/visitor?visitor=192.0.2.1', b'/', b'/')
    """
    return quote(path, safe=_SAFE).encode() if _PAGE.match(path) else b"/"


def check_form(user: User, scope: Scope, token: str) -> None:
    """Raise `Refused` unless a change comes from a page of this listener, or from a program."""
    if user.is_program or (token and is_same(token.encode(), user.form_token.encode())):
        return
    kind = header(scope["headers"], b"content-type").partition(b";")[0].strip().lower()
    # A program on this machine, which needs no login, has no form. Forms of other sites cannot send other types.
    if user.session is None and kind not in FORM_TYPES:
        return
    raise Refused(403, "This form is too old, or not from here. Load the page again.")


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

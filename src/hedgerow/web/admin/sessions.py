"""
Sessions of operators in browsers: a signed cookie that expires, and the token that each form must send back.

Each login makes a new session, so a cookie that somebody planted before is worth nothing afterwards. A logout ends the
session also for those who have copied the cookie. Sessions end with the process, and when the settings no longer
have the user, the password or the token by which they began.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import time

import msgspec

from hedgerow.settings.tables import AdminRole, AdminSettings

COOKIE = b"hedgerow-admin"
_HOUR = 3600


class Session(msgspec.Struct, frozen=True, array_like=True):
    """Who has logged in, until when. *proof* is a digest of the credential, which changes with it."""

    id: str
    name: str
    role: AdminRole
    until: float
    proof: str


class Sessions:
    """Makes and checks the cookies of one process."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._ended: dict[str, float] = {}

    def start(self, name: str, role: AdminRole, credential: str, own: AdminSettings) -> bytes:
        """Return the cookie of a new session."""
        seconds = int(own.session_hours * _HOUR)
        session = Session(secrets.token_urlsafe(16), name, role, time.time() + seconds, self._proof(credential))
        body = base64.urlsafe_b64encode(msgspec.json.encode(session)).rstrip(b"=")
        return b"%b=%b.%b; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict" % (COOKIE, body, self._sign(body), seconds)

    def find(self, cookies: bytes, own: AdminSettings) -> Session | None:
        """Return the session of a Cookie header, if it is valid."""
        for pair in cookies.split(b";"):
            name, _, value = pair.strip().partition(b"=")
            body, _, signature = value.partition(b".")
            if name == COOKIE and hmac.compare_digest(signature, self._sign(body)):
                session = msgspec.json.decode(base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4)), type=Session)
                if time.time() < session.until and session.id not in self._ended and self._is_current(session, own):
                    return session
        return None

    def end(self, session: Session | None) -> bytes:
        """End a session, and return the cookie that removes its own."""
        now = time.time()
        self._ended = {one: until for one, until in self._ended.items() if until > now}
        if session is not None:
            self._ended[session.id] = session.until
        return b"%b=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict" % COOKIE

    def form_token(self, session: Session | None) -> str:
        """Return what forms must send back, and pages of other sites cannot know."""
        name = b"form " + (session.id.encode() if session is not None else b"")
        return hmac.digest(self._secret, name, "sha256").hex()

    def _is_current(self, session: Session, own: AdminSettings) -> bool:
        """Return whether the settings still have the credential of the session, with the same role."""
        credentials = {own.token: "operator", own.viewer_token: "viewer"} if not session.name else {}
        credentials |= {user.password: user.role for user in own.users if user.name == session.name}
        return any(
            role == session.role and hmac.compare_digest(self._proof(one), session.proof)
            for one, role in credentials.items()
            if one
        )

    def _proof(self, credential: str) -> str:
        return hmac.digest(self._secret, b"credential " + credential.encode(), "sha256").hex()

    def _sign(self, body: bytes) -> bytes:
        return hmac.digest(self._secret, b"session " + body, "sha256").hex().encode()

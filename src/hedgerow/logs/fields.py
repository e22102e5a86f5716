"""
Fields: what a log says of a visit under names of its own, and how that becomes a `Visit`.

Every format that is not the plain one of nginx and Apache comes through here: a line is first a dictionary of texts
under our names (`NAMES`), whatever the server calls them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

from hedgerow.core.address import prefix_of
from hedgerow.core.request_kind import kind_of, origin_of_referrer
from hedgerow.core.visit import Kind, Origin, Visit
from hedgerow.logs.formats import OLD_HTTP, address_of, seconds_of, split_request
from hedgerow.markers.token import visitor_digest
from hedgerow.request.account import cookie_value, visitor_of
from hedgerow.request.bot_verifier import BotMatch, BotVerifier

NAMES = {
    "time": ("time_local", "time_iso8601", "@timestamp", "timestamp", "ts", "StartUTC", "time", "msec", "datetime"),
    "address": (
        "remote_addr", "request.client_ip", "request.remote_ip", "ClientHost", "client_ip", "clientip", "remote_ip",
        "c-ip", "ip", "address", "request.remote_addr", "ClientAddr",
    ),
    "user": ("remote_user", "user_id", "ClientUsername", "cs-username", "user", "account"),
    "request": ("request", "request_line"),
    "method": ("request_method", "request.method", "RequestMethod", "method", "cs-method"),
    "target": ("request_uri", "request.uri", "RequestPath", "uri", "url", "target", "path", "cs-uri-stem"),
    "query": ("args", "query_string", "cs-uri-query"),
    "host": ("host", "http_host", "request.host", "RequestHost", "server_name", "vhost", "x-host-header", "cs-host"),
    "status": ("status", "DownstreamStatus", "sc-status", "status_code", "response_code", "OriginStatus"),
    "referrer": ("http_referer", "request.headers.Referer", "request_Referer", "referer", "referrer", "cs(Referer)"),
    "version": (
        "server_protocol", "request.proto", "RequestProtocol", "protocol", "http_version", "httpversion", "cs-version",
        "cs-protocol-version",
    ),
    "agent": (
        "http_user_agent", "request.headers.User-Agent", "request_User-Agent", "user_agent", "useragent", "agent",
        "cs(User-Agent)",
    ),
}  # fmt: skip
"""Our names of fields, and what servers call them, the likeliest first. A dot leads into an object."""

SESSION_COOKIES = (
    "PHPSESSID", "JSESSIONID", "sessionid", "ASP.NET_SessionId", "connect.sid", "laravel_session", "_session_id",
    "session", "session_id", "sid",
)  # fmt: skip
"""What sites call the cookie that names a session, the likeliest first."""

SESSIONS = {
    "session": ("session", "session_id", "sessionid", "sid", *(f"cookie_{name}" for name in SESSION_COOKIES)),
    "cookies": (
        "http_cookie", "request.headers.Cookie", "request_Cookie", "cookie", "cookies", "cs(Cookie)",
    ),
}  # fmt: skip
"""The same of fields that are asked for only where sessions are told apart; *cookies* is a whole header."""

SESSION = "session:"
"""How the name of a source begins that is a session."""

_NUMBER = re.compile(r"-?\d{1,16}(?:\.\d{1,12})?\Z", re.ASCII)
_COMMON_TIME = re.compile(r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?:\.\d{1,9})? [+-]\d{4}\Z", re.ASCII)
_MILLISECONDS_FROM = 1e11
_MICROSECONDS_FROM = 1e14
_NOBODY = BotMatch("")
_MOST_SECONDS = 1e13
_UNAUTHORIZED, _PARTIAL_CONTENT = 401, 206
_LONGEST_SESSION, _SHOWN_OF_A_SESSION = 12, 8


@lru_cache(maxsize=1 << 12)
def moment(text: str) -> float | None:
    """
    The seconds since 1970 of a time in any of the usual forms, or None.

    Without a zone it is UTC. A bare number counts seconds, or milli- or microseconds where it would be too far off.

    >>> moment("2000-10-10T20:55:36Z"), moment("10/Oct/2000:13:55:36 -0700"), moment("971211336123")
    (971211336.0, 971211336.0, 971211336.123)
    """
    if _NUMBER.match(text):
        number = float(text)
        size = abs(number)
        return number / (1e6 if size >= _MICROSECONDS_FROM else 1e3 if size >= _MILLISECONDS_FROM else 1)
    if _COMMON_TIME.match(text):
        return seconds_of(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    at = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    return at if abs(at) < _MOST_SECONDS else None


class FieldNames:
    """
    Finds fields in an object by their names. *given* says what some are called, before all that is usual; *sessions*
    that those of sessions are looked for, too.
    """

    def __init__(self, given: Mapping[str, str] | None = None, *, sessions: bool = False) -> None:
        self._names = {
            name: tuple(
                (one,) if one.startswith("cookie_") or "." not in one else tuple(one.split("."))
                for one in ((given or {}).get(name, ""), *usual)
            )
            for name, usual in (NAMES | SESSIONS if sessions else NAMES).items()
        }
        for name, ways in self._names.items():
            self._names[name] = tuple(way for way in ways if way != ("",))

    def texts(self, data: Mapping[str, Any]) -> dict[str, str]:
        """The fields of an object, as texts under our names."""
        found = {}
        for name, ways in self._names.items():
            for way in ways:
                value = _follow(data, way)
                if value is not None:
                    found[name] = value
                    break
        return found


def _follow(data: Any, way: tuple[str, ...]) -> str | None:
    for step in way:
        if not isinstance(data, Mapping):
            return None
        data = data.get(step)
    if isinstance(data, list) and data:
        data = data[0]
    if isinstance(data, bool) or data is None or isinstance(data, dict | list):
        return None
    if isinstance(data, datetime):
        return data.isoformat()
    return data if isinstance(data, str) else repr(data)


class FieldParser:
    """
    Lines of a format that *extract* takes apart into texts under our names; None where it cannot.

    *accounts* and *bot_verifier*: see `LineParser`. *sessions* are the names of cookies that name a session. The
    visitor is the session, if the line tells of one and *by_session* says so; with *cookies* the visit is linked to it.
    """

    def __init__(
        self,
        extract: Callable[[bytes], dict[str, str] | None],
        *,
        accounts: bool = False,
        sessions: Sequence[str] = (),
        by_session: bool = True,
        cookies: bool = False,
        bot_verifier: BotVerifier | None = None,
    ) -> None:
        self._extract = extract
        self._by_session = by_session
        self._cookies = cookies
        self._accounts = accounts
        self._sessions = tuple(name.encode("latin-1", "replace") for name in sessions)
        self._welcome = bot_verifier

    def __call__(self, line: bytes) -> Visit | None:
        found = self._extract(line)
        return self.visit(found) if found is not None else None

    def visit(self, found: Mapping[str, str]) -> Visit | None:
        """The visit that these fields tell of; without a time and a client (or a session) it is none."""
        at = moment(found.get("time", ""))
        client = found.get("address", "").partition(",")[0].strip() or "-"
        told = self._session(found) if self._sessions else ""
        session = told if self._by_session else ""
        if at is None or (client == "-" and not session):
            return None
        address = address_of(client)
        prefix = prefix_of(address)
        method, target, version = _asked(found)
        host = _text(found, "host").lower().removesuffix(":443").removesuffix(":80")
        if "://" in target[:8]:
            place = urlsplit(target) if "[" not in target else None
            if place is not None:
                host = host or place.netloc.lower().removesuffix(":443").removesuffix(":80")
                target = "/" + target.partition("://")[2].partition("/")[2]
        status = found.get("status", "")
        code = int(status) if status.isascii() and status.isdigit() and len(status) == 3 else 0  # noqa: PLR2004
        referrer, agent = _text(found, "referrer"), _text(found, "agent")
        kind: Kind = "asset" if code == _PARTIAL_CONTENT else kind_of(method, target)
        origin: Origin = origin_of_referrer(referrer, host) if host else "unknown"
        account = _text(found, "user") if self._accounts and code != _UNAUTHORIZED else ""
        seen = self._welcome.match_address(at, address, agent) if self._welcome is not None else _NOBODY
        return Visit(
            at, address, session or visitor_of(account, prefix), prefix, method, target, kind, account, host, agent,
            referrer, origin, False, seen.bot, None, code, "", False,
            (visitor_digest(told),) if told and self._cookies else (), seen.claim, seen.proof, (), "",
            version == OLD_HTTP,
        )  # fmt: skip

    def _session(self, found: Mapping[str, str]) -> str:
        """The name of the session that these fields tell of, or ""."""
        told = _text(found, "session")
        if not told and (cookies := _text(found, "cookies").encode("latin-1", "replace")):
            values = (cookie_value(cookies, name) for name in self._sessions)
            told = next(filter(None, values), b"").decode("latin-1")
        return SESSION + short_session(told) if told else ""


@lru_cache(maxsize=1 << 14)
def short_session(told: str) -> str:
    """
    A session as it may be shown: who has all of a session's cookie has the session.

    What is left is enough to find it in the log, and to tell it from others.

    >>> short_session("s-17"), short_session("k3jq0c8l1vf2m6t9r5")
    ('s-17', 'k3jq0c8l..838944')
    """
    if len(told) <= _LONGEST_SESSION:
        return told
    return f"{told[:_SHOWN_OF_A_SESSION]}..{blake2b(told.encode('utf-8', 'replace'), digest_size=3).hexdigest()}"


def _text(found: Mapping[str, str], name: str) -> str:
    text = found.get(name, "")
    return "" if text == "-" else text


def _asked(found: Mapping[str, str]) -> tuple[str, str, str]:
    """Method, target and version. A log that has targets and no methods is taken to be of what was read."""
    target = _text(found, "target")
    if not target and "request" in found:
        return split_request(_text(found, "request"))
    method = found.get("method", "GET" if target else "-")
    query = _text(found, "query").removeprefix("?")
    version = _text(found, "version").removeprefix("HTTP/")
    return "" if method == "-" else method, f"{target}?{query}" if query and "?" not in target else target, version

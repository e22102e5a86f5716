"""
Named fields of a log line, and the `Visit` that they make.

Every format except the plain ones of nginx and Apache uses this: JSON lines (Caddy, Traefik, nginx), AWS load
balancers, W3C logs (CloudFront, IIS), Parquet. A line first becomes a dictionary of texts with the names of `NAMES`,
whatever the server calls them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any
from urllib.parse import unquote

import msgspec

from hedgerow.core.address import prefix_of
from hedgerow.core.request_kind import kind_of, origin_of_referrer
from hedgerow.core.visit import Kind, Origin, Visit
from hedgerow.errors import DECODE_ERRORS, LogError
from hedgerow.logs.formats import (
    NO_BOT,
    OLD_HTTP,
    PARTIAL_CONTENT,
    UNAUTHORIZED,
    address_of,
    is_client,
    seconds_of,
    split_request,
)
from hedgerow.markers.token import visitor_digest
from hedgerow.request.account import cookie_value, visitor_of
from hedgerow.request.bots import BotVerifier

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
"""Hedgerow's field names, and those of servers, most likely first. A dot leads into a nested object."""

SESSION_COOKIES = (
    "PHPSESSID", "JSESSIONID", "sessionid", "ASP.NET_SessionId", "connect.sid", "laravel_session", "_session_id",
    "session", "session_id", "sid",
)  # fmt: skip
"""Common names of session cookies, most likely first."""

SESSIONS = {
    "session": ("session", "session_id", "sessionid", "sid", *(f"cookie_{name}" for name in SESSION_COOKIES)),
    "cookies": (
        "http_cookie", "request.headers.Cookie", "request_Cookie", "cookie", "cookies", "cs(Cookie)",
    ),
}  # fmt: skip
"""Further fields like `NAMES`, used only if sessions are wanted. *cookies* is a whole header."""

SESSION = "session:"
"""The names of sources that are sessions start with this."""

_NUMBER = re.compile(r"-?\d{1,16}(?:\.\d{1,12})?\Z", re.ASCII)
_COMMON_TIME = re.compile(r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?:\.\d{1,9})? [+-]\d{4}\Z", re.ASCII)
_MIN_MILLISECONDS = 1e11
_MIN_MICROSECONDS = 1e14
_MAX_SECONDS = 1e13
_MAX_SHOWN_SESSION, _SESSION_PREFIX = 12, 8


@lru_cache(maxsize=1 << 12)
def parse_time(text: str) -> float | None:
    """
    Return the seconds since 1970 of a time in any common format, or None.

    UTC is the default zone. A bare number is in seconds, or in milliseconds or microseconds if it is too large.

    >>> parse_time("2000-10-10T20:55:36Z"), parse_time("10/Oct/2000:13:55:36 -0700"), parse_time("971211336123")
    (971211336.0, 971211336.0, 971211336.123)
    """
    if _NUMBER.match(text):
        number = float(text)
        size = abs(number)
        return number / (1e6 if size >= _MIN_MICROSECONDS else 1e3 if size >= _MIN_MILLISECONDS else 1)
    if _COMMON_TIME.match(text):
        return seconds_of(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    at = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return at if abs(at) < _MAX_SECONDS else None


class FieldNames:
    """Finds fields in an object. *given* has names that take precedence. *sessions* adds `SESSIONS`."""

    def __init__(self, given: Mapping[str, str] | None = None, *, sessions: bool = False) -> None:
        self._paths = {
            name: tuple(
                (key,) if key.startswith("cookie_") else tuple(key.split("."))
                for key in ((given or {}).get(name, ""), *common)
                if key
            )
            for name, common in (NAMES | SESSIONS if sessions else NAMES).items()
        }

    def texts(self, data: Mapping[str, Any]) -> dict[str, str]:
        """Return the fields of an object as texts."""
        fields = {}
        for name, paths in self._paths.items():
            for path in paths:
                value = _value_at(data, path)
                if value is not None:
                    fields[name] = value
                    break
        return fields


def _value_at(data: Any, path: tuple[str, ...]) -> str | None:
    for key in path:
        if not isinstance(data, Mapping):
            return None
        data = data.get(key)
    if isinstance(data, list) and data:
        data = data[0]
    if isinstance(data, bool) or data is None or isinstance(data, dict | list):
        return None
    if isinstance(data, datetime):
        return data.isoformat()
    return data if isinstance(data, str) else repr(data)


@dataclass(eq=False)
class FieldParser:
    """
    Parses lines that *extract* splits into named fields (None for a malformed line).

    *accounts* and *bot_verifier* are as in `LineParser`. *sessions* are the names of session cookies. With *by_session*
    the session is the visitor. With *cookies* the visit is linked to it.
    """

    extract: Callable[[bytes], dict[str, str] | None]
    accounts: bool = False
    sessions: Sequence[str] = ()
    by_session: bool = True
    cookies: bool = False
    bot_verifier: BotVerifier | None = None

    def __call__(self, line: bytes) -> Visit | None:
        fields = self.extract(line)
        return self.visit(fields) if fields is not None else None

    def visit(self, fields: Mapping[str, str]) -> Visit | None:
        """Return the visit with these fields, or None without a time and a client (or session)."""
        at = parse_time(fields.get("time", ""))
        client = fields.get("address", "").partition(",")[0].strip() or "-"
        logged_session = self._session(fields) if self.sessions else ""
        session = logged_session if self.by_session else ""
        address = address_of(client)
        if at is None or (not is_client(address) and not session):
            return None
        prefix = prefix_of(address)
        method, target, version = _request(fields)
        host = _text(fields, "host").lower().removesuffix(":443").removesuffix(":80")
        if "://" in target[:8]:
            named, _, path = target.partition("://")[2].partition("/")
            if "[" not in target:
                named = named.partition("?")[0].partition("#")[0]
                host = host or named.lower().removesuffix(":443").removesuffix(":80")
                target = "/" + path
        status = fields.get("status", "")
        code = int(status) if status.isascii() and status.isdigit() and len(status) == 3 else 0  # noqa: PLR2004
        referrer, agent = _text(fields, "referrer"), _text(fields, "agent")
        kind: Kind = "asset" if code == PARTIAL_CONTENT else kind_of(method, target)
        origin: Origin = origin_of_referrer(referrer, host) if host else "unknown"
        account = _text(fields, "user") if self.accounts and code != UNAUTHORIZED else ""
        bot = self.bot_verifier.match_address(at, address, agent) if self.bot_verifier is not None else NO_BOT
        return Visit(
            at, address, session or visitor_of(account, prefix), prefix, method, target, kind, account, host, agent,
            referrer, origin, False, bot.bot, None, code, "", False,
            (visitor_digest(logged_session),) if logged_session and self.cookies else (), bot.claim, bot.proof, (), "",
            version == OLD_HTTP,
        )  # fmt: skip

    def _session(self, fields: Mapping[str, str]) -> str:
        session = _text(fields, "session")
        if not session and (cookies := _text(fields, "cookies").encode("latin-1", "replace")):
            values = (cookie_value(cookies, name.encode("latin-1", "replace")) for name in self.sessions)
            session = next(filter(None, values), b"").decode("latin-1")
        return SESSION + short_session(session) if session else ""


@lru_cache(maxsize=1 << 14)
def short_session(session: str) -> str:
    """
    Shorten a session for display, because anybody who knows the whole cookie can use the session.

    The rest is enough to find it in the log and to distinguish it from others.

    >>> short_session("s-17"), short_session("k3jq0c8l1vf2m6t9r5")
    ('s-17', 'k3jq0c8l..838944')
    """
    if len(session) <= _MAX_SHOWN_SESSION:
        return session
    return f"{session[:_SESSION_PREFIX]}..{blake2b(session.encode('utf-8', 'replace'), digest_size=3).hexdigest()}"


def _text(fields: Mapping[str, str], name: str) -> str:
    text = fields.get(name, "")
    return "" if text == "-" else text


def _request(fields: Mapping[str, str]) -> tuple[str, str, str]:
    """Return method, target and version. A log with targets but no methods is assumed to contain GET requests."""
    target = _text(fields, "target")
    if not target and "request" in fields:
        return split_request(_text(fields, "request"))
    method = fields.get("method", "GET" if target else "-")
    query = _text(fields, "query").removeprefix("?")
    version = _text(fields, "version").removeprefix("HTTP/")
    return "" if method == "-" else method, f"{target}?{query}" if query and "?" not in target else target, version


_ALB = re.compile(
    r'(?:h2|https?|grpcs?|wss?) (\S+) \S+ (\S+) \S+ \S+ \S+ \S+ (\d{3}|-) \S+ \S+ \S+ "([^"]*+)" '
    r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"(?: .*)?\Z',
    re.ASCII,
)
_HAPROXY = re.compile(
    r"(\S+) \[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?:\.\d{1,9})?)\] \S+ \S+ [-+\d/]+ (\d{3}|-1) \+?\d+"
    r' \S+ \S+ \S{4} [+\d/]+ [\d/]+((?: \{[^}]*\}){0,2}) "([^"]*+)"?(?: .*)?\Z',
    re.ASCII,
)
_JSON = msgspec.json.Decoder()
_W3C_NEEDED = {"c-ip", "time"}


def json_extract(names: FieldNames, line: bytes) -> dict[str, str] | None:
    try:
        data = _JSON.decode(line)
    except DECODE_ERRORS:
        return None
    return names.texts(data) if isinstance(data, dict) else None


def alb_extract(line: bytes) -> dict[str, str] | None:
    """Return the fields of a line of an AWS application load balancer, which has no referrer."""
    match = _ALB.match(line.decode("latin-1"))
    if match is None:
        return None
    at, client, status, request, agent = match.groups()
    return {"time": at, "address": client, "status": status, "request": request, "agent": agent}


def haproxy_extract(line: bytes) -> dict[str, str] | None:
    """
    Return the fields of a line of HAProxy (`option httplog`), whose times have no zone and count as UTC.

    Captured headers have no names: the user agent and the referrer are told by how they begin.
    """
    match = _HAPROXY.match(line.rstrip(b"\r").decode("latin-1"))
    if match is None:
        return None
    client, at, status, captured, request = match.groups()
    fields = {"time": f"{at} +0000", "address": client, "status": status, "request": request}
    for value in re.split(r"[{}|]", captured):
        if value.startswith(("http://", "https://")):
            fields.setdefault("referrer", value)
        elif "Mozilla/" in value:
            fields.setdefault("agent", value)
    return fields


class W3c:
    """Splits lines of a W3C log (IIS, CloudFront) as its directives say."""

    def __init__(self, names: FieldNames | None = None) -> None:
        self._fields: list[str] = []
        self._names = names or FieldNames()
        self._date = ""

    def is_directive(self, line: bytes) -> bool:
        """Return whether *line* is a directive, and apply it."""
        if not line.startswith(b"#"):
            return False
        name, _, rest = line[1:].decode("latin-1").strip().partition(":")
        if name.lower() == "fields":
            self._fields = rest.split()
        elif name.lower() == "date":
            self._date = rest.split()[0] if rest.split() else ""
        return True

    def __call__(self, line: bytes) -> dict[str, str] | None:
        text = line.rstrip(b"\r").decode("latin-1")
        values = text.split("\t") if "\t" in text else text.split(" ")
        if not self._fields or len(values) != len(self._fields):
            return None
        row = {name: value for name, value in zip(self._fields, values, strict=True) if value != "-"}
        fields = self._names.texts(row)
        fields["time"] = f"{row.get('date', self._date)}T{row.get('time', '')}+00:00"
        tabs = "\t" in text
        for name in ("agent", "referrer", "cookies"):
            # IIS writes a plus for a space. CloudFront uses percent encoding.
            if name in fields:
                fields[name] = unquote(fields[name]) if tabs else fields[name].replace("+", " ")
        return fields


def is_w3c(lines: list[bytes]) -> bool:
    """Return whether a directive in *lines* names the needed fields."""
    for line in lines:
        if line.startswith(b"#Fields:"):
            return set(line[8:].decode("latin-1").split()) >= _W3C_NEEDED
    return False


def parquet_rows(path: str, names: FieldNames) -> Iterator[list[dict[str, str]]]:
    """Yield batches of rows of a Parquet file as fields."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise LogError(f"{path}: Parquet needs pyarrow; install hedgerow[parquet]") from None
    try:
        file = parquet.ParquetFile(path)
        for batch in file.iter_batches(batch_size=20_000):
            rows: list[Mapping[str, Any]] = batch.to_pylist()
            yield [names.texts(row) for row in rows]
    except (OSError, ValueError) as error:
        raise LogError(f"{path}: cannot be read as Parquet: {str(error).partition(chr(10))[0]}") from None

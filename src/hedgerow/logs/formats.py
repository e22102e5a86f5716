r"""
Formats: one line of an access log, or one row of the ledger, becomes a `Visit`.

The formats are what nginx and Apache write when nobody tells them otherwise, each with or without a virtual
host (`example.org:443`) in front and with any further fields behind:

    common      192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326
    combined    the same, and then "http://example.org/start" "Mozilla/5.0"

A log holds bytes, and any bytes at all. They are read as Latin-1, as the gate reads live headers: no byte is
an error, and a log line gives the same text as the request did. `\"`, `\\`, `\n` and `\xHH` in a quoted field
are undone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, get_args

import msgspec

from hedgerow.core.address import parse_address, prefix_of
from hedgerow.core.ip_bytes import canonical
from hedgerow.core.request_kind import kind_of, origin_of_referrer
from hedgerow.core.visit import Kind, Marker, MarkerKind, Origin, Proof, Visit
from hedgerow.markers.token import VISITOR_BYTES
from hedgerow.request.account import visitor_of
from hedgerow.request.bot_verifier import BotMatch, BotVerifier

_TIME = r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?:\.\d{1,9})? [+-]\d{4}"
_QUOTED = r'([^"\\]*+(?:\\.[^"\\]*+)*+)'
# Everything is possessive or atomic, so that no line, however made, is looked at more than a few times over.
# A user's name may hold spaces and brackets but no quote: the first `[time] "` ends it. An ordinary request
# is taken apart at once, any other as a whole. The user agent may lack its closing quote: some servers cut
# long lines.
_REST = (
    rf'(?>(.*?) \[({_TIME})\] ")(?>([A-Z]++) ([^ "\\]++) HTTP/(\d(?:\.\d)?)"|{_QUOTED}") (\d{{3}}|-) (?:\d++|-)'
    rf'(?: "{_QUOTED}" "{_QUOTED}(?:"(?: .*)?|\Z)| (?!").*)?\Z'
)
_PLAIN = re.compile(rf"()(\S++) \S++ {_REST}", re.ASCII)
# "-" as the identd field tells `host address - user` from `address - user with spaces`.
_VHOST = re.compile(rf"(\S++) (?!- )(\S++) - {_REST}", re.ASCII)

_ESCAPE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|.)", re.DOTALL)
_HEX = "0123456789abcdefABCDEF"
_UNESCAPED = {rf"\x{a}{b}": chr(int(a + b, 16)) for a in _HEX for b in _HEX}
_UNESCAPED |= {r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\v": "\v", r"\b": "\b", r"\f": "\f"}
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+ ")
_VERSION = re.compile(r"\S*\Z")
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
DEFAULT_PORT = re.compile(r":(?:80|443)\Z")
_EPOCH = date(1970, 1, 1).toordinal()
_MARKS = "\0\xef\xbb\xbf"
OLD_HTTP = "1.0"
"""The version of requests that browsers no longer write."""

_UNAUTHORIZED = 401
_PARTIAL_CONTENT = 206

_MOST_CACHED = 1 << 16
_NOBODY = BotMatch("")


class Format(msgspec.Struct, frozen=True):
    """
    How the lines of a file are written.

    *name* is for people: "combined", "common", "vhost-combined", "vhost-common", "ledger" or "unknown".
    *exact* says that times have fractions of seconds.
    """

    name: str
    exact: bool = False

    @property
    def has_host(self) -> bool:
        return self.name.startswith("vhost-")


UNKNOWN = Format("unknown")
LEDGER = Format("ledger", exact=True)


def recognise(lines: Sequence[bytes]) -> Format:
    """
    The format that most of *lines* are written in; `UNKNOWN` where none of them is in any.

    >>> recognise([b'192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326']).name
    'common'
    """
    found: dict[str, int] = {}
    hosts, clients = set(), set()
    fractions = 0
    for line in lines:
        text = line.rstrip(b"\r").decode("latin-1")
        vhost = _VHOST.match(text)
        match = vhost or _PLAIN.match(text)
        if match is None:
            continue
        if vhost:
            hosts.add(vhost[1])
            clients.add(vhost[2])
        name = ("vhost-" if vhost else "") + ("common" if match[11] is None else "combined")
        found[name] = found.get(name, 0) + 1
        fractions += "." in match[4]
    if not found:
        return UNKNOWN
    name = max(found, key=lambda name: found[name])
    if len(hosts) > len(clients) and all(map(canonical, hosts)):
        # No site has more addresses than visitors: these are the clients, and what follows is a proxy.
        name = name.removeprefix("vhost-")
    return Format(name, exact=fractions > 0)


class LineParser:
    """
    Parses the lines of one format, quickly: one regular expression, and what repeats (times, addresses) is
    remembered.

    The user in a log becomes the account only where *accounts* says so: nginx writes whatever name a client
    sends, checked or not, and a crawler could send a new one with each request. *bot_verifier* recognises bots.
    """

    def __init__(self, form: Format, *, accounts: bool = False, bot_verifier: BotVerifier | None = None) -> None:
        self._match = (_VHOST if form.has_host else _PLAIN).match
        self._accounts = accounts
        self._welcome = bot_verifier
        self._time: tuple[str, float | None] = ("", None)
        self._addresses: dict[str, tuple[str, str]] = {}

    def __call__(self, line: bytes) -> Visit | None:
        """The visit in *line* (without its newline), or None where it is not of this format."""
        match = self._match(line.rstrip(b"\r").decode("latin-1"))
        if match is None:
            return None
        host, client, user, when, method, target, version, request, status, referrer, agent = match.groups()
        text, at = self._time
        if text != when:
            at = seconds_of(when)
            self._time = (when, at)
        if at is None:
            return None
        address, prefix = self._addresses.get(client) or self._address(client)
        if method is None:
            method, target, version = _split(request)
        referrer = "" if referrer == "-" or not referrer else unescape(referrer)
        agent = "" if agent == "-" or not agent else unescape(agent)
        code = int(status) if status != "-" else 0
        # A part of a file: live, the Range header says the same before the answer is known.
        kind: Kind = "asset" if code == _PARTIAL_CONTENT else kind_of(method, target)
        visitor, account, seen = prefix, "", _NOBODY
        origin: Origin = "unknown"
        if self._accounts and code != _UNAUTHORIZED:
            account = account_of(user)
            visitor = visitor_of(account, prefix)
        if host:
            host = DEFAULT_PORT.sub("", host)
            origin = origin_of_referrer(referrer, host)
        if self._welcome is not None:
            seen = self._welcome.of_address(at, address, agent)
        return Visit(
            at, address, visitor, prefix, method, target, kind, account, host, agent,
            referrer, origin, False, seen.bot, None, code, "", False, (), seen.claim, seen.proof,
            (), "", version == OLD_HTTP,
        )  # fmt: skip

    def _address(self, text: str) -> tuple[str, str]:
        """Address and prefix. What is no address (a host name, where servers look it up) stays."""
        if len(self._addresses) >= _MOST_CACHED:
            self._addresses.clear()
        address = address_of(text)
        found = self._addresses[text] = (address, prefix_of(address))
        return found


def address_of(text: str) -> str:
    """
    The address in what a log has in the place of the client. What is none (a host name) stays.

    A list of proxies begins with it; the first line of a file may begin with a mark of its encoding, and one that was
    written after a crash with zeros.

    >>> address_of("192.0.2.1, 10.0.0.1"), address_of("192.0.2.1,"), address_of("host.example.org")
    ('192.0.2.1', '192.0.2.1', 'host.example.org')
    """
    found = parse_address(text)
    if found is None:
        bare = text.lstrip(_MARKS).partition(",")[0]
        found = parse_address(bare) or bare or text
    return found


def seconds_of(text: str) -> float | None:
    """
    The seconds since 1970 of a log's time, or None where there is no such time.

    The leap second 23:59:60 is the second after it.

    >>> seconds_of("10/Oct/2000:13:55:36 -0700")
    971211336.0
    """
    midnight = _midnight(text[:11], text[-5:])
    hour, minute, second = int(text[12:14]), int(text[15:17]), int(text[18:20])
    if midnight is None or hour > 23 or minute > 59 or second > 60:  # noqa: PLR2004
        return None
    at = midnight + (hour * 60 + minute) * 60 + second
    return at if text[20] == " " else at + float(text[20:-6])


@lru_cache(maxsize=1 << 10)
def _midnight(day: str, zone: str) -> float | None:
    """When a *day* (`10/Oct/2000`) begins in a *zone* (`-0700`)."""
    month, between = divmod(_MONTHS.find(day[3:6]), 3)
    hours, minutes = int(zone[1:3]), int(zone[3:5])
    if between or hours > 23 or minutes > 59:  # noqa: PLR2004
        return None
    try:
        days = date(int(day[7:]), month + 1, int(day[:2])).toordinal() - _EPOCH
    except ValueError:
        return None
    ahead = (hours * 60 + minutes) * 60
    return days * 86400.0 - (ahead if zone[0] == "+" else -ahead)


def unescape(text: str) -> str:
    r"""
    A quoted field as it was before the server escaped it.

    >>> unescape(r"a \"b\" \x41 \\")
    'a "b" A \\'
    """
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    return _UNESCAPED.get(match[0]) or match[0][1:]


def account_of(user: str) -> str:
    """The account that a log's user names; "" where it names none."""
    return "" if user in {"-", '""'} else unescape(user)


def split_request(whole: str) -> tuple[str, str, str]:
    """
    Method, target and version of a request line; no method and no version where it is none.

    The target ends at the last ` HTTP/` that nothing but a version follows. Some requests are as long as a line can be:
    nothing here looks at a place twice.
    """
    method = _METHOD.match(whole)
    if method is None:
        return "", whole, ""
    target, separator, version = whole[method.end() :].rpartition(" HTTP/")
    if not separator or not _VERSION.match(version):
        return method[0][:-1], whole[method.end() :], ""
    return method[0][:-1], target, version


def _split(request: str) -> tuple[str, str, str]:
    """
    Method, target and version of an odd request line. What is none (`-`, a TLS greeting, noise) has no method and is
    all target.

    A target may hold spaces: some clients send them as they are.
    """
    return split_request("" if request == "-" else unescape(request))


LEDGER_COLUMNS = (
    "at", "visitor", "address", "account", "method", "host", "target", "kind", "referrer", "user_agent", "origin",
    "prefetch", "bot", "marker_kind", "minted_for", "parent", "marker_target", "asked", "tampered", "linked", "status",
    "claim", "proof", "signs", "fingerprint",
)  # fmt: skip
_KINDS = frozenset(get_args(Kind))
_ORIGINS = frozenset(get_args(Origin))
_MARKERS = frozenset(get_args(MarkerKind))
_PROOFS = frozenset(get_args(Proof))


def visit_of_row(row: Sequence[Any]) -> Visit | None:
    """The visit in a row of the ledger (`LEDGER_COLUMNS`), as it was; None where it makes no sense."""
    at, visitor, address, account, method, host, target, kind, referrer, agent, origin, prefetch, *more = row
    bot, mark, issued_to, parent, leads_to, asked, tampered, linked, status, claim, proof, signs, fingerprint = more
    texts = (visitor, address, account, method, host, target, referrer, agent, bot, asked, claim, signs, fingerprint)
    if not isinstance(at, float) or not isinstance(status, int) or not all(isinstance(t, str) for t in texts):
        return None
    if kind not in _KINDS or origin not in _ORIGINS or proof not in _PROOFS or not isinstance(linked, bytes):
        return None
    marker = None
    if mark:
        sound = isinstance(issued_to, bytes) and isinstance(parent, bytes) and isinstance(leads_to, str)
        if mark not in _MARKERS or not sound:
            return None
        marker = Marker(mark, issued_to, parent, leads_to)
    known = tuple(linked[i : i + VISITOR_BYTES] for i in range(0, len(linked), VISITOR_BYTES))
    return Visit(
        at, address, visitor, prefix_of(address), method, target, kind, account, host, agent, referrer,
        origin, bool(prefetch), bot, marker, status, asked, bool(tampered), known,
        claim, proof, tuple(signs.split()), fingerprint,
    )  # fmt: skip


def readable(text: str) -> str:
    r"""
    *text* as it may be shown to a person: what could steer a terminal is escaped.

    UTF-8 that was read as Latin-1 is put right first.

    >>> readable("caf\xc3\xa9 \x1b[2J")
    'café \\x1b[2J'
    """
    with suppress(UnicodeError):
        text = text.encode("latin-1").decode("utf-8")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def iso(at: float | None) -> str | None:
    """
    A time as ISO 8601 in UTC, to the millisecond; None where it is none, or beyond the calendar.

    >>> iso(971211336.0)
    '2000-10-10T20:55:36.000Z'
    """
    if at is None:
        return None
    try:
        moment = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

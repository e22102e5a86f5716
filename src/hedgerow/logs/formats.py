r"""
The default formats of nginx and Apache: each line becomes a `Visit`.

A virtual host (`example.org:443`) may come first, and further fields may follow:

    common      192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326
    combined    the same, and then "http://example.org/start" "Mozilla/5.0"

A log may contain any bytes. They are decoded as Latin-1, like live headers: no byte is an error, and a log line gives
the same text as its request. The escapes `\"`, `\\`, `\n` and `\xHH` in quoted fields are undone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import lru_cache

import msgspec

from hedgerow.core.address import parse_address, prefix_of
from hedgerow.core.ip_bytes import canonical
from hedgerow.core.request_kind import kind_of, origin_of_referrer
from hedgerow.core.visit import Kind, Origin, Visit
from hedgerow.request.account import visitor_of
from hedgerow.request.bots import BotMatch, BotVerifier

_TIME = r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?:\.\d{1,9})? [+-]\d{4}"
_QUOTED = r'([^"\\]*+(?:\\.[^"\\]*+)*+)'
# Everything is possessive or atomic, so that matching takes linear time. A user's name may contain spaces and brackets,
# but no quote: it ends at the first `[time] "`. An ordinary request is split at once, any other one later. The user
# agent may lack its closing quote, because some servers cut long lines.
_REST = (
    rf'(?>(.*?) \[({_TIME})\] ")(?>([A-Z]++) ([^ "\\]++) HTTP/(\d(?:\.\d)?)"|{_QUOTED}") (\d{{3}}|-) (?:\d++|-)'
    rf'(?: "{_QUOTED}" "{_QUOTED}(?:"(?: .*)?|\Z)| (?!").*)?\Z'
)
_PLAIN = re.compile(rf"()(\S++) \S++ {_REST}", re.ASCII)
# The identd field "-" distinguishes `host address - user` from `address - user with spaces`.
_VHOST = re.compile(rf"(\S++) (?!- )(\S++) - {_REST}", re.ASCII)

_ESCAPE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|.)", re.DOTALL)
_HEX = "0123456789abcdefABCDEF"
_UNESCAPED = {rf"\x{a}{b}": chr(int(a + b, 16)) for a in _HEX for b in _HEX}
_UNESCAPED |= {r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\v": "\v", r"\b": "\b", r"\f": "\f"}
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+ ")
_VERSION = re.compile(r"\S*\Z")
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
# The pattern for addresses of IPv6 is a coarse one: the compiled scanner has the same.
_HOST_NAME = re.compile(
    r"(?!(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\Z)(?:[\w.\x80-\xff-]*[a-zA-Z_\x80-\xff][\w.\x80-\xff-]*|unix:"
    r"|[0-9a-fA-F.]*:[0-9a-fA-F.:]*:[0-9a-fA-F.:]*)",
    re.ASCII,
)
DEFAULT_PORT = re.compile(r":(?:80|443)\Z")
_EPOCH = date(1970, 1, 1).toordinal()
_NOISE = "\0\xef\xbb\xbf"
OLD_HTTP = "1.0"
"""The HTTP version that browsers no longer use."""
UNAUTHORIZED = 401
PARTIAL_CONTENT = 206
NO_BOT = BotMatch("")
_MAX_CACHED = 1 << 16


class Format(msgspec.Struct, frozen=True):
    """The format of a file: its name, such as "combined" or "ledger", and whether times have fractions of seconds."""

    name: str
    exact: bool = False

    @property
    def has_host(self) -> bool:
        return self.name.startswith("vhost-")


UNKNOWN = Format("unknown")
LEDGER = Format("ledger", exact=True)


def detect_plain_format(lines: Sequence[bytes]) -> Format:
    """
    Return the plain format of most *lines*, `UNKNOWN` if no line has one.

    >>> detect_plain_format([b'192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326']).name
    'common'
    """
    counts: dict[str, int] = {}
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
        counts[name] = counts.get(name, 0) + 1
        fractions += "." in match[4]
    if not counts:
        return UNKNOWN
    name = max(counts, key=lambda name: counts[name])
    if len(hosts) > len(clients) and all(map(canonical, hosts)):
        # A site has fewer addresses than visitors. So these are the clients, and a proxy follows.
        name = name.removeprefix("vhost-")
    return Format(name, exact=fractions > 0)


class LineParser:
    """
    A fast parser of plain lines: one regular expression, and a cache of times and addresses.

    The user in a log becomes the account only if *accounts* is true: nginx logs any name that a client sends, and a
    crawler could send a new one with each request. *bot_verifier* recognises bots.
    """

    def __init__(self, form: Format, *, accounts: bool = False, bot_verifier: BotVerifier | None = None) -> None:
        self._match = (_VHOST if form.has_host else _PLAIN).match
        self._accounts = accounts
        self._bot_verifier = bot_verifier
        self._time: tuple[str, float | None] = ("", None)
        self._addresses: dict[str, tuple[str, str]] = {}

    def __call__(self, line: bytes) -> Visit | None:
        """Return the visit of a *line* without its newline, or None if it has another format."""
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
        if not address:
            return None
        if method is None:
            method, target, version = split_request("" if request == "-" else unescape(request))
        referrer = "" if referrer == "-" or not referrer else unescape(referrer)
        agent = "" if agent == "-" or not agent else unescape(agent)
        code = int(status) if status != "-" else 0
        # Part of a file. A live request has a Range header, which gives the same kind.
        kind: Kind = "asset" if code == PARTIAL_CONTENT else kind_of(method, target)
        visitor, account, bot = prefix, "", NO_BOT
        origin: Origin = "unknown"
        if self._accounts and code != UNAUTHORIZED:
            account = account_of(user)
            visitor = visitor_of(account, prefix)
        if host:
            host = DEFAULT_PORT.sub("", host)
            origin = origin_of_referrer(referrer, host)
        if self._bot_verifier is not None:
            bot = self._bot_verifier.match_address(at, address, agent)
        return Visit(
            at, address, visitor, prefix, method, target, kind, account, host, agent,
            referrer, origin, False, bot.bot, None, code, "", False, (), bot.claim, bot.proof,
            (), "", version == OLD_HTTP,
        )  # fmt: skip

    def _address(self, text: str) -> tuple[str, str]:
        if len(self._addresses) >= _MAX_CACHED:
            self._addresses.clear()
        address = address_of(text)
        if not is_client(address):
            address = ""
        pair = self._addresses[text] = (address, prefix_of(address))
        return pair


def address_of(text: str) -> str:
    """
    Return the address in the client field of a log. A host name stays as it is.

    The field may be a list of proxies after the client. The first line of a file may start with a byte order mark, a
    line after a crash with NULs.

    >>> address_of("192.0.2.1, 10.0.0.1"), address_of("192.0.2.1,"), address_of("host.example.org")
    ('192.0.2.1', '192.0.2.1', 'host.example.org')
    """
    address = parse_address(text)
    if address is None:
        bare = text.lstrip(_NOISE).partition(",")[0]
        address = parse_address(bare) or bare or text
    return address


@lru_cache(maxsize=1 << 14)
def is_client(text: str) -> bool:
    """
    Return whether *text* can be a client: an address, or a host name, which has a letter.

    A line with something else before it, such as the date of syslog, would otherwise come from a client called Nov.

    >>> is_client("192.0.2.1"), is_client("host.example.org"), is_client("Nov"), is_client("999.0.2.1"), is_client("-")
    (True, True, False, False, False)
    """
    return bool(_HOST_NAME.fullmatch(text)) or parse_address(text) is not None


def seconds_of(text: str) -> float | None:
    """
    Return the seconds since 1970 of a log's time, or None if it is invalid.

    The leap second 23:59:60 equals the second after it.

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
    """Return the start of a *day* (`10/Oct/2000`) in a *zone* (`-0700`)."""
    month, remainder = divmod(_MONTHS.find(day[3:6]), 3)
    hours, minutes = int(zone[1:3]), int(zone[3:5])
    if remainder or hours > 23 or minutes > 59:  # noqa: PLR2004
        return None
    try:
        days = date(int(day[7:]), month + 1, int(day[:2])).toordinal() - _EPOCH
    except ValueError:
        return None
    offset = (hours * 60 + minutes) * 60
    return days * 86400.0 - (offset if zone[0] == "+" else -offset)


def unescape(text: str) -> str:
    r"""
    Undo the escapes of a quoted field.

    >>> unescape(r"a \"b\" \x41 \\")
    'a "b" A \\'
    """
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    return _UNESCAPED.get(match[0]) or match[0][1:]


def account_of(user: str) -> str:
    """Return the account in the user field of a log, or ""."""
    return "" if user in {"-", '""'} else unescape(user)


def split_request(line: str) -> tuple[str, str, str]:
    """Return method, target and version. Text that is no request, such as a TLS greeting, is all target."""
    method = _METHOD.match(line)
    if method is None:
        return "", line, ""
    target, separator, version = line[method.end() :].rpartition(" HTTP/")
    if not separator or not _VERSION.match(version):
        return method[0][:-1], line[method.end() :], ""
    return method[0][:-1], target, version


def readable(text: str) -> str:
    r"""
    Return *text* in a form that is safe to print: control characters are escaped.

    UTF-8 that was decoded as Latin-1 is corrected first.

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
    Format a time as ISO 8601 in UTC with milliseconds, None if it is None or out of range.

    >>> iso(971211336.0)
    '2000-10-10T20:55:36.000Z'
    """
    if at is None:
        return None
    try:
        time = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")

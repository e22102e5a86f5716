r"""
Patterns: a format as it stands in a server's settings, nginx's `log_format` or Apache's `LogFormat`, becomes a parser.

    $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"
    %h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"

What stands between the fields tells where each ends. A field in quotes ends at the quote that is not escaped. A whole
directive (`log_format main '...' '...';`) is taken for what it says, and `\t` for a tab.

An X-Forwarded-For is a list, `client, proxy, proxy`. Where a format names no other client it is who stands first in it:
the only one that can be, though anybody may begin the list with a lie.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from hedgerow.errors import LogError
from hedgerow.logs.formats import unescape

_NGINX = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_APACHE = re.compile(r"%[!0-9,]*[<>]?(?:\{([^}]*)\})?(\^?[a-zA-Z]{1,2}|%)")
_FIELDS = {
    "remote_addr": "address", "realip_remote_addr": "", "binary_remote_addr": "", "remote_user": "user",
    "time_local": "time", "time_iso8601": "time", "msec": "time", "request": "request", "request_method": "method",
    "request_uri": "target", "uri": "target", "args": "query", "query_string": "query", "status": "status",
    "host": "host", "http_host": "host", "server_name": "host", "http_referer": "referrer", "http_user_agent": "agent",
    "http_cookie": "cookies", "http_x_forwarded_for": "forwarded", "proxy_add_x_forwarded_for": "forwarded",
    "server_protocol": "version",
}  # fmt: skip
_LETTERS = {
    "h": "address", "a": "address", "u": "user", "t": "time", "r": "request", "m": "method", "U": "target",
    "q": "query", "s": "status", "v": "host", "V": "host", "H": "version",
}  # fmt: skip
_HEADERS = {
    "referer": "referrer", "user-agent": "agent", "host": "host", "cookie": "cookies", "x-forwarded-for": "forwarded",
}  # fmt: skip
_DIRECTIVE = re.compile(r"\s*(?:log_format\s+\S+(?:\s+escape=\w+)?|LogFormat)\s+(?=[\"'])", re.IGNORECASE)
_SINGLE, _DOUBLE = (re.compile(rf"{q}((?:[^{q}\\]|\\.)*){q}", re.DOTALL) for q in "'\"")
_LISTS = {"address", "forwarded"}
_COOKIE = "cookie_"
_NUMBERED_TIMES = {"sec", "msec", "usec", "begin:sec", "begin:msec", "begin:usec", "end:sec", "end:msec", "end:usec"}
_LONGEST = 4096
_TIMES = {"%d/%b/%Y:%T %z": "", "%d/%b/%Y:%H:%M:%S %z": ""}

Extract = Callable[[bytes], "dict[str, str] | None"]


def is_pattern(text: str) -> bool:
    """Whether *text* is a format as it stands in a server's settings, and no name."""
    return "$" in text or "%" in text


def pattern_extract(
    pattern: str, fields: Mapping[str, str] | None = None, sessions: Sequence[str] = (), *, alone: bool = True
) -> Extract:
    """
    What takes lines of *pattern* apart; LogError where it names no client or no time.

    *fields* says by what name of the server's (`http_x_user`, `X-User`) some of our fields go. *sessions* are cookies
    that name a session: where a format has one of them, it may do without a client if that is enough *alone*.
    """
    if len(pattern) > _LONGEST:
        raise LogError("the format is too long; give the log_format or LogFormat of the server")
    unquoted = _said(pattern)
    given = {theirs.lower(): ours for ours, theirs in (fields or {}).items()}
    given |= dict.fromkeys((name.lower() for name in sessions), "session")
    parts = _merged(_nginx_parts(unquoted, given) if "$" in unquoted else _apache_parts(unquoted, given))
    if not any(name == "address" for name, _ in parts):
        parts = [("address" if name == "forwarded" else name, literal) for name, literal in parts]
    names = [name for name, _ in parts if name]
    if alone and sessions and "session" in names:
        names.append("address")
    for needed, said in (("address", "the client ($remote_addr or %h)"), ("time", "the time ($time_local or %t)")):
        if needed not in names:
            raise LogError(f"the format does not name {said}; without it nothing can be told from a log")
    expression = re.compile(_expression(parts), re.ASCII | re.DOTALL)
    wanted = [(k, name) for k, name in enumerate((n for n, _ in parts if n is not None), 1) if name]
    zone = next((form for name, form in parts if name == "time" and form and "%" in form), "")

    def extract(line: bytes) -> dict[str, str] | None:
        match = expression.match(line.rstrip(b"\r").decode("latin-1"))
        if match is None:
            return None
        found: dict[str, str] = {}
        for k, name in wanted:
            # Two fields of one meaning: the first that says something.
            if found.get(name, "-") == "-":
                found[name] = unescape(match[k])
        if zone:
            found["time"] = _strptime(found["time"], zone)
        return found

    return extract


def _said(pattern: str) -> str:
    """What a pattern says, without what a server's settings put around it."""
    directive = _DIRECTIVE.match(pattern)
    if directive is not None:
        rest = pattern[directive.end() :]
        quoted = (_SINGLE if rest[0] == "'" else _DOUBLE).findall(rest)
        pattern = "".join(quoted) or pattern
    return pattern.replace('\\"', '"').replace("\\'", "'").replace("\\t", "\t")


def _nginx_parts(pattern: str, given: Mapping[str, str]) -> list[tuple[str | None, str]]:
    """Fields and what stands between them: a name ("" where nobody wants to know) or None, and a text."""
    parts: list[tuple[str | None, str]] = []
    end = 0
    for match in _NGINX.finditer(pattern):
        theirs = match[1] or match[2]
        cookie = given.get(theirs.lower().removeprefix(_COOKIE)) if theirs.startswith(_COOKIE) else ""
        name = given.get(theirs.lower()) or cookie or _FIELDS.get(theirs, "")
        parts += [(None, pattern[end : match.start()]), (name, "")]
        end = match.end()
    return [*parts, (None, pattern[end:])]


def _apache_parts(pattern: str, given: Mapping[str, str]) -> list[tuple[str | None, str]]:
    parts: list[tuple[str | None, str]] = []
    end = 0
    for match in _APACHE.finditer(pattern):
        parts.append((None, pattern[end : match.start()]))
        end = match.end()
        inside, letter = match[1], match[2]
        if letter == "%":
            parts.append((None, "%"))
        elif letter == "t" and not inside:
            parts += [(None, "["), ("time", ""), (None, "]")]
        elif letter == "t" and inside in _NUMBERED_TIMES:
            parts.append(("time", ""))
        elif letter == "t":
            form = inside.removeprefix("begin:").removeprefix("end:")
            parts.append(("time", _TIMES.get(form, form.replace("%T", "%H:%M:%S").replace("%F", "%Y-%m-%d"))))
        elif letter in {"i", "C", "e"} and inside:
            usual = _HEADERS.get(inside.lower(), "") if letter == "i" else ""
            parts.append((given.get(inside.lower()) or usual, ""))
        else:
            parts.append((_LETTERS.get(letter, ""), ""))
    return [*parts, (None, pattern[end:])]


def _merged(parts: list[tuple[str | None, str]]) -> list[tuple[str | None, str]]:
    """The same, with one text between two fields; LogError where there is none, and nobody can tell them apart."""
    merged: list[tuple[str | None, str]] = [(None, "")]
    for name, literal in parts:
        before = merged[-1]
        if name is None and before[0] is None:
            merged[-1] = (None, before[1] + literal)
        elif name is not None and len(merged) > 1 and before == (None, ""):
            if (merged[-2][0], name) != ("target", "query"):
                raise LogError("two fields of the format touch each other; nobody could tell where one ends")
            # Together they are the target.
            merged.pop()
        else:
            merged.append((name, literal))
    return merged


def _expression(parts: list[tuple[str | None, str]]) -> str:
    """
    Each field ends where what stands behind it begins.

    Everything is possessive or atomic, so that no line, however made, is looked at more than a few times over.
    """
    text = ""
    taken = False
    for k, (name, literal) in enumerate(parts):
        if name is None:
            text += "" if taken else re.escape(literal)
            taken = False
            continue
        behind = parts[k + 1][1] if k + 1 < len(parts) else ""
        if behind.startswith('"'):
            text += r'([^"\\]*+(?:\\.[^"\\]*+)*+)'
        elif not behind:
            text += r"(.*+)"
        elif behind.startswith(" ") and name in _LISTS:
            text += r"([^ ]*+(?:(?<=,) [^ ]*+)*+)"
        elif behind.startswith(" ") and literal:
            text += f"((?:[^ ]*+ ){{{literal.count(' ')}}}[^ ]*+)"
        elif behind.startswith(" ") and name in {"user", "time", "request", "agent"}:
            # It may hold spaces: it ends at the first place where all of what stands behind it does.
            text += f"(?>(.*?){re.escape(behind)})"
            taken = True
        else:
            text += f"([^{re.escape(behind[0])}]*+)"
    return text + r"\Z"


def _strptime(text: str, form: str) -> str:
    try:
        found = datetime.strptime(text, form)  # noqa: DTZ007 - the zone is put right below
    except ValueError:
        return ""
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()

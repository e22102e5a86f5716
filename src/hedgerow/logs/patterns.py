r"""
Parsers made from a server's own format: nginx's `log_format` or Apache's `LogFormat`.

    $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"
    %h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"

The text between two fields says where the first ends. A quoted field ends at the first unescaped quote. A whole
directive (`log_format main '...' '...';`) is accepted, too, and `\t` is a tab.

X-Forwarded-For is a list, `client, proxy, proxy`. If a format has no other client, the first address counts, although a
client can forge it.
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
_ADDRESS_LISTS = {"address", "forwarded"}
_COOKIE = "cookie_"
_NUMERIC_TIME = re.compile(r"(?:begin:|end:)?[mu]?sec")
_MAX_LENGTH = 4096
_DEFAULT_TIMES = {"%d/%b/%Y:%T %z": "", "%d/%b/%Y:%H:%M:%S %z": ""}

Extract = Callable[[bytes], "dict[str, str] | None"]


def is_pattern(text: str) -> bool:
    """Return whether *text* is a server's own format and not the name of a format."""
    return "$" in text or "%" in text


def pattern_extract(
    pattern: str, fields: Mapping[str, str] | None = None, sessions: Sequence[str] = (), *, alone: bool = True
) -> Extract:
    """
    Return a function that splits lines of *pattern* into fields, or raise LogError if client or time is missing.

    *fields* maps Hedgerow's names to those of the server (`http_x_user`, `X-User`). *sessions* are session cookies.
    With *alone* a format with a session needs no client.
    """
    if len(pattern) > _MAX_LENGTH:
        raise LogError("the format is too long; give the log_format or LogFormat of the server")
    unquoted = _unquote(pattern)
    given = {theirs.lower(): ours for ours, theirs in (fields or {}).items()}
    given |= dict.fromkeys((name.lower() for name in sessions), "session")
    parts = _merged(_nginx_parts(unquoted, given) if "$" in unquoted else _apache_parts(unquoted, given))
    if not any(name == "address" for name, _ in parts):
        parts = [("address" if name == "forwarded" else name, literal) for name, literal in parts]
    names = [name for name, _ in parts if name]
    if alone and sessions and "session" in names:
        names.append("address")
    needs = {"address": "the client ($remote_addr or %h)", "time": "the time ($time_local or %t)"}
    for needed, description in needs.items():
        if needed not in names:
            raise LogError(f"the format does not contain {description}, which is needed")
    expression = re.compile(_expression(parts), re.ASCII | re.DOTALL)
    groups = [(k, name) for k, name in enumerate((n for n, _ in parts if n is not None), 1) if name]
    time_format = next((form for name, form in parts if name == "time" and form and "%" in form), "")
    _check_time_format(time_format)

    def extract(line: bytes) -> dict[str, str] | None:
        match = expression.match(line.rstrip(b"\r").decode("latin-1"))
        if match is None:
            return None
        values: dict[str, str] = {}
        for k, name in groups:
            # Of two fields with one meaning, the first that is not empty counts.
            if values.get(name, "-") == "-":
                values[name] = unescape(match[k])
        if time_format:
            values["time"] = _strptime(values["time"], time_format)
        return values

    return extract


def _unquote(pattern: str) -> str:
    """Return the pattern without the directive and quotes of a server's settings."""
    directive = _DIRECTIVE.match(pattern)
    if directive is not None:
        rest = pattern[directive.end() :]
        quoted = (_SINGLE if rest[0] == "'" else _DOUBLE).findall(rest)
        pattern = "".join(quoted) or pattern
    return pattern.replace('\\"', '"').replace("\\'", "'").replace("\\t", "\t")


def _nginx_parts(pattern: str, given: Mapping[str, str]) -> list[tuple[str | None, str]]:
    """Return fields and the texts between them. A field has a name ("" if unused), a text has None."""
    parts: list[tuple[str | None, str]] = []
    end = 0
    for match in _NGINX.finditer(pattern):
        variable = match[1] or match[2]
        cookie = given.get(variable.lower().removeprefix(_COOKIE)) if variable.startswith(_COOKIE) else ""
        name = given.get(variable.lower()) or cookie or _FIELDS.get(variable, "")
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
        elif letter == "t" and _NUMERIC_TIME.fullmatch(inside):
            parts.append(("time", ""))
        elif letter == "t":
            form = inside.removeprefix("begin:").removeprefix("end:")
            parts.append(("time", _DEFAULT_TIMES.get(form, form.replace("%T", "%H:%M:%S").replace("%F", "%Y-%m-%d"))))
        elif letter in {"i", "C", "e"} and inside:
            default = _HEADERS.get(inside.lower(), "") if letter == "i" else ""
            parts.append((given.get(inside.lower()) or default, ""))
        else:
            parts.append((_LETTERS.get(letter, ""), ""))
    return [*parts, (None, pattern[end:])]


def _merged(parts: list[tuple[str | None, str]]) -> list[tuple[str | None, str]]:
    """Join adjacent texts. Raise LogError if two fields have no text between them."""
    merged: list[tuple[str | None, str]] = [(None, "")]
    for name, literal in parts:
        before = merged[-1]
        if name is None and before[0] is None:
            merged[-1] = (None, before[1] + literal)
        elif name is not None and len(merged) > 1 and before == (None, ""):
            if (merged[-2][0], name) != ("target", "query"):
                raise LogError("two fields of the format have nothing between them, so they cannot be separated")
            # Together they form the target.
            merged.pop()
        else:
            merged.append((name, literal))
    return merged


def _expression(parts: list[tuple[str | None, str]]) -> str:
    """Return a regular expression in which each field ends where the text after it begins. It takes linear time."""
    text = ""
    consumed = False
    for k, (name, literal) in enumerate(parts):
        if name is None:
            text += "" if consumed else re.escape(literal)
            consumed = False
            continue
        following = parts[k + 1][1] if k + 1 < len(parts) else ""
        if following.startswith('"'):
            text += r'([^"\\]*+(?:\\.[^"\\]*+)*+)'
        elif not following:
            text += r"(.*+)"
        elif following.startswith(" ") and name in _ADDRESS_LISTS:
            text += r"([^ ]*+(?:(?<=,) [^ ]*+)*+)"
        elif following.startswith(" ") and literal:
            text += f"((?:[^ ]*+ ){{{literal.count(' ')}}}[^ ]*+)"
        elif following.startswith(" ") and name in {"user", "time", "request", "agent"}:
            # It may contain spaces, so it ends where the whole following text matches first.
            text += f"(?>(.*?){re.escape(following)})"
            consumed = True
        else:
            text += f"([^{re.escape(following[0])}]*+)"
    return text + r"\Z"


def _check_time_format(form: str) -> None:
    """Raise LogError if Python cannot read times of this format, such as one that names the hour twice."""
    try:
        datetime.strptime("", form)  # noqa: DTZ007 - only the format is checked
    except re.error:
        raise LogError(f"the format of the time, {form!r}, names a part of it twice") from None
    except ValueError as error:
        # Nothing is no time in most formats, but that is another error.
        if "directive" in str(error) or "stray %" in str(error):
            raise LogError(f"the format of the time cannot be used: {error}") from None


def _strptime(text: str, form: str) -> str:
    try:
        time = datetime.strptime(text, form)  # noqa: DTZ007 - the zone is set below
    except ValueError:
        return ""
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).isoformat()

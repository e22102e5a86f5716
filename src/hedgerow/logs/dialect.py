"""The format of a log's lines, given by the user or detected from the first lines, and the parser for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, get_args

import msgspec

from hedgerow.errors import LogError
from hedgerow.logs.fields import (
    NAMES,
    SESSION_COOKIES,
    FieldNames,
    FieldParser,
    W3c,
    alb_extract,
    haproxy_extract,
    is_w3c,
    json_extract,
)
from hedgerow.logs.formats import UNKNOWN, Format, LineParser, detect_plain_format
from hedgerow.logs.patterns import Extract, is_pattern, pattern_extract
from hedgerow.request.bots import BotVerifier

PLAIN_FORMATS = ("common", "combined", "vhost-common", "vhost-combined")
FORMAT_NAMES = (*PLAIN_FORMATS, "json", "alb", "w3c", "haproxy")
_MAX_LINES = 50

SourceKey = Literal["visitor", "address", "prefix", "network", "account", "session"]
"""
What a source is. visitor: as in live protection (an account if known, else a prefix). address. prefix: IPv4 address,
IPv6 /64. network: IPv4 /24, IPv6 /48. account, session: as logged, else a prefix.
"""


class Dialect(msgspec.Struct, frozen=True):
    """
    The user's description of a log.

    *form* is a name (`FORMAT_NAMES`), a server's own log_format or LogFormat, or "" for detection. *fields* maps names
    of `fields.NAMES` to those of a JSON log or Parquet file. *by* is the kind of source. *cookies* links visits to the
    logged sessions, whatever the kind of source.
    """

    form: str = ""
    fields: Mapping[str, str] = {}
    by: SourceKey = "visitor"
    cookies: bool = False

    @property
    def sessions(self) -> tuple[str, ...]:
        """The names of session cookies, none if sessions are not wanted."""
        if self.by != "session" and not self.cookies:
            return ()
        return (self.fields["session"],) if "session" in self.fields else SESSION_COOKIES

    def names(self) -> FieldNames:
        return FieldNames(self.fields, sessions=bool(self.sessions))

    def extract(self) -> Extract:
        return pattern_extract(self.form, self.fields, self.sessions, alone=self.by == "session")

    def parser(self, extract: Extract, bot_verifier: BotVerifier | None = None) -> FieldParser:
        return FieldParser(
            extract, accounts=self.by == "account", sessions=self.sessions, by_session=self.by == "session",
            cookies=self.cookies, bot_verifier=bot_verifier,
        )  # fmt: skip

    def check(self) -> None:
        """Raise LogError if a value is invalid."""
        if self.by not in get_args(SourceKey):
            raise LogError(f"a source is one of {', '.join(get_args(SourceKey))}, not {self.by!r}")
        if self.form and is_pattern(self.form):
            self.extract()
        elif self.form and self.form not in FORMAT_NAMES:
            raise LogError(
                f"no format is called {self.form!r}; use one of {', '.join(FORMAT_NAMES)}, or the server's own"
            )
        for name in self.fields:
            if name not in {*NAMES, "session"}:
                raise LogError(f"no field is called {name!r}; use one of {', '.join(NAMES)}, session")


DEFAULT_DIALECT = Dialect()
Parser = LineParser | FieldParser


def detect_format(lines: Sequence[bytes], dialect: Dialect = DEFAULT_DIALECT) -> Format:
    """Detect the format of *lines*. Return `UNKNOWN` if less than half of them have a known one."""
    if dialect.form:
        name = "pattern" if is_pattern(dialect.form) else dialect.form
        return _format(name, lines, dialect)
    plain = detect_plain_format(lines)
    if plain is not UNKNOWN:
        return plain
    if is_w3c(list(lines)):
        return _format("w3c", lines, dialect)
    tried = [line for line in lines if line.strip()][:_MAX_LINES]
    names = dialect.names()
    matches: Counter[str] = Counter()
    for line in tried:
        matches["json"] += line.lstrip()[:1] == b"{" and json_extract(names, line) is not None
        matches["alb"] += alb_extract(line) is not None
        matches["haproxy"] += haproxy_extract(line) is not None
    best, count = matches.most_common(1)[0] if matches else ("", 0)
    return _format(best, lines, dialect) if 2 * count >= len(tried) > 0 else UNKNOWN


def _format(name: str, lines: Sequence[bytes], dialect: Dialect) -> Format:
    """Return the format *name*. Its times are exact if any of *lines* has a fraction of a second."""
    form = Format(name)
    if name in PLAIN_FORMATS:
        return Format(name, exact=detect_plain_format(lines).exact)
    parse = parser(form, dialect)
    visits = [parse(line) for line in lines[:_MAX_LINES] if not is_directive(parse, line)]
    return Format(name, exact=any(visit is not None and visit.at % 1 for visit in visits))


def parser(form: Format, dialect: Dialect = DEFAULT_DIALECT, bot_verifier: BotVerifier | None = None) -> Parser:
    extract: Extract
    if form.name == "w3c":
        extract = W3c(dialect.names())
    elif form.name == "json":
        extract = partial(json_extract, dialect.names())
    elif form.name == "alb":
        extract = alb_extract
    elif form.name == "haproxy":
        extract = haproxy_extract
    elif form.name == "pattern":
        extract = dialect.extract()
    else:
        return LineParser(form, accounts=dialect.by == "account", bot_verifier=bot_verifier)
    return dialect.parser(extract, bot_verifier)


def has_directives(parse: Parser) -> bool:
    return isinstance(parse, FieldParser) and isinstance(parse.extract, W3c)


def is_directive(parse: Parser, line: bytes) -> bool:
    """Return whether *line* is a directive, which describes the lines that follow, and apply it."""
    return isinstance(parse, FieldParser) and isinstance(parse.extract, W3c) and parse.extract.is_directive(line)

"""
Dialect: how the lines of a log are written, told by the lines themselves or by whoever asks.

`choose` looks at the first lines; `parser` gives what parses the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, get_args

import msgspec

from hedgerow.errors import LogError
from hedgerow.logs.fields import NAMES, SESSION_COOKIES, FieldNames, FieldParser
from hedgerow.logs.formats import UNKNOWN, Format, LineParser, recognise
from hedgerow.logs.patterns import Extract, is_pattern, pattern_extract
from hedgerow.logs.structured import W3c, alb_extract, is_w3c, json_extract
from hedgerow.request.bot_verifier import BotVerifier

PLAIN = ("common", "combined", "vhost-common", "vhost-combined")
NAMED = (*PLAIN, "json", "alb", "w3c")
_LINES_TRIED = 50

By = Literal["visitor", "address", "prefix", "network", "account", "session"]
"""
What a source is: who Hedgerow would take for a visitor (an account that it knows itself, else a prefix); an address; a
prefix (IPv4 address, IPv6 /64); a network (IPv4 /24, IPv6 /48); an account or a session as the log has it, and where it
has none a prefix.
"""


class Dialect(msgspec.Struct, frozen=True):
    """
    What somebody says of the lines.

    *form* is a name (`NAMED`) or a server's own log_format or LogFormat; empty: told by the lines. *fields* says what a
    JSON log or a Parquet file calls some of our fields (`fields.NAMES`). *by* says what is a source. *cookies* says
    that visits are to be linked to the sessions that lines name, whatever is a source.
    """

    form: str = ""
    fields: Mapping[str, str] = {}
    by: By = "visitor"
    cookies: bool = False

    @property
    def sessions(self) -> tuple[str, ...]:
        """The names of cookies that name a session; none where nobody asks for sessions."""
        if self.by != "session" and not self.cookies:
            return ()
        return (self.fields["session"],) if "session" in self.fields else SESSION_COOKIES

    def extract(self) -> Extract:
        """What takes lines of a server's own format apart."""
        return pattern_extract(self.form, self.fields, self.sessions, alone=self.by == "session")

    def parser(
        self,
        extract: Callable[[bytes], dict[str, str] | None],
        *,
        accounts: bool = False,
        bot_verifier: BotVerifier | None = None,
    ) -> FieldParser:
        """What parses lines that *extract* takes apart."""
        return FieldParser(
            extract, accounts=accounts or self.by == "account", sessions=self.sessions, by_session=self.by == "session",
            cookies=self.cookies, bot_verifier=bot_verifier,
        )  # fmt: skip

    def check(self) -> None:
        """LogError where it makes no sense."""
        if self.by not in get_args(By):
            raise LogError(f"a source is one of {', '.join(get_args(By))}; not {self.by!r}")
        if self.form and is_pattern(self.form):
            self.extract()
        elif self.form and self.form not in NAMED:
            raise LogError(f"no format is called {self.form!r}; there are {', '.join(NAMED)}, or give the server's own")
        for name in self.fields:
            if name not in {*NAMES, "session"}:
                raise LogError(f"no field is called {name!r}; there are {', '.join(NAMES)}, session")


AS_IT_IS = Dialect()
Parser = LineParser | FieldParser


class W3cParser(FieldParser):
    """Lines of a W3C log, and its directives."""

    def __init__(
        self, dialect: Dialect = AS_IT_IS, *, accounts: bool = False, bot_verifier: BotVerifier | None = None
    ) -> None:
        self.fields = W3c(FieldNames(dialect.fields, sessions=bool(dialect.sessions)))
        super().__init__(
            self.fields, accounts=accounts, sessions=dialect.sessions, by_session=dialect.by == "session",
            cookies=dialect.cookies, bot_verifier=bot_verifier,
        )  # fmt: skip


def choose(lines: Sequence[bytes], dialect: Dialect = AS_IT_IS) -> Format:
    """The format of *lines*; `UNKNOWN` where fewer than half of them are in any that we know."""
    if dialect.form:
        name = "pattern" if is_pattern(dialect.form) else dialect.form
        return _with_exactness(name, lines, dialect)
    plain = recognise(lines)
    if plain is not UNKNOWN:
        return plain
    if is_w3c(list(lines)):
        return _with_exactness("w3c", lines, dialect)
    tried = [line for line in lines if line.strip()][:_LINES_TRIED]
    names = FieldNames(dialect.fields, sessions=bool(dialect.sessions))
    good: Counter[str] = Counter()
    for line in tried:
        good["json"] += line.lstrip()[:1] == b"{" and json_extract(names, line) is not None
        good["alb"] += alb_extract(line) is not None
    best, count = good.most_common(1)[0] if good else ("", 0)
    return _with_exactness(best, lines, dialect) if 2 * count >= len(tried) > 0 else UNKNOWN


def _with_exactness(name: str, lines: Sequence[bytes], dialect: Dialect) -> Format:
    """The format *name*; its times are exact where any of *lines* has a fraction of a second."""
    form = Format(name)
    if name in PLAIN:
        return Format(name, exact=recognise(lines).exact)
    parse = parser(form, dialect)
    visits = [parse(line) for line in lines[:_LINES_TRIED] if not is_directive(parse, line)]
    return Format(name, exact=any(visit is not None and visit.at % 1 for visit in visits))


def parser(
    form: Format, dialect: Dialect = AS_IT_IS, *, accounts: bool = False, bot_verifier: BotVerifier | None = None
) -> Parser:
    """What parses lines of *form*."""
    accounts |= dialect.by == "account"
    if form.name == "w3c":
        return W3cParser(dialect, accounts=accounts, bot_verifier=bot_verifier)
    if form.name == "json":
        extract = partial(json_extract, FieldNames(dialect.fields, sessions=bool(dialect.sessions)))
        return dialect.parser(extract, accounts=accounts, bot_verifier=bot_verifier)
    if form.name == "alb":
        return dialect.parser(alb_extract, accounts=accounts, bot_verifier=bot_verifier)
    if form.name == "pattern":
        return dialect.parser(dialect.extract(), accounts=accounts, bot_verifier=bot_verifier)
    return LineParser(form, accounts=accounts, bot_verifier=bot_verifier)


def is_directive(parse: Parser, line: bytes) -> bool:
    """Whether *line* says how the next ones are written, and is none itself."""
    return isinstance(parse, W3cParser) and parse.fields.is_directive(line)

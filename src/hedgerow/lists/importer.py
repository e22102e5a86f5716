"""
Import of lists from plain text, CSV, JSON, fail2ban and CrowdSec. The memory does not grow with the file.

A malformed line ends the import with its number and the fault, or is counted and skipped on request. A valid line that
is not an entry, such as a ban that has ended or a CAPTCHA for a country, is left out and counted by reason.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from hedgerow.errors import HedgerowError
from hedgerow.lists.model import LISTS, Listing, ListName, clean_text, parse_subject
from hedgerow.lists.times import parse_duration, parse_time

Format = Literal["plain", "csv", "json", "fail2ban", "crowdsec"]
FORMATS: tuple[Format, ...] = get_args(Format)
COLUMNS = ("list", "subject", "reason", "author", "since", "until")

_HEAD = 4096
_CHUNK = 1 << 16
_MAX_LINE_BYTES = 1 << 20
_MAX_VALUE_LENGTH = 1 << 26
_MAX_FAULTS = 10
_DATABASE = b"SQLite format 3\x00"
_COMMENT = re.compile(r"(?:^|\s)[#;]")
_FAIL2BAN_JAIL = re.compile(r"""['"]([^'"]{1,200})['"]\s*:\s*\[([^\]]*)\]""")
_QUOTED = re.compile(r"""['"]([^'"]*)['"]""")
_FAIL2BAN_WITH_TIME = re.compile(r"(\S+)\s+(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \+ (-?\d{1,12}) = ")
_CROWDSEC_COLUMNS = ({"value", "duration"}, {"value", "scope"}, {"ip", "action", "expiration"})
_BLANKS = re.compile(r"[ \t\r\n]+")


class ListError(HedgerowError):
    """A list cannot be imported. The message says where and why."""


class ImportFault(msgspec.Struct, frozen=True):
    line: int
    text: str


class Defaults(msgspec.Struct, frozen=True):
    """The values of fields that an entry lacks. *at* is the time of the import. *until* is 0 for no end."""

    at: float
    list: ListName = "black"
    reason: str = ""
    author: str = ""
    until: float = 0.0


class ListImport:
    """An iterator over the entries of *source*, a binary file. *name* is its name in messages."""

    def __init__(
        self,
        source: io.BufferedReader,
        name: str,
        defaults: Defaults,
        *,
        format: Format | None = None,  # noqa: A002 - the usual name
        skip_bad: bool = False,
    ) -> None:
        self._source = source
        self._name = name
        self._defaults = defaults
        self._skip_bad = skip_bad
        head = self._source.peek(_HEAD)[:_HEAD]
        self._is_database = head.startswith(_DATABASE)
        self.format: Format = format or ("fail2ban" if self._is_database else detect_format(head))
        self.bytes_read = 0
        self.entries = 0
        self.bad = 0
        self.faults: list[ImportFault] = []
        """The first few skipped faults."""
        self.left_out: Counter[str] = Counter()
        self._line = 0

    def __iter__(self) -> Iterator[Listing]:
        readers: dict[Format, Callable[[], Iterator[Listing]]] = {
            "plain": self._plain, "csv": self._csv, "json": self._json, "fail2ban": self._fail2ban,
            "crowdsec": self._crowdsec,
        }  # fmt: skip
        try:
            for listing in readers[self.format]():
                if listing.in_force(self._defaults.at):
                    self.entries += 1
                    yield listing
                else:
                    self.left_out["ended"] += 1
        except OSError as error:
            raise ListError(f"{self._name}: cannot be read: {error.strerror}") from None

    # ---- What all formats share

    def _fault(self, text: str, line: int = 0) -> None:
        fault = ImportFault(line or self._line, text)
        if not self._skip_bad:
            raise ListError(f"{self._name}:{fault.line}: {text}")
        self.bad += 1
        if len(self.faults) < _MAX_FAULTS:
            self.faults.append(fault)

    def _entry(self, fields: Mapping[str, Any], line: int = 0) -> Iterator[Listing]:
        """Yield an entry with these fields, or record a fault."""
        defaults = self._defaults
        try:
            name = fields.get("list") or defaults.list
            if name not in LISTS:
                raise ValueError(f"{name!r} is not a list; use white or black")  # noqa: TRY301
            yield Listing(
                name,
                parse_subject(_text(fields.get("subject"), "subject")).text,
                clean_text(_text(fields.get("reason") or defaults.reason, "reason")),
                clean_text(_text(fields.get("author") or defaults.author, "author")),
                parse_time(fields.get("since")) or defaults.at,
                parse_time(fields.get("until")) or defaults.until,
            )
        except ValueError as error:
            self._fault(str(error), line)

    def _lines(self) -> Iterator[str]:
        while raw := self._source.readline(_MAX_LINE_BYTES):
            self._line += 1
            self.bytes_read += len(raw)
            if len(raw) == _MAX_LINE_BYTES and not raw.endswith(b"\n"):
                raise ListError(f"{self._name}:{self._line}: the line is too long")
            try:
                # Some editors start a file with a byte order mark.
                yield raw.decode("utf-8-sig" if self._line == 1 else "utf-8")
            except UnicodeDecodeError:
                self._fault("not UTF-8")

    # ---- The formats

    def _plain(self) -> Iterator[Listing]:
        """One subject per line, followed by # or ; and its reason. A subject with such a character is a JSON string."""
        for line in self._lines():
            text = line.strip()
            if not text or text[0] in "#;":
                continue
            if text[0] == '"':
                try:
                    subject, end = json.JSONDecoder().raw_decode(text)
                except ValueError:
                    self._fault("the closing quote is missing")
                    continue
                rest = text[end:]
            else:
                comment = _COMMENT.search(text)
                subject, rest = (text[: comment.start()], text[comment.start() :]) if comment else (text, "")
            yield from self._entry({"subject": subject, "reason": rest.strip()[1:]})

    def _rows(self) -> Iterator[dict[str, str]]:
        """Yield the rows of a CSV file by column name."""
        reader = csv.reader(self._lines(), strict=True)
        try:
            columns = [column.strip().lower() for column in next(reader, [])]
            if columns:
                self._check_columns(columns)
            for row in reader:
                if len(row) > len(columns):
                    self._fault(f"{len(row)} columns, but the first line has {len(columns)}")
                elif any(cell.strip() for cell in row):
                    yield dict(zip(columns, row, strict=False))
        except csv.Error as error:
            raise ListError(f"{self._name}:{self._line}: {error}") from None

    def _check_columns(self, columns: list[str]) -> None:
        if self.format == "csv":
            if "subject" not in columns:
                raise ListError(f"{self._name}:1: the first line must name the columns: subject, and any of {COLUMNS}")
        elif not any(wanted <= set(columns) for wanted in _CROWDSEC_COLUMNS) and "value" not in columns:
            raise ListError(f"{self._name}:1: the first line does not name the columns of CrowdSec")

    def _csv(self) -> Iterator[Listing]:
        for row in self._rows():
            yield from self._entry(row)

    def _json(self) -> Iterator[Listing]:
        """Objects of Hedgerow or CrowdSec; their fields tell which."""
        for line, value in _JsonValues(self._read, self._name):
            if not isinstance(value, dict):
                self._fault("not an object with a subject", line)
            elif "subject" in value:
                yield from self._entry(value, line)
            else:
                yield from self._alert(value, line)

    def _crowdsec(self) -> Iterator[Listing]:
        if self._source.peek(_HEAD).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"[", b"{", b"n"}:
            yield from self._json()
            return
        for row in self._rows():
            if "ip" in row and "value" not in row:
                scope, _, value = row["ip"].partition(":")
                row |= {"scope": scope, "value": value, "type": row.get("action", "")}
                row["duration"] = row.get("expiration", "")
            yield from self._decision(row, self._line)

    def _alert(self, alert: Mapping[str, Any], line: int) -> Iterator[Listing]:
        """Yield the entries of a CrowdSec alert with decisions, or of a single decision."""
        decisions = alert.get("decisions", [alert] if "value" in alert else None)
        if not isinstance(decisions, list) or not all(isinstance(each, dict) for each in decisions):
            self._fault("neither a subject nor decisions", line)
            return
        for each in decisions:
            yield from self._decision(each, line)

    def _decision(self, decision: Mapping[str, Any], line: int) -> Iterator[Listing]:
        scope, value = str(decision.get("scope") or "ip").lower(), str(decision.get("value") or "")
        kind = str(decision.get("type") or "ban").lower()
        if str(decision.get("simulated") or "false").lower() == "true" or kind.startswith("(simul)"):
            self.left_out["simulated"] += 1
            return
        if kind != "ban" or scope not in {"ip", "range", "as"}:
            self.left_out[clean_text(kind if kind != "ban" else f"scope {scope}")] += 1
            return
        subject = f"AS{value.lower().removeprefix('as')}" if scope == "as" else value
        try:
            until = self._defaults.at + parse_duration(decision["duration"]) if decision.get("duration") else 0.0
        except ValueError as error:
            self._fault(str(error), line)
            return
        fields = {
            "subject": subject,
            "reason": decision.get("scenario") or decision.get("reason"),
            "until": max(until, 1.0) if until else 0.0,
        }
        yield from self._entry(fields, line)

    def _fail2ban(self) -> Iterator[Listing]:
        """The output of `fail2ban-client` (`banned`, `get JAIL banip [--with-time]`), or its database."""
        if self._is_database:
            yield from self._fail2ban_database()
            return
        for line in self._lines():
            if "{" in line:
                bans = [
                    {"subject": address, "reason": f"fail2ban: {jail}"}
                    for jail, inside in _FAIL2BAN_JAIL.findall(line)
                    for address in _QUOTED.findall(inside)
                ]
            elif ban := _FAIL2BAN_WITH_TIME.match(line.strip()):
                try:
                    at = datetime.fromisoformat(ban[2]).timestamp()
                except ValueError as error:
                    self._fault(f"the time {ban[2]!r} cannot be read: {error}")
                    continue
                bans = [_ban(ban[1], at, int(ban[3]), "")]
            else:
                bans = [{"subject": address} for address in line.split() if address != "[]"]
            for fields in bans:
                yield from self._entry(fields)

    def _fail2ban_database(self) -> Iterator[Listing]:
        name = getattr(self._source, "name", None)
        path = Path(name) if isinstance(name, str) else None
        if path is None or not path.is_file():
            raise ListError(f"{self._name}: a fail2ban database must be a file")
        try:
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
                tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
                table = "bips" if "bips" in tables else "bans"
                for jail, address, at, seconds in connection.execute(
                    f"SELECT jail, ip, timeofban, bantime FROM {table}"  # noqa: S608 - one of two
                ):
                    self._line += 1
                    yield from self._entry(_ban(str(address), float(at), int(seconds), f"fail2ban: {jail}"))
        except (sqlite3.Error, TypeError) as error:
            raise ListError(f"{self._name}: not a fail2ban database: {error}") from None

    def _read(self, size: int) -> bytes:
        raw = self._source.read(size)
        self.bytes_read += len(raw)
        return raw


class _JsonValues:
    """
    An iterator over the members of a JSON array, or over consecutive JSON values, each with its line number.

    Only the current piece of the text is held. If a value is longer than that, the size of the next piece doubles.
    """

    def __init__(self, read: Callable[[int], bytes], name: str) -> None:
        self._read = read
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder()
        self._text = ""
        self._at = 0
        self._at_end = False
        self._line = 1

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        in_array = self._accept("[")
        first = True
        while not self._ended():
            if in_array and self._accept("]"):
                if not self._ended():
                    raise self._error("unexpected text after the end of the array")
                return
            if in_array and not first and not self._accept(","):
                raise self._error("a comma is missing")
            line, value = self._value()
            first = False
            if value is not None or in_array:
                yield line, value
        if in_array:
            raise self._error("the end of the array is missing")

    def _error(self, text: str) -> ListError:
        return ListError(f"{self._name}:{self._line}: {text}")

    def _read_more(self, size: int) -> None:
        raw = self._read(size)
        self._at_end = not raw
        self._text, self._at = self._text[self._at :], 0
        try:
            self._text += self._decoder.decode(raw, final=self._at_end)
        except UnicodeDecodeError:
            raise self._error("not UTF-8") from None

    def _ended(self) -> bool:
        """Skip blanks, and return whether the text has ended."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            self._line += blanks[0].count("\n") if blanks else 0
            self._at = blanks.end() if blanks else self._at
            if self._at < len(self._text) or self._at_end:
                return self._at >= len(self._text)
            self._read_more(_CHUNK)

    def _accept(self, character: str) -> bool:
        """Skip *character* and the blanks around it if it comes next, and return whether it does."""
        if self._ended() or self._text[self._at] != character:
            return False
        self._at += 1
        self._ended()
        return True

    def _value(self) -> tuple[int, Any]:
        size = _CHUNK
        self._ended()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if self._at_end or len(self._text) - self._at > _MAX_VALUE_LENGTH:
                    reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
                    raise self._error(f"not JSON: {reason}") from None
            else:
                # A number may continue in the next piece.
                if end < len(self._text) or self._at_end:
                    line = self._line
                    self._line += self._text.count("\n", self._at, end)
                    self._at = end
                    return line, value
            self._read_more(size)
            size *= 2


def _text(value: object, field: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"the {field} {value!r} is not text")  # noqa: TRY004 - for the reader of a file
    return value


def _ban(subject: str, at: float, seconds: int, reason: str) -> dict[str, Any]:
    """Return the fields of a fail2ban ban. A negative duration means no end."""
    until = max(at + seconds, 1.0) if seconds >= 0 else 0.0
    return {"subject": subject, "since": max(at, 0.0), "until": until, "reason": reason}


def detect_format(head: bytes) -> Format:
    text = head.decode("utf-8-sig", "replace").lstrip()
    if re.match(r"\[\s*\{\s*'", text):
        return "fail2ban"
    if text.startswith(("[", "{")) or text.strip() == "null":
        return "json"
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", ";"))]
    first = lines[0].lower() if lines else ""
    columns = {cell.strip().strip('"') for cell in first.split(",")}
    if any(wanted <= columns for wanted in _CROWDSEC_COLUMNS):
        return "crowdsec"
    if "subject" in columns:
        return "csv"
    return "fail2ban" if _FAIL2BAN_WITH_TIME.match(first.strip()) else "plain"

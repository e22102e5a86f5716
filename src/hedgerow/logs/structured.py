"""
Structured logs: JSON lines (Caddy, Traefik, nginx), AWS load balancers, W3C logs (CloudFront, IIS), Parquet.

The directives of a W3C log (`#Fields: ...`) describe the lines that follow and are not lines themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from hedgerow.errors import LogError
from hedgerow.logs.fields import FieldNames

_ALB = re.compile(
    r'(?:h2|https?|grpcs?|wss?) (\S+) \S+ (\S+) \S+ \S+ \S+ \S+ (\d{3}|-) \S+ \S+ \S+ "([^"]*+)" '
    r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"(?: .*)?\Z',
    re.ASCII,
)
_JSON = msgspec.json.Decoder()
_W3C_NEEDED = {"c-ip", "time"}


def json_extract(names: FieldNames, line: bytes) -> dict[str, str] | None:
    try:
        data = _JSON.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return names.texts(data) if isinstance(data, dict) else None


def alb_extract(line: bytes) -> dict[str, str] | None:
    """Return the fields of a line of an AWS application load balancer, which has no referrer."""
    match = _ALB.match(line.decode("latin-1"))
    if match is None:
        return None
    at, client, status, request, agent = match.groups()
    return {"time": at, "address": client, "status": status, "request": request, "agent": agent}


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
        raise LogError(f"{path}: Parquet needs pyarrow; install hedgerow[report]") from None
    try:
        file = parquet.ParquetFile(path)
        for batch in file.iter_batches(batch_size=20_000):
            rows: list[Mapping[str, Any]] = batch.to_pylist()
            yield [names.texts(row) for row in rows]
    except (OSError, ValueError) as error:
        raise LogError(f"{path}: cannot be read as Parquet: {str(error).partition(chr(10))[0]}") from None

"""
Tables that are sorted, filtered and cut into pages on the server, and exported as CSV or JSON.

In CSV, text that a spreadsheet would take for a formula begins with an apostrophe: visitors choose their user agents.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

MAX_EXPORT = 100_000
"""Rows of an export."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_CSV_BATCH = 500

T = TypeVar("T")


class Column(msgspec.Struct, frozen=True):
    """A column: the *name* of a row's field, and its heading."""

    name: str
    label: str
    is_number: bool = False
    is_sortable: bool = True


class TableParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which rows of a table, in which order. A minus before the column sorts descending."""

    sort: Annotated[str, Meta(max_length=100, description="A column; with a minus before it, descending.")] = ""
    filter: Annotated[str, Meta(max_length=200, description="Only rows that contain this text.")] = ""
    page: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    size: Annotated[int, Meta(ge=1, le=500, description="Rows of a page.")] = 50
    format: Annotated[Literal["json", "csv"], Meta(description="CSV has all rows, up to 100,000.")] = "json"

    @property
    def column(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def descending(self) -> bool:
        return self.sort.startswith("-")

    @property
    def limit(self) -> int:
        return MAX_EXPORT if self.format == "csv" else self.size

    @property
    def offset(self) -> int:
        return 0 if self.format == "csv" else (self.page - 1) * self.size


class TablePage(msgspec.Struct, Generic[T], frozen=True):
    """Some rows of a table. *total* is how many the filter lets through on all pages."""

    rows: Sequence[T]
    total: int
    page: int
    size: int

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // self.size))


def check_sort(parameters: TableParameters, columns: Sequence[Column]) -> None:
    """Raise msgspec.ValidationError if the table has no such column."""
    names = [column.name for column in columns if column.is_sortable]
    if parameters.column and parameters.column not in names:
        raise msgspec.ValidationError(f"sort is one of {', '.join(names)}, with a minus before it for descending order")


def tabulate(rows: Sequence[T], columns: Sequence[Column], parameters: TableParameters) -> TablePage[T]:
    """Filter, sort and cut rows that are in memory. Without a column to sort by they keep their order."""
    check_sort(parameters, columns)
    if wanted := parameters.filter.casefold():
        rows = [row for row in rows if any(wanted in str(getattr(row, column.name)).casefold() for column in columns)]
    if name := parameters.column:
        # Rows without a value come last in both orders.
        known = [row for row in rows if getattr(row, name) is not None]
        known.sort(key=lambda row: _sort_key(getattr(row, name)), reverse=parameters.descending)
        rows = [*known, *(row for row in rows if getattr(row, name) is None)]
    cut = rows[parameters.offset : parameters.offset + parameters.limit]
    return TablePage(cut, len(rows), parameters.page, parameters.size)


def _sort_key(value: Any) -> tuple[int, Any]:
    return (0, value) if isinstance(value, int | float) else (1, str(value).casefold())


def write_csv(rows: Sequence[Any], columns: Sequence[Column]) -> Iterator[bytes]:
    """Yield the rows as CSV, in parts."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([column.name for column in columns])
    for number, row in enumerate(rows, 1):
        writer.writerow([csv_cell(getattr(row, column.name)) for column in columns])
        if number % _CSV_BATCH == 0:
            yield _taken(out)
    yield _taken(out)


def csv_cell(value: Any) -> str | int | float:
    """
    Return a value that no spreadsheet takes for a formula.

    >>> csv_cell("=1+1"), csv_cell("-5"), csv_cell(-5), csv_cell("a"), csv_cell(None)
    ("'=1+1", "'-5", -5, 'a', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def _taken(out: io.StringIO) -> bytes:
    data = out.getvalue().encode("utf-8", "backslashreplace")
    out.seek(0)
    out.truncate()
    return data

"""
Tables of the page: plain HTML, which the page's script makes to sort and filter.

A table has a budget of bytes: what does not fit is counted, and named in a sentence below it. So a log of a million
sources, or of user agents that are all quotation marks, gives a page that still opens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hedgerow.report.html.text import escaped

PRINTED = 100
"""Rows that are printed."""


class Column(NamedTuple):
    """A heading, and what its cells are: "text", "time", "number", or "choice": one of a few words, to pick from."""

    name: str
    kind: str = "text"


class Cell(NamedTuple):
    """*html* is shown; the table is sorted by *key* where there is one, else by what is shown."""

    html: str
    key: str = ""


def text(words: str) -> Cell:
    return Cell(escaped(words))


def count(value: int) -> Cell:
    return Cell(f"{value:,}", str(value))


def table(
    name: str,
    caption: str,
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    total: int,
    *,
    budget: int,
    more: str = "",
) -> Iterator[str]:
    """
    A table with the id *name* of *total* rows; no more than fit in *budget* bytes, and no more are made.

    *more* is a sentence with a place for how many rows were left out.
    """
    head = "".join(f'<th scope="col" data-kind="{column.kind}">{escaped(column.name)}</th>' for column in columns)
    yield (
        f'<div class="scroll" role="region" aria-label="Table: {escaped(caption)}" tabindex="0">'
        f'<table id="{name}" class="sorted"><caption>{escaped(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n"
    )
    spent = written = 0
    for row in rows:
        line = _row(columns, row, beyond=written >= PRINTED)
        spent += len(line)
        if spent > budget:
            break
        written += 1
        yield line
    yield "</tbody></table></div>\n"
    if written < total:
        yield f'<p class="quiet">{escaped(more.format(f"{total - written:,}"))}</p>\n'
    if written > PRINTED:
        yield f'<p class="on-paper">The first {PRINTED} rows are printed.</p>\n'


def _row(columns: Sequence[Column], cells: Sequence[Cell], *, beyond: bool) -> str:
    parts = ['<tr class="beyond">' if beyond else "<tr>"]
    for column, cell in zip(columns, cells, strict=True):
        number = f' class="{column.kind}"' if column.kind in {"number", "time"} else ""
        key = f' data-key="{cell.key}"' if cell.key else ""
        parts.append(f"<td{number}{key}>{cell.html}</td>")
    return "".join([*parts, "</tr>\n"])

"""
Text and tables of the HTML page.

User agents, addresses and bad lines come from strangers. All text goes through `escaped`, and the page is ASCII:
whatever bytes a log has, none of them become markup. A script of the page sorts and filters the tables. A table has a
budget of bytes: rows that do not fit are counted in a sentence below it, so a log with a million sources still gives a
page that opens.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hedgerow.logs.formats import iso, readable

_LONGEST = 200


def escaped(text: str) -> str:
    r"""
    *text* as it may stand in the page, between tags or in an attribute in quotes.

    >>> escaped("<b title='x'>\x1b[2J caf\xe9")
    '&lt;b title=&#x27;x&#x27;&gt;\\x1b[2J caf&#233;'
    """
    return html.escape(readable(text)).encode("ascii", "xmlcharrefreplace").decode()


def cut(text: str, longest: int = _LONGEST) -> str:
    """Return the beginning of *text*, which is not escaped yet."""
    return text if len(text) <= longest else f"{text[:longest]} ..."


def number(value: float) -> str:
    return f"{value:,.0f}"


def percent(share: float) -> str:
    """
    A share; one that is not quite nothing or all is never rounded to it.

    >>> percent(0.5), percent(0.0324), percent(0.00004), percent(0.9999), percent(1.0), percent(0.0)
    ('50 %', '3.2 %', '0.004 %', '99.99 %', '100 %', '0 %')
    """
    value = share * 100
    if 0 < value < 0.1 or 99.9 < value < 100:  # noqa: PLR2004
        return f"{value:.2g} %" if value < 1 else f"{min(value, 99.99):.2f} %"
    return f"{round(value, 0 if 10 <= value <= 99 else 1):g} %"  # noqa: PLR2004


def counted(count: int, one: str, many: str) -> str:
    """
    So many things.

    >>> counted(1, "source", "sources"), counted(2000, "source", "sources")
    ('1 source', '2,000 sources')
    """
    return f"{count:,} {one if count == 1 else many}"


def when(at: float | None) -> str:
    """A time to the minute, in UTC."""
    text = iso(at)
    return text[:16].replace("T", " ") if text else "?"


PRINTED = 100
"""Rows that are printed."""


class Column(NamedTuple):
    """A heading and the kind of its cells: "text", "time", "number", or "choice" (one of a few words to pick from)."""

    name: str
    kind: str = "text"


class Cell(NamedTuple):
    """*html* is shown. The table is sorted by *key*, or by what is shown if there is none."""

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
    Yield a table with the id *name* of *total* rows, as many as fit in *budget* bytes; no more are made.

    *more* is a sentence with a placeholder for the number of omitted rows.
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

"""
Visits by minute: how many there were, by what was decided on them and why.

The ledger counts them while it writes its rows. So a chart of a week reads some thousand rows instead of millions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MINUTE = 60
COLUMNS = ("minute", "action", "code", "observed", "visits", "pages")
_FIELDS = ("at", "action", "code", "observed", "kind")


class MinuteCount(NamedTuple):
    """
    The visits of one minute with the same decision. *minute* is its first second.

    *code* is empty for visits that pass. *pages* are the visits for pages, the others are for their parts.
    """

    minute: int
    action: str
    code: str
    observed: str
    visits: int
    pages: int


class StepCount(NamedTuple):
    """The visits with the same decision from *start* on, for as long as one step. *pages* are those for pages."""

    start: int
    action: str
    observed: str
    visits: int
    pages: int


def count_minutes(rows: Iterable[Sequence[object]], columns: Sequence[str]) -> list[MinuteCount]:
    """Count rows of the ledger with these columns. The result is in order: two writers never wait for one another."""
    at, action, code, observed, kind = (columns.index(name) for name in _FIELDS)
    visits, pages = Counter[tuple[int, str, str, str]](), Counter[tuple[int, str, str, str]]()
    for row in rows:
        decided = str(row[action])
        moment = row[at]
        assert isinstance(moment, float | int)
        key = (int(moment // MINUTE) * MINUTE, decided, str(row[code]) if decided != "pass" else "", str(row[observed]))
        visits[key] += 1
        if row[kind] == "page":
            pages[key] += 1
    return [MinuteCount(*key, visits[key], pages[key]) for key in sorted(visits)]


def add(table: str, placeholder: str) -> str:
    """Return the statement that adds one `MinuteCount`."""
    return (
        f"INSERT INTO {table} ({', '.join(COLUMNS)}) VALUES ({', '.join([placeholder] * len(COLUMNS))}) "  # noqa: S608
        f"ON CONFLICT (minute, action, code, observed) DO UPDATE SET visits = {table}.visits + excluded.visits, "
        f"pages = {table}.pages + excluded.pages"
    )

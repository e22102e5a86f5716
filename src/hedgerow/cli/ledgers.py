"""What the command line asks a ledger, in SQLite or PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from hedgerow.build import ledger_path, postgresql_parts
from hedgerow.errors import StoreError
from hedgerow.settings import Settings


def ledger_name(settings: Settings) -> str:
    """How the ledger is called in a message."""
    return "in PostgreSQL" if settings.ledger.url else str(ledger_path(settings))


def find_reference(settings: Settings, reference: str, columns: Sequence[str]) -> list[Any]:
    """These columns of the visit that was given *reference*; StoreError where there is none."""
    row = (
        _in_postgresql(settings, reference, columns) if settings.ledger.url else _in_file(settings, reference, columns)
    )
    if row is None:
        raise StoreError(f"the ledger {ledger_name(settings)} does not know the reference {reference}")
    return row


def count_visits(settings: Settings, visitor: str) -> int:
    """How many pages the visitor was given, as far as the ledger goes back."""
    what = "kind = 'page' AND action = 'pass'"
    if settings.ledger.url:
        with postgresql_parts().reading(settings.ledger.url, ["at"], f"visitor = %s AND {what}", visitor) as rows:
            return sum(1 for _ in rows)
    path = ledger_path(settings)
    if not path.is_file():
        return 0
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as ledger:
        query = f"SELECT count(*) FROM visits WHERE visitor = ? AND {what}"  # noqa: S608 - a constant
        return int(ledger.execute(query, (visitor,)).fetchone()[0])


def _in_postgresql(settings: Settings, reference: str, columns: Sequence[str]) -> list[Any] | None:
    with postgresql_parts().reading(settings.ledger.url, columns, "ref = %s", reference) as rows:
        found: list[Any] | None = next(rows, None)
        return found


def _in_file(settings: Settings, reference: str, columns: Sequence[str]) -> list[Any] | None:
    path = ledger_path(settings)
    if not path.is_file():
        raise StoreError(f"there is no ledger at {path}; name the settings of the site with --config")
    query = f"SELECT {', '.join(columns)} FROM visits WHERE ref = ?"  # noqa: S608 - constants
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            row = connection.execute(query, (reference,)).fetchone()
    except sqlite3.Error as error:
        raise StoreError(f"cannot read the ledger {path}: {error}") from None
    return list(row) if row is not None else None

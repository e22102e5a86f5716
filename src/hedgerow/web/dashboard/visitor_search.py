"""Finds the visitor that an operator names: by address, account, clearance or the reference on a refusal page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hedgerow.core.address import parse_address, prefix_of
from hedgerow.core.decision import Decision
from hedgerow.core.visit import Visit
from hedgerow.ledger.reader import Row
from hedgerow.logs.ledger_rows import FOLLOWED_COLUMNS, entry_of_row
from hedgerow.web.dashboard.page import Context, Problem
from hedgerow.web.ledger_access import keys_stored_as
from hedgerow.web.stores import build_hide

_REFERENCE = re.compile(r"[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}")


def is_reference(text: str) -> bool:
    return _REFERENCE.fullmatch(text.strip()) is not None


def find_visitor(context: Context, text: str) -> str:
    """Return the key of a visitor. Raises `Problem` if there is no such reference."""
    text = text.strip()
    if is_reference(text):
        return known_key(context, str(find_decision(context, text, ("visitor",))[0]))
    address = parse_address(text)
    return prefix_of(address) if address else text


def find_decision(context: Context, reference: str, columns: Sequence[str]) -> Row:
    """Return the visit with this reference. Raises `Problem` if there is none."""
    if not context.has_ledger:
        raise Problem(404, "The ledger is off, so no reference can be found.")
    with context.ledger() as ledger:
        row = ledger.find(reference.strip().upper(), columns)
    if row is None:
        raise Problem(404, f"The reference {reference.strip().upper()} is not in the ledger.")
    return row


def known_key(context: Context, stored: str) -> str:
    """Return the key of a visitor that the ledger stores as *stored*, perhaps with a hidden address."""
    return keys_stored_as(context.settings, stored, lambda: known_keys(context))[0]


def known_keys(context: Context) -> Iterable[str]:
    """Return the keys with a block or a score."""
    return context.snapshot.blocks.keys() | context.snapshot.scores.keys()


def visits_of(context: Context, key: str, limit: int) -> list[tuple[Visit, Decision]]:
    """Return the last visits of a visitor in the ledger, the oldest first."""
    if not context.has_ledger:
        return []
    hide = build_hide(context.settings)
    with context.ledger() as ledger:
        rows = ledger.last_visits(hide(key) if hide is not None else key, limit, FOLLOWED_COLUMNS)
    found = [entry_of_row(row) for row in reversed(rows)]
    return [one for one in found if one is not None]

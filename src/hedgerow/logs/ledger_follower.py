"""Following a ledger while it is written: each visit with its decision, once and in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from hedgerow.core.decision import Action, Decision, Evidence
from hedgerow.core.visit import Visit
from hedgerow.ledger.reader import LedgerReader
from hedgerow.logs.formats import LEDGER_COLUMNS, visit_of_row

_COLUMNS = ("action", "evidence", *LEDGER_COLUMNS)
_ACTIONS = frozenset(get_args(Action))
_EVIDENCE = msgspec.json.Decoder(tuple[Evidence, ...])
_WITHOUT_EVIDENCE = {action: Decision(action) for action in get_args(Action)}


class LedgerFollower:
    """Reads a ledger from the row after number *after*, or from its end if that is None."""

    def __init__(self, reader: LedgerReader, after: int | None = None) -> None:
        self._reader = reader
        newest = reader.newest()
        # A new ledger counts from 1 again.
        self.after = newest if after is None else after if after <= newest else 0
        self.bad = 0
        """Number of invalid rows."""

    @property
    def behind(self) -> int:
        """The number of rows still to read."""
        return max(0, self._reader.newest() - self.after)

    def read(self) -> Sequence[tuple[Visit, Decision]]:
        """Return the next visits, none if there are no new ones."""
        visits = []
        for number, action, evidence, *row in self._reader.after(self.after, _COLUMNS):
            self.after = number
            visit, decision = visit_of_row(row), _decision(action, evidence)
            if visit is None or decision is None:
                self.bad += 1
            else:
                visits.append((visit, decision))
        return visits


def _decision(action: Any, evidence: Any) -> Decision | None:
    if action not in _ACTIONS:
        return None
    if evidence == "[]":
        return _WITHOUT_EVIDENCE[action]
    try:
        return Decision(action, _EVIDENCE.decode(evidence))
    except (msgspec.MsgspecError, TypeError):
        return None

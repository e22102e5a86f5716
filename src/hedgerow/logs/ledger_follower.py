"""The ledger, read along while it is written: each visit with its evidence and what was decided, once and in order."""

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
_NOTHING = {action: Decision(action) for action in get_args(Action)}


class LedgerFollower:
    """Reads a ledger from behind the row *after* on; from its end on where that is None."""

    def __init__(self, reading: LedgerReader, after: int | None = None) -> None:
        self._reading = reading
        newest = reading.newest()
        # A ledger that was begun anew counts from 1 again.
        self.after = newest if after is None else after if after <= newest else 0
        self.bad = 0
        """Rows that made no sense."""

    @property
    def behind(self) -> int:
        """Rows that are still to be read."""
        return max(0, self._reading.newest() - self.after)

    def read(self) -> Sequence[tuple[Visit, Decision]]:
        """The next visits; none where there are no more yet."""
        found = []
        for number, action, evidence, *row in self._reading.after(self.after, _COLUMNS):
            self.after = number
            visit, decision = visit_of_row(row), _decision(action, evidence)
            if visit is None or decision is None:
                self.bad += 1
            else:
                found.append((visit, decision))
        return found


def _decision(action: Any, evidence: Any) -> Decision | None:
    if action not in _ACTIONS:
        return None
    if evidence == "[]":
        return _NOTHING[action]
    try:
        return Decision(action, _EVIDENCE.decode(evidence))
    except (msgspec.MsgspecError, TypeError):
        return None

"""The ledger, read along while it is written: each visit with its evidence and what was decided, once and in order."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec

from hedgerow.errors import LogError
from hedgerow.logs.formats import LEDGER_COLUMNS, visit_of_row
from hedgerow.verdict import Action, Decision, Evidence
from hedgerow.visit import Visit

_ACTIONS = frozenset(get_args(Action))
_EVIDENCE = msgspec.json.Decoder(tuple[Evidence, ...])
_NOTHING = {action: Decision(action) for action in get_args(Action)}


class Along:
    """Reads the ledger *path* from behind the row *after* on; from its end on where that is None."""

    def __init__(self, path: Path, after: int | None = None) -> None:
        try:
            self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10.0)
            self._connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
            newest = self._newest()
        except sqlite3.Error as error:
            raise LogError(f"cannot read the ledger {path}: {error}") from None
        # A ledger that was begun anew counts from 1 again.
        self.after = newest if after is None else after if after <= newest else 0
        self.bad = 0
        """Rows that made no sense."""

    def _newest(self) -> int:
        return int(self._connection.execute("SELECT coalesce(max(id), 0) FROM visits").fetchone()[0])

    @property
    def behind(self) -> int:
        """Rows that are still to be read."""
        return max(0, self._newest() - self.after)

    def read(self, most: int = 1000) -> Sequence[tuple[Visit, Decision]]:
        """The next visits, at most *most*; none where there are no more yet."""
        rows = self._connection.execute(
            f"SELECT id, action, evidence, {LEDGER_COLUMNS} FROM visits"  # noqa: S608 - a constant
            " WHERE id > ? ORDER BY id LIMIT ?",
            (self.after, most),
        ).fetchall()
        found = []
        for number, action, evidence, *row in rows:
            self.after = number
            visit, decision = visit_of_row(row), _decision(action, evidence)
            if visit is None or decision is None:
                self.bad += 1
            else:
                found.append((visit, decision))
        return found

    def close(self) -> None:
        self._connection.close()


def _decision(action: Any, evidence: Any) -> Decision | None:
    if action not in _ACTIONS:
        return None
    if evidence == "[]":
        return _NOTHING[action]
    try:
        return Decision(action, _EVIDENCE.decode(evidence))
    except (msgspec.MsgspecError, TypeError):
        return None

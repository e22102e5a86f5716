"""The ledger (extended access log): its entry, its protocol, and a ledger that stores nothing."""

from __future__ import annotations

from typing import Protocol

import msgspec

from hedgerow.core.decision import Decision
from hedgerow.core.visit import Visit

POSTGRESQL_SCHEMES = ("postgresql://", "postgres://")
"""How the URL of a database in PostgreSQL starts. Any other name of a ledger is that of a file."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A visit, the decision on it, and the reference that a refused visitor was shown."""

    visit: Visit
    decision: Decision
    status: int
    reference: str = ""


class Ledger(Protocol):
    """
    The extended access log, one entry per visit.

    `append` never blocks and never fails. A ledger that cannot keep up drops the entry and counts it in *lost*.
    """

    lost: int
    failing: bool
    """True while entries are being lost."""
    errors: int
    """How often entries could not be written."""

    @property
    def pending(self) -> int:
        """The number of entries that wait to be written."""

    def append(self, entry: Entry) -> None: ...

    def close(self) -> None:
        """Write the pending entries and stop."""


class NoLedger:
    """Stores nothing: for replays, and for settings that turn the ledger off."""

    lost = 0
    failing = False
    errors = 0
    pending = 0

    def append(self, entry: Entry) -> None: ...

    def close(self) -> None: ...

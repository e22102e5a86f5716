"""The ledger's noun and its protocol: the extended access log, one entry for each visit."""

from __future__ import annotations

from typing import Protocol

import msgspec

from hedgerow.core.decision import Decision
from hedgerow.core.visit import Visit


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A visit, what was decided about it, and the reference that a refused visitor was given. Times as in the visit."""

    visit: Visit
    decision: Decision
    status: int
    reference: str = ""


class Ledger(Protocol):
    """
    The extended access log.

    `append` never waits and never fails: a ledger that cannot keep up drops the entry and counts it in *lost*.
    """

    lost: int
    failing: bool
    """Whether entries are being lost now."""

    def append(self, entry: Entry) -> None: ...

    def close(self) -> None:
        """Write what waits, and stop."""


class NoLedger:
    """Keeps nothing: for replays, and where the settings switch the ledger off."""

    lost = 0
    failing = False

    def append(self, entry: Entry) -> None: ...

    def close(self) -> None: ...

"""The time by which a ledger deletes old rows: a clock that jumps ahead must not delete what is not old."""

from __future__ import annotations

import time

_DAY = 86_400.0


class BelievedTime:
    """
    The clock, but not a jump of it by more than a day, until the clock has gone on for another day.

    *confirmed* is the time that was believed last, such as before a restart, None if there was none. *jumped* is when
    the clock jumped, by its own account, 0.0 if it did not. Both are for the ledger to keep.
    """

    def __init__(self, confirmed: float | None = None, jumped: float = 0.0) -> None:
        self.confirmed = time.time() if confirmed is None else confirmed
        self.jumped = jumped
        self._confirmed_at = time.monotonic()

    def now(self) -> float:
        """Return the time that may be believed: the clock's, or what it would be without its jump."""
        now = time.time()
        without_jump = self.confirmed + time.monotonic() - self._confirmed_at
        if now > without_jump + _DAY:
            if not self.jumped or now < self.jumped:
                self.jumped = now
            if now < self.jumped + _DAY:
                return without_jump
        self.confirmed, self.jumped = now, 0.0
        self._confirmed_at = time.monotonic()
        return now

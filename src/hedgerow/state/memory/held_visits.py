"""
Visits whose answer waits for a front server, in one process.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Sequence

from hedgerow.state.held_visits import HeldVisit


class MemoryHeldVisits:
    """Those of one process."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, HeldVisit] = OrderedDict()

    def hold(self, held: HeldVisit, most: int) -> tuple[str, Sequence[HeldVisit]]:
        reference = secrets.token_urlsafe(16)
        self._held[reference] = held
        return reference, [self._held.popitem(last=False)[1]] if len(self._held) > most else []

    def take(self, reference: str) -> HeldVisit | None:
        return self._held.pop(reference, None)

    def leave(self) -> Sequence[HeldVisit]:
        given_up = list(self._held.values())
        self._held.clear()
        return given_up

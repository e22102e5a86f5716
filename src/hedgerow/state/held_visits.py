"""
Visits that were not let in and whose answer a front has not come for yet: held until it does, bounded.

One process keeps them in memory; workers share those of `lmdb.held_visits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from hedgerow.core.decision import Decision
from hedgerow.core.visit import Visit


class HeldVisit(msgspec.Struct, frozen=True, array_like=True):
    """A request as its front told it, the visit that it is, and what was decided."""

    method: str
    path: str
    raw_path: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    peer: tuple[str, int]
    scheme: str
    visit: Visit
    decision: Decision


class HeldVisits(Protocol):
    def hold(self, held: HeldVisit, most: int) -> tuple[str, Sequence[HeldVisit]]:
        """The name to come back with, and what is given up for it: at most *most* are held."""

    def take(self, reference: str) -> HeldVisit | None:
        """What is held under this name, once; None where there is nothing."""

    def leave(self) -> Sequence[HeldVisit]:
        """Give up all that this process has held and nobody has come for."""

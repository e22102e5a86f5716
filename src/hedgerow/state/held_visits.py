"""
Visits that were not let in, held until the front server fetches their response.

Their number is bounded. One process holds them in memory, several workers in `lmdb.shared_stores`.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

import msgspec

from hedgerow.core.decision import Decision
from hedgerow.core.visit import Visit


class HeldVisit(msgspec.Struct, frozen=True, array_like=True):
    """A request as the front server described it, its visit, and the decision."""

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
        """Hold a visit, and return its reference and the oldest visits, which are dropped if there are over *most*."""

    def take(self, reference: str) -> HeldVisit | None:
        """Remove and return the visit with this reference, or return None."""

    def leave(self) -> Sequence[HeldVisit]:
        """Remove and return all visits that this process holds."""


class MemoryHeldVisits:
    def __init__(self) -> None:
        self._held: OrderedDict[str, HeldVisit] = OrderedDict()

    def hold(self, held: HeldVisit, most: int) -> tuple[str, Sequence[HeldVisit]]:
        reference = secrets.token_urlsafe(16)
        self._held[reference] = held
        return reference, [self._held.popitem(last=False)[1]] if len(self._held) > most else []

    def take(self, reference: str) -> HeldVisit | None:
        return self._held.pop(reference, None)

    def leave(self) -> Sequence[HeldVisit]:
        dropped, self._held = list(self._held.values()), OrderedDict()
        return dropped

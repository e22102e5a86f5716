"""
Visits that were not let in and whose answer a front has not come for yet: held until it does, bounded.

One process keeps them in memory; workers share those of `lmdb_more`.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

import msgspec

from hedgerow.verdict import Decision
from hedgerow.visit import Visit


class Held(msgspec.Struct, frozen=True, array_like=True):
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


class Pending(Protocol):
    def hold(self, held: Held, most: int) -> tuple[str, Sequence[Held]]:
        """The name to come back with, and what is given up for it: at most *most* are held."""

    def take(self, reference: str) -> Held | None:
        """What is held under this name, once; None where there is nothing."""

    def leave(self) -> Sequence[Held]:
        """Give up all that this process has held and nobody has come for."""


class MemoryPending:
    """Those of one process."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, Held] = OrderedDict()

    def hold(self, held: Held, most: int) -> tuple[str, Sequence[Held]]:
        reference = secrets.token_urlsafe(16)
        self._held[reference] = held
        return reference, [self._held.popitem(last=False)[1]] if len(self._held) > most else []

    def take(self, reference: str) -> Held | None:
        return self._held.pop(reference, None)

    def leave(self) -> Sequence[Held]:
        given_up = list(self._held.values())
        self._held.clear()
        return given_up

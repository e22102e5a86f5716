"""Kept: what a watch hands over to be kept, and what it gets back after a restart. Nouns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hedgerow.watch.models.panel import PanelRecord


class SnapshotChanges(NamedTuple):
    """What has changed: sessions by visitor, ties by digest; when each was last seen, and what it is; None: gone."""

    sessions: Mapping[str, tuple[float, bytes] | None]
    ties: Mapping[bytes, tuple[float, bytes] | None]

    def __len__(self) -> int:
        return len(self.sessions) + len(self.ties)


class WatchSnapshot(NamedTuple):
    """What was pending before a restart, the oldest first, and what panels have recorded."""

    sessions: Sequence[tuple[str, bytes]] = ()
    ties: Sequence[tuple[bytes, bytes]] = ()
    records: Sequence[PanelRecord] = ()

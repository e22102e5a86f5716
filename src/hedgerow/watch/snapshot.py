"""The parts of a watch's memory that survive a restart, as passed to and from its store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hedgerow.watch.models.panel import PanelRecord


class SnapshotChanges(NamedTuple):
    """Sessions by visitor and link records by visitor digest: (last seen, value), or None if removed."""

    sessions: Mapping[str, tuple[float, bytes] | None]
    ties: Mapping[bytes, tuple[float, bytes] | None]

    def __len__(self) -> int:
        return len(self.sessions) + len(self.ties)


class WatchSnapshot(NamedTuple):
    """Sessions and link records from before a restart, oldest first, and the records of the model panels."""

    sessions: Sequence[tuple[str, bytes]] = ()
    ties: Sequence[tuple[bytes, bytes]] = ()
    records: Sequence[PanelRecord] = ()

"""What a site remembers in, whatever engines it is made of. A noun; `storage` makes it."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Protocol

from hedgerow.challenge.clearance import ClearanceUsage
from hedgerow.challenge.interfaces import UsedChallenges
from hedgerow.core.decision import Campaign
from hedgerow.core.ledger import Ledger
from hedgerow.request.robots_compliance import RevokedBots
from hedgerow.settings import Settings
from hedgerow.state.held_visits import HeldVisits
from hedgerow.state.lmdb.worker_metrics import LmdbWorkerMetrics
from hedgerow.state.memory.held_visits import MemoryHeldVisits
from hedgerow.state.sqlite.journal import SqliteJournal
from hedgerow.state.store import StateStore
from hedgerow.watch.relay import Relay


class Shared(Protocol):
    """A watch that shares its work with those of other processes."""

    def run(self, stop: Event) -> None: ...

    def follow(self, settings: Settings) -> None:
        """Go on under these settings."""

    def campaigns(self) -> Sequence[Campaign]:
        """All that are known, whoever has found them; the oldest first."""


@dataclass
class SiteStores:
    """
    What a site remembers in.

    *watches*: the watch is in this process. Else visits go to it through *relay*, where there is one. *tallies* are
    what the workers have counted, and *intake* is where their visits come in. *shared* is a watch that shares its work
    with those of other processes; it is run beside the gate where *watches*. *pending*: answers that wait
    for a front.
    """

    state: StateStore
    ledger: Ledger
    spent: UsedChallenges
    clearance_usage: ClearanceUsage = field(default_factory=ClearanceUsage)
    revoked_bots: RevokedBots = field(default_factory=dict[str, float])
    journal: SqliteJournal | None = None
    watches: bool = True
    relay: Relay | None = None
    tallies: LmdbWorkerMetrics | None = None
    intake: socket.socket | None = None
    shared: Shared | None = None
    pending: HeldVisits = field(default_factory=MemoryHeldVisits)

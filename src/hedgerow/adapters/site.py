"""
The protected site as an adapter sees it: its gate, its bait, its maze, and what has been counted.

Shared by all forms of Hedgerow, so that a page gets the same bait and a crawler the same maze in each of them.
"""

from __future__ import annotations

import logging
from collections import Counter
from hashlib import blake2b

from hedgerow.build import build_gate, build_ledger, build_seal, build_state
from hedgerow.gate import Gate
from hedgerow.identity.account import AccountOf
from hedgerow.marker.seal import Seal
from hedgerow.page.scan import Skeletons
from hedgerow.settings import Settings
from hedgerow.stores.ledger import Ledger
from hedgerow.stores.memory import MemoryState
from hedgerow.traps.bait import Bait, BaitPlacer, Pages
from hedgerow.traps.maze import Maze
from hedgerow.traps.tarpit import Tarpit
from hedgerow.verdict import Decision
from hedgerow.visit import Visit

log = logging.getLogger(__name__)


class Site:
    """
    A site under these settings.

    `use` takes other settings while it runs: counters, blocks, ledger and key stay, everything else is made anew.
    """

    gate: Gate
    settings: Settings

    def __init__(
        self,
        settings: Settings,
        *,
        seal: Seal | None = None,
        state: MemoryState | None = None,
        ledger: Ledger | None = None,
        account_of: AccountOf | None = None,
    ) -> None:
        self._seal = seal or build_seal(settings)
        self._account_of = account_of
        # Not `state or ...`: a state that remembers nobody yet is false.
        self.state = build_state(settings) if state is None else state
        self.ledger = build_ledger(settings) if ledger is None else ledger
        self._skeletons = Skeletons()
        self._pages = Pages()
        self.decided: Counter[str] = Counter()
        """Visits by action, and refusals by code."""
        self.untouched: Counter[str] = Counter()
        """Pages passed on without bait, by reason."""
        self.upstream_errors: Counter[str] = Counter()
        self.closing = False
        """Set when the site is about to stop: nobody is detained any longer."""
        self.use(settings)

    def use(self, settings: Settings) -> None:
        """Go on under *settings*."""
        gate = build_gate(
            settings, seal=self._seal, state=self.state, ledger=self.ledger, pages=self._pages,
            account_of=self._account_of,
        )  # fmt: skip
        detains = "detain" in {settings.traps.response, settings.density.response}
        # A maze takes 30 ms to lay out: only where somebody may be led into it.
        maze = Maze(self._seal, settings.traps.prefix, self._maze_seed()) if detains else None
        before: Settings | None = getattr(self, "settings", None)
        if before is None or before.detain != settings.detain:
            self.tarpit = Tarpit(settings.detain.connections, settings.detain.memory, settings.detain.seconds)
        if before is not None:
            gate.blocked = self.gate.blocked
        self.settings, self.gate, self.maze = settings, gate, maze

    def _maze_seed(self) -> bytes:
        """Another for each site, the same after a restart, and nothing that tells about the key."""
        return blake2b(self._seal.seal("maze", bytes(8), bytes(6), 0)).digest()

    def bait(self, visit: Visit) -> tuple[Bait, BaitPlacer]:
        """The bait for the page of this visit, and what puts it there."""
        traps = self.settings.traps
        page = self.gate.pages.remember(visit.target)
        bait = Bait(self._seal, traps.prefix, visit.visitor, page)
        return bait, BaitPlacer(bait, self._skeletons, placement=traps.placement, every=traps.every)

    def record(self, visit: Visit, decision: Decision, status: int, reference: str = "") -> None:
        """Count a visit that is answered, or about to be, and write it down. Once for each visit."""
        self.decided[decision.action] += 1
        if decision.action != "pass":
            self.decided[decision.code] += 1
        self.gate.record(visit, decision, status, reference)

    def pass_untouched(self, reason: str, target: str) -> None:
        """Count a page that could not be read; the first of its kind is logged."""
        self.untouched[reason] += 1
        if self.untouched[reason] == 1:
            log.warning("pages are passed on without hidden links (%s), the first of them %s", reason, ascii(target))

    def close(self) -> None:
        """Write what waits."""
        self.ledger.close()

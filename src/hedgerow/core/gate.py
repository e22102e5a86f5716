"""
The gate: a request becomes a visit, the visit a decision, and both a line of the ledger.

The one place where the pure engine meets its stores. Every adapter (middleware, proxy, replay) goes through here, so
the verdict is the same whatever the form. Takes the time as an argument; asks no clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from hedgerow.challenge.interfaces import ChallengeFailure, ChallengeKind
from hedgerow.core.decision import Decision, Evidence
from hedgerow.core.engine import Engine
from hedgerow.core.ledger import Entry, Ledger
from hedgerow.core.state import AsyncState, State, StateQuery, StateReply, StateUnavailable
from hedgerow.core.visit import BY_SCRIPT, Kind, Visit
from hedgerow.request.identify import Identifier
from hedgerow.traps.bait import PageDigests

log = logging.getLogger(__name__)


OnDecision = Callable[[Visit, Decision], None]

_CLOSED_FOR = 5.0
_CLOSED = Decision("refuse", (Evidence("store", "store-away", 1.0, "The site cannot tell who is asking just now."),))
_SUSPICIOUS = frozenset({"wrong", "spent", "visitor", "spliced", "tampered"})


def _corrected(visit: Visit, kind: Kind) -> Visit:
    anomalies = (*visit.anomalies, BY_SCRIPT) if visit.kind == "call" else visit.anomalies
    return msgspec.structs.replace(visit, kind=kind, anomalies=anomalies)


def _away(visit: Visit) -> Decision:
    """What becomes of a visit that the settings let nobody decide on: the site is closed for a moment."""
    return msgspec.structs.replace(_CLOSED, until=visit.at + _CLOSED_FOR)


class Gate:
    """Decides on visits and writes them down."""

    def __init__(
        self, engine: Engine, state: State, ledger: Ledger, identifier: Identifier, pages: PageDigests
    ) -> None:
        self.engine = engine
        self.state = state
        self.ledger = ledger
        self.identifier = identifier
        self.pages = pages
        self.blocked = 0
        """Visitors blocked since the start."""
        self.afar: AsyncState | None = state if isinstance(state, AsyncState) else None
        """The state, where it is on another machine: adapters that can serve others meanwhile then do."""
        self.needs_ledger = False
        """Whether nobody is let in while the ledger loses visits."""
        self.on_decision: OnDecision | None = None
        """Sees every visit that was answered: the watch. It may not wait, nor fail."""

    def decide(self, visit: Visit) -> Decision:
        """
        One look-up in the lists; for who is on none one trip to the state, the judgement, and the block it leads to.
        """
        return self._decide(visit, self.state.record_visit)

    async def decide_async(self, visit: Visit, claimed: Kind | None = None) -> Decision:
        """
        The same where the trip to the state takes a while, and others are served meanwhile.

        *claimed* is what the visit was counted as before, where it turned out to be another kind.
        """
        if self.afar is None:
            return self.decide(visit)
        listed = self.engine.listed(visit)
        volume = self.engine.white_volume
        if self.needs_ledger and self.ledger.failing:
            return _away(visit)
        if listed is not None and (listed.action != "pass" or not volume):
            return listed
        question = self.engine.question(visit)
        try:
            if claimed is None:
                memory = await self.afar.record_visit_async(question)
            else:
                memory = await self.afar.reclassify_async(question, claimed)
        except StateUnavailable:
            return _away(visit)
        return listed if listed is not None and memory.today <= volume else self._judge(visit, memory)

    def correct(self, visit: Visit, kind: Kind) -> tuple[Visit, Decision]:
        """
        The visit as the *kind* that it turned out to be when its answer was seen, and the decision on that.

        Decided anew, because a crawler that claims images alone would never be asked how many pages it had. The ledger
        gets this visit and this decision, and so a replay, which knows the answer from the start, decides the same.
        """
        corrected = _corrected(visit, kind)
        return corrected, self._decide(corrected, lambda question: self.state.reclassify(question, visit.kind))

    async def correct_async(self, visit: Visit, kind: Kind) -> tuple[Visit, Decision]:
        """The same where the trip to the state takes a while."""
        if self.afar is None:
            return self.correct(visit, kind)
        corrected = _corrected(visit, kind)
        return corrected, await self.decide_async(corrected, visit.kind)

    def _decide(self, visit: Visit, record_visit: Callable[[StateQuery], StateReply]) -> Decision:
        """What the lists say, and where they say nothing, or a white source has asked for too much, the engine."""
        if self.needs_ledger and self.ledger.failing:
            return _away(visit)
        listed = self.engine.listed(visit)
        volume = self.engine.white_volume
        if listed is not None and (listed.action != "pass" or not volume):
            return listed
        try:
            memory = record_visit(self.engine.question(visit))
        except StateUnavailable:
            return _away(visit)
        return listed if listed is not None and memory.today <= volume else self._judge(visit, memory)

    def _judge(self, visit: Visit, memory: StateReply) -> Decision:
        decision, block = self.engine.judge(visit, memory)
        if block is not None:
            self.state.commit(block)
            if memory.block is None:
                self.blocked += 1
                log.info("blocked %s: %s", ascii(block.key), ascii(block.evidence.text))
        return decision

    def settle(self, decision: Decision) -> None:
        """Remember what a decision says about its visitor."""
        if decision.change is not None:
            self.state.update_score(decision.change)

    # ---- What becomes of challenges: see `challenge.hooks.Hooks`

    def issued(self, visit: Visit, kind: ChallengeKind, at: float, *, again: bool) -> None:
        """A challenge was shown. It was counted when its visitor became a suspect."""

    def solved(self, visit: Visit, key: str, kind: ChallengeKind, at: float) -> None:  # noqa: ARG002 - one shape
        """
        A challenge was solved, and its solver is *key* from now on.

        An account, or who has a clearance, is a person again. Who has neither gets a clearance, and a standing of its
        own with it; those behind the same address have not solved anything.
        """
        change = self.engine.policy.cleared(key, at)
        self.state.update_score(change if key == visit.visitor else msgspec.structs.replace(change, challenged=True))

    def failed(self, visit: Visit, failure: ChallengeFailure, at: float) -> None:
        """An answer was not right: that is suspicious, if it was not only late."""
        if failure in _SUSPICIOUS:
            change = self.engine.policy.failed(visit.visitor, at, f"challenge-{failure}")
            self.state.update_score(change)

    def record(self, visit: Visit, decision: Decision, status: int, reference: str = "") -> None:
        """
        The visit is answered: write it down, and remember what it says about its visitor. Never waits.

        Not earlier: only the answer tells whether it was a page that somebody asked for, or a file of an API. A replay
        has no answers to wait for; where many slow ones overlap, a suspicion may so begin a visit earlier there.
        """
        self.settle(decision)
        self.ledger.append(Entry(visit, decision, status, reference))
        if self.on_decision is not None:
            self.on_decision(visit, decision)

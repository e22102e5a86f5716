"""
The gate decides on visits and records them: the one place where the pure engine meets its stores.

Middleware, proxy, services and replay all go through here, so a visit gets the same decision in every deployment. The
time is that of the visit; no clock is asked.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from hedgerow.challenge.interfaces import ChallengeFailure, ChallengeKind
from hedgerow.core.decision import Decision, Evidence
from hedgerow.core.engine import Engine
from hedgerow.core.ledger import Entry, Ledger
from hedgerow.core.state import State, StateReply, StateUnavailable
from hedgerow.core.visit import BY_SCRIPT, Kind, Visit
from hedgerow.markers.token import PageDigests
from hedgerow.request.identify import Identifier

log = logging.getLogger(__name__)

T = TypeVar("T")

OnDecision = Callable[[Visit, Decision], None]

_CLOSED_FOR = 5.0
_CLOSED = Decision("refuse", (Evidence("store", "store-away", 1.0, "The site cannot tell who is asking just now."),))
_SUSPICIOUS = frozenset({"wrong", "spent", "visitor", "spliced", "tampered"})


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, such as `Gate.decide` with a store that answers at once."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("the coroutine waits for something; await it on an event loop")


def reclassified(visit: Visit, kind: Kind) -> Visit:
    """Return the visit as the *kind* that its response shows it to be."""
    anomalies = (*visit.anomalies, BY_SCRIPT) if visit.kind == "call" else visit.anomalies
    return msgspec.structs.replace(visit, kind=kind, anomalies=anomalies)


class Gate:
    """Decides on visits and records them."""

    def __init__(
        self,
        engine: Engine,
        state: State,
        ledger: Ledger,
        identifier: Identifier,
        pages: PageDigests,
        decided: Counter[str] | None = None,
    ) -> None:
        self.engine = engine
        self.state = state
        self.ledger = ledger
        self.identifier = identifier
        self.pages = pages
        self.decided: Counter[str] = Counter() if decided is None else decided
        """Recorded visits by action, and those that were not passed by code."""
        self.blocked = 0
        """Visitors blocked since the start."""
        self.needs_ledger = False
        """Whether nobody is let in while the ledger loses visits."""
        self.on_decision: OnDecision | None = None
        """Called with every visit that was answered: the watch. It must neither wait nor fail."""

    async def decide(self, visit: Visit, counted_as: Kind | None = None) -> Decision:
        """
        Look the visit up in the lists; if it is on none, record it in the state and judge it.

        *counted_as* is the kind as which the same visit was recorded before, if it turned out to be another kind.
        """
        if self.needs_ledger and self.ledger.failing:
            return self._closed(visit)
        engine = self.engine
        listed, volume = engine.listed(visit), engine.white_volume
        if listed is not None and (listed.action != "pass" or not volume):
            return listed
        try:
            reply = self.state.record_visit(engine.question(visit), counted_as)
            if not isinstance(reply, StateReply):
                reply = await reply
        except StateUnavailable:
            return self._closed(visit)
        if listed is not None and reply.today <= volume:
            return listed
        decision, block = engine.judge(visit, reply)
        if block is not None:
            self.state.commit(block)
            if reply.block is None:
                self.blocked += 1
                log.info("blocked %s: %s", ascii(block.key), ascii(block.evidence.text))
        return decision

    async def reclassify(self, visit: Visit, kind: Kind) -> tuple[Visit, Decision]:
        """
        Decide again on a visit whose response shows it to be of another *kind* than it claimed.

        Without this, a crawler that claims to load nothing but images could ask for any number of pages. The ledger
        gets this visit and this decision; a replay, which knows the response from the start, decides the same.
        """
        corrected = reclassified(visit, kind)
        return corrected, await self.decide(corrected, visit.kind)

    @staticmethod
    def _closed(visit: Visit) -> Decision:
        """Refuse for a moment: the settings let nobody in without the state, or without the ledger."""
        return msgspec.structs.replace(_CLOSED, until=visit.at + _CLOSED_FOR)

    def settle(self, decision: Decision) -> None:
        """Store what a decision changes in its visitor's score."""
        if decision.change is not None:
            self.state.update_score(decision.change)

    # ---- The results of challenges: see `challenge.interfaces.ChallengeHooks`

    def issued(self, visit: Visit, kind: ChallengeKind, at: float, *, again: bool) -> None:
        """Do nothing: a challenge was counted when its visitor became a suspect."""

    def solved(self, visit: Visit, key: str, kind: ChallengeKind, at: float) -> None:  # noqa: ARG002 - one shape
        """
        Clear the visitor who solved a challenge, and whose key is *key* from now on.

        A visitor with an account or a clearance keeps its key. Any other gets a clearance, and with it a score of its
        own: visitors behind the same address have not solved anything.
        """
        change = self.engine.policy.cleared(key, at)
        self.state.update_score(change if key == visit.visitor else msgspec.structs.replace(change, challenged=True))

    def failed(self, visit: Visit, failure: ChallengeFailure, at: float) -> None:
        """Add to the score of a visitor whose answer was wrong; a late answer is not held against it."""
        if failure in _SUSPICIOUS:
            change = self.engine.policy.failed(visit.visitor, at, f"challenge-{failure}")
            self.state.update_score(change)

    def record(self, visit: Visit, decision: Decision, status: int, reference: str = "") -> None:
        """
        Count an answered visit, write it to the ledger and update its visitor's score. Never waits.

        The score changes no earlier, because only the response tells whether the visit was to a page or to a file of an
        API. In a replay, which has no responses to wait for, a suspicion may begin one visit earlier.
        """
        self.decided[decision.action] += 1
        if decision.action != "pass":
            self.decided[decision.code] += 1
        self.settle(decision)
        self.ledger.append(Entry(visit, decision, status, reference))
        if self.on_decision is not None:
            self.on_decision(visit, decision)

"""
The engine: recall, judge, commit. Pure: no sockets, no clock, no files.

The lists come first: who is on one is neither counted nor judged. For any other visit the gate asks the state one
question (which also counts the visit, atomically), hands the memory that comes back to `judge`, and commits the block
and the change of standing that the judgement names. A live request and a line of a log go through these same few lines;
the visit's own time makes them give the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hedgerow.core.address import network_of
from hedgerow.core.decision import PASS, Decision, Evidence
from hedgerow.core.state import Detector, StateQuery, StateReply
from hedgerow.core.visit import Visit
from hedgerow.lists.model import Lists, decide
from hedgerow.policy.decision_policy import DecisionPolicy, Outcome


class Engine:
    """
    Judges visits with *detectors*, in their order, and a *policy*.

    *by_network* says whether any density window counts networks; where none does, none is computed. *by_day* says
    whether requests are counted by days. *weights* are those that the operator has set for codes of evidence. A source
    on the white list is unknown again when it passes *white_volume* requests in a day; 0: never.
    """

    def __init__(
        self,
        detectors: Sequence[Detector],
        policy: DecisionPolicy,
        *,
        by_network: bool = False,
        by_day: bool = False,
        weights: Mapping[str, float] | None = None,
        lists: Lists | None = None,
        white_volume: int = 0,
    ) -> None:
        # Not `lists or ...`: empty lists are false, and may be filled later.
        self._lists = Lists() if lists is None else lists
        self.white_volume = white_volume
        self._detectors = tuple(detectors)
        self.policy = policy
        self._by_network = by_network
        self._by_day = by_day
        self._weights = weights or {}

    def listed(self, visit: Visit) -> Decision | None:
        """
        What the lists say about *visit*, or None where its maker is on none: one look-up.

        The administrator's word goes before everything else, a verified bot's welcome included.
        """
        found = self._lists.find(visit.at, visit.address, visit.account, visit.user_agent)
        return None if found is None else decide(found)

    def question(self, visit: Visit) -> StateQuery:
        """
        What the state must be asked about *visit*.

        A verified bot is not counted: it may be as fast as it is. Nor is a visitor without a name: see `judge`.
        """
        network = network_of(visit.address) if self._by_network else ""
        count = not visit.bot and visit.visitor != ""
        day = self.policy.day_of(visit.at) if self._by_day else 0
        return StateQuery(visit.at, visit.kind, visit.visitor, visit.prefix, network, count=count, day=day)

    def judge(self, visit: Visit, memory: StateReply) -> Outcome:
        """
        The decision on *visit*, and what is to be committed. The order is the thesis's (figure 3.5).

        Where a server tells no address (a Unix socket whose proxy is not trusted), all its clients have the same empty
        name. They pass: blocking one of them would block them all.
        """
        if visit.bot or not visit.visitor:
            return Outcome(PASS)
        if memory.block is not None:
            return self.policy.extend_block(visit, memory.block)
        evidence: list[Evidence] = []
        for detect in self._detectors:
            if found := detect(visit, memory):
                evidence += found
        if self._weights:
            evidence = [msgspec.structs.replace(e, weight=self._weights.get(e.code, e.weight)) for e in evidence]
        return self.policy.decide(visit, memory, evidence)

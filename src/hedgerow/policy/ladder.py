"""The ladder: weights of evidence add up, and the sum decides what is done and for how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hedgerow.recall import Memory, everyone_at
from hedgerow.verdict import PASS, Action, Block, Decision, Evidence
from hedgerow.visit import Visit


class Rule(msgspec.Struct, frozen=True):
    """What one detector's evidence leads to: the action, and for how many seconds; 0: for that visit alone."""

    action: Action
    block_for: float


class Ladder:
    """
    Decides.

    Weights of all evidence add up; from *refuse_at* on the visitor is held to be a crawler, and the rule of the
    weightiest detector says what it gets. A visit made during a block starts the block again where *renew* says so.

    An account is one of many behind its address, so its address is left alone; but when the *strikes*-th account of one
    address is to be blocked, everyone there is: these accounts are one crawler's, perhaps made up for each request.

    Who is blocked again is blocked for longer: *lengthen* times as long each time, up to *longest* seconds.
    """

    def __init__(
        self,
        rules: Mapping[str, Rule],
        *,
        refuse_at: float = 1.0,
        renew: bool = True,
        strikes: int = 3,
        lengthen: float = 1.0,
        longest: float = 0.0,
    ) -> None:
        self._rules = rules
        self._refuse_at = refuse_at
        self._renew = renew
        self._strikes = strikes
        self._lengthen = lengthen
        self._longest = longest

    def _length(self, rule: Rule, offence: int) -> float:
        """For how many seconds the *offence*-th block lasts; a rule's own time is never cut short."""
        try:
            length = rule.block_for * self._lengthen ** (offence - 1)
        except OverflowError:
            length = self._longest
        return max(rule.block_for, min(length, self._longest))

    def decide(self, visit: Visit, memory: Memory, evidence: Sequence[Evidence]) -> tuple[Decision, Block | None]:
        """The decision on a visitor that is not blocked, and the block to be made, if any."""
        if not evidence:
            return PASS, None
        if sum(e.weight for e in evidence) < self._refuse_at:
            return Decision("pass", tuple(evidence)), None
        heaviest = max(evidence, key=lambda e: e.weight)
        rule = self._rules[heaviest.detector]
        if not rule.block_for:
            # This visit alone is declined.
            return Decision(rule.action, tuple(evidence), visit.at), None
        key = heaviest.key or visit.visitor
        if visit.account and key == visit.visitor and memory.strikes + 1 >= self._strikes:
            key = everyone_at(visit.prefix)
        offence = dict(memory.offences).get(key, 0) + 1
        until = visit.at + self._length(rule, offence)
        block = Block(key, visit.prefix, visit.at, until, rule.action, heaviest, offence)
        return Decision(rule.action, tuple(evidence), until), block

    def uphold(self, visit: Visit, block: Block) -> tuple[Decision, Block | None]:
        """The decision on a visit during *block*, and the block begun anew where it is."""
        if not self._renew:
            return Decision(block.action, (block.evidence,), block.until), None
        rule = self._rules[block.evidence.detector]
        until = max(block.until, visit.at + self._length(rule, block.offence))
        return Decision(block.action, (block.evidence,), until), msgspec.structs.replace(block, until=until)

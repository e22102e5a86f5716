"""
The ladder: weights of evidence add up, within a visit and over a visitor's visits, and the sum decides what is done.

Three rungs. Evidence that alone is enough (a trap, a density) leads to a block. Evidence that is not adds to the
visitor's suspicion, which fades; who has gathered enough of it, or too many wrong visits in a day, is a suspect and is
challenged. Who has to be challenged too often in a day is blocked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from hedgerow.challenge.interfaces import TOO_MANY
from hedgerow.core.decision import PASS, Action, Block, Decision, Evidence, Identity, ScoreUpdate, VisitorScore
from hedgerow.core.state import StateReply, prefix_key
from hedgerow.core.visit import Visit
from hedgerow.policy.score import challenges_on, explained, score_at, suspicious_visits_on, updated_score

DAY = 86_400.0


class PolicyRule(msgspec.Struct, frozen=True):
    """
    What one detector's evidence leads to: the action, and for how many seconds; 0: for that visit alone.

    *steady* evidence is the same at each visit, such as a client's headers: it weighs with every visit, and does not
    grow with their number.
    """

    action: Action
    block_for: float
    steady: bool = False


class Outcome(NamedTuple):
    """A decision, and the block to be made, if any."""

    decision: Decision
    block: Block | None = None


class PolicyThresholds(msgspec.Struct, frozen=True):
    """
    Where the rungs are.

    From *refuse_at* on, the evidence of one visit is enough for a block. A visitor whose suspicion reaches
    *suspect_at*, or who has made *wrong_visits* in a day, is a suspect; a visit is wrong when its weights reach
    *wrong_from*. Suspicion halves every *half_life* seconds. After *challenges* in a day comes a block of *block_for*
    seconds. *suspects* is what is done with them.
    """

    refuse_at: float = 1.0
    suspect_at: float = 1.0
    half_life: float = 3600.0
    wrong_from: float = 0.05
    wrong_visits: int = 30
    challenges: int = 2
    block_for: float = DAY
    suspects: Literal["challenge", "refuse", "pass"] = "challenge"


def utc_day(at: float) -> int:
    return int(at // DAY)


class DecisionPolicy:
    """
    Decides. *rules* say what each detector's evidence leads to, *day_of* tells the number of a time's day at the site.

    A visit made during a block starts the block again where *renew* says so.

    An account is one of many behind its address, so its address is left alone; but when the *strikes*-th account of one
    address is to be blocked, everyone there is: these accounts are one crawler's, perhaps made up for each request.

    Who is blocked again is blocked for longer: *lengthen* times as long each time, up to *longest* seconds.
    """

    def __init__(
        self,
        rules: Mapping[str, PolicyRule],
        thresholds: PolicyThresholds | None = None,
        *,
        renew: bool = True,
        strikes: int = 3,
        day_of: Callable[[float], int] = utc_day,
        lengthen: float = 1.0,
        longest: float = 0.0,
    ) -> None:
        self.thresholds = thresholds or PolicyThresholds()
        self._rules = {"suspicion": PolicyRule("refuse", self.thresholds.block_for), **rules}
        self._steady = frozenset(name for name, rule in self._rules.items() if rule.steady)
        self._renew = renew
        self._strikes = strikes
        self.day_of = day_of
        self._lengthen = lengthen
        self._longest = longest

    def _length(self, rule: PolicyRule, offence: int) -> float:
        """For how many seconds the *offence*-th block lasts; a rule's own time is never cut short."""
        try:
            length = rule.block_for * self._lengthen ** (offence - 1)
        except OverflowError:
            length = self._longest
        return max(rule.block_for, min(length, self._longest))

    def decide(self, visit: Visit, memory: StateReply, evidence: Sequence[Evidence]) -> Outcome:
        """The decision on a visitor that is not blocked, and what is to be remembered."""
        score = memory.score
        if not evidence and self._is_plainly_a_person(score):
            return _PASS
        weight = steady = 0.0
        for found in evidence:
            weight += found.weight
            if found.detector in self._steady:
                steady += found.weight
        if weight >= self.thresholds.refuse_at:
            heaviest = max(evidence, key=lambda e: e.weight)
            return self._turn_away(visit, memory, evidence, heaviest)
        if steady:
            passing = [e for e in evidence if e.detector not in self._steady]
            change = self._change(visit, passing, sum(e.weight for e in passing))
        else:
            change = self._change(visit, evidence, weight)
        if self._stays_a_person(visit, score, change, steady):
            return Outcome(_passed(evidence, change))
        after = updated_score(score, change) if change is not None and change.weight else score
        if after is not None and self._is_suspect(after, visit.at, steady):
            return self._suspect(visit, memory, evidence, change, after)
        if after is not None and after.identity != "person":
            # Time has passed, and nothing was added: judged again, it is held to be a person.
            change = msgspec.structs.replace(change or self._blank(visit), identity="person")
        return Outcome(_passed(evidence, change))

    def extend_block(self, visit: Visit, block: Block) -> Outcome:
        """The decision on a visit during *block*, and the block begun anew where it is."""
        if not self._renew or block.evidence.detector not in self._rules:
            return Outcome(Decision(block.action, (block.evidence,), block.until))
        rule = self._rules[block.evidence.detector]
        until = max(block.until, visit.at + self._length(rule, block.offence))
        return Outcome(Decision(block.action, (block.evidence,), until), msgspec.structs.replace(block, until=until))

    def cleared(self, key: str, at: float) -> ScoreUpdate:
        """A visitor has shown to be a person."""
        return ScoreUpdate(key, at, self.day_of(at), self.thresholds.half_life, cleared=True)

    def failed(self, key: str, at: float, code: str) -> ScoreUpdate:
        """A visitor has answered a challenge wrongly."""
        weight = self.thresholds.suspect_at / 20
        return ScoreUpdate(key, at, self.day_of(at), self.thresholds.half_life, weight=weight, codes=(code,))

    def found(self, key: str, at: float, identity: Identity, code: str) -> ScoreUpdate:
        """
        The watch has found a visitor to be a crawler, or one of a campaign: it is challenged when it comes again.

        What that weighs has faded to the threshold one half-life later; who solves the challenge is a person again.
        """
        return ScoreUpdate(
            key, at, self.day_of(at), self.thresholds.half_life,
            weight=2 * self.thresholds.suspect_at, codes=(code,), identity=identity, challenged=True,
        )  # fmt: skip

    def noted(self, key: str, at: float, code: str) -> ScoreUpdate:
        """The watch has found something about a visitor that is to be known, and not acted on."""
        return ScoreUpdate(key, at, self.day_of(at), self.thresholds.half_life, codes=(code,))

    def _turn_away(self, visit: Visit, memory: StateReply, evidence: Sequence[Evidence], heaviest: Evidence) -> Outcome:
        """What the rule of the weightiest detector says."""
        rule = self._rules[heaviest.detector]
        if not rule.block_for:
            # This visit alone is declined.
            return Outcome(Decision(rule.action, tuple(evidence), visit.at))
        key = heaviest.key or visit.visitor
        if visit.visitor != visit.prefix and key == visit.visitor and memory.strikes + 1 >= self._strikes:
            key = prefix_key(visit.prefix)
        offence = dict(memory.offences).get(key, 0) + 1
        until = visit.at + self._length(rule, offence)
        block = Block(key, visit.prefix, visit.at, until, rule.action, heaviest, offence)
        return Outcome(Decision(rule.action, tuple(evidence), until), block)

    def _blank(self, visit: Visit) -> ScoreUpdate:
        return ScoreUpdate(visit.visitor, visit.at, self.day_of(visit.at), self.thresholds.half_life)

    def _change(self, visit: Visit, evidence: Sequence[Evidence], weight: float) -> ScoreUpdate | None:
        """What a visit's evidence adds to its visitor's standing."""
        entry = ""
        for found in evidence:
            if found.detector == "entry":
                entry = found.details
                break
        if not weight and not entry:
            return None
        limits = self.thresholds
        codes = tuple([e.code for e in evidence if e.weight])
        wrong = weight >= limits.wrong_from
        return ScoreUpdate(
            visit.visitor, visit.at, self.day_of(visit.at), limits.half_life, weight, codes, wrong, entry=entry
        )

    def _is_plainly_a_person(self, score: VisitorScore | None) -> bool:
        """Whether a visitor is no suspect even if nothing of what is held against it had faded."""
        return score is None or (
            score.identity == "person"
            and score.total < self.thresholds.suspect_at
            and score.suspicious_visits < self.thresholds.wrong_visits
        )

    def _stays_a_person(
        self, visit: Visit, score: VisitorScore | None, change: ScoreUpdate | None, steady: float
    ) -> bool:
        """Whether it is plain, without working out the whole standing, that a person is no suspect by this visit."""
        if score is not None and score.identity != "person":
            return False
        limits, weight, wrong = self.thresholds, 0.0, 0
        if change is not None:
            weight, wrong = change.weight, int(change.suspicious)
        if score is None:
            return weight + steady < limits.suspect_at and wrong < limits.wrong_visits
        # What has not faded is the most that there can be: mostly that is little enough.
        more = weight + steady
        if score.total + more >= limits.suspect_at:
            left = score_at(score, visit.at, limits.half_life)
            if left + more >= limits.suspect_at:
                return False
        if score.suspicious_visits:
            wrong += suspicious_visits_on(score, self.day_of(visit.at))
        return wrong < limits.wrong_visits

    def _is_suspect(self, score: VisitorScore, at: float, steady: float = 0.0) -> bool:
        """Whether a visitor is one; who is already stays one until half of what made it one has faded."""
        limits = self.thresholds
        if limits.suspects == "pass":
            return False
        enough = limits.suspect_at if score.identity == "person" else limits.suspect_at / 2
        gathered = score_at(score, at, limits.half_life)
        if gathered and gathered + steady >= enough:
            return True
        return suspicious_visits_on(score, self.day_of(at)) >= limits.wrong_visits

    def _suspect(
        self,
        visit: Visit,
        memory: StateReply,
        evidence: Sequence[Evidence],
        change: ScoreUpdate | None,
        after: VisitorScore,
    ) -> Outcome:
        limits = self.thresholds
        before, day = memory.score, self.day_of(visit.at)
        why = Evidence("suspicion", "suspect", score_at(after, visit.at, limits.half_life), explained(after))
        is_new = before is None or before.identity == "person"
        # The watch has counted the challenge that is to come; here it is counted when it comes.
        if challenges_on(before, day) + is_new > limits.challenges:
            text = f"To be challenged for the {limits.challenges + 1}. time in a day. {why.text}"
            why = msgspec.structs.replace(why, code=TOO_MANY, text=text)
            return self._turn_away(visit, memory, (*evidence, why), why)
        if is_new:
            change = msgspec.structs.replace(change or self._blank(visit), identity="suspect", challenged=True)
        if visit.kind == "asset":
            # The images of a page that it was given before; no page comes by this way (see `Gate.correct`).
            return Outcome(_passed(evidence, change))
        return Outcome(Decision(limits.suspects, (*evidence, why), change=change))


def _passed(evidence: Sequence[Evidence], change: ScoreUpdate | None) -> Decision:
    return Decision("pass", tuple(evidence), change=change) if evidence or change is not None else PASS


_PASS = Outcome(PASS)

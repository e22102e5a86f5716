"""
Weights of evidence add up, within a visit and over the visits of a visitor, and the sum decides what is done.

Evidence that alone is enough (a trap) leads to a block. A browser that exceeds a rate limit is challenged first. Weaker
evidence adds to the visitor's score, which fades. A visitor with a high enough score, or with too many suspicious
visits in a day, is a suspect and is challenged. A suspect who needs too many challenges in a day is blocked.

The first challenges of a visitor with a clearance are silent: its visits pass, and the script of the page solves the
challenge. Only if that does not happen within a few pages does the visitor get to see it. So a person who is taken for
a crawler now and then notices nothing. A visitor whose pages have an order that people have, too, is not asked for
anything else on account of this order, within the pages of one clearance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from typing import Literal, NamedTuple

import msgspec

from hedgerow.challenge.interfaces import TOO_MANY
from hedgerow.core.decision import (
    ATTENDED,
    BEYOND_K2,
    BRISK,
    HURRIED,
    ISSUED_TO_ANOTHER,
    JUDGED_PERSON,
    PASS,
    TURNING,
    UNATTENDED,
    UNHURRIED,
    UNMARKED,
    UNTOUCHED,
    Block,
    Decision,
    Evidence,
    Identity,
    PolicyRule,
    ScoreUpdate,
    VisitorScore,
)
from hedgerow.core.state import ACCOUNT, CLEARANCE, StateReply, prefix_key
from hedgerow.core.visit import ANSWERED, Visit, may_be_caused_elsewhere
from hedgerow.policy.score import (
    challenges_on,
    counted_day,
    explained,
    score_at,
    suspicious_visits_on,
    updated_score,
)

DAY = 86_400.0
_SHOWN_AT = 3.0
"""The score, in units of what makes a suspect, at which a challenge that the script has not solved is shown."""
_SHOWN_TO_READER_AT = 6.0
"""The same for readers: what the watch finds about them adds up, and they have fifteen pages at least, too."""
_FLAGGED = 1.5
"""What a finding of the watch weighs: a little more than makes a suspect, because it fades until the next visit."""
_TOLERATED = {ISSUED_TO_ANOTHER: 3, UNMARKED: inf}
"""How often evidence may be there beside the order of pages that people have, too. Chosen by hand."""
_PER_PAGE = 0.1
"""What each page adds to the score of a visitor that has a challenge to solve."""
_READER_PRICE = 2
"""
The challenge that a reader solves whose order is that of a crawler: four times as much work as the first.

Chosen by hand: a slow phone (20,000 numbers a second) does it in eight seconds, before fifteen pages are turned.
"""
_UNPAID_PAGES = 10
"""
Pages today without a clearance, from which on an address is challenged for its path.

Where a browser keeps no cookies, its script solves a calculation for each page, and such pages do not count.
"""
_MOST_SHOWN = 30
"""Challenges that a visitor may leave unanswered before it is blocked. Chosen by hand."""
_ORDINALS = ("a second", "a third", "a fourth", "a fifth", "a sixth", "a seventh", "an eighth", "a ninth", "a tenth")
_UNDECLARED = PolicyRule("refuse", 0.0)
"""For evidence of a group that no detector declares: this visit is refused and nobody is blocked."""


class Outcome(NamedTuple):
    """A decision, and the block to be committed, if any."""

    decision: Decision
    block: Block | None = None


class PolicyThresholds(msgspec.Struct, frozen=True):
    """
    Limits between pass, challenge and block.

    From *refuse_at* on, the evidence of one visit is enough for a block. A visitor is a suspect whose score reaches
    *suspect_at*, or who has made *wrong_visits* suspicious visits in a day; a visit is suspicious when its weights
    reach *wrong_from*. A score halves every *half_life* seconds. After *challenges* in a day comes a block of
    *block_for* seconds; a visitor with a clearance or an account has *silent* more before these, which it does not see.
    *suspects* is what suspects get.
    """

    refuse_at: float = 1.0
    suspect_at: float = 1.0
    half_life: float = 3600.0
    wrong_from: float = 0.05
    wrong_visits: int = 30
    challenges: int = 2
    silent: int = 3
    block_for: float = DAY
    suspects: Literal["challenge", "refuse", "pass"] = "challenge"


def utc_day(at: float) -> int:
    return int(at // DAY)


class DecisionPolicy:
    """
    Decides on visits by *rules*, one for each group of evidence. *day_of* numbers the days of the site's time zone.

    With *renew* a visit during a block starts the block again. Each block of the same key lasts *lengthen* times as
    long as the one before, up to *longest* seconds.

    A blocked account does not block its address, which it may share with others. But when the *strikes*-th account of
    one address would be blocked, the whole address is: these accounts belong to one crawler, which may invent a new one
    for each request.
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
        self._entry_groups = frozenset(name for name, rule in self._rules.items() if rule.records_entry)
        self.detains = any(rule.action == "detain" for rule in self._rules.values())
        self._renew = renew
        self._strikes = strikes
        self.day_of = day_of
        self._lengthen = lengthen
        self._longest = longest
        self._longest_of_all = max(longest, *(rule.block_for for rule in self._rules.values()))

    def _length(self, rule: PolicyRule, offence: int) -> float:
        """Return how many seconds the *offence*-th block lasts; never less than the rule says."""
        try:
            length = rule.block_for * self._lengthen ** (offence - 1)
        except OverflowError:
            length = self._longest
        return max(rule.block_for, min(length, self._longest))

    def decide(self, visit: Visit, memory: StateReply, evidence: Sequence[Evidence]) -> Outcome:
        """
        Decide on a visit of a visitor that is not blocked.

        A visit that another site may have caused may be declined. It changes nothing for its visitor.
        """
        if not evidence and self._is_plainly_a_person(memory.score):
            return _PASS
        outcome = self._decide(visit, memory, evidence)
        if outcome is not _PASS and may_be_caused_elsewhere(visit):
            return Outcome(msgspec.structs.replace(outcome.decision, change=None))
        return outcome

    def _decide(self, visit: Visit, memory: StateReply, evidence: Sequence[Evidence]) -> Outcome:
        score = memory.score
        weight = steady = 0.0
        for one in evidence:
            weight += one.weight
            if one.detector in self._steady:
                steady += one.weight
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
        if after is not None and self._is_suspect(visit, after, steady):
            return self._suspect(visit, memory, evidence, change, after)
        if after is not None and after.identity != "person":
            # The score has faded: the visitor counts as a person again.
            change = msgspec.structs.replace(change or self._blank(visit), identity="person")
        return Outcome(_passed(evidence, change))

    def unanswered(self, visit: Visit, memory: StateReply, decision: Decision, shown: float) -> Outcome:
        """
        Block a visitor that was *shown* so many challenges and answered none, and goes on asking for pages.

        A person who does not want to answer leaves. *decision* is what holds otherwise.
        """
        if shown < _MOST_SHOWN:
            return Outcome(decision)
        text = f"Was shown {_MOST_SHOWN} challenges within about an hour and answered none."
        why = Evidence("suspicion", TOO_MANY, self.thresholds.refuse_at, text)
        return self._turn_away(visit, memory, (*decision.evidence, why), why)

    def extend_block(self, visit: Visit, block: Block) -> Outcome:
        """
        Decide on a visit during *block*, and start the block again where the settings say so.

        Another site must not be able to prolong it.
        """
        limited = self.limited(block, visit.at)
        if not self._renew or block.evidence.detector not in self._rules or may_be_caused_elsewhere(visit):
            changed = limited if limited is not block else None
            return Outcome(Decision(limited.action, (limited.evidence,), limited.until), changed)
        block, rule = limited, self._rules[block.evidence.detector]
        until = max(block.until, visit.at + self._length(rule, block.offence))
        return Outcome(Decision(block.action, (block.evidence,), until), msgspec.structs.replace(block, until=until))

    def limited(self, block: Block, at: float) -> Block:
        """
        Return *block* with an end that is no later than the settings allow at *at*.

        A block that was made while the clock was ahead would last until the clock gets there. Those that an operator
        made end when they were meant to.
        """
        latest = at + self._longest_of_all
        if block.until <= latest or block.evidence.detector not in self._rules:
            return block
        return msgspec.structs.replace(block, since=min(block.since, at), until=latest)

    def cleared(self, key: str, at: float) -> ScoreUpdate:
        """Clear a visitor who solved a challenge."""
        return ScoreUpdate(key, at, self.day_of(at), self.thresholds.half_life, cleared=True)

    def failed(self, key: str, at: float, code: str) -> ScoreUpdate:
        """Add the weight of a wrong answer to a challenge."""
        weight = self.thresholds.suspect_at / 20
        return ScoreUpdate(key, at, self.day_of(at), self.thresholds.half_life, weight=weight, codes=(code,))

    def flag(self, key: str, at: float, identity: Identity, code: str, *, share: float = 1.0) -> ScoreUpdate:
        """
        Make a visitor a suspect whom the watch recognised as a crawler or as a member of a campaign.

        It is challenged at its next visit, and cleared when it solves the challenge. With a *share* below 1, it only
        becomes a suspect if more comes together.
        """
        limits = self.thresholds
        if share < 1:
            weight = share * limits.suspect_at
            return ScoreUpdate(key, at, self.day_of(at), limits.half_life, weight=weight, codes=(code,))
        return ScoreUpdate(
            key, at, self.day_of(at), limits.half_life,
            weight=_FLAGGED * limits.suspect_at, codes=(code,), identity=identity, challenged=True,
        )  # fmt: skip

    def flag_reader(self, key: str, at: float, code: str) -> ScoreUpdate:
        """
        Have a visitor earn its clearance again whose order is that of a crawler, in a way in which people read.

        `decide` knows whether it is to be trusted, and counts its challenge if not.
        """
        limits = self.thresholds
        return ScoreUpdate(
            key, at, self.day_of(at), limits.half_life, weight=_FLAGGED * limits.suspect_at, codes=(code,)
        )

    def annotate(self, key: str, at: float, code: str) -> ScoreUpdate:
        """Add a code to a visitor's score for operators to see; it has no consequence."""
        return ScoreUpdate(key, at, self.day_of(at), self.thresholds.half_life, codes=(code,))

    def _turn_away(self, visit: Visit, memory: StateReply, evidence: Sequence[Evidence], heaviest: Evidence) -> Outcome:
        """Apply the rule of the heaviest evidence."""
        rule = self._rules.get(heaviest.detector, _UNDECLARED)
        score = memory.score
        if rule.challenges_first and (change := self._first_challenge(visit, score, heaviest)) is not None:
            price = max(rule.price, self._price(visit, score))
            return Outcome(Decision("challenge", tuple(evidence), change=change, price=price))
        if rule.action == "challenge" and self._silent(visit) >= max(rule.price, self._price(visit, score)):
            change = self._first_challenge(visit, score, heaviest)
            if change is not None:
                return self._silently(visit, evidence, change, updated_score(score, change), self._price(visit, score))
        if not rule.block_for:
            # Only this visit is declined.
            change = self._change(visit, [heaviest], rule.adds) if rule.adds else None
            decision = Decision(rule.action, tuple(evidence), visit.at + rule.retry_after, change, price=rule.price)
            return Outcome(decision)
        key = heaviest.key or visit.visitor
        if visit.visitor != visit.prefix and key == visit.visitor and memory.strikes + 1 >= self._strikes:
            key = prefix_key(visit.prefix)
        offence = dict(memory.offences).get(key, 0) + 1
        until = visit.at + self._length(rule, offence)
        block = Block(key, visit.prefix, visit.at, until, rule.action, heaviest, offence)
        return Outcome(Decision(rule.action, tuple(evidence), until), block)

    def _first_challenge(self, visit: Visit, score: VisitorScore | None, heaviest: Evidence) -> ScoreUpdate | None:
        """Make a visitor a suspect instead of blocking it. Returns None if it has had all challenges of the day."""
        limits, day = self.thresholds, self.day_of(visit.at)
        is_new = score is None or score.identity == "person"
        if limits.suspects != "challenge" or self._price(visit, score) > limits.challenges + self._silent(visit):
            return None
        if ANSWERED in visit.anomalies:
            return None
        missing = max(0.0, limits.suspect_at - score_at(score, visit.at, limits.half_life))
        return ScoreUpdate(
            visit.visitor, visit.at, day, limits.half_life, missing, (heaviest.code,), suspicious=True,
            challenged=is_new, identity="suspect" if is_new else "",
        )  # fmt: skip

    def _silent(self, visit: Visit) -> int:
        """Return how many challenges a day the visitor does not get to see."""
        return self.thresholds.silent if visit.reader.startswith((CLEARANCE, ACCOUNT)) else 0

    def _price(self, visit: Visit, score: VisitorScore | None) -> int:
        """Return the number of the challenge that the visitor is about to get, or has not solved yet, in its day."""
        if score is None or not score.challenges:
            return 1
        is_new = score.identity == "person"
        # A challenge of yesterday that was not solved is the first one of today.
        return max(1, challenges_on(score, self._counted_day(visit, score)) + is_new)

    def _counted_day(self, visit: Visit, score: VisitorScore | None) -> int:
        return counted_day(score, visit.visitor, visit.at, self.day_of(visit.at))

    def _reading_price(self, price: int, score: VisitorScore, codes: Collection[str]) -> tuple[int, bool]:
        """
        Return *price* as it is for how a suspect reads, and whether its order is one that people have.

        *codes* are those of the evidence of this visit.
        """
        limits = self.thresholds
        is_by_path = _is_judged_by_path_alone(score)
        if is_by_path and ATTENDED in codes:
            # Somebody reads in the order of a crawler, by hand: the first challenge again, and no other.
            return 1, False
        if is_by_path and _is_reader(score, codes):
            return min(_READER_PRICE, limits.silent), True
        is_hurried = any(code == HURRIED for code, _ in score.reasons)
        if is_hurried or UNATTENDED in codes or UNTOUCHED in codes:
            # Each challenge costs what the next one would cost somebody who uses its pages. Nobody's pace, and pages
            # that are not used as people use them, were found independently: together they cost twice as much.
            return price + 1 + (is_hurried and UNTOUCHED in codes), False
        if is_by_path and _is_brisk(score, codes):
            # The last challenge again and again, and no block: somebody may read fast, in any order.
            return min(price, limits.silent + limits.challenges), False
        return price, False

    def _silently(
        self,
        visit: Visit,
        evidence: Sequence[Evidence],
        change: ScoreUpdate | None,
        after: VisitorScore,
        price: int,
        *,
        shown_at: float = _SHOWN_AT,
    ) -> Outcome:
        """Let a visitor with a challenge pass, for a few pages, until the script of the page has solved it."""
        limits = self.thresholds
        if score_at(after, visit.at, limits.half_life) >= shown_at * limits.suspect_at:
            return Outcome(Decision("challenge", tuple(evidence), change=change, price=price))
        if visit.kind == "page":
            change = change or self._blank(visit)
            change = msgspec.structs.replace(change, weight=change.weight + _PER_PAGE * limits.suspect_at)
        return Outcome(Decision("pass", tuple(evidence), change=change, owes=True, price=price))

    def with_entry(self, visit: Visit, change: ScoreUpdate | None, entry: str) -> ScoreUpdate:
        """Return *change* with another entry."""
        return msgspec.structs.replace(change or self._blank(visit), entry=entry)

    def _blank(self, visit: Visit) -> ScoreUpdate:
        return ScoreUpdate(visit.visitor, visit.at, self.day_of(visit.at), self.thresholds.half_life)

    def _change(self, visit: Visit, evidence: Sequence[Evidence], weight: float) -> ScoreUpdate | None:
        """Return what a visit's evidence adds to its visitor's score."""
        entry = ""
        for one in evidence:
            if one.details and one.detector in self._entry_groups:
                entry = one.details
                break
        if not weight and not entry:
            return None
        limits = self.thresholds
        codes = tuple([e.code for e in evidence if e.weight])
        suspicious = weight >= limits.wrong_from
        return ScoreUpdate(
            visit.visitor, visit.at, self.day_of(visit.at), limits.half_life, weight, codes, suspicious, entry=entry
        )

    def _is_plainly_a_person(self, score: VisitorScore | None) -> bool:
        """Tell whether a visitor would be no suspect even if its score had not faded at all."""
        return score is None or (
            score.identity == "person"
            and score.total < self.thresholds.suspect_at
            and score.suspicious_visits < self.thresholds.wrong_visits
        )

    def _stays_a_person(
        self, visit: Visit, score: VisitorScore | None, change: ScoreUpdate | None, steady: float
    ) -> bool:
        """Tell, without computing the whole score, whether this visit certainly makes no suspect of a person."""
        if score is not None and score.identity != "person":
            return False
        limits, weight, suspicious = self.thresholds, 0.0, 0
        if change is not None:
            weight, suspicious = change.weight, int(change.suspicious)
        if score is None:
            return weight + steady < limits.suspect_at and suspicious < limits.wrong_visits
        # The score before fading is an upper bound, and mostly low enough.
        more = weight + steady
        if score.total + more >= limits.suspect_at:
            left = score_at(score, visit.at, limits.half_life)
            if left + more >= limits.suspect_at:
                return False
        # So is the number of suspicious visits, which may be those of another day.
        if suspicious + score.suspicious_visits >= limits.wrong_visits:
            suspicious += suspicious_visits_on(score, self._counted_day(visit, score))
        return suspicious < limits.wrong_visits

    def _is_suspect(self, visit: Visit, score: VisitorScore, steady: float = 0.0) -> bool:
        """Tell whether a visitor is a suspect. A suspect remains one until half of the threshold has faded."""
        limits = self.thresholds
        if limits.suspects == "pass":
            return False
        enough = limits.suspect_at if score.identity == "person" else limits.suspect_at / 2
        gathered = score_at(score, visit.at, limits.half_life)
        if gathered and gathered + steady >= enough:
            return True
        return suspicious_visits_on(score, self._counted_day(visit, score)) >= limits.wrong_visits

    def _suspect(
        self,
        visit: Visit,
        memory: StateReply,
        evidence: Sequence[Evidence],
        change: ScoreUpdate | None,
        after: VisitorScore,
    ) -> Outcome:
        limits = self.thresholds
        before, price, silent = memory.score, self._price(visit, memory.score), self._silent(visit)
        why = Evidence("suspicion", "suspect", score_at(after, visit.at, limits.half_life), explained(after))
        is_new = before is None or before.identity == "person"
        # A visitor flagged by the watch already has the challenge counted that it is about to get.
        if not silent and 0 < memory.today < _UNPAID_PAGES and _is_judged_by_path_alone(after):
            return Outcome(_passed(evidence, change))
        is_reader = False
        if silent:
            price, is_reader = self._reading_price(price, after, {one.code for one in evidence})
        if price > silent + limits.challenges:
            text = f"{_needed(silent + limits.challenges)} in one day. {why.text}"
            why = msgspec.structs.replace(why, code=TOO_MANY, text=text)
            return self._turn_away(visit, memory, (*evidence, why), why)
        if is_new:
            change = change or self._blank(visit)
            # What a reader solves does not count, or it would be blocked as soon as there is any other evidence.
            change = msgspec.structs.replace(change, identity="suspect", challenged=not is_reader)
        if visit.kind == "asset":
            # Images of a page that the visitor already has. A page cannot pass as an asset: see `Gate.correct`.
            return Outcome(_passed(evidence, change))
        if price <= silent and limits.suspects == "challenge":
            shown_at = _SHOWN_TO_READER_AT if is_reader else _SHOWN_AT
            return self._silently(visit, (*evidence, why), change, after, price, shown_at=shown_at)
        return Outcome(Decision(limits.suspects, (*evidence, why), change=change, price=price))


def _is_judged_by_path_alone(score: VisitorScore) -> bool:
    """
    Tell whether only the order of its pages makes a suspect.

    A few links of others do not count: people who share several addresses use those of one another. Neither do
    addresses that no page links to: scripts of forums and wikis make them. Numbering them is evidence of its own.
    """
    by_path = [code for code, _ in score.reasons if code.startswith(("path-", "window-")) or code == JUDGED_PERSON]
    others = [(code, times) for code, times in score.reasons if code not in by_path]
    return bool(by_path or not others) and all(times <= _TOLERATED.get(code, 0) for code, times in others)


def _is_reader(score: VisitorScore, codes: Collection[str]) -> bool:
    """
    Tell whether the order of a suspect's pages is one that a person can have, by its score and by the evidence *codes*.

    It turns page after page, unless its pages are not used as people use pages. Or it chooses links slowly, unless the
    reports of its browser say that it does not use them by hand. Both only within the pages of one clearance.
    """
    if BEYOND_K2 in codes or UNTOUCHED in codes:
        return False
    ends = (TURNING,) if UNATTENDED in codes else (TURNING, UNHURRIED)
    by_path = [code for code, _ in score.reasons if code.startswith(("path-", "window-"))]
    return bool(by_path) and all(code.endswith(ends) for code in by_path)


def _is_brisk(score: VisitorScore, codes: Collection[str]) -> bool:
    """Tell whether a suspect is no faster than a person can be, and within the pages of one clearance."""
    return BEYOND_K2 not in codes and any(code.endswith(BRISK) for code, _ in score.reasons)


def _needed(most: int) -> str:
    """
    Say that a visitor needed one challenge more than *most*.

    >>> _needed(2), _needed(20)
    ('Needed a third challenge', 'Needed more than 20 challenges')
    """
    if most <= len(_ORDINALS):
        return f"Needed {_ORDINALS[most - 1]} challenge"
    return f"Needed more than {most} challenges"


def _passed(evidence: Sequence[Evidence], change: ScoreUpdate | None) -> Decision:
    return Decision("pass", tuple(evidence), change=change) if evidence or change is not None else PASS


_PASS = Outcome(PASS)

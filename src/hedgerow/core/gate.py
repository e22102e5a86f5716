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

from hedgerow.challenge import prices
from hedgerow.challenge.interfaces import CAPTCHAS, ChallengeFailure, ChallengeKind
from hedgerow.challenge.prices import ClearancePrice, HeldClearances
from hedgerow.core.address import network_of
from hedgerow.core.attack import ATTACK_KEY, CHECK_EVERY, AttackSwitch
from hedgerow.core.decision import FOLLOWED_LINK, Block, Decision, Evidence, Observed, ScoreUpdate, VisitorScore
from hedgerow.core.engine import Engine
from hedgerow.core.ledger import Entry, Ledger
from hedgerow.core.state import ACCOUNT, CLEARANCE, State, StateQuery, StateReply, StateUnavailable
from hedgerow.core.visit import ARRIVAL, BY_PROGRAM, BY_SCRIPT, ELSEWHERE, FORM, Kind, Visit
from hedgerow.markers.token import PageDigests
from hedgerow.policy.decision_policy import Outcome
from hedgerow.policy.score import challenges_on, score_at, suspicious_visits_on
from hedgerow.request.browser_report import BrowserReport
from hedgerow.request.browser_signs import is_one_browser, is_page_view
from hedgerow.request.identify import Identifier
from hedgerow.request.path_rules import ActiveRule, PathRules

log = logging.getLogger(__name__)

T = TypeVar("T")

OnDecision = Callable[[Visit, Decision], None]
OnStopped = Callable[[Visit, Decision, int, str, str], None]
"""Receives a visit that was not let in, or would not have been: with its status, reference and request id."""

_CLOSED_FOR = 5.0
_SHOWN_HALF_LIFE = 3600.0
_AT_ONCE = 10.0
_CLOSED = Decision("refuse", (Evidence("store", "store-away", 1.0, "The site cannot tell who is asking just now."),))
_NO_ANSWER = frozenset({"visitor", "spliced", "tampered"})
_NO_SCRIPT = frozenset({BY_PROGRAM, FORM})
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
    is_by_script = visit.kind == "call" and _NO_SCRIPT.isdisjoint(visit.anomalies)
    anomalies = (*visit.anomalies, BY_SCRIPT) if is_by_script else visit.anomalies
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
        would_have: Counter[str] | None = None,
    ) -> None:
        self.engine = engine
        self.state = state
        self.ledger = ledger
        self.identifier = identifier
        self.pages = pages
        self.decided: Counter[str] = Counter() if decided is None else decided
        """Recorded visits by action, and those that were not passed by code."""
        self.would_have: Counter[str] = Counter() if would_have is None else would_have
        """The same for what would have been done while the site only observed. All those visits passed."""
        self.observes: Observed = ""
        """Not "" if decisions are made and recorded, but not enforced."""
        self.blocked = 0
        """Visitors blocked since the start."""
        self.would_have_blocked = 0
        self.needs_ledger = False
        """Whether nobody is let in while the ledger loses visits."""
        self.held_clearances = HeldClearances()
        self.on_decision: OnDecision | None = None
        """Called with every visit that was answered: the watch. It must neither wait nor fail."""
        self.on_stopped: OnStopped | None = None
        """Called with every answered visit whose decision is not to pass it: the log. It must neither wait nor fail."""
        self.on_block: Callable[[Block], None] | None = None
        """Called with every new block that is enforced: sites that share theirs. It must neither wait nor fail."""
        self.attack: AttackSwitch | None = None

    async def decide(self, visit: Visit, counted_as: Kind | None = None) -> Decision:
        """
        Look the visit up in the lists; if it is on none, record it in the state and judge it.

        *counted_as* is the kind as which the same visit was recorded before, if it turned out to be another kind.
        """
        if self.attack is not None and visit.at >= self.attack.check_at:
            await self._check_attack(self.attack, visit.at)
        paths = self.engine.paths
        if paths is not None and (rule := paths.find(visit.target)) is not None:
            decision = await self._decide_by_rule(visit, counted_as, rule)
        else:
            decision = await self._decide(visit, counted_as)
        return msgspec.structs.replace(decision, observed=self.observes) if self.observes else decision

    async def _check_attack(self, attack: AttackSwitch, at: float) -> None:
        """Ask the state whether an operator has switched "under attack" on or off."""
        # At once, so that other visits do not ask meanwhile.
        attack.check_at = at + CHECK_EVERY
        found = (await self._ask(StateQuery(at, "page", ATTACK_KEY, ATTACK_KEY, "", count=False))).block
        until = found.until if found is not None else 0.0
        if until and not attack.until:
            log.warning("under attack: visitors without a clearance need one before the page")
        elif attack.until and not until:
            log.warning("no longer under attack: visitors without a clearance are not asked for one any more")
        attack.until = until

    async def _decide_by_rule(self, visit: Visit, counted_as: Kind | None, rule: ActiveRule) -> Decision:
        """
        Decide on a visit to a path with a rule of its own, and name the rule in the evidence.

        Where the rule only observes, nothing that is found has consequences, here or elsewhere.
        """
        if rule.is_off:
            return Decision("pass", (rule.evidence,))
        if rule.observes:
            decision = self.engine.listed(visit)
            if decision is None:
                reply = await self._ask(self.engine.question(visit, rule=rule), counted_as)
                decision = self.engine.judge(visit, reply).decision
            decision = msgspec.structs.replace(decision, change=None, owes=False, observed="links")
        else:
            decision = await self._decide(visit, counted_as, rule)
        return msgspec.structs.replace(decision, evidence=(*decision.evidence, rule.evidence))

    async def _decide(self, visit: Visit, counted_as: Kind | None, rule: ActiveRule | None = None) -> Decision:
        if self.needs_ledger and self.ledger.failing:
            return self._closed(visit)
        engine = self.engine
        listed, volume = engine.listed(visit), engine.white_volume
        if listed is not None and (listed.action != "pass" or not volume):
            return listed
        try:
            today = await self._count_listed(visit, counted_as) if listed is not None else 0
            if listed is not None and today <= volume:
                return listed
            reply = self.state.record_visit(engine.question(visit, rule=rule), counted_as)
            if not isinstance(reply, StateReply):
                reply = await reply
            if today > reply.today:
                reply = msgspec.structs.replace(reply, today=today)
        except StateUnavailable:
            return self._closed(visit)
        if visit.kind == "page" and visit.visitor != visit.prefix and self._is_cleared_page(visit):
            await self._count_cleared_page(visit, reply)
        elif visit.kind == "prefetch" or engine.needs_held(visit, reply) or ":" in visit.prefix:
            reply = await self._with_others(visit, reply, counted_as)
        decision, block = engine.judge(visit, reply)
        if decision.action == "challenge" and visit.visitor != visit.prefix:
            decision, block = await self._challenge(visit, reply, decision)
        if block is not None:
            self._commit(block, is_new=reply.block is None)
        if decision.change is not None and any(e.code == FOLLOWED_LINK for e in decision.evidence):
            # At once, because a crawler follows many links at the same time.
            self.settle(decision)
            return msgspec.structs.replace(decision, change=None)
        return decision

    async def _challenge(self, visit: Visit, reply: StateReply, decision: Decision) -> Outcome:
        """
        Return *decision*, to challenge a visitor, or to block it because it leaves every challenge unanswered.

        An address is never blocked for that: many people may see a challenge there, and each once.
        """
        is_own = is_one_browser(visit) and is_page_view(visit) and ELSEWHERE not in visit.anomalies
        if self.observes or not is_own:
            return Outcome(decision)
        return self.engine.policy.unanswered(visit, reply, decision, await self._count_shown(visit))

    async def _count_shown(self, visit: Visit) -> float:
        """
        Count a challenge that is shown, and return how many were within about an hour, with none answered.

        Many tabs that are opened at once count as one: only one challenge in ten seconds counts.
        """
        key = prices.shown_key(visit.visitor)
        score = await self._score_of(key, visit.at)
        shown = score_at(score, visit.at, _SHOWN_HALF_LIFE)
        if score is None or not shown or visit.at - score.at >= _AT_ONCE:
            self.state.update_score(
                ScoreUpdate(key, visit.at, self.engine.policy.day_of(visit.at), _SHOWN_HALF_LIFE, weight=1.0)
            )
            shown += 1
        return shown

    def _note_answer(self, visit: Visit, at: float) -> None:
        """Note that somebody answers challenges: those before do not count any more."""
        if is_one_browser(visit):
            key = prices.shown_key(visit.visitor)
            self.state.update_score(ScoreUpdate(key, at, self.engine.policy.day_of(at), _SHOWN_HALF_LIFE, cleared=True))

    @staticmethod
    def _is_cleared_page(visit: Visit) -> bool:
        """Tell whether a page counts for a clearance. What another site causes does not."""
        return visit.reader.startswith(CLEARANCE) and ELSEWHERE not in visit.anomalies

    async def _count_listed(self, visit: Visit, counted_as: Kind | None) -> int:
        """Count a visit of a white visitor, and return how many pages it has had today."""
        reply = self.state.record_visit(self.engine.question(visit, listed=True), counted_as)
        return (reply if isinstance(reply, StateReply) else await reply).today

    async def _count_cleared_page(self, visit: Visit, reply: StateReply) -> None:
        """Count a page that is read with a clearance for its address, which raises the price of the next clearance."""
        for address in prices.priced(visit.prefix, visit.address):
            if self.held_clearances.use(address, visit.reader, self.engine.policy.day_of(visit.at)):
                await self._count_held(visit, reply, address)
        score = reply.score
        is_suspected = score is not None and (
            score.identity != "person" or challenges_on(score, self.engine.policy.day_of(visit.at)) > 0
        )
        if pages := prices.pages_to_count(reply.today, is_suspected=is_suspected):
            self._raise_price(visit, pages)

    async def _with_others(self, visit: Visit, reply: StateReply, counted_as: Kind | None) -> StateReply:
        """
        Add to *reply* what is known of others at the visitor's address.

        A page without a clearance also counts for its IPv6 network, whose addresses may all be those of one client.
        """
        engine, most = self.engine, reply
        if engine.needs_read(visit):
            reply = msgspec.structs.replace(reply, read_today=await self._read_today(visit))
            most = msgspec.structs.replace(reply, today=max(reply.today, reply.read_today))
        if engine.needs_held(visit, most):
            reply = msgspec.structs.replace(reply, held=await self._held(visit.prefix, visit.at))
        if ":" not in visit.prefix or not engine.needs_network(visit):
            return reply
        today = (await self._ask(self._network_query(visit, visit.kind), counted_as)).today
        reply = msgspec.structs.replace(reply, of_network=today)
        if engine.needs_held(visit, StateReply(None, (), today=today)):
            held = await self._held(network_of(visit.address), visit.at)
            reply = msgspec.structs.replace(reply, held_in_network=held)
        return reply

    async def count_program_page(self, visit: Visit) -> Decision | None:
        """Count a page that a program is about to be given. Returns the decision to decline it, or None."""
        engine = self.engine
        if visit.bot or not visit.visitor or not engine.counts_program_pages or engine.listed(visit) is not None:
            return None
        key = visit.reader + "/given"
        reply = await self._ask(
            StateQuery(visit.at, "page", key, key, "", count=True, day=engine.policy.day_of(visit.at))
        )
        if engine.needs_held(visit, reply):
            reply = msgspec.structs.replace(reply, held=await self._held(visit.prefix, visit.at))
        decision = engine.judge_program_page(visit, reply)
        return msgspec.structs.replace(decision, observed=self.observes) if decision is not None else None

    async def _read_today(self, visit: Visit) -> int:
        """Return how many pages of today count for an address, without another one."""
        day, key = self.engine.policy.day_of(visit.at), visit.reader + "/read"
        query = StateQuery(visit.at, "asset", key, key, "", count=True, day=day, daily=visit.reader)
        return (await self._ask(query)).today

    def _network_query(self, visit: Visit, kind: Kind) -> StateQuery:
        key = "network:" + network_of(visit.address) + ("/arrivals" if ARRIVAL in visit.anomalies else "")
        return StateQuery(visit.at, kind, key, key, "", count=True, day=self.engine.policy.day_of(visit.at))

    async def _count_held(self, visit: Visit, reply: StateReply, address: str) -> None:
        """Count a clearance that is used side by side with others at *address*, once a day for all processes."""
        if reply.score is not None and reply.score.identity != "person":
            return
        day, claim = self.engine.policy.day_of(visit.at), prices.claim_key(visit.reader + address)
        if (await self._ask(StateQuery(visit.at, "page", claim, claim, "", count=True, day=day))).today == 1:
            key = prices.gateway_key(address)
            self.state.update_score(ScoreUpdate(key, visit.at, day, prices.HALF_LIFE, weight=1.0))

    async def _held(self, address: str, at: float) -> int:
        """Return how many clearances are held side by side at an address or in a network."""
        score = await self._score_of(prices.gateway_key(address), at)
        return min(prices.MAX_HELD, round(score_at(score, at, prices.HALF_LIFE)))

    def _raise_price(self, visit: Visit, pages: int) -> None:
        day, codes = self.engine.policy.day_of(visit.at), prices.counted_pages(pages, visit.at)
        for address in prices.priced(visit.prefix, visit.address):
            key = prices.price_key(address)
            self.state.update_score(ScoreUpdate(key, visit.at, day, prices.HALF_LIFE, codes=codes))

    async def price(self, visit: Visit) -> ClearancePrice:
        """
        Return what the next clearance costs the visitor: see `challenge.prices`.

        A visitor who has a clearance, or an account, earns it again. So it does not pay for the pages of its address.
        """
        key = self._answers_key(visit)
        score = await self._score_of(key, visit.at)
        held = await self._held(visit.prefix, visit.at)
        steps = 0
        if key == prices.price_key(visit.prefix):
            for address, share in prices.priced(visit.prefix, visit.address).items():
                is_own = address == visit.prefix
                counted = score if is_own else await self._score_of(prices.price_key(address), visit.at)
                clearances = held if is_own else await self._held(address, visit.at)
                steps = max(steps, prices.price_of(prices.pages_within_a_day(counted, visit.at) * share, clearances))
        return ClearancePrice(steps, held, suspicious_visits_on(score, self.engine.policy.day_of(visit.at)))

    @staticmethod
    def _answers_key(visit: Visit) -> str:
        """Return the key under which wrong answers count: of who has a clearance or an account, else of its address."""
        is_known = visit.reader.startswith((CLEARANCE, ACCOUNT))
        return prices.price_key(visit.reader if is_known else visit.prefix)

    async def _score_of(self, key: str, at: float) -> VisitorScore | None:
        return (await self._ask(StateQuery(at, "page", key, key, "", count=False))).score

    async def _ask(self, query: StateQuery, counted_as: Kind | None = None) -> StateReply:
        """Ask the state about something that is not a visit; a state that cannot be asked knows nothing."""
        try:
            reply = self.state.record_visit(query, counted_as)
            return reply if isinstance(reply, StateReply) else await reply
        except StateUnavailable:
            return StateReply(None, ())

    def _commit(self, block: Block, *, is_new: bool) -> None:
        """Put a block into the state, and count it if the visitor was not blocked before."""
        self.state.commit(block)
        if not is_new:
            return
        if self.observes:
            self.would_have_blocked += 1
        else:
            self.blocked += 1
            if self.on_block is not None:
                self.on_block(block)
        what = "would have blocked" if self.observes else "blocked"
        log.info("%s %s: %s", what, ascii(block.key), ascii(block.evidence.text))

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

    def remember(self, visit: Visit, decision: Decision, entry: str) -> Decision:
        """Return *decision* with an entry that is known only from the response."""
        return msgspec.structs.replace(decision, change=self.engine.policy.with_entry(visit, decision.change, entry))

    # ---- The results of challenges: see `challenge.interfaces.ChallengeHooks`

    def issued(self, visit: Visit, kind: ChallengeKind, at: float, *, again: bool) -> None:
        """Do nothing: a challenge was counted when its visitor became a suspect."""

    def needs_clearance(self, visit: Visit, decision: Decision) -> bool:
        """Return whether the visitor has no clearance, or has to earn the one that it has again."""
        return not visit.bot and visit.visitor != "" and (visit.reader == visit.prefix or decision.owes)

    async def solved(self, visit: Visit, key: str, kind: ChallengeKind, at: float, *, asked: bool = True) -> None:
        """
        Clear the visitor who solved a challenge, and whose key is *key* from now on.

        A visitor with an account or a clearance keeps its key. Any other gets a clearance, and with it a score of its
        own: visitors behind the same address have not solved anything. The page that it has seen no longer counts for
        the address, so that many people behind one address do not use up what it may read without a clearance.
        """
        self.engine.note_clearance(visit)
        if asked:
            if kind == "work":
                self.engine.note_calculation(key)
            self._note_answer(visit, at)
            change = self.engine.policy.cleared(key, at)
            is_new = key != visit.visitor
            self.state.update_score(msgspec.structs.replace(change, challenged=True) if is_new else change)
        self._raise_price(visit, 1)
        if visit.reader == visit.prefix:
            query = msgspec.structs.replace(self.engine.question(visit), kind="asset", daily=visit.reader, apart="")
            await self._ask(query, "page")
            if ":" in visit.prefix:
                await self._ask(self._network_query(visit, "asset"), "page")

    def reported(self, visit: Visit, report: BrowserReport) -> bool:
        """
        Note what the script of a page reports; return False if it is known already.

        It has consequences at the visitor's next page.
        """
        return self.engine.note_report(visit, report)

    def failed(self, visit: Visit, failure: ChallengeFailure, kind: ChallengeKind | None, at: float) -> None:
        """Add to the score of a visitor whose answer was wrong; a late answer is not held against it."""
        if failure not in _NO_ANSWER:
            self._note_answer(visit, at)
        if failure in _SUSPICIOUS:
            change = self.engine.policy.failed(visit.visitor, at, f"challenge-{failure}")
            self.state.update_score(change)
        if failure == "wrong" and kind in CAPTCHAS:
            day, key = self.engine.policy.day_of(at), self._answers_key(visit)
            self.state.update_score(
                ScoreUpdate(key, at, day, prices.HALF_LIFE, codes=(f"challenge-{failure}",), suspicious=True)
            )

    def record(self, visit: Visit, decision: Decision, status: int, reference: str = "", request_id: str = "") -> None:
        """
        Count an answered visit, write it to the ledger and update its visitor's score. Never waits.

        The score changes no earlier, because only the response tells whether the visit was to a page or to a file of an
        API. In a replay, which has no responses to wait for, a suspicion may begin one visit earlier.
        """
        if decision.observed:
            self.decided["pass"] += 1
        counts = self.would_have if decision.observed else self.decided
        counts[decision.action] += 1
        if decision.action != "pass":
            counts[decision.code] += 1
            if self.on_stopped is not None:
                self.on_stopped(visit, decision, status, reference, request_id)
        is_protected = self.engine.paths is None or self._is_protected(visit, self.engine.paths)
        if is_protected:
            self.settle(decision)
        self.ledger.append(Entry(visit, decision, status, reference))
        if self.on_decision is not None and is_protected:
            self.on_decision(visit, decision)

    @staticmethod
    def _is_protected(visit: Visit, paths: PathRules) -> bool:
        """Return whether a visit has consequences: not where a rule for its path only observes, or is off."""
        rule = paths.find(visit.target)
        return rule is None or rule.rule.protection == "on"

"""
The engine: from a visit to a decision. Pure: no sockets, no clock, no files.

The lists come first: a listed visitor is neither counted nor judged. For any other visit the gate sends the state one
query (which also counts the visit, atomically), hands the reply to `judge`, and commits the block and the score update
that the outcome names. A live request and a log line go through this same code; the visit's own time makes them give
the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import compress

import msgspec

from hedgerow.core.address import network_of
from hedgerow.core.decision import PASS, Decision, Evidence
from hedgerow.core.state import Detector, StateQuery, StateReply
from hedgerow.core.visit import ARRIVAL, BY_PROGRAM, ELSEWHERE, INTO_WINDOW, Visit, is_fetched, may_be_caused_elsewhere
from hedgerow.detectors.spec import VISIT_TRAITS, StateNeed, VisitTrait, traits_of
from hedgerow.lists.model import Lists, decide
from hedgerow.policy.decision_policy import DecisionPolicy, Outcome
from hedgerow.request.browser_report import BrowserReport
from hedgerow.request.browser_signs import BrowserSigns, is_one_browser
from hedgerow.request.path_rules import ActiveRule, PathRules


class Engine:
    """
    Judges visits with *detectors*, in their order, and a *policy*.

    *only* are the visits that each detector is asked about, empty: all. *needs* is what the state must count for these
    detectors; what none of them needs is not computed. *weights* are the
    operator's own weights for evidence codes. A source on the white list is treated as unknown when it passes
    *white_volume* requests in a day; 0: never. *browser_signs* are those of the detectors. *paths* are
    the rules for parts of the site.
    """

    def __init__(
        self,
        detectors: Sequence[Detector],
        policy: DecisionPolicy,
        *,
        only: Sequence[VisitTrait | None] = (),
        needs: Collection[StateNeed] = (),
        weights: Mapping[str, float] | None = None,
        lists: Lists | None = None,
        white_volume: int = 0,
        browser_signs: BrowserSigns | None = None,
        paths: PathRules | None = None,
    ) -> None:
        # Not `lists or ...`: empty lists are false, and may be filled later.
        self._lists = Lists() if lists is None else lists
        self.white_volume = white_volume
        self._detectors = tuple(detectors)
        self._only = tuple(only) or (None,) * len(self._detectors)
        self._by_traits: dict[tuple[bool, ...], tuple[Detector, ...]] = {}
        found = [getattr(detector, "on_clearance", None) for detector in self._detectors]
        self._on_clearance: list[Callable[[Visit], None]] = [learn for learn in found if learn is not None]
        worked = [getattr(detector, "on_calculation", None) for detector in self._detectors]
        self._on_calculation: list[Callable[[str], None]] = [learn for learn in worked if learn is not None]
        asked = [getattr(detector, "needs_held", None) for detector in self._detectors]
        self._needs_held: list[Callable[[Visit, StateReply], bool]] = [asks for asks in asked if asks is not None]
        given = [getattr(detector, "on_program_page", None) for detector in self._detectors]
        self._on_program_page: list[Detector] = [judge for judge in given if judge is not None]
        readers = [getattr(detector, "on_report", None) for detector in self._detectors]
        self._on_report: list[Callable[[Visit, BrowserReport], None]] = [read for read in readers if read is not None]
        self._browser_signs = BrowserSigns() if browser_signs is None else browser_signs
        self.policy = policy
        self.paths = paths
        self._by_network = "network" in needs
        self._by_day = "day" in needs
        self._site_rate = "site_rate" in needs
        self._weights = weights or {}

    def listed(self, visit: Visit) -> Decision | None:
        """
        Return what the lists say about *visit*, or None.

        The administrator's word goes before everything else, even before a verified bot's right to pass.
        """
        lists = self._lists
        if lists.has_entries:
            found = lists.find(visit.at, visit.address, visit.account, visit.user_agent)
            if found is not None:
                return decide(found)
        # A rule for a whole country is not meant for a good bot from there.
        return lists.networks.decide(visit.address) if lists.has_networks and not visit.bot else None

    def question(self, visit: Visit, *, listed: bool = False, rule: ActiveRule | None = None) -> StateQuery:
        """
        Return the query to the state about *visit*; *listed* if its visitor is on the white list.

        Under a *rule* with limits of its own, or that only observes, the visit counts apart from the rest of the site.

        Verified bots are not counted: they may be as fast as they like. Nor are visitors without a name: see `judge`.
        """
        network = network_of(visit.address) if self._by_network else ""
        count = not visit.bot and visit.visitor != ""
        day = self.policy.day_of(visit.at) if self._by_day and not visit.is_page_unknown else 0
        visitor, prefix, daily, apart = visit.visitor, visit.prefix, "", ""
        if not visit.anomalies and visit.kind == "page" and visit.method == "GET":
            # Nearly every page.
            pass
        elif ELSEWHERE in visit.anomalies:
            # What other sites make a browser request is not held against anybody.
            apart = "/windows" if INTO_WINDOW in visit.anomalies else "/elsewhere"
            daily = visit.reader + apart
        elif is_fetched(visit):
            # What scripts fetch counts apart: a page may fetch all its links, to have the next one ready.
            daily = visit.reader + "/scripts"
        elif BY_PROGRAM in visit.anomalies:
            # Nor do programs use up what people at the same address may read.
            daily = visit.reader + "/programs"
        elif ARRIVAL in visit.anomalies:
            # Nor do the frames of other sites, which look like this over plain HTTP.
            apart = "/arrivals"
            daily = visit.reader + apart
        elif visit.account:
            daily = visit.reader
        if rule is not None and rule.apart:
            apart = rule.apart + apart
            if rule.observes:
                daily = (daily or visit.reader) + rule.apart
        if listed:
            # And so does what a listed visitor reads: it begins with nothing when its entry ends.
            visitor = prefix = visitor + "/listed"
            network = daily = apart = ""
        return StateQuery(visit.at, visit.kind, visitor, prefix, network, count, day, self._site_rate, daily, apart)

    def note_clearance(self, visit: Visit) -> None:
        """Tell the detectors with a method `on_clearance` that the visitor of *visit* obtained a clearance."""
        for learn in self._on_clearance:
            learn(visit)

    def note_calculation(self, visitor: str) -> None:
        """Tell the detectors with a method `on_calculation` that a calculation was enough to end a challenge."""
        for learn in self._on_calculation:
            learn(visitor)

    def needs_held(self, visit: Visit, memory: StateReply) -> bool:
        """Tell whether a detector with a method `needs_held` needs `StateReply.held` to judge this visit."""
        # A loop, and not `any`: every visit comes here.
        needs = False
        for asks in self._needs_held:
            needs = needs or asks(visit, memory)
        return needs

    def judge_program_page(self, visit: Visit, memory: StateReply) -> Decision | None:
        """Return how to decline a page that a program is about to be given, or None: see `on_program_page`."""
        evidence = [one for judge in self._on_program_page for one in judge(visit, memory)]
        return self.policy.decide(visit, memory, evidence).decision if evidence else None

    @property
    def counts_program_pages(self) -> bool:
        return bool(self._on_program_page)

    def needs_network(self, visit: Visit) -> bool:
        """Tell whether *visit* counts as a page without a clearance of its IPv6 network."""
        is_page = visit.kind == "page" and not visit.bot and visit.reader == visit.prefix
        return self._by_day and is_page and ELSEWHERE not in visit.anomalies

    def needs_read(self, visit: Visit) -> bool:
        """Tell whether judging *visit*, a page that is loaded in advance, needs `StateReply.read_today`."""
        is_counted = self._by_day and visit.kind == "prefetch" and not visit.bot and visit.visitor != ""
        return is_counted and visit.reader == visit.prefix and not may_be_caused_elsewhere(visit)

    def note_report(self, visit: Visit, report: BrowserReport) -> bool:
        """
        Tell the detectors with a method `on_report` what the script of a page reports.

        Returns False for a report that arrives a second time. Nothing is noted of a visitor without a clearance or an
        account: it may be many people behind one address.
        """
        if not is_one_browser(visit) or not self._browser_signs.is_new(visit.visitor, report.number):
            return False
        for read in self._on_report:
            read(visit, report)
        return True

    def _detectors_for(self, visit: Visit) -> tuple[Detector, ...]:
        """Return the detectors that are asked about *visit*: about most visits, most have nothing to say."""
        traits = traits_of(visit)
        found = self._by_traits.get(traits)
        if found is None:
            wanted = {None, *compress(VISIT_TRAITS, traits)}
            selected = [one for one, only in zip(self._detectors, self._only, strict=True) if only in wanted]
            found = self._by_traits[traits] = tuple(selected)
        return found

    def judge(self, visit: Visit, memory: StateReply) -> Outcome:
        """
        Decide on *visit*. The order is the thesis's (figure 3.5).

        Where a server tells no address (a Unix socket whose proxy is not trusted), all its clients have the same empty
        name. They pass: blocking one of them would block them all.
        """
        if visit.bot or not visit.visitor:
            return Outcome(PASS)
        if memory.block is not None:
            return self.policy.extend_block(visit, memory.block)
        evidence: list[Evidence] = []
        for detect in self._detectors_for(visit):
            if found := detect(visit, memory):
                evidence += found
        if self._weights:
            evidence = [msgspec.structs.replace(e, weight=self._weights.get(e.code, e.weight)) for e in evidence]
        return self.policy.decide(visit, memory, evidence)

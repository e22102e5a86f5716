"""
One address reads more of the site than one clearance allows, with several clearances that nobody uses by hand.

A clearance is cheap at first. So a crawler could obtain many, keep them all, and divide the site among them: each has a
budget of its own. People behind one address hold many clearances, too. But they read the same pages, and their browsers
report that somebody uses them.

What counts are the different pages that visitors at the address have read today, except those of visitors whose last
pages were used by hand. Each visitor there of whom a report says that it used a page by hand allows as many pages
again, and sixteen of them any number. When more were read, the clearances that are not used by hand have to be earned
again, by an image or a recording, every ten pages, and every fifty once that was done. Two clearances at an address are
never asked.

Without reports (`signs.enabled = false`) nothing is known of people, and nobody is asked.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

from hedgerow.core.daily_limits import DailyLimits
from hedgerow.core.decision import Evidence, PolicyRule, VisitorScore
from hedgerow.core.state import CLEARANCE, StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.containment import ContainmentSettings
from hedgerow.detectors.driven_browser import SignsSettings
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup
from hedgerow.markers.token import page_digest
from hedgerow.request.browser_report import BrowserReport
from hedgerow.request.browser_signs import BrowserSigns, is_page_view

_CODE = EvidenceCode(
    "shared-budget", "k2-address", 1.0,
    "Several browsers that nobody uses by hand have read more than {limit} pages from this address today.",
    "More than `k2` different pages today at one address, with three clearances or more that nobody uses by hand; "
    "another `k2` for each visitor there that does. The clearance has to be earned again by an image or a recording.",
)  # fmt: skip
_MOST_ADDRESSES = 2_000
_MOST_VISITORS = 10_000
_ASKED, _PAID = -1, -2
_BITS = 4_096
_SEVERAL = 3
_CROWD = 16
"""Visitors who use pages by hand, from which on nobody at their address is asked."""
_OFTEN, _SELDOM = 10, 50
_DAY = 86_400.0
_CAPTCHA_PRICE = 5
"""The price from which on a challenge is no calculation."""


class _Address:
    """What was read today at one address, and by whom. The pages are counted by a bitmap."""

    __slots__ = ("by_hand", "day", "ones", "pages", "readers")

    def __init__(self, day: int) -> None:
        self.day = day
        self.pages = bytearray(_BITS // 8)
        self.ones = 0
        self.readers: frozenset[str] = frozenset()
        self.by_hand: frozenset[str] = frozenset()

    def read(self, page: bytes) -> None:
        bit = int.from_bytes(page, "big") % _BITS
        if not self.pages[bit >> 3] >> (bit & 7) & 1:
            self.pages[bit >> 3] |= 1 << (bit & 7)
            self.ones += 1

    @property
    def different_pages(self) -> float:
        """The number of different pages, estimated from the bits that are set."""
        return -_BITS * math.log1p(-min(self.ones, _BITS - 1) / _BITS)


class SharedBudgetDetector:
    """
    Gives evidence of clearances that share the pages of a site among them at one address.

    With *k2* 0 the number is that of *limits* at the time. What it remembers is that of this process.
    """

    def __init__(self, signs: BrowserSigns, k2: int = 0, limits: DailyLimits | None = None) -> None:
        self._signs = signs
        self._own_k2 = k2
        self._limits = DailyLimits() if limits is None else limits
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._solved: OrderedDict[str, int] = OrderedDict()
        """For visitors: how often each has solved a calculation, or `_ASKED` or `_PAID` once it was asked."""

    def on_calculation(self, visitor: str) -> None:
        """Note a challenge that was solved by a calculation, which any program can do."""
        solved = self._solved.get(visitor, 0)
        if visitor.startswith(CLEARANCE) and solved >= 0:
            self._note(visitor, solved + 1)

    def on_report(self, visit: Visit, report: BrowserReport) -> None:
        """Note a visitor that uses a page by hand."""
        if report.is_used and visit.visitor.startswith(CLEARANCE):
            here = self._at(visit)
            if len(here.by_hand) < _CROWD:
                here.by_hand |= {visit.visitor}

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:
        if visit.kind == "asset" or not visit.visitor.startswith(CLEARANCE):
            return ()
        if _is_asked(reply.score):
            # Until it has answered, also where the script of a page asks for a calculation.
            if self._solved.get(visit.visitor, 0) != _ASKED:
                self._note(visit.visitor, _ASKED)
            return (_CODE.evidence(limit=self._k2),)
        if not is_page_view(visit):
            return ()
        known = self._signs.find(visit.visitor)
        if known is not None and known.is_attended:
            return ()
        here = self._at(visit)
        here.read(page_digest(visit.target))
        if len(here.readers) < _SEVERAL:
            here.readers |= {visit.visitor}
        if len(here.readers) < _SEVERAL or len(here.by_hand) >= _CROWD:
            return ()
        limit = self._k2 * (1 + len(here.by_hand))
        is_due = reply.today % (_SELDOM if self._has_paid(visit.visitor, reply.score) else _OFTEN) == 1
        return (_CODE.evidence(limit=limit),) if is_due and here.different_pages > limit else ()

    def _has_paid(self, visitor: str, score: VisitorScore | None) -> bool:
        """
        Tell whether a visitor has read an image or listened to a recording, as far as is known here.

        Calculations are no price, or every crawler that the watch has found would have paid. Another process may have
        seen the answer; then the visitor has had more challenges than calculations.
        """
        if score is None or not score.challenges:
            return False
        solved = self._solved.get(visitor, 0)
        if solved == _ASKED and not _has_code(score):
            # Reasons are forgotten with the answer.
            self._note(visitor, solved := _PAID)
        return solved == _PAID or score.challenges > solved >= 0

    def _note(self, visitor: str, solved: int) -> None:
        self._solved[visitor] = solved
        self._solved.move_to_end(visitor)
        if len(self._solved) > _MOST_VISITORS:
            self._solved.popitem(last=False)

    @property
    def _k2(self) -> int:
        return self._own_k2 or self._limits.k2

    def _at(self, visit: Visit) -> _Address:
        day, here = int(visit.at // _DAY), self._addresses.get(visit.prefix)
        if here is None or here.day != day:
            here = self._addresses[visit.prefix] = _Address(day)
        self._addresses.move_to_end(visit.prefix)
        if len(self._addresses) > _MOST_ADDRESSES:
            self._addresses.popitem(last=False)
        return here


def _is_asked(score: VisitorScore | None) -> bool:
    return score is not None and score.identity == "suspect" and _has_code(score)


def _has_code(score: VisitorScore) -> bool:
    return any(code == _CODE.code for code, _ in score.reasons)


def _build(context: DetectorContext) -> SharedBudgetDetector | None:
    contains, signs = context.settings.table(ContainmentSettings), context.settings.table(SignsSettings)
    enabled = context.clears_silently if contains.enabled == "auto" else contains.enabled
    if not (enabled and signs.enabled and context.clears_silently) or contains.above_rate:
        return None
    k2 = 0 if contains.k2 == "auto" else contains.k2
    return SharedBudgetDetector(context.browser_signs, k2, context.daily_limits)


DETECTOR = DetectorSpec(
    name="shared-budget",
    doc=__doc__,
    order=71,
    groups=(EvidenceGroup("shared-budget", PolicyRule("challenge", 0.0, challenges_first=True, price=_CAPTCHA_PRICE)),),
    codes=(_CODE,),
    build=_build,
    enabled="`containment.enabled` and `signs.enabled`, where browsers obtain clearances by themselves",
    table="containment",
    replay=False,
    only="one-browser",
)

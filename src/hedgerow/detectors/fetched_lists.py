"""
The script of one page fetches many pages without the mark that links to them have: it has their addresses from a list.

A crawler may open a single page in a browser, obtain a clearance, and call `fetch()` there for all pages of the site.
Where scripts show the pages of a site (Turbo), they fetch pages without marks, too, but each from another page. So from
one page a script may fetch `k2` different pages without a mark, as many as a reader may open. Others are declined, but
pages that are opened are not.

Addresses that differ in their query alone count once, because scripts put together what people search for. Where the
browser names the site alone as the page that it comes from, or the script of a service worker, which may load the site
for the time without a network, nothing counts.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence

from hedgerow.core.daily_limits import DailyLimits
from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.core.state import CLEARANCE, StateReply
from hedgerow.core.visit import BY_SCRIPT, ELSEWHERE, UNMARKED_SITE, Visit
from hedgerow.detectors.containment import ContainmentSettings
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup
from hedgerow.markers.rules import may_be_page
from hedgerow.markers.token import page_digest

_CODE = EvidenceCode(
    "fetched-lists", "fetched-list", 1.0, "A script of one page has fetched more than {limit} pages from a list.",
    "The script of one page has fetched more than `k2` different pages without a mark, although links to them have "
    "one. Declined with 429; nobody is blocked, and pages that are opened are not declined.",
)  # fmt: skip
_BITS = 4096
_MOST_VISITORS = 2_000


class FetchedListsDetector:
    """
    Gives evidence of addresses from a list, of visitors with a clearance; *is_marked* tells which links have a mark.

    With *k2* 0 the number is that of *limits* at the time. What it remembers is that of this process: for each visitor
    the page whose script fetched others last, and a bitmap of these.
    """

    def __init__(self, is_marked: Callable[[str], bool], k2: int = 0, limits: DailyLimits | None = None) -> None:
        self._is_marked = is_marked
        self._own_k2 = k2
        self._limits = DailyLimits() if limits is None else limits
        self._visitors: OrderedDict[str, tuple[bytes, int]] = OrderedDict()

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one shape
        if BY_SCRIPT not in visit.anomalies or visit.marker is not None or visit.method != "GET":
            return ()
        if not visit.visitor.startswith(CLEARANCE) or not {ELSEWHERE, UNMARKED_SITE}.isdisjoint(visit.anomalies):
            return ()
        here = visit.referring_target
        if here in {"", "/"} or not may_be_page(here) or not self._is_marked(visit.target):
            return ()
        page = page_digest(here)
        known, pages = self._visitors.get(visit.visitor, (page, 0))
        if known != page:
            pages = 0
        pages |= 1 << int.from_bytes(page_digest(visit.path), "big") % _BITS
        self._visitors[visit.visitor] = page, pages
        self._visitors.move_to_end(visit.visitor)
        if len(self._visitors) > _MOST_VISITORS:
            self._visitors.popitem(last=False)
        k2 = self._own_k2 or self._limits.k2
        # As many bits as so many pages set.
        most = -_BITS * math.expm1(-k2 / _BITS)
        return (_CODE.evidence(limit=k2),) if pages.bit_count() > most else ()


def _build(context: DetectorContext) -> FetchedListsDetector | None:
    own = context.settings.table(ContainmentSettings)
    enabled = context.clears_silently if own.enabled == "auto" else own.enabled
    if not enabled or own.above_rate or not context.marks_links:
        return None
    return FetchedListsDetector(context.is_marked, 0 if own.k2 == "auto" else own.k2, context.daily_limits)


DETECTOR = DetectorSpec(
    name="fetched-lists",
    doc=__doc__,
    order=72,
    groups=(EvidenceGroup("fetched-lists", PolicyRule("refuse", 0.0, retry_after=60.0), status=429),),
    codes=(_CODE,),
    build=_build,
    enabled="`containment.enabled`, where links are marked",
    table="containment",
    replay=False,
)

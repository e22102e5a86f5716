"""
The visitor requested a hidden link, which no person can see (mod_antiCrawl, 2012, chapter 3.1.2).

Nobody can be framed. A trap link names the visitor that it was given to, and counts against that visitor only. If it is
sent to somebody else or posted in public, the visit is recorded and weighs nothing. The same holds if another site
leads to it or embeds it, whoever it was given to. Links that the same browser was given as another visitor, at another
address or before it had a clearance, do not count either: that address may have been somebody else's as well.

Only a navigation counts, and a request that does not say what it is. A script may fetch every link of the page that it
runs in, to have the next page ready. A browser says so (`Sec-Fetch-*`, `Sec-Purpose`). Then there is no page, nobody is
blocked, and the evidence is next to nothing. A crawler that calls itself such a script gains little. A script fetches
links of the page that it runs in, which the browser names as the referrer. One that fetches hidden links of other pages
follows links from page to page: after two of them it is a suspect, and is challenged. For a visitor with a clearance,
whose scripts may show parts of other pages, it takes five, and only those count that were on pages which its browser
has not opened lately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import Meta

from hedgerow.core.decision import BlockResponse, Evidence, PolicyRule
from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.core.state import CLEARANCE, StateReply
from hedgerow.core.visit import HIDDEN_KINDS, NO_NAVIGATION, Visit
from hedgerow.detectors.driven_browser import SignsSettings
from hedgerow.detectors.robots_reader import is_disallowed
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup, SettingsTables
from hedgerow.markers.rules import Placement
from hedgerow.markers.token import page_digest, visitor_digest
from hedgerow.request.browser_signs import BrowserSigns, page_hash
from hedgerow.request.header_anomalies import is_browser

_OWN = EvidenceCode(
    "trap", "trap", 1.0, "Followed a link of {where} that no person can see.",
    "The link was given to this very visitor.",
)  # fmt: skip
_OF_ANOTHER = EvidenceCode(
    "trap", "trap-of-another", 0.0, "A hidden link of {where}, given to another visitor.",
    "The link was given to another visitor: it was sent on, posted, or carried by a crawler that changes addresses. "
    "Recorded; nobody is blocked.",
)  # fmt: skip
_EMBEDDED = EvidenceCode(
    "trap", "trap-embedded", 0.0, "Another site led to a hidden link of {where}.",
    "A browser came to the link from another site, whoever it was given to. Recorded; nobody is blocked.",
)  # fmt: skip
_PREFETCHED = EvidenceCode(
    "trap", "trap-prefetched", 0.0, "A browser prefetched a hidden link of {where}.",
    "A browser fetched the link ahead of a click (`Sec-Purpose`).",
)  # fmt: skip
_FETCHED = EvidenceCode(
    "trap-fetch", "trap-fetched", 0.005, "A script fetched a hidden link of {where}.",
    "`Sec-Fetch-*` says that a script of the page fetches the link, or that the page embeds it. Answered with 404; "
    "nobody is blocked. It weighs 0 for a visitor with a clearance.",
)  # fmt: skip
_FETCHED_ELSEWHERE = EvidenceCode(
    "trap-fetch", "trap-fetched-elsewhere", 0.5, "A script fetched a hidden link of {where}, and runs elsewhere.",
    "The same, and the referrer is not the page with the hidden link: the script follows links from page to page. It "
    "weighs 0.2 for a visitor with a clearance, and 0 if its browser names no page or has opened that page lately.",
)  # fmt: skip

_OF_HOLDER = 0.2


class TrapSettings(Table, frozen=True):
    """Hidden links."""

    enabled: Annotated[bool, Meta(description="Insert hidden links into pages.")] = True
    placement: Annotated[
        Placement,
        Meta(
            description="`spread`: after the first link, then at growing distances, and at the end. `links`: after "
            "every n-th link, and at the end. `end`: only at the end."
        ),
    ] = "spread"
    every: Annotated[
        int,
        Meta(
            description='The n of `placement`. `placement = "links"` with `every = 1` inserts a hidden link after '
            "every link."
        ),
    ] = 3
    text: Annotated[
        bool,
        Meta(
            description="Give hidden links a text in browsers with style sheets, because many crawlers follow no link "
            "without."
        ),
    ] = True
    block_for: Annotated[float, Meta(description="How long a visitor that follows a hidden link is blocked.")] = 3600.0
    response: Annotated[BlockResponse, Meta(description='Or `"detain"`: serve the maze.')] = "refuse"

    def faults(self) -> Faults:
        yield from positive_faults(self, "every", "block_for")


class TrapDetector:
    """
    Gives evidence of hidden links. *page_name* turns the digest of a page into its path, or into "".

    *signs* has the pages that browsers have opened lately; None: they are not known.
    """

    def __init__(self, page_name: Callable[[bytes], str], signs: BrowserSigns | None = None) -> None:
        self._page_name = page_name
        self._signs = signs

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:
        marker = visit.marker
        if marker is None or marker.kind not in HIDDEN_KINDS or is_disallowed(visit, reply):
            return ()
        page = self._page_name(marker.parent)
        where = f"the page {page}" if page else "a page of this site"
        if visit.prefetch:
            return (_PREFETCHED.evidence(where=where),)
        is_led = visit.origin == "cross" and is_browser(visit.anomalies)
        if marker.issued_to == visitor_digest(visit.visitor) and not is_led:
            if NO_NAVIGATION not in visit.anomalies:
                return (_OWN.evidence(where=where),)
            runs_in = visit.referring_target
            code = _FETCHED if page_digest(runs_in) == marker.parent else _FETCHED_ELSEWHERE
            if not visit.visitor.startswith(CLEARANCE):
                return (code.evidence(where=where),)
            follows = code is _FETCHED_ELSEWHERE and runs_in != "" and page != "" and not self._has_opened(visit, page)
            return (code.evidence(where=where, weight=_OF_HOLDER if follows else 0.0),)
        if visit.origin == "cross":
            return (_EMBEDDED.evidence(where=where),)
        return (_OF_ANOTHER.evidence(where=where),)

    def _has_opened(self, visit: Visit, page: str) -> bool:
        """Return whether a window of the visitor has opened *page* lately, as far as that is known."""
        if self._signs is None:
            return True
        known = self._signs.find(visit.visitor)
        return known is not None and page_hash(visit.host, page) in known.pages


def _build(context: DetectorContext) -> TrapDetector | None:
    if not context.settings.table(TrapSettings).enabled:
        return None
    knows_pages = context.marks_links and context.settings.table(SignsSettings).enabled
    return TrapDetector(context.page_name, context.browser_signs if knows_pages else None)


def _rule(settings: SettingsTables) -> PolicyRule:
    traps = settings.table(TrapSettings)
    return PolicyRule(traps.response, traps.block_for)


DETECTOR = DetectorSpec(
    name="trap",
    doc=__doc__,
    order=10,
    groups=(EvidenceGroup("trap", _rule), EvidenceGroup("trap-fetch", PolicyRule("refuse", 0.0))),
    codes=(_OWN, _OF_ANOTHER, _EMBEDDED, _PREFETCHED, _FETCHED, _FETCHED_ELSEWHERE),
    build=_build,
    enabled="`traps.enabled`",
    table="traps",
    schema=TrapSettings,
    only="hidden-link",
)

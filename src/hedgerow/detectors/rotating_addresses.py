"""
A crawler that changes its address all the time: seen by the links that it hands on, or by links that it does without.

A mark says how often links were handed on from visitor to visitor before (its generation). A visitor that uses a link
of somebody else and holds no clearance gets pages of the next generation. People who receive a link go on by links of
their own. A crew hands links on again and again, and divides the links of a page among its addresses. Such visitors
must obtain a clearance before the page. A browser with JavaScript does so by itself, and nobody is blocked.

A crew that removes all marks leaves no chain, and neither does one that comes to a page with each address and goes on
by a few links of that page. Only the site as a whole notices them: ever new pages are requested without a mark by
visitors that never return, or ever new pages are read by visitors that obtain no clearance. Then every visitor without
a clearance must obtain one until it is over.

Programs are left alone: they get pages without marks, and their headers tell them from browsers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import Meta

from hedgerow.core.decision import PLAIN_ARRIVALS, Evidence, PolicyRule
from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.core.state import CLEARANCE, StateReply
from hedgerow.core.visit import ARRIVAL, BY_PROGRAM, BY_SCRIPT, ELSEWHERE, UNMARKED_SITE, Marker, Visit
from hedgerow.detectors.containment import ContainmentSettings
from hedgerow.detectors.marker_integrity import link_use
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup
from hedgerow.markers.token import NO_PAGE, page_digest, visitor_digest
from hedgerow.request.entry_surge import FLOOR, Change, EntrySurge
from hedgerow.request.link_uses import LinkUses, UsedLink

log = logging.getLogger(__name__)

_ALLOWED_LINKS = 9
# At home, at work and on the way. The cookie has four.
_FEW_ADDRESSES = 3
_PAGES = frozenset({"page", "prefetch"})
_MOVED_CLEARANCE = "clearance-network"

_HANDED_ON = EvidenceCode(
    "rotation", "handed-on", 1.0, "Used a link of another visitor that had used a link of another visitor itself.",
    "The link was issued to another visitor, and its generation is 1 or more. Once a visitor with a clearance has used "
    "the link, anybody may.",
)  # fmt: skip
_DIVIDED = EvidenceCode(
    "rotation", "divided-links", 1.0, "Used one of many links of {where} that visitors divide among themselves.",
    "The link was issued to another visitor, and strangers have used many other links of the same page view, or of "
    "that visitor, each once. A link that several visitors use does not count.",
)  # fmt: skip
_MOVING = EvidenceCode(
    "rotation", "moving", 1.0, "Changes its address from page to page.",
    "The link was given to the same browser at another address, to which it had come from yet another. Its cookie has "
    "more than three addresses.",
)  # fmt: skip
_SURGE = EvidenceCode(
    "rotation", "plain-entries", 1.0,
    "Many addresses are reading this site page by page just now. Visitors without a clearance need one.",
    "The whole site has far more entries to new pages than usual, by visitors that do not return; or most visitors "
    "obtain no clearance, and read far more new pages than usual. It ends by itself.",
)  # fmt: skip
_ARRIVALS = EvidenceCode(
    "rotation", PLAIN_ARRIVALS, 1.0,
    "Many addresses are reading this site over plain http just now, page by page and without cookies.",
    "The whole site has far more entries to new pages than usual, over plain http and without a cookie, as if they "
    "were in frames of another site. A browser has to show that it keeps a cookie, by a redirect that nobody sees; one "
    "that does not is challenged. It ends by itself.",
)  # fmt: skip
ROTATION_CODES = frozenset({code.code for code in (_HANDED_ON, _DIVIDED, _MOVING, _SURGE, _ARRIVALS)})
"""The codes of all evidence of rotating addresses."""


class RotatingAddressesSettings(Table, frozen=True):
    """Crawlers that change their address from page to page."""

    enabled: Annotated[bool, Meta(description="Ask visitors for a clearance that look like such a crawler.")] = True
    links: Annotated[
        int,
        Meta(
            description="How many links of one page view strangers may use, each link once, before the next one needs "
            "a clearance; and twice as many of all pages of one visitor. A link that several use does not count."
        ),
    ] = _ALLOWED_LINKS
    entries: Annotated[
        int,
        Meta(
            description="How many entries to new pages by visitors that do not return, at least, put the whole site "
            "on its guard. The count halves every hour; more are needed where more are usual. 0: never."
        ),
    ] = FLOOR

    def faults(self) -> Faults:
        yield from positive_faults(self, "links")
        if self.entries < 0:
            yield "entries", f"must be 0 or more, is {self.entries}"


class RotatingAddressesDetector:
    """
    Gives evidence of rotating addresses. *page_name* turns the digest of a page into its path, or into "".

    *is_marked* tells whether links to a target are marked. *clears*: browsers obtain a clearance by themselves. What it
    remembers is that of this process.
    """

    def __init__(
        self,
        page_name: Callable[[bytes], str],
        is_marked: Callable[[str], bool],
        *,
        links: int = _ALLOWED_LINKS,
        entries: int = FLOOR,
        clears: bool = True,
    ) -> None:
        self._page_name = page_name
        self._is_marked = is_marked
        self._uses = LinkUses(links)
        self.surge = EntrySurge(entries, clears=clears) if entries else None
        self._arrivals = EntrySurge(entries, clears=clears) if entries else None
        """Of entries that may be in frames of other sites."""
        self._surges = [surge for surge in (self.surge, self._arrivals) if surge is not None]

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one shape
        if ELSEWHERE in visit.anomalies:
            return ()
        if visit.visitor != visit.prefix:
            self._see_person(visit)
            return ()
        if visit.kind not in _PAGES or BY_PROGRAM in visit.anomalies:
            return ()
        return self._judge_link(visit) or self._judge_entry(visit)

    def _judge_link(self, visit: Visit) -> Sequence[Evidence]:
        """Judge how a visitor without a clearance came by the marked link that it used."""
        marker = visit.marker
        if marker is None or marker.parent == NO_PAGE:
            return ()
        use = link_use(visit)
        if use == "foreign":
            if not marker.generation:
                return self._judge_division(visit, marker)
            return () if self._uses.is_vouched(_link(marker)) else (_HANDED_ON.evidence(),)
        if use == "moved" and _MOVED_CLEARANCE not in visit.anomalies:
            if marker.generation and len(visit.linked) > _FEW_ADDRESSES:
                return (_MOVING.evidence(),)
            return self._judge_division(visit, marker)
        if use in {"own", "neighbour"}:
            for surge in self._surges:
                if surge.is_idle:
                    continue
                surge.come_back(visit.prefix, visit.at)
                if BY_SCRIPT not in visit.anomalies:
                    self._tell(surge, surge.read(visit.prefix, page_digest(visit.target), visit.at))
        return ()

    def _judge_division(self, visit: Visit, marker: Marker) -> Sequence[Evidence]:
        if self._uses.use(_link(marker), visitor_digest(visit.visitor), visit.at):
            return ()
        page = self._page_name(marker.parent)
        return (_DIVIDED.evidence(where=f"the page {page}" if page else "a page of this site"),)

    def _judge_entry(self, visit: Visit) -> Sequence[Evidence]:
        """Count entries without a marked link, and ask every visitor for a clearance while there is a surge of them."""
        is_arrival, marker = ARRIVAL in visit.anomalies, visit.marker
        surge = self._arrivals if is_arrival else self.surge
        if surge is None or UNMARKED_SITE in visit.anomalies or BY_SCRIPT in visit.anomalies:
            return ()
        # It may have been sent on, to see whether it keeps cookies.
        is_tested = marker is not None and marker.parent == NO_PAGE
        if is_tested and not is_arrival and self._arrivals is not None:
            self._arrivals.come_back(visit.prefix, visit.at)
        if (marker is None or is_tested) and self._is_marked(visit.target):
            self._tell(surge, surge.enter(visit.prefix, page_digest(visit.target), visit.at))
        if not surge.is_on:
            return ()
        self._tell(surge, surge.ask(visit.prefix, visit.at))
        if not surge.is_on:
            return ()
        return (_ARRIVALS.evidence() if is_arrival else _SURGE.evidence(),)

    def _see_person(self, visit: Visit) -> None:
        """Learn from a visitor with a clearance or an account: by which pages and links people come."""
        for surge in self._surges:
            surge.clear(visit.prefix, visit.at)
        if visit.kind != "page" or not visit.visitor.startswith(CLEARANCE):
            return
        self._uses.clear(visitor_digest(visit.prefix))
        marker = visit.marker
        if marker is None:
            for surge in self._surges:
                surge.meet(page_digest(visit.target))
        elif link_use(visit) == "foreign":
            self._uses.vouch(_link(marker), visit.at)

    def on_clearance(self, visit: Visit) -> None:
        """Learn that the visitor of *visit* obtained a clearance: it is no stranger any more."""
        self._uses.clear(visitor_digest(visit.prefix))
        for surge in self._surges:
            surge.clear(visit.prefix, visit.at)

    def _tell(self, surge: EntrySurge, change: Change) -> None:
        if surge is self._arrivals:
            who, what = "without cookies, over plain http", "to show that they keep cookies"
        else:
            who, what = "without a clearance", "for one"
        if change == "began":
            log.warning(
                "the site is being read from many addresses, page by page: about %d pages. "
                "Visitors %s are asked %s until it is over",
                max(surge.count, surge.read_count), who, what,
            )  # fmt: skip
        elif change == "ended":
            log.warning("the reading from many addresses is over: visitors %s are not asked any more", who)


def _link(marker: Marker) -> UsedLink:
    return UsedLink(marker.issued_to, marker.parent, page_digest(marker.target))


def _build(context: DetectorContext) -> RotatingAddressesDetector | None:
    own = context.settings.table(RotatingAddressesSettings)
    if not own.enabled or not context.marks_links or context.access_log:
        return None
    # Where pages without a clearance are unlimited, readers without JavaScript are welcome in any number.
    clears = context.clears_silently and context.settings.table(ContainmentSettings).enabled is not False
    return RotatingAddressesDetector(
        context.page_name, context.is_marked, links=own.links, entries=own.entries, clears=clears
    )  # fmt: skip


DETECTOR = DetectorSpec(
    name="rotating",
    doc=__doc__,
    # After the rate limit, which goes further.
    order=35,
    groups=(EvidenceGroup("rotation", PolicyRule("challenge", 0.0)),),
    codes=(_HANDED_ON, _DIVIDED, _MOVING, _SURGE, _ARRIVALS),
    build=_build,
    enabled="`rotating.enabled`, where links are marked",
    table="rotating",
    schema=RotatingAddressesSettings,
)

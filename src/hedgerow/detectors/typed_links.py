"""
Links that this very visitor was given moments ago arrive as if typed, one after the other.

A browser says with each page whether a link led to it. A program that drives a browser reads the links of a page and
opens their addresses. Then the browser says that nothing led there. A person copies a link's address now and then, so a
single link means nothing, and pages that were opened before do not count.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.driven_browser import SignsSettings
from hedgerow.detectors.marker_integrity import link_use
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup
from hedgerow.request.browser_signs import TYPED_LINKS, BrowserSigns, is_page_view, page_hash

_TYPED = EvidenceCode(
    "typed-links", TYPED_LINKS, 0.4, "Opens links of its last pages as if their addresses had been typed.",
    "Of the last ten new pages six or more came by a link that this visitor was given within the last ten minutes, and "
    "`Sec-Fetch-Site` said that nothing led to them.",
)  # fmt: skip
_LAST = 0x3FF
_MANY = 6
_MOMENTS = 600.0
_TYPED_EVIDENCE = _TYPED.evidence()


class TypedLinksDetector:
    """Gives evidence of links that arrive as if typed."""

    def __init__(self, signs: BrowserSigns) -> None:
        self._signs = signs

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one shape
        if not is_page_view(visit):
            return ()
        known = self._signs.of(visit.visitor)
        is_recent, known.at = visit.at - known.at < _MOMENTS, visit.at
        if known.open(page_hash(visit.host, visit.target)):
            is_typed = is_recent and visit.origin == "none" and link_use(visit) == "own"
            known.typed = known.typed << 1 & _LAST | is_typed
            known.set(TYPED_LINKS, holds=known.typed.bit_count() >= _MANY)
        return known.give(_TYPED_EVIDENCE)


def _build(context: DetectorContext) -> TypedLinksDetector | None:
    is_on = context.marks_links and context.settings.table(SignsSettings).enabled
    return TypedLinksDetector(context.browser_signs) if is_on else None


DETECTOR = DetectorSpec(
    name="typed-links",
    doc=__doc__,
    order=42,
    groups=(EvidenceGroup("typed-links", PolicyRule("challenge", 0.0)),),
    codes=(_TYPED,),
    build=_build,
    enabled="`signs.enabled`, where links are marked",
    table="signs",
    replay=False,
    only="one-browser",
)

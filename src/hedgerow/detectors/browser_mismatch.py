"""
Script and headers disagree about the browser.

The script of a page says by which engine it runs, on which system and in which version. A program that only changes the
headers of a browser does not change that. Nor do some extensions, so this weighs little.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.driven_browser import SignsSettings
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup
from hedgerow.request.browser_report import BrowserReport, claimed_browser, disagreement
from hedgerow.request.browser_signs import BROWSER_MISMATCH, BrowserSigns, is_page_view

_MISMATCH = EvidenceCode(
    "browser-mismatch", BROWSER_MISMATCH, 0.3, "Headers and page name different browsers: {difference}.",
    "Engine, system (Chromium only) or version in the header `User-Agent` are not those that the script finds.",
)  # fmt: skip


class BrowserMismatchDetector:
    """Gives evidence of browsers that two names are claimed for."""

    def __init__(self, signs: BrowserSigns) -> None:
        self._signs = signs

    def on_report(self, visit: Visit, report: BrowserReport) -> None:
        """Compare the first report of a page with the headers of the visitor's last page."""
        if report.is_first:
            known = self._signs.of(visit.visitor)
            known.detail = disagreement(report, known.claimed or claimed_browser(visit.user_agent))
            known.set(BROWSER_MISMATCH, holds=bool(known.detail))

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one shape
        if not is_page_view(visit):
            return ()
        known = self._signs.find(visit.visitor) or self._signs.of(visit.visitor)
        # A program that changes the headers of pages may forget those of reports.
        known.claimed = claimed_browser(visit.user_agent)
        return known.give(_MISMATCH.evidence(difference=known.detail)) if known.detail else ()


def _build(context: DetectorContext) -> BrowserMismatchDetector | None:
    return BrowserMismatchDetector(context.browser_signs) if context.settings.table(SignsSettings).enabled else None


DETECTOR = DetectorSpec(
    name="browser-mismatch",
    doc=__doc__,
    order=46,
    groups=(EvidenceGroup("browser-mismatch", PolicyRule("challenge", 0.0)),),
    codes=(_MISMATCH,),
    build=_build,
    enabled="`signs.enabled`",
    table="signs",
    replay=False,
    only="one-browser",
)

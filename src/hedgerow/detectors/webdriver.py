"""
The browser says that it is driven, or its pages have names that only drivers leave there.

`navigator.webdriver` is part of the standard for drivers: an honest driver sets it. Programs that hide it gain nothing
else by that.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.driven_browser import SignsSettings
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup
from hedgerow.request.browser_report import BrowserReport
from hedgerow.request.browser_signs import WEBDRIVER, BrowserSigns, is_page_view

_WEBDRIVER = EvidenceCode(
    "webdriver", WEBDRIVER, 0.5, "The browser says that a program drives it.",
    "`navigator.webdriver` is true, or a page has names that drivers leave (Selenium, Playwright, PhantomJS, "
    "Nightmare), or the browser calls itself headless.",
)  # fmt: skip
_WEBDRIVER_EVIDENCE = _WEBDRIVER.evidence()


class WebdriverDetector:
    """Gives evidence of browsers that say they are driven."""

    def __init__(self, signs: BrowserSigns) -> None:
        self._signs = signs

    def on_report(self, visit: Visit, report: BrowserReport) -> None:
        """Read the first report of a page."""
        if report.is_first:
            self._signs.of(visit.visitor).set(WEBDRIVER, holds=bool(report.webdriver or report.drivers))

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one shape
        known = self._signs.find(visit.visitor)
        if known is None or not known.signs or not is_page_view(visit):
            return ()
        return known.give(_WEBDRIVER_EVIDENCE)


def _build(context: DetectorContext) -> WebdriverDetector | None:
    return WebdriverDetector(context.browser_signs) if context.settings.table(SignsSettings).enabled else None


DETECTOR = DetectorSpec(
    name="webdriver",
    doc=__doc__,
    order=45,
    groups=(EvidenceGroup("webdriver", PolicyRule("challenge", 0.0)),),
    codes=(_WEBDRIVER,),
    build=_build,
    enabled="`signs.enabled`",
    table="signs",
    replay=False,
    only="one-browser",
)

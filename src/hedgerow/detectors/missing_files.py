"""
A browser that shows pages without their style sheets and images, and never asks for these.

Programs that drive a browser often block such files to save time. A cache does not look like that: the page has its
files then. The script of the page counts the files that the page shows from its own site, and how many of these it has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.driven_browser import SignsSettings
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup
from hedgerow.request.browser_report import BrowserReport
from hedgerow.request.browser_signs import NO_FILES, BrowserSigns, is_page_view

_NO_FILES = EvidenceCode(
    "missing-files", NO_FILES, 0.4, "Shows pages without their style sheets and images, and does not ask for these.",
    "Five pages in a row have style sheets or images of this site and show none of them, and none was requested.",
)  # fmt: skip
_MANY = 5
# Scripts, ours among them, and what browsers ask for by themselves.
_OTHER_FILES = re.compile(r"\.m?js$|^/favicon\.ico$|^/apple-touch-icon", re.IGNORECASE)
_NO_FILES_EVIDENCE = _NO_FILES.evidence()


class MissingFilesDetector:
    """Gives evidence of pages without their files."""

    def __init__(self, signs: BrowserSigns) -> None:
        self._signs = signs

    def on_report(self, visit: Visit, report: BrowserReport) -> None:
        """Count the report of a page."""
        if not (report.is_first and report.files and report.visible):
            return
        known = self._signs.of(visit.visitor)
        known.unloaded = 0 if report.loaded or known.loads_files else known.unloaded + 1
        known.loads_files = False
        known.set(NO_FILES, holds=known.unloaded >= _MANY)

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one shape
        known = self._signs.find(visit.visitor)
        if known is None:
            return ()
        if visit.kind == "asset":
            if not _OTHER_FILES.search(visit.path):
                # Asked for, whether or not the site has it.
                known.loads_files = True
            return ()
        return known.give(_NO_FILES_EVIDENCE) if known.signs and is_page_view(visit) else ()


def _build(context: DetectorContext) -> MissingFilesDetector | None:
    return MissingFilesDetector(context.browser_signs) if context.settings.table(SignsSettings).enabled else None


DETECTOR = DetectorSpec(
    name="missing-files",
    doc=__doc__,
    order=44,
    groups=(EvidenceGroup("missing-files", PolicyRule("challenge", 0.0)),),
    codes=(_NO_FILES,),
    build=_build,
    enabled="`signs.enabled`",
    table="signs",
    replay=False,
    only="one-browser",
)

"""
Pages that nobody looks at: left at a glance, or left without any input, one after the other.

The script of a page counts trusted events of pointer, keys, touch and wheel, and clicks by assistive software, and the
time for which the page is visible. Pages in background tabs do not count, and neither does a page that is loaded again.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.core.decision import ATTENDED, UNATTENDED, UNTOUCHED, Evidence, PolicyRule
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.driven_browser import SignsSettings
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup
from hedgerow.request.browser_report import BrowserReport
from hedgerow.request.browser_signs import BEHAVIOUR, GLANCES, NO_INPUT, BrowserSigns, is_page_view

_EMPTY_REPORTS = 10
_GLANCE = 1_000
_SHORT_REPORTS = 8
_NO_INPUT = EvidenceCode(
    "attention", NO_INPUT, 0.3, "Went through ten pages without touching pointer, keys or wheel.",
    "The reports of ten pages in a row count no trusted event, and ten or more different pages were requested "
    "meanwhile. One event ends it.",
)  # fmt: skip
_GLANCES = EvidenceCode(
    "attention", GLANCES, 0.3, "Left eight pages in a row within a second, without any input.",
    "The reports of eight visible pages in a row say less than a second, and count no trusted event.",
)  # fmt: skip
_ATTENDED = EvidenceCode(
    "attention", ATTENDED, 0.0, "Used most of its last pages by hand.",
    "The visitor is a suspect, no sign of a driven browser holds, and of its last eight reported pages five or more "
    "were looked at and used by mouse, finger or keys. Then the order in which it reads is not held against it: it "
    "solves its challenges silently, and is not blocked.",
)  # fmt: skip
_UNATTENDED = EvidenceCode(
    "attention", UNATTENDED, 0.0, "Used few of its last pages by hand.",
    "The visitor is a suspect, and its browser has reported five pages or more, most of which nobody used by mouse, "
    "finger or keys. Then a slow pace does not excuse the order of its pages, and each challenge costs what the next "
    "one would.",
)  # fmt: skip
_UNTOUCHED = EvidenceCode(
    "attention", UNTOUCHED, 0.0, "Its last pages were not used as people use pages.",
    "The visitor is a suspect, and `no-input`, `glances`, `no-files` or `typed-links` holds. Then nothing excuses the "
    "order of its pages, and each challenge costs what the next one would.",
)  # fmt: skip
_UNATTENDED_EVIDENCE = _UNATTENDED.evidence()
_UNTOUCHED_EVIDENCE = _UNTOUCHED.evidence()
_NO_INPUT_EVIDENCE = _NO_INPUT.evidence()
_ATTENDED_EVIDENCE = _ATTENDED.evidence()
_GLANCES_EVIDENCE = _GLANCES.evidence()


class PageAttentionDetector:
    """Gives evidence of pages that nobody looks at."""

    def __init__(self, signs: BrowserSigns) -> None:
        self._signs = signs

    def on_report(self, visit: Visit, report: BrowserReport) -> None:
        """Count the report of a page."""
        known = self._signs.of(visit.visitor)
        if report.has_input:
            known.empty = known.glances = known.new_pages = 0
        elif report.is_first and report.visible:
            known.empty += 1
            known.glances = known.glances + 1 if report.visible < _GLANCE else 0
        if report.is_first and report.visible:
            known.note_use(is_used=report.is_used)
        is_quiet = known.empty >= _EMPTY_REPORTS and known.new_pages >= _EMPTY_REPORTS
        known.set(NO_INPUT, holds=is_quiet)
        known.set(GLANCES, holds=known.glances >= _SHORT_REPORTS)

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:
        known = self._signs.find(visit.visitor)
        if known is None:
            return ()
        found: tuple[Evidence, ...] = ()
        # Also where the script of the page asks for its challenge.
        if reply.score is not None and (reply.score.total or reply.score.identity != "person"):
            if known.is_attended:
                found = (_ATTENDED_EVIDENCE,)
            elif not BEHAVIOUR.isdisjoint(known.signs):
                found = (_UNTOUCHED_EVIDENCE,)
            elif known.is_unattended:
                found = (_UNATTENDED_EVIDENCE,)
        if not known.signs or not is_page_view(visit):
            return found
        return (*found, *known.give(_NO_INPUT_EVIDENCE), *known.give(_GLANCES_EVIDENCE))


def _build(context: DetectorContext) -> PageAttentionDetector | None:
    return PageAttentionDetector(context.browser_signs) if context.settings.table(SignsSettings).enabled else None


DETECTOR = DetectorSpec(
    name="attention",
    doc=__doc__,
    order=43,
    groups=(EvidenceGroup("attention", PolicyRule("challenge", 0.0)),),
    codes=(_NO_INPUT, _GLANCES, _ATTENDED, _UNATTENDED, _UNTOUCHED),
    build=_build,
    enabled="`signs.enabled`",
    table="signs",
    replay=False,
    only="one-browser",
)

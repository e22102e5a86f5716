"""
Movements of the mouse that look like those of a program, or a mouse that jumps from click to click.

A forest judges sums over all movements of a visitor. It was trained on recordings of people and of two kinds of bots,
and finds few other programs (docs/evaluation/pointer.md), so it weighs little. A driver without such movements places
the pointer on a link and clicks: one movement for each click. Some assistive software does that, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.driven_browser import SignsSettings
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup
from hedgerow.request.browser_report import BrowserReport
from hedgerow.request.browser_signs import POINTER, POINTER_JUMPS, BrowserSigns, is_page_view
from hedgerow.request.pointer_model import (
    LEAST_MOVES,
    LOOKS_DRIVEN,
    PointerModel,
    features,
    report_sums,
    shipped_model,
)

_POINTER = EvidenceCode(
    "pointer", POINTER, 0.2, "The mouse moves as programs move it: in equal steps.",
    f"The forest gives the movements of this visitor, {LEAST_MOVES} or more, a score of {LOOKS_DRIVEN} or more.",
)  # fmt: skip
_JUMPS = EvidenceCode(
    "pointer", POINTER_JUMPS, 0.2, "The mouse jumps from click to click, without a way between.",
    "Ten or more presses of a mouse, and at most two movements for each.",
)  # fmt: skip
_PRESSES = 10
_MOVES_OF_JUMP = 2
_POINTER_EVIDENCE = _POINTER.evidence()
_JUMPS_EVIDENCE = _JUMPS.evidence()


class PointerDetector:
    """Gives evidence of movements of the mouse."""

    def __init__(self, signs: BrowserSigns, model: PointerModel) -> None:
        self._signs = signs
        self._model = model

    def on_report(self, visit: Visit, report: BrowserReport) -> None:
        """Add the movements on a page to those of the visitor, and judge them."""
        if not (report.moves or report.presses):
            return
        known = self._signs.of(visit.visitor)
        sums = report_sums(report)
        known.pointer = tuple(map(sum, zip(known.pointer, sums, strict=True))) if known.pointer else sums
        known.presses += report.presses
        moves = known.pointer[0]
        is_jumping = known.presses >= _PRESSES and moves <= _MOVES_OF_JUMP * known.presses
        known.set(POINTER_JUMPS, holds=is_jumping)
        if moves >= LEAST_MOVES:
            known.set(POINTER, holds=self._model.score(features(known.pointer)) >= LOOKS_DRIVEN)

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one shape
        known = self._signs.find(visit.visitor)
        if known is None or not known.signs or not is_page_view(visit):
            return ()
        return (*known.give(_POINTER_EVIDENCE), *known.give(_JUMPS_EVIDENCE))


def _build(context: DetectorContext) -> PointerDetector | None:
    is_on = context.settings.table(SignsSettings).enabled
    return PointerDetector(context.browser_signs, shipped_model()) if is_on else None


DETECTOR = DetectorSpec(
    name="pointer",
    doc=__doc__,
    order=47,
    groups=(EvidenceGroup("pointer", PolicyRule("challenge", 0.0)),),
    codes=(_POINTER, _JUMPS),
    build=_build,
    enabled="`signs.enabled`",
    table="signs",
    replay=False,
    only="one-browser",
)

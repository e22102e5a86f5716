"""
Several signs of a driven browser at once: each further page speaks for a crawler.

One sign alone weighs something once, and no more: a person may use a reader for the blind, an extension that opens
links or hides the browser's name, or a browser for tests. Two or more, of which at least one is in how pages are used
just now, are not found with people. They never block at once: the visitor solves silent challenges first, then visible
ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.core.settings_table import Table
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup
from hedgerow.request.browser_signs import BrowserSigns, is_page_view

_DRIVEN = EvidenceCode(
    "driven", "driven-browser", 0.25, "The browser seems to be driven by a program: {signs}.",
    "Two or more of the signs `typed-links`, `no-input`, `glances`, `no-files`, `webdriver`, `browser-mismatch`, "
    "`pointer` and `pointer-jumps` hold for one visitor, and one of the first four among them. Each further page "
    "weighs 0.25.",
)  # fmt: skip


class SignsSettings(Table, frozen=True):
    """Signs of automated browsers."""

    enabled: Annotated[
        bool,
        Meta(
            description="Have the script of the page report a [few numbers](browser-signs.md) about how pages are used "
            "and about the browser. Browsers that send `Sec-GPC: 1` or `DNT: 1` report nothing."
        ),
    ] = True


class DrivenBrowserDetector:
    """Gives evidence of the signs that the other detectors have found."""

    def __init__(self, signs: BrowserSigns) -> None:
        self._signs = signs

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one shape
        known = self._signs.find(visit.visitor)
        if known is None or not known.is_driven or not is_page_view(visit):
            return ()
        return (_DRIVEN.evidence(signs=", ".join(known.signs)),)


def _build(context: DetectorContext) -> DrivenBrowserDetector | None:
    return DrivenBrowserDetector(context.browser_signs) if context.settings.table(SignsSettings).enabled else None


DETECTOR = DetectorSpec(
    name="driven",
    doc=__doc__,
    # After the detectors of the single signs.
    order=49,
    groups=(EvidenceGroup("driven", PolicyRule("challenge", 0.0)),),
    codes=(_DRIVEN,),
    build=_build,
    enabled="`signs.enabled`",
    table="signs",
    schema=SignsSettings,
    replay=False,
    only="one-browser",
)

"""
A visitor without an account has made more requests today than a person needs (PubCrawl's containment).

Up to k1 requests a day are free. After that a visitor without an account is challenged. A visitor who solved a
challenge may make k2 requests and is then challenged again. Where a rate is set, all this holds only while the site is
busy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.core.state import ACCOUNT, StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.spec import (
    DetectorContext,
    DetectorSpec,
    EvidenceCode,
    EvidenceGroup,
    SettingsTables,
    StateNeed,
)

_TEXT = "More than {limit} requests today."
_K1 = EvidenceCode(
    "containment", "k1", 1.0, _TEXT, "More than `k1` requests today from one address. Challenged; nobody is blocked."
)
_K2 = EvidenceCode(
    "containment", "k2", 1.0, _TEXT, "More than `k2` requests today by a visitor who solved a challenge."
)


class ContainmentSettings(Table, frozen=True):
    """PubCrawl's containment of visitors without an account."""

    enabled: Annotated[bool, Meta(description="Contain visitors that are neither identified nor listed.")] = False
    k1: Annotated[int, Meta(description="Pages and calls per day and address before a challenge.")] = 20
    k2: Annotated[
        int, Meta(description="Pages and calls per day for a visitor that solved the challenge, before the next one.")
    ] = 1000
    white_volume: Annotated[
        int,
        Meta(description="A white-listed source with more requests in a day is treated as unlisted until midnight."),
    ] = 100_000
    above_rate: Annotated[
        float, Meta(description="Contain only while the whole site has this many visits per second; 0: always.")
    ] = 0.0

    def faults(self) -> Faults:
        yield from positive_faults(self, "k1", "k2", "white_volume")
        if self.k2 < self.k1:
            yield "k2", f"must be at least k1, {self.k1}; is {self.k2}"
        if not (self.above_rate >= 0 and math.isfinite(self.above_rate)):
            yield "above_rate", f"must be 0 or more, is {self.above_rate}"


class ContainmentDetector:
    """Gives evidence of how much a visitor without an account has requested today; *above_rate* 0: always."""

    def __init__(self, k1: int, k2: int, *, above_rate: float = 0.0) -> None:
        self._k1 = k1
        self._k2 = k2
        self._above_rate = above_rate

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:
        if reply.site_rate < self._above_rate:
            return ()
        if visit.kind not in {"page", "call"} or visit.visitor.startswith(ACCOUNT):
            return ()
        cleared = visit.visitor != visit.prefix
        code, limit = (_K2, self._k2) if cleared else (_K1, self._k1)
        return (code.evidence(limit=limit),) if reply.today > limit else ()


def _build(context: DetectorContext) -> ContainmentDetector | None:
    own = context.settings.table(ContainmentSettings)
    return ContainmentDetector(own.k1, own.k2, above_rate=own.above_rate) if own.enabled else None


def _needs(settings: SettingsTables) -> frozenset[StateNeed]:
    return frozenset({"day", "site_rate"} if settings.table(ContainmentSettings).above_rate else {"day"})


DETECTOR = DetectorSpec(
    name="containment",
    doc=__doc__,
    order=70,
    groups=(EvidenceGroup("containment", PolicyRule("challenge", 0.0)),),
    codes=(_K1, _K2),
    build=_build,
    enabled="`containment.enabled` (off by default)",
    table="containment",
    schema=ContainmentSettings,
    needs=_needs,
)

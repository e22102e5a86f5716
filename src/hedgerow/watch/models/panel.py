"""
Panel: the bundle in use, the one in its shadow, and what is known of both.

The shadow judges the same sessions; what it says is compared and recorded, and has no other effect. What is known is a
`PanelRecord` that outlives a restart, as long as the bundles are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from hedgerow.core.decision import Identity
from hedgerow.watch.models.bundle import Bundle, digest
from hedgerow.watch.models.drift import Drift, Moved, warning
from hedgerow.watch.sessions.path import PathSession
from hedgerow.watch.sessions.window import SessionWindow

ModelKind = Literal["paths", "windows"]
"""What a panel judges: PathMarker's sessions, or the windows of 27 to 40 visits."""

_MOST_DIFFERENCES = 50


class Difference(msgspec.Struct, frozen=True):
    """A session on which the two bundles did not agree."""

    visitor: str
    at: float
    judged: Identity
    shadow: Identity


class PanelRecord(msgspec.Struct):
    """
    What a panel has seen: sessions by what they were *judged* to be, and, once there is a shadow, by what both said
    (*compared*). *bundle* and *shadow* are the digests of the bundles it is about.
    """

    kind: ModelKind
    bundle: str
    name: str = ""
    judged: dict[str, int] = {}
    shadow: str = ""
    shadow_name: str = ""
    compared: dict[str, dict[str, int]] = {}
    differences: list[Difference] = []
    drift: Drift = msgspec.field(default_factory=Drift)

    @property
    def sessions(self) -> int:
        """Sessions that both have judged."""
        return sum(sum(list(row.values())) for row in list(self.compared.values()))

    @property
    def agreed(self) -> int:
        """Those on which both said the same."""
        return sum(row.get(judged, 0) for judged, row in list(self.compared.items()))

    @property
    def flagged(self) -> tuple[int, int]:
        """Of those both have judged: how many were no person's, by the bundle in use and by the shadow."""
        rows = list(self.compared.values())
        by_shadow = sum(count for row in rows for said, count in list(row.items()) if said != "person")
        return self.sessions - sum(self.compared.get("person", {}).values()), by_shadow


class Panel:
    """Judges sessions of one *kind* by *bundle*; *shadow* is asked, too, and not heeded."""

    def __init__(self, kind: ModelKind, bundle: Bundle, shadow: Bundle | None = None) -> None:
        self.kind: ModelKind = kind
        self.bundle = bundle
        self.shadow = shadow
        self.record = self._blank()

    def _blank(self) -> PanelRecord:
        record = PanelRecord(self.kind, digest(self.bundle), self.bundle.name)
        if self.shadow is not None:
            record.shadow, record.shadow_name = digest(self.shadow), self.shadow.name
        return record

    def take(self, kept: PanelRecord) -> None:
        """Go on with what was known before, as far as it is about the same bundles."""
        mine = self.record
        if kept.kind != self.kind or kept.bundle != mine.bundle:
            return
        mine.judged, mine.drift = kept.judged, kept.drift
        if kept.shadow == mine.shadow:
            mine.compared, mine.differences = kept.compared, kept.differences

    def judge(self, session: PathSession | SessionWindow, visitor: str, at: float) -> Identity:
        """What the visitor is, by its session."""
        record = self.record
        row = self.bundle.row(session)
        identity = self.bundle.judge(row, session.size).identity
        record.judged[identity] = record.judged.get(identity, 0) + 1
        if identity == "person":
            record.drift.add(self.bundle, row, session.size)
        if self.shadow is not None:
            said = self.shadow.judge_session(session).identity
            by_shadow = record.compared.setdefault(identity, {})
            by_shadow[said] = by_shadow.get(said, 0) + 1
            if said != identity:
                record.differences.append(Difference(visitor, at, identity, said))
                del record.differences[:-_MOST_DIFFERENCES]
        return identity

    def moved(self) -> Sequence[Moved]:
        """How far each feature is from what it was in the training."""
        return list(self.record.drift.moved(self.bundle))

    def told(self) -> dict[str, Any]:
        """What there is to be known, as plain data; any thread may ask."""
        record = self.record
        compared = None
        if self.shadow is not None:
            by_bundle, by_shadow = record.flagged
            compared = {
                "shadow": self.shadow.name,
                "digest": record.shadow,
                "provenance": self.shadow.provenance,
                "judgements": record.sessions,
                "agreed": record.agreed,
                "flagged": by_bundle,
                "flagged_by_shadow": by_shadow,
                "table": {judged: dict(row) for judged, row in list(record.compared.items())},
                "differences": [msgspec.to_builtins(one) for one in list(record.differences)],
            }
        return {
            "kind": self.kind,
            "bundle": self.bundle.name,
            "digest": record.bundle,
            "provenance": self.bundle.provenance,
            "judged": dict(record.judged),
            "compared": compared,
            "drift": [
                {"visits": one.size, "feature": one.feature, "index": round(one.off, 4), "sessions": one.sessions}
                for one in self.moved()
            ],
            "warning": self.warning(),
        }

    def warning(self) -> str:
        """What has to be said about the features, in words; "" where there is nothing."""
        return warning(self.moved())

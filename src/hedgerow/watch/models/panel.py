"""
The panel: the bundle in use, its shadow, and a record of what both said.

The shadow classifies the same sessions. Its answers are compared and recorded, and have no other effect. The
`PanelRecord` survives a restart as long as the bundles are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from hedgerow.core.decision import Identity
from hedgerow.watch.models.bundle import Bundle, digest
from hedgerow.watch.models.drift import Drift, FeatureDrift, warning
from hedgerow.watch.sessions.path import PathSession
from hedgerow.watch.sessions.window import SessionWindow

ModelKind = Literal["paths", "windows"]
"""What a panel classifies: PathMarker's sessions, or windows of 27 to 40 visits."""

_MAX_DIFFERENCES = 50


class Difference(msgspec.Struct, frozen=True):
    """A session that the two bundles classified differently."""

    visitor: str
    at: float
    judged: Identity
    shadow: Identity


class PanelRecord(msgspec.Struct):
    """
    Sessions counted by identity (*judged*) and, with a shadow, by the identities of both bundles (*compared*).

    *bundle* and *shadow* are the digests of the bundles.
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
        return sum(sum(list(row.values())) for row in list(self.compared.values()))

    @property
    def agreed(self) -> int:
        return sum(row.get(judged, 0) for judged, row in list(self.compared.items()))

    @property
    def flagged(self) -> tuple[int, int]:
        """The number of compared sessions that are not a person's, by the bundle in use and by the shadow."""
        rows = list(self.compared.values())
        by_shadow = sum(count for row in rows for identity, count in list(row.items()) if identity != "person")
        return self.sessions - sum(self.compared.get("person", {}).values()), by_shadow


class Panel:
    """Classifies sessions of one *kind* with *bundle*, and records what *shadow* would say."""

    def __init__(self, kind: ModelKind, bundle: Bundle, shadow: Bundle | None = None) -> None:
        self.kind: ModelKind = kind
        self.bundle = bundle
        self.shadow = shadow
        self.record = self._new_record()

    def _new_record(self) -> PanelRecord:
        record = PanelRecord(self.kind, digest(self.bundle), self.bundle.name)
        if self.shadow is not None:
            record.shadow, record.shadow_name = digest(self.shadow), self.shadow.name
        return record

    def restore(self, record: PanelRecord) -> None:
        """Continue the record from before a restart, as far as it is about the same bundles."""
        mine = self.record
        if record.kind != self.kind or record.bundle != mine.bundle:
            return
        mine.judged, mine.drift = record.judged, record.drift
        if record.shadow == mine.shadow:
            mine.compared, mine.differences = record.compared, record.differences

    def judge(self, session: PathSession | SessionWindow, visitor: str, at: float) -> Identity:
        record = self.record
        row = self.bundle.row(session)
        identity = self.bundle.judge(row, session.size).identity
        record.judged[identity] = record.judged.get(identity, 0) + 1
        if identity == "person":
            record.drift.add(self.bundle, row, session.size)
        if self.shadow is not None:
            shadow_identity = self.shadow.judge_session(session).identity
            by_shadow = record.compared.setdefault(identity, {})
            by_shadow[shadow_identity] = by_shadow.get(shadow_identity, 0) + 1
            if shadow_identity != identity:
                record.differences.append(Difference(visitor, at, identity, shadow_identity))
                del record.differences[:-_MAX_DIFFERENCES]
        return identity

    def drift(self) -> Sequence[FeatureDrift]:
        return list(self.record.drift.features(self.bundle))

    def status(self) -> dict[str, Any]:
        """Return the record as plain data. Safe to call from any thread."""
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
                {"visits": one.size, "feature": one.feature, "index": round(one.drift, 4), "sessions": one.sessions}
                for one in self.drift()
            ],
            "warning": self.warning(),
        }

    def warning(self) -> str:
        return warning(self.drift())

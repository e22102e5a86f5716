"""
The panel: the bundle in use, its shadow, a record of what both said, and drift.

The shadow classifies the same sessions. Its answers are compared and recorded, and have no other effect. The
`PanelRecord` survives a restart as long as the bundles are the same.

Drift tells whether visitors still resemble the people in the training data of a bundle. For each feature of a stage,
the sessions of people are counted by the bins of the bundle. The distance from the training data is the population
stability index: the sum, over all bins, of (now - then) * ln(now / then).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

import msgspec

from hedgerow.core.decision import Identity
from hedgerow.watch.models.bundle import Bins, Bundle, Judgement, ModelKind, digest
from hedgerow.watch.sessions.path import PathSession
from hedgerow.watch.sessions.window import SessionWindow

MINOR_DRIFT, MAJOR_DRIFT = 0.1, 0.25
"""The index above which drift of a feature is noticeable, and above which a model should be retrained."""

MIN_SESSIONS = 200
"""Sessions needed for a statement: chance alone causes an index of about 9 / sessions."""

_MAX_DIFFERENCES = 50
_MAX_SESSIONS = 20_000
_MIN_SHARE = 0.001


class FeatureDrift(NamedTuple):
    """The drift of one feature in the stage *size*: its stability index, and the number of sessions."""

    size: int
    feature: str
    drift: float
    sessions: int


class Drift(msgspec.Struct):
    """Sessions by stage, feature and bin. Beyond 20,000 sessions all counts are halved, so that old ones fade."""

    counts: dict[str, list[list[int]]] = {}

    def add(self, bundle: Bundle, row: Sequence[float], size: int) -> None:
        """Count one more session of *size* visits that was classified as a person's."""
        stage = bundle.stage_at(size)
        if stage is None or not stage.bins:
            return
        key = str(stage.size)
        counts = self.counts.get(key)
        if counts is None or [len(one) for one in counts] != [len(bins.shares) for bins in stage.bins]:
            counts = self.counts[key] = [[0] * len(bins.shares) for bins in stage.bins]
        for value, bins, one in zip(row, stage.bins, counts, strict=True):
            one[bisect_left(bins.edges, value)] += 1
        if sum(counts[0]) > _MAX_SESSIONS:
            self.counts[key] = [[count // 2 for count in one] for one in counts]

    def features(self, bundle: Bundle) -> Iterator[FeatureDrift]:
        for stage in bundle.stages:
            # An atomic copy: the caller may be in another thread than `add`.
            counts = list(self.counts.get(str(stage.size), ()))
            for name, bins, one in zip(bundle.features, stage.bins, counts, strict=False):
                yield FeatureDrift(stage.size, name, stability_index(bins, list(one)), sum(one))


def stability_index(bins: Bins, counts: Sequence[int]) -> float:
    """
    Return the population stability index of *counts*.

    >>> bins = Bins((1.0,), (0.5, 0.5))
    >>> stability_index(bins, [50, 50]), round(stability_index(bins, [90, 10]), 2)
    (0.0, 0.88)
    """
    total = sum(counts)
    if not total or len(counts) != len(bins.shares):
        return 0.0
    index = 0.0
    for share, count in zip(bins.shares, counts, strict=True):
        then, now = max(share, _MIN_SHARE), max(count / total, _MIN_SHARE)
        index += (now - then) * log(now / then)
    return index


class Difference(msgspec.Struct, frozen=True):
    """A session that the two bundles classified differently."""

    visitor: str
    at: float
    judged: Identity
    shadow: Identity


class PanelRecord(msgspec.Struct):
    """Sessions by identity (*judged*), and by the identities of both bundles (*compared*). Bundles are digests."""

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


@dataclass(eq=False)
class Panel:
    """Classifies sessions of one *kind* with *bundle*, and records what *shadow* would say."""

    kind: ModelKind
    bundle: Bundle
    shadow: Bundle | None = None

    def __post_init__(self) -> None:
        self.record = PanelRecord(self.kind, digest(self.bundle), self.bundle.name)
        if self.shadow is not None:
            self.record.shadow, self.record.shadow_name = digest(self.shadow), self.shadow.name

    def restore(self, record: PanelRecord) -> None:
        """Continue the record from before a restart, as far as it is about the same bundles."""
        mine = self.record
        if record.kind != self.kind or record.bundle != mine.bundle:
            return
        mine.judged, mine.drift = record.judged, record.drift
        if record.shadow == mine.shadow:
            mine.compared, mine.differences = record.compared, record.differences

    def judge(self, session: PathSession | SessionWindow, visitor: str, at: float) -> Judgement:
        record = self.record
        row = self.bundle.row(session)
        judgement = self.bundle.judge(row, session.size)
        identity = judgement.identity
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
        return judgement

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
        """Return a sentence about features with major drift; "" if there is none."""
        by_index = sorted(self.drift(), key=lambda one: -one.drift)
        major = [one.feature for one in by_index if one.sessions >= MIN_SESSIONS and one.drift > MAJOR_DRIFT]
        names = list(dict.fromkeys(major))
        if not names:
            return ""
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")  # noqa: PLR2004
        return (
            f"visitors no longer resemble the people in the training data: {shown} drifted far; "
            "retrain with hedgerow train, and compare the new bundle as a shadow"
        )

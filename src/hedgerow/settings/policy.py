"""The table [policy]: from evidence to a decision (see `policy.decision_policy`)."""

from __future__ import annotations

import math
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from hedgerow.core.settings_table import Faults, Table, positive_faults


class PolicySettings(Table, frozen=True):
    suspects: Literal["challenge", "refuse", "pass"] = "challenge"
    refuse_at: float = 1.0
    suspect_at: float = 1.0
    half_life: float = 3600.0
    wrong_from: float = 0.05
    wrong_visits: int = 30
    challenges: int = 2
    block_for: float = 86_400.0
    timezone: str = "UTC"
    weights: dict[str, float] = msgspec.field(default_factory=dict)
    lengthen: float = 2.0
    longest_block: float = 604_800.0
    remember: float = 604_800.0

    def faults(self) -> Faults:
        yield from positive_faults(self, "longest_block")
        for name, minimum in (("lengthen", 1), ("remember", 0)):
            value = getattr(self, name)
            if not (value >= minimum and math.isfinite(value)):
                yield name, f"must be at least {minimum}, is {value:g}"
        yield from positive_faults(
            self, "refuse_at", "suspect_at", "half_life", "wrong_from", "wrong_visits", "challenges", "block_for"
        )
        for code, weight in self.weights.items():
            if not (weight >= 0 and math.isfinite(weight)):
                yield f"weights.{code}", f"must be 0 or more, is {weight}"
        try:
            ZoneInfo(self.timezone)
        except (ValueError, ZoneInfoNotFoundError, OSError):
            yield "timezone", f"{self.timezone!r} is not a time zone; write it like Europe/Berlin"

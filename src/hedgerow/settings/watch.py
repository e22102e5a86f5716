"""The tables [watch] and [campaigns]: the analysis of sessions, and of links shared between visitors."""

from __future__ import annotations

from typing import Literal

from hedgerow.core.settings_table import Faults, Table, positive_faults


class WatchSettings(Table, frozen=True):
    enabled: bool = True
    paths: Literal["challenge", "record", "off"] = "record"
    windows: Literal["challenge", "record", "off"] = "record"
    model: str = ""
    window_model: str = ""
    shadow: str = ""
    queue: int = 10_000
    sessions: int = 50_000

    def faults(self) -> Faults:
        yield from positive_faults(self, "queue", "sessions")


class CampaignSettings(Table, frozen=True):
    enabled: bool = True
    response: Literal["challenge", "record"] = "challenge"
    members: int = 3
    links: float = 10.0
    share: float = 0.4
    chance: float = 0.0023
    half_life: float = 14_400.0

    def faults(self) -> Faults:
        yield from positive_faults(self, "links", "share", "chance", "half_life")
        if self.members < 2:  # noqa: PLR2004 - one visitor shares with nobody
            yield "members", f"must be at least 2, is {self.members}"
        for name in ("share", "chance"):
            value = getattr(self, name)
            if value >= 1:
                yield name, f"is a share: must be less than 1, is {value:g}"

"""The table [challenge]: challenges and clearances."""

from __future__ import annotations

import math
import re
from typing import Literal

from hedgerow.challenge.external import Name
from hedgerow.challenge.interfaces import ChallengeKind
from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.settings.checks import is_path_start

_MIN_SECONDS = 5.0


class ExternalSettings(Table, frozen=True):
    """An external provider of challenges. *script* and *verify* replace its usual addresses."""

    provider: Name = "turnstile"
    site_key: str = ""
    secret: str = ""
    script: str = ""
    verify: str = ""
    timeout: float = 3.0

    def faults(self) -> Faults:
        yield from positive_faults(self, "timeout")
        for name in ("script", "verify"):
            value = getattr(self, name)
            if value and not re.fullmatch(r"https?://[^\s\"'<>;,]+", value):
                yield name, f"{value!r} is not an address such as https://example.org/api.js"


class ChallengeSettings(Table, frozen=True):
    kinds: tuple[ChallengeKind, ...] = ("work", "image", "audio")
    seconds: float = 30.0
    audio_seconds: float = 60.0
    auto: bool = True
    difficulty: int = 5_000
    hardest: int = 50_000
    body: int = 65_536
    pool: int = 32
    clear_for: float = 86_400.0
    networks: int = 3
    share_window: float = 600.0
    spent: int = 100_000
    store: Literal["sqlite", "memory"] = "sqlite"
    path: str = "/.hedgerow/"
    external: ExternalSettings = ExternalSettings()

    def faults(self) -> Faults:
        yield from positive_faults(
            self, "difficulty", "hardest", "body", "pool", "clear_for", "share_window", "spent",
        )  # fmt: skip
        for name in ("seconds", "audio_seconds"):
            value = getattr(self, name)
            if not (value >= _MIN_SECONDS and math.isfinite(value)):
                yield name, f"must be at least {_MIN_SECONDS:g}, is {value:g}: nobody answers faster"
        if not self.kinds:
            yield "kinds", "must not be empty: a suspect needs a way out"
        if len(set(self.kinds)) < len(self.kinds):
            yield "kinds", "must not contain a kind twice"
        if self.hardest < self.difficulty:
            yield "hardest", f"must not be less than difficulty, which is {self.difficulty}"
        if self.networks < 2:  # noqa: PLR2004 - every clearance has one network
            yield "networks", f"must be at least 2, is {self.networks}"
        if not is_path_start(self.path) or not self.path.endswith("/"):
            yield "path", f"{self.path!r} must start and end with /, and contain only letters, digits and . _ ~ -"
        if "external" in self.kinds:
            for name in ("site_key", "secret"):
                if not getattr(self.external, name):
                    yield f"external.{name}", "is needed if kinds contains external"

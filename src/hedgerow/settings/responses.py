"""The tables [responses] and [detain]: what refused and detained clients receive."""

from __future__ import annotations

from hedgerow.core.settings_table import Faults, Table, positive_faults


class ResponseSettings(Table, frozen=True):
    contact: str = ""
    site: str = ""


class DetainSettings(Table, frozen=True):
    """The budget of the tarpit for all detained clients together."""

    connections: int = 64
    memory: int = 2_000_000
    seconds: float = 20.0

    def faults(self) -> Faults:
        yield from positive_faults(self, "connections", "memory", "seconds")

"""The table [logs]: the format of the logs for `hedgerow report`."""

from __future__ import annotations

from typing import Literal

import msgspec

from hedgerow.core.settings_table import Faults, Table

_FIELDS = (
    "time", "address", "user", "request", "method", "target", "query", "host", "status", "referrer", "version", "agent",
    "session",
)  # fmt: skip


class LogsSettings(Table, frozen=True):
    format: str = ""
    fields: dict[str, str] = msgspec.field(default_factory=dict)
    by: Literal["visitor", "address", "prefix", "network", "account", "session"] = "visitor"

    def faults(self) -> Faults:
        for name in self.fields:
            if name not in _FIELDS:
                yield "fields", f"no field is called {name!r}; use one of {', '.join(_FIELDS)}"

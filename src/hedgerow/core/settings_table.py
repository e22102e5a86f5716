"""Base class of the tables in the settings file, for `settings` and for detectors that bring a table of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

Faults = Iterator[tuple[str, str]]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the settings file."""

    def faults(self) -> Faults:
        """Yield (setting, sentence) for each value of the right type that makes no sense."""
        yield from ()


def positive_faults(table: Table, *names: str) -> Faults:
    """Check that numbers are above zero and finite: TOML also accepts `inf` and `nan`."""
    for name in names:
        value = getattr(table, name)
        if not (value > 0 and math.isfinite(value)):
            yield name, f"must be more than 0, is {value}"

"""Density: too many visits in too short a time (mod_antiCrawl's request density model)."""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.identity.address import network_of
from hedgerow.recall import Memory, everyone_at
from hedgerow.verdict import Evidence
from hedgerow.visit import Visit
from hedgerow.windows.density import Window


class DensityDetector:
    """Evidence from the sliding windows: one piece for the first window that is over its limit."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self._windows = tuple(windows)
        self._limits = tuple(w.count for w in self._windows)

    def __call__(self, visit: Visit, memory: Memory) -> Sequence[Evidence]:
        for counted, limit in zip(memory.counts, self._limits, strict=False):
            if counted > limit:
                break
        else:
            return ()
        window = next(w for w, n in zip(self._windows, memory.counts, strict=True) if n > w.count)
        whose, key = {
            "visitor": ("", ""),
            "prefix": (" from this address", everyone_at(visit.prefix)),
            "network": (" from this network", network_of(visit.address)),
        }[window.by]
        what = "requests" if window.of == "everything" else window.of
        text = f"More than {window.count} {what} in {window.seconds:g} seconds{whose}."
        return (Evidence("density", f"density-{window.by}", 1.0, text, key),)

"""
Density: too many visits in too short a time (mod_antiCrawl's request density model).

Prefetches have evidence of their own, under the name "prefetch": a browser makes them, not a person, so too many of
them are declined one by one and nobody is blocked for them. A crawler that calls everything a prefetch gets no further.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import gt

from hedgerow.core.address import network_of
from hedgerow.core.decision import Evidence
from hedgerow.core.rate_limit import RateLimit
from hedgerow.core.state import StateReply, prefix_key
from hedgerow.core.visit import Visit


class RateLimitDetector:
    """Evidence from the sliding windows: one piece for the first window that is over its limit."""

    def __init__(self, windows: Sequence[RateLimit]) -> None:
        self._windows = tuple(windows)
        self._limits = tuple(w.count for w in self._windows)

    def __call__(self, visit: Visit, memory: StateReply) -> Sequence[Evidence]:
        if not any(map(gt, memory.counts, self._limits)):
            return ()
        for window, counted in zip(self._windows, memory.counts, strict=True):
            if counted > window.count and (window.of == "prefetches") == (visit.kind == "prefetch"):
                return (_evidence(window, visit),)
        return ()


def _evidence(window: RateLimit, visit: Visit) -> Evidence:
    if window.of == "prefetches":
        text = f"More than {window.count} pages fetched ahead in {window.seconds:g} seconds."
        return Evidence("prefetch", "prefetch", 1.0, text)
    whose, key = {
        "visitor": ("", ""),
        "prefix": (" from this address", prefix_key(visit.prefix)),
        "network": (" from this network", network_of(visit.address)),
    }[window.by]
    what = "requests" if window.of == "everything" else window.of
    text = f"More than {window.count} {what} in {window.seconds:g} seconds{whose}."
    return Evidence("density", f"density-{window.by}", 1.0, text, key)

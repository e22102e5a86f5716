"""
Too many visits in too short a time (mod_antiCrawl, chapter 3.1.1).

Prefetches have a group of their own. A browser makes them, not a person, so too many of them are declined one by one
and nobody is blocked. A crawler that calls every request a prefetch gets no further.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import gt
from typing import Annotated

from msgspec import Meta

from hedgerow.core.address import network_of
from hedgerow.core.decision import BlockResponse, Evidence, PolicyRule
from hedgerow.core.rate_limit import PEAK_SECONDS, RateLimit
from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.core.state import StateReply, prefix_key
from hedgerow.core.visit import Visit
from hedgerow.detectors.spec import (
    DetectorContext,
    DetectorSpec,
    EvidenceCode,
    EvidenceGroup,
    ReportColumn,
    ReportRule,
    SettingsTables,
    StateNeed,
)

# The time of a visit is exact to a quarter of a microsecond; a window must be much longer.
_SHORTEST_WINDOW = 0.001
_MOST_COUNTED = 100_000

_TEXT = "More than {count} {what} in {seconds:g} seconds"
_LIMITS = {
    "visitor": EvidenceCode("density", "density-visitor", 1.0, f"{_TEXT}.", "Visits of one visitor."),
    "prefix": EvidenceCode(
        "density", "density-prefix", 1.0, f"{_TEXT} from this address.",
        "Visits of everybody at its address. Everybody there is blocked.",
    ),
    "network": EvidenceCode(
        "density", "density-network", 1.0, f"{_TEXT} from this network.",
        "Visits of its network. The network is blocked.",
    ),
}  # fmt: skip
_PREFETCH = EvidenceCode(
    "prefetch", "prefetch", 1.0, "More than {count} pages prefetched in {seconds:g} seconds.",
    "More prefetched pages (`Sec-Purpose`) than the window for prefetches allows. Declined one by one, with 503; "
    "nobody is blocked.",
)  # fmt: skip

DEFAULT_WINDOWS = (
    RateLimit(count=40, seconds=1.2, of="pages"),
    RateLimit(count=100, seconds=3.0, of="requests"),
    RateLimit(count=300, seconds=3.0, by="prefix", of="requests"),
    RateLimit(count=30, seconds=60.0, of="prefetches"),
)


class DensitySettings(Table, frozen=True):
    """
    Rate limits.

    The defaults are the thesis's 100 in 3 s, a shorter window for pages, and one for all accounts of an address.
    """

    enabled: Annotated[bool, Meta(description="Count visits and act on these limits.")] = True
    windows: Annotated[
        tuple[RateLimit, ...],
        Meta(
            description="Limits: more than `count` visits within any `seconds`. `by`: `visitor`, `prefix` (all "
            "visitors at an address: IPv4 /32, IPv6 /64) or `network` (IPv4 /24, IPv6 /48). `of`: `pages`, `requests` "
            "(pages and calls), `everything` (assets too) or `prefetches` (nobody is blocked for these: excess "
            "prefetches are declined with 503). `hedgerow replay LOG --propose` suggests limits from your own log."
        ),
    ] = DEFAULT_WINDOWS
    block_for: Annotated[float, Meta(description="How long a visitor over a limit is blocked.")] = 3600.0
    renew: Annotated[bool, Meta(description="A visit during a block (of any kind) restarts the block.")] = True
    response: Annotated[BlockResponse, Meta(description='Or `"detain"`: serve the maze.')] = "refuse"

    def faults(self) -> Faults:
        yield from positive_faults(self, "block_for")
        for number, window in enumerate(self.windows):
            if not 1 <= window.count <= _MOST_COUNTED:
                yield f"windows.{number}.count", f"must be from 1 to {_MOST_COUNTED}, is {window.count}"
            if not (window.seconds >= _SHORTEST_WINDOW and math.isfinite(window.seconds)):
                yield f"windows.{number}.seconds", f"must be at least {_SHORTEST_WINDOW}, is {window.seconds:g}"


class RateLimitDetector:
    """Gives one piece of evidence, for the first window that is over its limit."""

    def __init__(self, windows: Sequence[RateLimit]) -> None:
        self._windows = tuple(windows)
        self._limits = tuple(w.count for w in self._windows)

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:
        if not any(map(gt, reply.counts, self._limits)):
            return ()
        for window, counted in zip(self._windows, reply.counts, strict=True):
            if counted > window.count and (window.of == "prefetches") == (visit.kind == "prefetch"):
                return (_evidence(window, visit),)
        return ()


def _evidence(window: RateLimit, visit: Visit) -> Evidence:
    if window.of == "prefetches":
        return _PREFETCH.evidence(count=window.count, seconds=window.seconds)
    key = ""
    if window.by == "prefix":
        key = prefix_key(visit.prefix)
    elif window.by == "network":
        key = network_of(visit.address)
    what = "requests" if window.of == "everything" else window.of
    return _LIMITS[window.by].evidence(key=key, count=window.count, what=what, seconds=window.seconds)


def _build(context: DetectorContext) -> RateLimitDetector | None:
    density = context.settings.table(DensitySettings)
    return RateLimitDetector(density.windows) if density.enabled else None


def _needs(settings: SettingsTables) -> frozenset[StateNeed]:
    by_network = any(window.by == "network" for window in settings.table(DensitySettings).windows)
    return frozenset({"network"}) if by_network else frozenset()


def _rule(settings: SettingsTables) -> PolicyRule:
    density = settings.table(DensitySettings)
    return PolicyRule(density.response, density.block_for)


def report_rule(settings: SettingsTables) -> ReportRule:
    """
    Judge a source by its busiest seconds.

    This covers windows about one visitor that are as long as one of `PEAK_SECONDS`. In a window about all requests only
    the pages are counted, so its limit is exceeded later than at the gate.
    """
    windows = [
        window
        for window in settings.table(DensitySettings).windows
        if window.by == "visitor" and window.of != "prefetches" and window.seconds in PEAK_SECONDS
    ]
    columns: tuple[ReportColumn, ...] = ("peak_0", "peak_1", "peak_2", "peak_3")

    def judge(*peaks: int) -> Sequence[Evidence]:
        for window, peak in zip(windows, peaks, strict=True):
            if peak > window.count:
                return (_LIMITS["visitor"].evidence(count=window.count, what="pages", seconds=window.seconds),)
        return ()

    return ReportRule(tuple(columns[PEAK_SECONDS.index(window.seconds)] for window in windows), judge)


DETECTOR = DetectorSpec(
    name="density",
    doc=__doc__,
    order=30,
    groups=(EvidenceGroup("density", _rule), EvidenceGroup("prefetch", PolicyRule("refuse", 0.0))),
    codes=(*_LIMITS.values(), _PREFETCH),
    build=_build,
    enabled="`density.enabled`",
    table="density",
    schema=DensitySettings,
    needs=_needs,
    report=report_rule,
)

"""The metrics of a site: of one process, and of all its workers together."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SiteCounters:
    """Counts since the start of this process, which a reload does not reset. Their meaning is that of `SiteMetrics`."""

    decided: Counter[str] = field(default_factory=Counter)
    would_have: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    upstream_errors: Counter[str] = field(default_factory=Counter)
    challenges: Counter[str] = field(default_factory=Counter)

    def count_skipped(self, reason: str, target: str) -> None:
        """Count a page that could not be read, and log the first for each reason."""
        self.skipped[reason] += 1
        if self.skipped[reason] == 1:
            log.warning("pages are passed on without hidden links (%s), the first of them %s", reason, ascii(target))


class SiteMetrics(msgspec.Struct):
    """
    Counts since the start, as processes send them to each other.

    *decided* has visits by action, and those that were not passed by code. *would_have* has the same for what would
    have been done while the site only observed; those visits passed. *untouched* are pages without bait, by
    reason. *inside* are the clients detained now. *alone* are visits decided while the shared state was unreachable.
    """

    decided: dict[str, int] = {}
    untouched: dict[str, int] = {}
    upstream_errors: dict[str, int] = {}
    challenges: dict[str, int] = {}
    blocked: int = 0
    would_have: dict[str, int] = {}
    would_have_blocked: int = 0
    lost: int = 0
    forgotten: int = 0
    left_out: int = 0
    inside: int = 0
    admitted: int = 0
    turned_away: int = 0
    alone: int = 0
    problems: dict[str, str] = {}
    """What does not work in this process: see `Site.problems`."""


def running_metrics(others: Mapping[int, bytes]) -> Iterator[tuple[int, SiteMetrics]]:
    """Yield the metrics of those processes that have not ended."""
    for process, data in others.items():
        if _is_running(process):
            yield process, msgspec.msgpack.decode(data, type=SiteMetrics)


_SUMMED = tuple(name for name in SiteMetrics.__struct_fields__ if name != "problems")


def sum_metrics(own: SiteMetrics, others: Mapping[int, bytes]) -> SiteMetrics:
    """Add the metrics of other processes, by process id, to *own*. A process that has ended detains nobody."""
    total = msgspec.structs.replace(own)
    for process, data in others.items():
        counted = msgspec.msgpack.decode(data, type=SiteMetrics)
        for name in _SUMMED:
            value, more = getattr(total, name), getattr(counted, name)
            if isinstance(value, dict):
                setattr(total, name, dict(Counter(value) + Counter(more)))
            elif name != "inside" or _is_running(process):
                setattr(total, name, value + more)
    return total


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True

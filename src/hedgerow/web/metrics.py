"""The metrics of a site: of one process, and of all its workers together."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from hedgerow.core.decision import Decision
from hedgerow.web.latency import Latency

log = logging.getLogger(__name__)

_MAX_CODES = 300


@dataclass(frozen=True)
class SiteCounters:
    """Counts since the start of this process, which a reload does not reset. Their meaning is that of `SiteMetrics`."""

    decided: Counter[str] = field(default_factory=Counter)
    would_have: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    upstream_errors: Counter[str] = field(default_factory=Counter)
    challenges: Counter[str] = field(default_factory=Counter)
    refused_connections: Counter[str] = field(default_factory=Counter)
    stopped: Counter[str] = field(default_factory=Counter)
    latency: Latency = field(default_factory=Latency)

    def count_stopped(self, decision: Decision) -> None:
        """Count a decision other than pass. Detectors of the operator may have any number of codes; some are kept."""
        key = f"{'true' if decision.observed else 'false'} {decision.action} {decision.code}"
        if key not in self.stopped and len(self.stopped) >= _MAX_CODES:
            key = f"{'true' if decision.observed else 'false'} {decision.action} other"
        self.stopped[key] += 1

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
    reason. *stopped* has decisions other than pass by whether they were only observed, action and code; *latency* is
    as in `Latency.flat`. *inside* are the clients detained now, *queues* the visits that wait now. *alone* are visits
    decided while the shared state was unreachable. *refused_connections* are those for which there was no room, in
    total or for their address.
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
    refused_connections: dict[str, int] = {}
    stopped: dict[str, int] = {}
    latency: dict[str, float] = {}
    store_errors: dict[str, int] = {}
    queues: dict[str, int] = {}
    spans: dict[str, int] = {}
    """Spans of traces by what became of them."""
    problems: dict[str, str] = {}
    """What does not work in this process: see `Site.problems`."""


def running_metrics(others: Mapping[int, bytes]) -> Iterator[tuple[int, SiteMetrics]]:
    """Yield the metrics of those processes that have not ended."""
    for process, data in others.items():
        if _is_running(process):
            yield process, msgspec.msgpack.decode(data, type=SiteMetrics)


_PRESENT = frozenset({"inside", "queues"})
_SUMMED = tuple(name for name in SiteMetrics.__struct_fields__ if name != "problems")


def sum_metrics(own: SiteMetrics, others: Mapping[int, bytes]) -> SiteMetrics:
    """Add the metrics of other processes, by process id, to *own*. In one that has ended nobody is or waits."""
    total = msgspec.structs.replace(own)
    for process, data in others.items():
        counted = msgspec.msgpack.decode(data, type=SiteMetrics)
        for name in _SUMMED:
            value, more = getattr(total, name), getattr(counted, name)
            if name in _PRESENT and not _is_running(process):
                continue
            summed = dict(Counter(value) + Counter(more)) if isinstance(value, dict) else value + more
            setattr(total, name, summed)
    return total


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True

"""What a site counts: in one process, and in all its workers together."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SiteCounters:
    """Counts since the start of this process, which go on when settings are reloaded."""

    decided: Counter[str] = field(default_factory=Counter)
    """Visits by action, and those that were not passed by code."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Pages passed on without bait, by reason."""
    upstream_errors: Counter[str] = field(default_factory=Counter)
    challenges: Counter[str] = field(default_factory=Counter)

    def count_skipped(self, reason: str, target: str) -> None:
        """Count a page that could not be read; the first of its kind is logged."""
        self.skipped[reason] += 1
        if self.skipped[reason] == 1:
            log.warning("pages are passed on without hidden links (%s), the first of them %s", reason, ascii(target))


class SiteMetrics(msgspec.Struct):
    """
    Counts since the start, as processes tell them to each other.

    *decided* has visits by action, and those that were not passed by code. *untouched* are pages passed on without
    bait, by reason. *inside* are the clients detained now, and *alone* the visits that were decided without the state
    that all gates share.
    """

    decided: dict[str, int] = {}
    untouched: dict[str, int] = {}
    upstream_errors: dict[str, int] = {}
    challenges: dict[str, int] = {}
    blocked: int = 0
    lost: int = 0
    forgotten: int = 0
    left_out: int = 0
    inside: int = 0
    admitted: int = 0
    turned_away: int = 0
    alone: int = 0


_MAPS = frozenset({"decided", "untouched", "upstream_errors", "challenges"})


def sum_metrics(own: SiteMetrics, others: Mapping[int, bytes]) -> SiteMetrics:
    """Add those of other processes, by process id, to *own*. In a process that has ended nobody is detained."""
    total = msgspec.structs.replace(own)
    for process, data in others.items():
        tally = msgspec.msgpack.decode(data, type=SiteMetrics)
        for name in SiteMetrics.__struct_fields__:
            value, more = getattr(total, name), getattr(tally, name)
            if name in _MAPS:
                setattr(total, name, dict(Counter(value) + Counter(more)))
            elif name != "inside" or _lives(process):
                setattr(total, name, value + more)
    return total


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True

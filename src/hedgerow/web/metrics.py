"""What a site has counted: of one process, or of all its workers together."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping

import msgspec


class SiteMetrics(msgspec.Struct):
    """
    Counts since the start.

    *decided* has visits by action, and those that were stopped by code; *inside* are the clients detained now, and
    *alone* the visits that were decided without the state that all gates share.
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
    """*own* and those of other processes, by process id; of one that has ended nobody is detained any longer."""
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

"""
The filter for sessions that may count as those of people in training (PathMarker's "users filtered by the heuristics").

A crawler that knows that a site learns from its visitors can behave slightly worse each week, until the site takes its
behaviour for that of people. So the criterion is not learned from the same visitors: it is the heuristics, and a bundle
that was trained elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hedgerow.core.visit import Visit
from hedgerow.lab.train.samples import PERSON, Sample
from hedgerow.markers.token import visitor_digest
from hedgerow.watch.models.bundle import Bundle

MAX_SUSPICIOUS_VISITS = 30
"""Suspicious visits in a day from which on a visitor is a suspect (PathMarker's number)."""

_SIGNS = frozenset({"automation", "program", "no-agent", "odd-agent", "browser-version", "browser-hints"})
_DAY = 86_400


class Heuristics:
    """
    PathMarker's heuristics, for a log that is read from beginning to end.

    One trap, tampered marker, or declared or proven bot is enough. For links issued to another visitor, or headers that
    no browser sends, the limit is 30 in a day or a third of all visits.
    """

    def __init__(self) -> None:
        self.suspects: set[str] = set()
        self._suspicious_by_day: dict[tuple[str, int], int] = {}
        self._visits: dict[str, tuple[int, int]] = {}

    def add(self, visit: Visit) -> None:
        marker = visit.marker
        visitor = visit.visitor
        if visit.bot or visit.claim or visit.tampered or (marker is not None and marker.kind in {"trap", "maze"}):
            self.suspects.add(visitor)
            return
        foreign = (
            marker is not None and marker.issued_to != visitor_digest(visitor) and marker.issued_to not in visit.linked
        )
        is_suspicious = foreign or not _SIGNS.isdisjoint(visit.anomalies)
        visits, suspicious = self._visits.get(visitor, (0, 0))
        self._visits[visitor] = (visits + 1, suspicious + is_suspicious)
        if is_suspicious:
            day = (visitor, int(visit.at // _DAY))
            self._suspicious_by_day[day] = self._suspicious_by_day.get(day, 0) + 1
            if self._suspicious_by_day[day] >= MAX_SUSPICIOUS_VISITS:
                self.suspects.add(visitor)

    def all_suspects(self) -> set[str]:
        """Return all suspects, once the log has been read."""
        frequent = {visitor for visitor, (visits, suspicious) in self._visits.items() if suspicious * 3 > visits}
        return self.suspects | frequent


def trusted_samples(samples: Sequence[Sample], suspects: Iterable[str], anchor: Bundle) -> list[Sample]:
    """
    Return *samples* without those of supposed people that cannot be trusted.

    A visitor that the heuristics suspect, or that the *anchor* classifies as a crawler in any session, is removed with
    all its sessions.
    """
    untrusted = set(suspects)
    for sample in samples:
        if sample.label == PERSON and sample.visitor not in untrusted and anchor.has_stage(sample.size):
            row = sample.features[: len(anchor.features)]
            if anchor.judge(row, sample.size).identity != PERSON:
                untrusted.add(sample.visitor)
    return [sample for sample in samples if sample.label != PERSON or sample.visitor not in untrusted]

"""
Filter: whose sessions may stand for people in training (PathMarker's "users filtered by the heuristics").

A crawler that knows that a site learns from its visitors can behave a little worse each week, until what it does is
what the site takes for a person. So the measure of who is a person is not learned from the same visitors: it is the
heuristics, and a bundle that was trained elsewhere and does not drift along.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hedgerow.core.visit import Visit
from hedgerow.lab.train.samples import PERSON, Sample
from hedgerow.markers.token import visitor_digest
from hedgerow.watch.models.bundle import Bundle

MOST_WRONG = 30
"""Wrong visits in a day from which on a visitor is a suspect (PathMarker's number)."""

_SIGNS = frozenset({"automation", "program", "no-agent", "odd-agent", "browser-version", "browser-hints"})
_DAY = 86_400


class Heuristics:
    """
    Who was wrong how often: PathMarker's heuristics, for a log that is read from beginning to end.

    A trap, a marker that would not open, a bot that says or proves to be one: once is enough. A link that was minted
    for somebody else, or headers that no browser sends: 30 in a day, or a third of all visits.
    """

    def __init__(self) -> None:
        self.suspects: set[str] = set()
        self._wrong: dict[tuple[str, int], int] = {}
        self._visits: dict[str, tuple[int, int]] = {}

    def add(self, visit: Visit) -> None:
        marker = visit.marker
        who = visit.visitor
        if visit.bot or visit.claim or visit.tampered or (marker is not None and marker.kind in {"trap", "maze"}):
            self.suspects.add(who)
            return
        foreign = (
            marker is not None and marker.issued_to != visitor_digest(who) and marker.issued_to not in visit.linked
        )
        wrong = foreign or not _SIGNS.isdisjoint(visit.anomalies)
        visits, all_wrong = self._visits.get(who, (0, 0))
        self._visits[who] = (visits + 1, all_wrong + wrong)
        if wrong:
            day = (who, int(visit.at // _DAY))
            self._wrong[day] = self._wrong.get(day, 0) + 1
            if self._wrong[day] >= MOST_WRONG:
                self.suspects.add(who)

    def settle(self) -> set[str]:
        """All suspects, once the log has been read."""
        often = {who for who, (visits, wrong) in self._visits.items() if wrong * 3 > visits}
        return self.suspects | often


def honest(samples: Sequence[Sample], suspects: Iterable[str], anchor: Bundle) -> list[Sample]:
    """
    *samples* less those that are said to be people's and are not to be trusted.

    A person that the heuristics suspect, or whom the *anchor* judges a crawler in any of its sessions, stays out with
    all its sessions: who is caught once was the same before.
    """
    out = set(suspects)
    for sample in samples:
        if sample.label == PERSON and sample.visitor not in out and anchor.asked_at(sample.size):
            row = sample.features[: len(anchor.features)]
            if anchor.judge(row, sample.size).identity != PERSON:
                out.add(sample.visitor)
    return [sample for sample in samples if sample.label != PERSON or sample.visitor not in out]

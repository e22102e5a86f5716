"""
Replay: the visits of a log go through the live gate, and its decisions are summed up by visitor.

The watch observes as it does live: its findings about a visitor count from the visitor's next visit on. Time is the
time of the visit; the clock only measures the duration of the replay.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, get_args

import msgspec

from hedgerow.core.decision import Action, Campaign, Decision, Evidence, ScoreUpdate
from hedgerow.core.gate import Gate, run_now
from hedgerow.core.visit import Visit
from hedgerow.logs.formats import iso
from hedgerow.logs.reader import ReadCounts
from hedgerow.watch.watch import DOUBTFUL, Watch

ACTIONS: tuple[Action, ...] = get_args(Action)


class Fate(msgspec.Struct, gc=False):
    """
    The decisions on one visitor.

    *first* and *last* are its earliest and latest visit. *stopped_at* is the time of the first decision other than
    pass, or None; *evidence* is its evidence, and *pages_before* are the page visits that passed before it.
    """

    first: float
    last: float
    requests: int = 0
    passed: int = 0
    challenged: int = 0
    detained: int = 0
    refused: int = 0
    pages_before: int = 0
    stopped_at: float | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def stopped(self) -> int:
        """Requests that did not pass."""
        return self.requests - self.passed

    @property
    def decisions(self) -> dict[Action, int]:
        return {
            "pass": self.passed,
            "challenge": self.challenged,
            "detain": self.detained,
            "refuse": self.refused,
        }

    def add(self, visit: Visit, decision: Decision) -> None:
        self.requests += 1
        self.first = min(self.first, visit.at)
        self.last = max(self.last, visit.at)
        if decision.action == "pass":
            self.passed += 1
            if self.stopped_at is None and visit.kind == "page":
                self.pages_before += 1
            return
        if self.stopped_at is None:
            self.stopped_at = visit.at
            self.evidence = tuple(evidence for evidence in decision.evidence if evidence.weight)
        if decision.action == "refuse":
            self.refused += 1
        elif decision.action == "detain":
            self.detained += 1
        else:
            self.challenged += 1


class Finding(msgspec.Struct):
    """What the watch found about one visitor: when first, and how often each code."""

    at: float
    codes: dict[str, int] = {}


class Replay(msgspec.Struct):
    """
    The decisions by visitor, the findings of the watch, and the duration.

    *beyond* counts the requests of visitors beyond the limit of visitors: they were decided on, but not recorded.
    """

    fates: dict[str, Fate] = {}
    beyond: int = 0
    seconds: float = 0.0
    judged: dict[str, int] = {}
    """What the watch held sessions, windows and members of campaigns to be, and how often."""
    found: dict[str, Finding] = {}
    """Whom the watch has found, by visitor; the first one found comes first."""
    campaigns: list[Campaign] = []

    def ranked(self) -> list[tuple[str, Fate]]:
        """Return all visitors: most stopped requests first, then by requests, then by name."""
        return sorted(self.fates.items(), key=lambda item: (-item[1].stopped, -item[1].requests, item[0]))

    def totals(self) -> dict[str, Any]:
        fates = self.fates.values()
        decisions = dict.fromkeys(ACTIONS, 0)
        for fate in fates:
            for action, count in fate.decisions.items():
                decisions[action] += count
        return {
            "visitors": len(self.fates),
            "stopped_visitors": sum(fate.stopped_at is not None for fate in fates),
            "requests": sum(decisions.values()) + self.beyond,
            "decisions": decisions,
            "beyond": self.beyond,
        }


def likely_host(visits: Sequence[Visit]) -> str:
    """
    Return the site's host as named by the referrers of images and styles, "" if they do not agree.

    Pages have referrers from all over the world, assets hardly ever: most of them name the site itself.
    """
    places = Counter(
        visit.referrer.partition("://")[2].partition("/")[0].lower()
        for visit in visits
        if visit.kind == "asset" and "://" in visit.referrer
    )
    if not places:
        return ""
    (host, count), *_ = places.most_common(1)
    return host if count * 2 > places.total() else ""


def replay(
    gate: Gate,
    visits: Iterable[Visit],
    *,
    host: str = "",
    most_visitors: int = 1_000_000,
    watch: Watch | None = None,
) -> Replay:
    """
    Send *visits* through *gate* and sum up its decisions. *watch* may observe.

    A visit in a log may use one of our own links. With the site's key, and if the log names the host, its marker opens
    as it does live, so a trap in a log is a trap. At most *most_visitors* visitors are recorded.
    """
    result = Replay()
    fates = result.fates
    if watch is not None:
        watch.host, watch.update_score = host, partial(_take, result, gate)
    unmark = gate.identifier.unmark
    began = time.perf_counter()
    for visit in visits:
        seen = visit
        if visit.marker is None and "~" in visit.target:
            target, marker, tampered = unmark(visit.target, visit.host or host)
            if marker is not None or tampered:
                seen = msgspec.structs.replace(
                    visit, target=target, marker=marker, tampered=tampered, raw_target=visit.target
                )
        decision = run_now(gate.decide(seen))
        gate.settle(decision)
        if watch is not None:
            watch.see(seen, decision)
        fate = fates.get(visit.visitor)
        if fate is None:
            if len(fates) >= most_visitors:
                result.beyond += 1
                continue
            fate = fates[visit.visitor] = Fate(visit.at, visit.at)
        fate.add(visit, decision)
    if watch is not None:
        result.judged, result.campaigns = dict(watch.found), list(watch.campaigns())
    result.seconds = time.perf_counter() - began
    return result


def _take(result: Replay, gate: Gate, change: ScoreUpdate) -> None:
    """Put what the watch found about a visitor into the state, as live, and into the result."""
    gate.state.update_score(change)
    if all(code.endswith(DOUBTFUL) for code in change.codes):
        # Not found yet: it only adds to the score.
        return
    finding = result.found.get(change.key)
    if finding is None:
        finding = result.found[change.key] = Finding(change.at)
    for code in change.codes:
        finding.codes[code] = finding.codes.get(code, 0) + 1


def to_json(result: Replay, read_counts: ReadCounts) -> dict[str, Any]:
    """Return the replay as plain data for JSON. The same log gives the same data, except for the timing."""
    seconds = result.seconds
    return {
        "log": {
            "lines": read_counts.lines,
            "parsed": read_counts.parsed,
            "bad": read_counts.bad,
            "from": iso(read_counts.first),
            "to": iso(read_counts.last),
            "format": ", ".join(read_counts.formats),
            "samples": read_counts.samples,
            "damage": read_counts.damage,
        },
        "visitors": [_visitor(name, fate) for name, fate in result.ranked()],
        "totals": result.totals(),
        "watch": {
            "judged": result.judged,
            "found": [
                {"visitor": name, "first": iso(finding.at), "codes": finding.codes}
                for name, finding in result.found.items()
            ],
            "campaigns": msgspec.to_builtins(result.campaigns),
        },
        "timing": {
            "seconds": round(seconds, 3),
            "lines_per_second": round(read_counts.lines / seconds) if seconds else 0,
        },
    }


def _visitor(name: str, fate: Fate) -> dict[str, Any]:
    stopped = fate.stopped_at is not None
    return {
        "visitor": name,
        "requests": fate.requests,
        "first": iso(fate.first),
        "last": iso(fate.last),
        "decisions": fate.decisions,
        "first_stopped_at": iso(fate.stopped_at),
        "pages_before": fate.pages_before if stopped else None,
        "evidence": [
            {"detector": e.detector, "code": e.code, "weight": e.weight, "text": e.text} for e in fate.evidence
        ],
    }

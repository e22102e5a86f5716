"""
A program that has read robots.txt, and then requests a marked link, which robots.txt disallows.

It means to obey, and does not understand the rule: `*` in a rule is newer than some programs (wget, Python's
`urllib.robotparser`). So it is taken at its word. Each such request is declined, hidden links among them, and nobody is
blocked. It gets the pages by which it enters, as a program does that understands the rule. A client that names a
browser in its user agent is not meant: people sometimes look at robots.txt.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.core.state import Detector, StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup
from hedgerow.request.program_history import entry_target

ROBOTS_TXT = "/robots.txt"
_MARK = "~="
_READ = EvidenceCode(
    "robots", "robots-read", 0.0, "Read robots.txt.",
    "A program requested robots.txt. Only remembered.",
)  # fmt: skip
_DISALLOWED = EvidenceCode(
    "robots", "robots-disallowed", 1.0, "This address is disallowed by robots.txt, which this program has read.",
    "A program that has read robots.txt requested a marked link. The request is declined; nobody is blocked.",
)  # fmt: skip
_READ_EVIDENCE = _READ.evidence(details=ROBOTS_TXT)
_DISALLOWED_EVIDENCE = _DISALLOWED.evidence()


def is_disallowed(visit: Visit, reply: StateReply) -> bool:
    """Return whether a program requests a link with a clean mark after it has read robots.txt."""
    return _MARK in visit.raw_target and _has_read(reply) and _is_program(visit.user_agent)


def _has_read(reply: StateReply) -> bool:
    return any(entry_target(entry) == ROBOTS_TXT for entry in reply.entries)


def _is_program(agent: str) -> bool:
    return not agent.startswith("Mozilla/") or "compatible;" in agent or "+http" in agent


def _detect(visit: Visit, reply: StateReply) -> Sequence[Evidence]:
    if visit.target == ROBOTS_TXT:
        is_known = _has_read(reply) or not _is_program(visit.user_agent)
        return () if is_known else (_READ_EVIDENCE,)
    return (_DISALLOWED_EVIDENCE,) if is_disallowed(visit, reply) else ()


def _build(context: DetectorContext) -> Detector | None:
    return _detect if context.marks_links else None


DETECTOR = DetectorSpec(
    name="robots",
    doc=__doc__,
    order=15,
    groups=(EvidenceGroup("robots", PolicyRule("refuse", 0.0, records_entry=True)),),
    codes=(_READ, _DISALLOWED),
    build=_build,
    enabled="Where links are marked.",
    replay=False,
)

"""
The clearance cookie of a visitor who solved a challenge does not fit this request.

Browsers are updated and addresses change, so each of these signs counts once per visitor. A clearance that several
networks use at the same time was shared: each visitor who brings it must solve a challenge.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.spec import DetectorSpec, EvidenceCode, EvidenceGroup

_CODES = tuple(
    EvidenceCode("clearance", *declared)
    for declared in (
        ("clearance-address", 0.1, "The clearance was issued to another address of this network."),
        ("clearance-language", 0.2, "The clearance was issued to a browser with other language preferences."),
        ("clearance-network", 0.0, "The clearance was issued in another network."),
        ("clearance-user-agent", 0.4, "The clearance was issued to a browser with another user agent."),
        ("clearance-shared", 1.0, "The clearance was used from several networks within minutes: it was shared."),
    )
)
_EVIDENCE = {code.code: code.evidence() for code in _CODES}


def detect_clearance(visit: Visit, reply: StateReply) -> Sequence[Evidence]:
    """Give evidence of the signs that the visit's clearance cookie gave."""
    known = dict(reply.score.reasons) if reply.score is not None else {}
    return [_EVIDENCE[sign] for sign in visit.anomalies if sign in _EVIDENCE and sign not in known]


DETECTOR = DetectorSpec(
    name="clearance",
    doc=__doc__,
    order=60,
    groups=(EvidenceGroup("clearance", PolicyRule("challenge", 0.0)),),
    codes=_CODES,
    build=lambda _: detect_clearance,
    only="anomalies",
)

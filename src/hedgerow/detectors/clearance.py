"""
Clearance: what speaks against the cookie of a visitor that has solved a challenge.

A browser is updated, an address changes: each such sign counts once. One that many networks have at once was handed
round: whoever comes with it has to solve a challenge of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.core.decision import Evidence
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit

_SIGNS = {
    "clearance-address": (0.1, "The clearance was given to another address of this network."),
    "clearance-language": (0.2, "The clearance was given to a browser that asked for other languages."),
    "clearance-network": (0.0, "The clearance was given in another network."),
    "clearance-user-agent": (0.4, "The clearance was given to a browser of another name."),
    "clearance-shared": (1.0, "The clearance was used from several networks within minutes: it was handed round."),
}
_EVIDENCE = {code: Evidence("clearance", code, weight, text) for code, (weight, text) in _SIGNS.items()}


def detect_clearance(visit: Visit, memory: StateReply) -> Sequence[Evidence]:
    """Evidence from the signs that the clearance of a visit gave."""
    if not visit.signs:
        return ()
    known = dict(memory.score.reasons) if memory.score is not None else {}
    return [_EVIDENCE[sign] for sign in visit.signs if sign in _EVIDENCE and sign not in known]

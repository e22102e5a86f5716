"""
Claim: the visitor says that it is a known bot, and it is not; or it is one that this site does not want.

A claim that is being looked into, or that nobody can look into, counts for nothing. Who is turned away here is not
blocked: behind the same address there may be people.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hedgerow.core.decision import Evidence
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit

DISOBEYED = "robots"
"""The sign of a bot that fetches what robots.txt tells it not to."""

_SIGNATURES = {
    "signature-forged": Evidence("claim", "signature-forged", 0.5, "The signature does not fit the request."),
    "signature-replayed": Evidence("claim", "signature-replayed", 0.3, "The signature was used before."),
    "signature-expired": Evidence("claim", "signature-expired", 0.1, "The signature is too old, or not yet good."),
}


class BotClaimDetector:
    """Evidence from what a visitor says it is. *refused* are the names of the bots that the site turns away."""

    def __init__(self, refused: Collection[str] = ()) -> None:
        self._refused = frozenset(refused)

    def __call__(self, visit: Visit, memory: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one shape for all
        if not visit.claim:
            return ()
        name = visit.claim
        found = [_SIGNATURES[sign] for sign in visit.signs if sign in _SIGNATURES]
        if visit.proof == "false":
            found.append(Evidence("claim", "false-claim", 1.0, f"Says that it is {name}, and is not."))
        elif name in self._refused and visit.target != "/robots.txt":
            found.append(Evidence("claim", "unwanted-bot", 1.0, f"This site does not want {name}."))
        if DISOBEYED in visit.signs and visit.proof in {"verified", "unprovable"}:
            found.append(Evidence("claim", "robots", 0.3, f"{name} asked for what robots.txt tells it to leave alone."))
        return found

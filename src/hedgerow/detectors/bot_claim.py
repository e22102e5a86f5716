"""
The visitor claims to be a known bot and is not, or is a bot that this site refuses.

A bot that needs a license is answered with 402 and a link to the terms. robots.txt and the terms themselves are free.

A claim that is still being checked, or that cannot be checked, counts for nothing. A refused visitor is not blocked:
there may be people behind the same address.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup

DISOBEYED = "robots"
"""The sign of a bot that requests what robots.txt disallows."""

_FALSE = EvidenceCode(
    "claim", "false-claim", 1.0, "Claims to be {name}, but is not.", "The address is certainly not the bot's."
)
_UNWANTED = EvidenceCode(
    "claim", "unwanted-bot", 1.0, "This site does not want {name}.", "The policy for its category is `refuse`."
)
_LICENSE = EvidenceCode(
    "license", "license-needed", 1.0, "{name} needs a license to read this site.",
    "The policy for its category is `license`. Answered with 402 and a link to the terms; nobody is blocked.",
)  # fmt: skip
_SIGNATURES = (
    EvidenceCode("claim", "signature-forged", 0.5, "The signature does not match the request."),
    EvidenceCode("claim", "signature-replayed", 0.3, "The signature was used before."),
    EvidenceCode(
        "claim", "signature-expired", 0.1, "The signature has expired or is not yet valid.",
        "The signature has expired, is not yet valid, or was made more than five minutes ago.",
    ),
    EvidenceCode(
        "misdirected", "signature-misdirected", 1.0, "The signature is for another host than those of this site.",
        "The request has a bot's signature and a `Host` that is not in `bots.hosts`. Answered with 421; nobody is "
        "blocked.",
    ),
)  # fmt: skip
_ROBOTS = EvidenceCode(
    "claim", DISOBEYED, 0.3, "{name} requested a page that robots.txt disallows.",
    "The bot requested a page that robots.txt disallows.",
)  # fmt: skip
_SIGNATURE_EVIDENCE = {code.code: code.evidence() for code in _SIGNATURES}


class BotClaimDetector:
    """
    Gives evidence of what a visitor claims to be. *refused* are the names of the bots that the site refuses.

    *licensed* are those that need a license, whose terms are at *license_url*.
    """

    def __init__(self, refused: Collection[str] = (), licensed: Collection[str] = (), license_url: str = "") -> None:
        self._refused = frozenset(refused)
        self._licensed = frozenset(licensed)
        self._free = {"/robots.txt", "/" + license_url.partition("://")[2].partition("/")[2]}

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one signature for all
        name = visit.claim
        evidence = [_SIGNATURE_EVIDENCE[sign] for sign in visit.anomalies if sign in _SIGNATURE_EVIDENCE]
        if visit.proof == "false":
            evidence.append(_FALSE.evidence(name=name))
        elif name in self._refused and visit.target != "/robots.txt":
            evidence.append(_UNWANTED.evidence(name=name))
        elif name in self._licensed and visit.target not in self._free:
            evidence.append(_LICENSE.evidence(name=name))
        if DISOBEYED in visit.anomalies and visit.proof in {"verified", "unprovable"}:
            evidence.append(_ROBOTS.evidence(name=name))
        return evidence


def _build(context: DetectorContext) -> BotClaimDetector | None:
    if context.refused_bots is None:
        return None
    return BotClaimDetector(context.refused_bots, context.licensed_bots, context.license_url)


DETECTOR = DetectorSpec(
    name="claim",
    doc=__doc__,
    order=40,
    groups=(
        EvidenceGroup("claim", PolicyRule("refuse", 0.0)),
        EvidenceGroup("misdirected", PolicyRule("refuse", 0.0), 421),
        EvidenceGroup("license", PolicyRule("refuse", 0.0), 402),
    ),
    codes=(_FALSE, _UNWANTED, _LICENSE, *_SIGNATURES, _ROBOTS),
    build=_build,
    enabled="`bots.enabled`",
    table="bots",
    only="claim",
)

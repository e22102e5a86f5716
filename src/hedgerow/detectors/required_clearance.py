"""
A clearance is needed: by a rule for the path, by a rule for a country or operator, or everywhere during an attack.

A browser with JavaScript obtains a clearance by itself, before the page. Other browsers are asked a question, and
programs get 429. Nobody is blocked for coming without one. Verified bots, visitors with an account that a proxy names,
and everything that is not a page, such as a feed, pass as usual. An operator says that there is an attack with
`hedgerow attack on`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.core.attack import AttackSwitch
from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup
from hedgerow.request.network_rules import NetworkRules
from hedgerow.request.path_rules import PathRules

_PAGES = frozenset({"page", "prefetch"})

_BY_RULE = EvidenceCode(
    "required", "clearance-required", 1.0, "Visitors need a clearance for this page.",
    "A rule in `[[path]]` has `clearance = true`, and the visitor has none.",
)  # fmt: skip
_BY_NETWORK = EvidenceCode(
    "required", "network-clearance", 1.0, "Visitors from {named} need a clearance.",
    'A rule in `[[lists.networks]]` has `action = "challenge"`, and the visitor has no clearance.',
)  # fmt: skip
_ATTACK = EvidenceCode(
    "required", "under-attack", 1.0, "The site is under attack. Visitors without a clearance need one.",
    "The operator has switched this on with `hedgerow attack on`, and the visitor has no clearance.",
)  # fmt: skip


class RequiredClearanceDetector:
    """
    Asks visitors without a clearance for one.

    Everywhere while *attack* is on, else at *paths* whose rule says so, and everybody from *networks* whose rule does.
    """

    def __init__(
        self, attack: AttackSwitch, paths: PathRules | None = None, networks: NetworkRules | None = None
    ) -> None:
        self._attack = attack
        self._paths = paths
        self._networks = networks
        self._has_rules = paths is not None or networks is not None

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one shape
        if visit.at >= self._attack.until and not self._has_rules:
            # Nearly every visit.
            return ()
        if visit.kind not in _PAGES or visit.reader != visit.prefix or visit.proof == "pending":
            return ()
        if visit.at < self._attack.until:
            return (_ATTACK.evidence(),)
        found = self._paths.find(visit.target) if self._paths is not None else None
        if found is not None and found.rule.clearance:
            return (_BY_RULE.evidence(),)
        of_network = self._networks.find(visit.address) if self._networks is not None else None
        if of_network is None or of_network[0].action != "challenge":
            return ()
        return (_BY_NETWORK.evidence(named=of_network[1]),)


def _build(context: DetectorContext) -> RequiredClearanceDetector | None:
    paths = context.paths
    has_rules = paths is not None and any(one.rule.clearance for one in paths.rules)
    return RequiredClearanceDetector(context.attack, paths if has_rules else None, context.networks)


DETECTOR = DetectorSpec(
    name="required",
    doc=__doc__,
    # After evidence that goes further.
    order=36,
    groups=(EvidenceGroup("required", PolicyRule("challenge", 0.0)),),
    codes=(_BY_RULE, _BY_NETWORK, _ATTACK),
    build=_build,
    enabled="`hedgerow attack on`, `clearance` in `[[path]]`, and `action` in `[[lists.networks]]`",
    replay=False,
)

"""
Some pages are only for visitors with a clearance: where a rule for the path says so, or all pages during an attack.

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
from hedgerow.request.path_rules import PathRules

_PAGES = frozenset({"page", "prefetch"})

_BY_RULE = EvidenceCode(
    "required", "clearance-required", 1.0, "Visitors need a clearance for this page.",
    "A rule in `[[path]]` has `clearance = true`, and the visitor has none.",
)  # fmt: skip
_ATTACK = EvidenceCode(
    "required", "under-attack", 1.0, "The site is under attack. Visitors without a clearance need one.",
    "The operator has switched this on with `hedgerow attack on`, and the visitor has no clearance.",
)  # fmt: skip


class RequiredClearanceDetector:
    """Asks visitors without a clearance for one: everywhere while *attack* is on, else at *paths* that say so."""

    def __init__(self, attack: AttackSwitch, paths: PathRules | None = None) -> None:
        self._attack = attack
        self._paths = paths

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one shape
        is_attack = visit.at < self._attack.until
        if not is_attack and self._paths is None:
            return ()
        if visit.kind not in _PAGES or visit.reader != visit.prefix or visit.proof == "pending":
            return ()
        if is_attack:
            return (_ATTACK.evidence(),)
        found = self._paths.find(visit.target) if self._paths is not None else None
        return (_BY_RULE.evidence(),) if found is not None and found.rule.clearance else ()


def _build(context: DetectorContext) -> RequiredClearanceDetector | None:
    paths = context.paths
    has_rules = paths is not None and any(one.rule.clearance for one in paths.rules)
    return RequiredClearanceDetector(context.attack, paths if has_rules else None)


DETECTOR = DetectorSpec(
    name="required",
    doc=__doc__,
    # After evidence that goes further.
    order=36,
    groups=(EvidenceGroup("required", PolicyRule("challenge", 0.0)),),
    codes=(_BY_RULE, _ATTACK),
    build=_build,
    enabled="`hedgerow attack on`, and `clearance` of a rule in `[[path]]`",
    replay=False,
)

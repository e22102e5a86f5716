"""What the settings say about one path of the site, for `hedgerow explain /path`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hedgerow.core.rate_limit import RateLimit
from hedgerow.logs.formats import readable
from hedgerow.request.path_rules import PathRules
from hedgerow.settings import Settings
from hedgerow.web.gate import build_rules, unmarked


def explain_path(settings: Settings, target: str) -> Iterator[str]:
    """Yield lines about the rule that applies to *target*, and what holds there."""
    effective = unmarked(settings) if settings.is_neutral else settings
    found = PathRules(effective.path).find(target)
    rules = build_rules(effective)
    yield readable(f"path        {target}")
    if found is None:
        yield "rule        none of [[path]]; the settings of the whole site hold"
        said = None
    else:
        said = found.rule
        yield readable(f"rule        {said.path}: {said.described()}")
    observes = settings.observe or (said is not None and said.protection == "observe")
    if said is not None and said.protection == "off":
        yield "protection  off: everybody gets it, nothing is counted, and the page is not changed"
        return
    yield f"protection  {'observe: nothing is enforced' if observes else 'on'}"
    limits = said.limits if said is not None else None
    own = settings.density.windows if settings.density.enabled else ()
    yield f"limits      {_limits(own) if limits is None else _limits(limits)}"
    yield f"marks       links to it: {rules.mode_of(target)}"
    traps = said.traps if said is not None else None
    yield f"traps       {'hidden links' if (effective.traps.enabled if traps is None else traps) else 'none'}"
    kinds = said.challenges if said is not None and said.challenges is not None else settings.challenge.kinds
    yield f"challenges  {', '.join(kinds)}"
    yield f"clearance   {'needed' if said is not None and said.clearance else 'only for suspects'}"
    yield f"closed      {'opens only by a marked link' if rules.is_closed(target) else 'no'}"


def _limits(limits: Sequence[RateLimit]) -> str:
    return ", ".join(f"{one.count} {one.of} in {one.seconds:g} s by {one.by}" for one in limits) or "none"

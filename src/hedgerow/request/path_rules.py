"""
Rules for parts of a site: `[[path]]` in the settings.

The first rule whose pattern matches a path applies, and no other. What it does not name is as in the rest of the file.
A rule is chosen by the path as a server reads it, so that another spelling is no way around it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from hedgerow.challenge.interfaces import ChallengeKind
from hedgerow.core.decision import Evidence
from hedgerow.core.rate_limit import RateLimit, limit_faults
from hedgerow.core.settings_table import Faults, Table
from hedgerow.markers.rules import Mode, Patterns, usual_path

GROUP = "path"
"""The group of the evidence, without weight, that names the rule of a visit."""
CODE = "path-rule"

# A client chooses how long a target is: only short ones are cached, or the cache would have no bound.
_LONGEST_CACHED = 200
# Nearly every path: only one way to read it.
_PLAIN = re.compile(r"(?:/[a-z0-9_~-][a-z0-9._~-]*)*/?")


class PathRule(Table, frozen=True):
    """
    What is different at the paths of the pattern *path*, in which `*` stands for anything.

    *limits* replace the rate limits of the site, *challenges* the kinds of challenges. *marks* is how links to these
    paths are marked, *traps* whether pages there get hidden links. With *clearance* a visitor needs a clearance before
    the page. *closed*: such a page opens only by a marked link, or is an entry where others are closed. None: as in the
    rest of the settings.
    """

    path: str
    protection: Literal["on", "observe", "off"] = "on"
    limits: tuple[RateLimit, ...] | None = None
    marks: Mode | None = None
    traps: bool | None = None
    challenges: tuple[ChallengeKind, ...] | None = None
    clearance: bool = False
    closed: bool | None = None

    def faults(self) -> Faults:
        if not self.path.startswith(("/", "*")):
            yield "path", f"{self.path!r} must start with / or *"
        if self.protection == "off":
            for name in ("limits", "marks", "traps", "challenges", "clearance", "closed"):
                if getattr(self, name) not in {None, False}:
                    yield name, 'has no effect with protection = "off"'
        yield from limit_faults("limits", self.limits or ())
        if self.challenges is not None and not self.challenges:
            yield "challenges", "must not be empty: a suspect needs a way out"
        if self.challenges is not None and len(set(self.challenges)) < len(self.challenges):
            yield "challenges", "must not contain a kind twice"

    def described(self) -> str:
        """
        Return what the rule says, in the words of the settings.

        >>> PathRule("/api/*", limits=(RateLimit(5, 60.0, of="requests"),), marks="off").described()
        'limits 5 requests in 60 s, marks off'
        """
        said = [] if self.protection == "on" else [f"protection {self.protection}"]
        if self.limits is not None:
            limits = [f"{one.count} {one.of} in {one.seconds:g} s" for one in self.limits]
            said.append(f"limits {' and '.join(limits)}" if limits else "no limits")
        said += [f"marks {self.marks}"] if self.marks is not None else []
        for name in ("traps", "closed"):
            if (value := getattr(self, name)) is not None:
                said.append(f"{name} {'on' if value else 'off'}")
        said += [f"challenges {', '.join(self.challenges)}"] if self.challenges is not None else []
        said += ["clearance needed"] if self.clearance else []
        return ", ".join(said) or "nothing different"


class ActiveRule(msgspec.Struct, frozen=True, gc=False):
    """
    A rule in use: its place among all, the evidence that names it, and where its limits begin among those of all rules.

    *apart* is the name under which its visits are counted apart from those of the rest of the site, or "".
    """

    rule: PathRule
    evidence: Evidence
    limits_from: int
    apart: str

    @property
    def is_off(self) -> bool:
        return self.rule.protection == "off"

    @property
    def observes(self) -> bool:
        return self.rule.protection == "observe"


def rule_of(evidence: Sequence[Evidence]) -> str:
    """Return the pattern of the rule that applied to a visit with this evidence, or ""."""
    return next((one.details for one in evidence if one.detector == GROUP), "")


class PathRules:
    """
    The rules of a site, in their sequence.

    >>> rules = PathRules([PathRule("/api/open/*", protection="off"), PathRule("/api/*", clearance=True)])
    >>> [found.rule.path if (found := rules.find(path)) else "" for path in ("/api/open/a", "/api/b?x=1", "/c")]
    ['/api/open/*', '/api/*', '']
    """

    def __init__(self, rules: Sequence[PathRule]) -> None:
        self.rules: list[ActiveRule] = []
        limits = 0
        for number, rule in enumerate(rules):
            text = f"The rule for the path {rule.path} applies: {rule.described()}."
            apart = f"/path-{number}" if rule.limits is not None or rule.protection == "observe" else ""
            self.rules.append(ActiveRule(rule, Evidence(GROUP, CODE, 0.0, text, details=rule.path), limits, apart))
            limits += len(rule.limits or ())
        self._patterns = Patterns(rule.path.lower() for rule in rules)
        self._cached = lru_cache(maxsize=1 << 13)(self._find)

    def find(self, target: str) -> ActiveRule | None:
        """Return the rule for a path and query."""
        return self._cached(target) if len(target) <= _LONGEST_CACHED else self._find(target)

    def mode_of(self, target: str) -> Mode | None:
        """Return how links to *target* are marked, or None if no rule says so."""
        found = self.find(target)
        if found is None:
            return None
        return "off" if found.is_off else found.rule.marks

    def is_closed(self, target: str) -> bool | None:
        """Return whether *target* opens only by a marked link, or None if no rule says so."""
        found = self.find(target)
        if found is None:
            return None
        return False if found.is_off else found.rule.closed

    def _find(self, target: str) -> ActiveRule | None:
        path, question, query = target.partition("?")
        as_sent, *read = self._patterns.first(self._spellings(path, question + query.lower()))
        if read and as_sent != read[0]:
            # No spelling that only some servers read as such a path escapes protection.
            found = self._rule(read[0])
            return found if found is not None and found.rule.protection == "on" else None
        return self._rule(as_sent)

    def _rule(self, number: int | None) -> ActiveRule | None:
        return self.rules[number - 1] if number is not None else None

    @staticmethod
    def _spellings(path: str, query: str) -> list[str]:
        """Return the address as it was sent, and as a server may read it if that differs."""
        if _PLAIN.fullmatch(path):
            return [path + query]
        read = usual_path(path)
        if path.endswith("/") and read != "/":
            read += "/"
        return [path.lower() + query, read + query]

"""
Finds all detectors and derives from their declarations what the rest of the program needs.

A detector is a module of this package, or a file in a directory that `HEDGEROW_DETECTORS` names. Wrong declarations
raise `DetectorError` when the program starts, so that no request ever meets them.
"""

from __future__ import annotations

import pkgutil
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, get_args

import hedgerow.detectors
from hedgerow.core.decision import PolicyRule
from hedgerow.core.settings_table import Table
from hedgerow.core.state import Detector
from hedgerow.detectors.spec import (
    DetectorContext,
    DetectorSpec,
    EvidenceCode,
    ReportColumn,
    ReportRule,
    SettingsTables,
    StateNeed,
    VisitTrait,
)
from hedgerow.errors import DetectorError

_NOT_DETECTORS = frozenset({"__main__", "documentation", "registry", "spec"})
_RESERVED = {"lists": 403, "network": 403, "path": 403, "store": 503, "suspicion": 403}
"""Groups of evidence that do not come from detectors, and the HTTP status of a refusal."""


class BuiltDetectors(NamedTuple):
    """
    The detectors that the settings switch on, in their sequence.

    *only* are the visits that each is asked about, and *needs* is what the state must count for them.
    """

    detectors: tuple[Detector, ...]
    only: tuple[VisitTrait | None, ...]
    needs: frozenset[StateNeed]


class Registry:
    """The detectors *specs*, checked and put in sequence."""

    def __init__(self, specs: Sequence[DetectorSpec]) -> None:
        self.specs = tuple(sorted(specs, key=lambda spec: (spec.order, spec.name)))
        faults = [fault for spec in self.specs for fault in _faults(spec)]
        for what, names in (
            ("detectors are", [spec.name for spec in self.specs]),
            ("groups of evidence are", [group.name for spec in self.specs for group in spec.groups]),
            ("evidence codes are", [code.code for spec in self.specs for code in spec.codes]),
            ("settings tables are", [spec.table for spec in self.specs if spec.schema is not None]),
        ):
            faults += [f"two {what} called {name!r}" for name, count in Counter(names).items() if count > 1]
        if faults:
            raise DetectorError("; ".join(faults))
        self.statuses = _RESERVED | {group.name: group.status for spec in self.specs for group in spec.groups}
        """The HTTP status of a refusal, by group of evidence."""

    def build(self, context: DetectorContext) -> BuiltDetectors:
        """Build the detectors for a site, or for the replay of a log."""
        detectors: list[Detector] = []
        only: list[VisitTrait | None] = []
        needs: frozenset[StateNeed] = frozenset()
        for spec in self.specs:
            detector = spec.build(context) if spec.replay or not context.access_log else None
            if detector is not None:
                detectors.append(detector)
                only.append(spec.only)
                needs |= spec.needs(context.settings)
        return BuiltDetectors(tuple(detectors), tuple(only), needs)

    def rules(self, settings: SettingsTables) -> dict[str, PolicyRule]:
        """Return the policy rule of each group of evidence."""
        return {group.name: group.rule_for(settings) for spec in self.specs for group in spec.groups}

    def tables(self) -> dict[str, type[Table]]:
        """Return the settings tables that detectors own."""
        return {spec.table: spec.schema for spec in self.specs if spec.schema is not None}

    def report_rules(self, settings: SettingsTables) -> Iterator[tuple[DetectorSpec, ReportRule]]:
        """Yield how the detectors that also judge the sources of a log do that."""
        for spec in self.specs:
            rule = spec.report(settings) if spec.report is not None else None
            if rule is not None:
                if unknown := set(rule.columns) - set(get_args(ReportColumn)):
                    raise DetectorError(f"detector {spec.name!r}: reports have no column {min(unknown)!r}")
                yield spec, rule

    def find_code(self, code: str) -> tuple[DetectorSpec, EvidenceCode] | None:
        return next(((spec, one) for spec in self.specs for one in spec.codes if one.code == code), None)


def _faults(spec: DetectorSpec) -> Iterator[str]:
    """Yield what is wrong with one declaration."""
    groups = {group.name for group in spec.groups}
    if not spec.name or not spec.codes:
        yield f"detector {spec.name!r}: needs a name and at least one evidence code"
    for code in spec.codes:
        if code.group not in groups:
            yield f"detector {spec.name!r}: code {code.code!r} is in group {code.group!r}, which has no rule"
    for code in spec.codes:
        if "{" in code.text and not code.when:
            yield f"detector {spec.name!r}: code {code.code!r} must say when it is given: its sentence is a template"
    for group in sorted(groups & _RESERVED.keys()):
        yield f"detector {spec.name!r}: the group {group!r} is reserved"
    for group in sorted(groups - {code.group for code in spec.codes}):
        yield f"detector {spec.name!r}: group {group!r} has no codes"
    if spec.schema is not None and not spec.table:
        yield f"detector {spec.name!r}: names no settings table for {spec.schema.__name__}"


def _modules() -> Iterator[tuple[str, str]]:
    """Yield name and directory of each file that must declare a detector."""
    builtin, *plugins = hedgerow.detectors.__path__
    for directory in (builtin, *plugins):
        if not Path(directory).is_dir():
            raise DetectorError(f"{hedgerow.detectors.PLUGIN_VARIABLE}: {directory!r} is not a directory")
        for module in pkgutil.iter_modules([directory]):
            if directory in plugins or module.name not in _NOT_DETECTORS:
                yield module.name, directory


@cache
def registry() -> Registry:
    """Import all detectors and return the registry of this process."""
    specs, directories = [], dict[str, str]()
    for name, directory in _modules():
        where = str(Path(directory) / f"{name}.py")
        if name in directories or name in _NOT_DETECTORS:
            raise DetectorError(f"{where}: rename this file; {directories.get(name, 'hedgerow')} has a {name}.py too")
        directories[name] = directory
        try:
            spec = getattr(import_module(f"{hedgerow.detectors.__name__}.{name}"), "DETECTOR", None)
        except Exception as error:
            raise DetectorError(f"{where}: cannot be loaded: {type(error).__name__}: {error}") from error
        if not isinstance(spec, DetectorSpec):
            raise DetectorError(f"{where}: declares no DETECTOR; see docs/detectors.md")
        specs.append(spec)
    return Registry(specs)

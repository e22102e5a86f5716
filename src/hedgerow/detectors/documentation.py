"""
Documentation that is derived from the detectors' declarations: blocks in `docs/`, and help for operators.

A block in a page stands between `<!-- generated: NAME -->` and `<!-- end -->`; the text around it is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, TypeVar, get_origin, get_type_hints

import msgspec

from hedgerow.core.decision import PolicyRule
from hedgerow.core.settings_table import Table
from hedgerow.detectors.registry import Registry
from hedgerow.detectors.spec import VISIT_TRAITS, DetectorSpec, EvidenceGroup
from hedgerow.request.path_rules import PathRule

_BLOCK = re.compile(r"<!-- generated: ([^>]+) -->\n.*?<!-- end -->", re.DOTALL)
T = TypeVar("T", bound=Table)


class _DefaultSettings:
    """All settings at their defaults."""

    path: tuple[PathRule, ...] = ()

    def table(self, kind: type[T]) -> T:
        return kind()


def write_pages(registry: Registry, docs: Path) -> None:
    """Bring the generated blocks of the pages in *docs* up to date."""
    for name, text in current_pages(registry, docs).items():
        (docs / name).write_text(text, encoding="utf-8")


def current_pages(registry: Registry, docs: Path) -> dict[str, str]:
    """Return the pages in *docs* as they should be, with a new section for each detector that has none."""
    of_detectors = {spec.name: describe_detector(spec) for spec in registry.specs}
    titles = {spec.name: f"\n## {spec.name}\n\n{spec.summary}\n\n" for spec in registry.specs}
    of_settings = {f"settings of {name}": describe_settings(kind) for name, kind in registry.tables().items()}
    sections = {f"settings of {name}": f"\n### {name}\n\n" for name in registry.tables()}
    return {
        "detectors.md": _refreshed((docs / "detectors.md").read_text("utf-8"), of_detectors, titles),
        "settings.md": _refreshed((docs / "settings.md").read_text("utf-8"), of_settings, sections),
    }


def _refreshed(page: str, blocks: Mapping[str, str], titles: Mapping[str, str]) -> str:
    """Replace the blocks of *page*; those that it does not have are appended under their titles."""
    there = set(_BLOCK.findall(page))
    page = _BLOCK.sub(lambda found: _block(found[1], blocks.get(found[1], "")), page)
    return page + "".join(
        titles[name] + _block(name, text) + "\n" for name, text in blocks.items() if name not in there
    )


def _block(name: str, text: str) -> str:
    return f"<!-- generated: {name} -->\n{text}<!-- end -->"


def describe_all(registry: Registry) -> str:
    """Return the reference of all detectors in Markdown."""
    return "\n".join(f"## {spec.name}\n\n{spec.summary}\n\n{describe_detector(spec)}" for spec in registry.specs)


def describe_detector(spec: DetectorSpec) -> str:
    """Return the codes of a detector in a table, and how it is switched on, what follows and where it runs."""
    several = len(spec.groups) > 1
    head = (
        "| group | code | weight | when |\n|---|---|---|---|\n"
        if several
        else "| code | weight | when |\n|---|---|---|\n"
    )
    rows = [
        f"{f'| `{code.group}` ' if several else ''}| `{code.code}` | {code.weight!r} | {code.when or code.text} |\n"
        for code in spec.codes
    ]
    follows = [f"- Consequence{f' (`{group.name}`)' if several else ''}: {_follows(group)}\n" for group in spec.groups]
    return (
        head + "".join(rows) + f"\n- Switched on by: {spec.enabled}\n" + "".join(follows) + f"- Runs {_where(spec)}\n"
    )


def describe_settings(kind: type[Table]) -> str:
    """Return the fields of a settings table with their defaults and meanings."""
    hints = get_type_hints(kind, include_extras=True)
    rows = []
    for field in msgspec.structs.fields(kind):
        scalar = isinstance(field.default, bool | int | float | str)
        default = f"`{msgspec.json.encode(field.default).decode()}`" if scalar else "see above"
        rows.append(f"| {field.name} | {default} | {_meaning(hints[field.name])} |\n")
    return "| name | default | meaning |\n|---|---|---|\n" + "".join(rows)


def _meaning(hint: object) -> str:
    if get_origin(hint) is not Annotated:
        return ""
    notes: tuple[object, ...] = hint.__metadata__  # type: ignore[attr-defined]
    return next((note.description or "" for note in notes if isinstance(note, msgspec.Meta)), "")


def describe_code(registry: Registry, code: str) -> Iterator[str]:
    """Yield lines that explain an evidence code to an operator; none if no detector has such a code."""
    found = registry.find_code(code)
    if found is None:
        return
    spec, declared = found
    group = next(group for group in spec.groups if group.name == declared.group)
    yield f"code        {declared.code}, weight {declared.weight:g}"
    yield f"detector    {spec.name}: {spec.summary}"
    if declared.when:
        yield f"when        {declared.when}"
    yield f"sentence    {declared.text}"
    yield f"follows     {_follows(group)}"
    yield f"enabled by  {spec.enabled}"
    yield f"runs        {_where(spec)}"


def _follows(group: EvidenceGroup) -> str:
    rule = group.rule_for(_DefaultSettings())
    block = f"block for {rule.block_for:g} seconds" if rule.block_for else "nobody is blocked"
    by_default = "" if isinstance(group.rule, PolicyRule) else " (by default)"
    first = "challenge, and after the challenges of a day " if rule.challenges_first else ""
    return f"{first}{rule.action}, {block}{by_default}{', steady' if rule.steady else ''}"


def _where(spec: DetectorSpec) -> str:
    places = [
        "live",
        *(["in `hedgerow replay`"] if spec.replay else []),
        *(["in `hedgerow report`"] if spec.report else []),
    ]
    where = f"{', '.join(places[:-1])} and {places[-1]}" if len(places) > 1 else places[0]
    return where if spec.only is None else f"{where}; asked about {VISIT_TRAITS[spec.only]}"

"""The texts of docs/evaluation/README.md, from `README.template.md`: one section for each name."""

from __future__ import annotations

import re
from pathlib import Path

_SECTIONS = re.split(r"<!-- (\w+) -->\n", (Path(__file__).parent / "README.template.md").read_text(encoding="utf-8"))
TEXTS = {name: body.strip("\n") + "\n" for name, body in zip(_SECTIONS[1::2], _SECTIONS[2::2], strict=True)}


def text(name: str, **values: object) -> str:
    """Return the section *name* with its values."""
    return TEXTS[name].format(**values)

"""The recipes of the handbook, as files that a site could use."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"
_RECIPE = re.compile(r"^## (?P<name>.+?)\n.*?^```toml\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


def recipes() -> dict[str, str]:
    """The settings of each recipe, by its heading."""
    return {found["name"]: found["text"] for found in _RECIPE.finditer(PAGE.read_text("utf-8"))}

"""
A page that is the same for many but for a few values: written once with holes in it, filled for each.

What stands for a hole is random, so nothing that a client sends can pass for one.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

_EDGE = secrets.token_hex(8)


def slot(name: str) -> str:
    """What is written where a value is to stand. It needs no escape in HTML."""
    return f"{_EDGE}{name}{_EDGE}"


class PageTemplate:
    """*text* with the holes in it."""

    def __init__(self, text: str) -> None:
        pieces = text.split(_EDGE)
        self._pieces = [piece.encode("utf-8", "replace") for piece in pieces]
        self._holes = [(position, pieces[position]) for position in range(1, len(pieces), 2)]

    def filled(self, values: Mapping[str, str]) -> bytes:
        """The page with *values* in its holes, by their names."""
        pieces = self._pieces.copy()
        for position, name in self._holes:
            pieces[position] = values[name].encode("utf-8", "replace")
        return b"".join(pieces)

"""Rules: which links of a site are marked and how, and behind which of them bait stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import ClassVar, Literal

import msgspec

Mode = Literal["opaque", "readable", "off"]
Lure = tuple[bytes, int]
"""How the address of a hidden link begins, and how much its token seals: as the link before it."""
Link = tuple[bytes, bytes, bytes, Lure] | tuple[()]
"""
What a link becomes: what stands before its token, what the token seals, what stands behind it, and how a hidden link
after it looks. Empty where the link stays.
"""

# A target is as long as its client likes: only short ones are remembered, or the cache would have no bound.
_LONGEST_CACHED = 200


class Patterns:
    """
    Paths in which `*` stands for anything. One without a "?" fits whatever the query is, one with it goes on there.

    >>> Patterns(["/app/*"]).match("/app/a?x=1"), Patterns(["*?*tab=*"]).match("/a?x=1&tab=2")
    (True, True)
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        whole = "|".join(map(self._expression, patterns))
        self._pattern = re.compile(f"(?:{whole})\\Z" if whole else r"(?!)", re.DOTALL)

    @staticmethod
    def _expression(text: str) -> str:
        path, question, query = map(re.escape, text.partition("?"))
        # Nothing before the first "?" is of the query: so it takes no long looking for it.
        return path.replace(r"\*", "[^?]*") + (question + query.replace(r"\*", ".*") if question else r"(?:\?.*)?")

    def match(self, target: str) -> bool:
        return self._pattern.match(target) is not None


class Rules:
    """
    Which links are marked, and how: by path, the first pattern that fits decides.

    A pattern is a path in which `*` stands for anything; one with a "?" goes on into the query.
    """

    def __init__(self, mode: Mode, patterns: Sequence[tuple[str, Mode]], is_page: Callable[[str], bool]) -> None:
        self._mode = mode
        self._is_page = is_page
        self._patterns = tuple((Patterns((text,)), m) for text, m in patterns)
        self.known = _Known()
        self.known_on_scripted = _Known()
        self._cached_mode = lru_cache(maxsize=1 << 13)(self._look_up)
        self.marks = mode != "off" or any(mode != "off" for _, mode in patterns)
        """Whether anything is marked at all."""

    def mode_of(self, target: str) -> Mode:
        """How links to *target* are marked."""
        return self._cached_mode(target) if len(target) <= _LONGEST_CACHED else self._look_up(target)

    def _look_up(self, target: str) -> Mode:
        for pattern, mode in self._patterns:
            if pattern.match(target):
                return mode
        return self._mode if self._is_page(target) else "off"


class _Known(dict["bytes | tuple[bytes, bytes]", "Link"]):
    """What became of links before. Pages of a site share most of theirs. Emptied when it is full."""

    _MOST = 50_000

    def __setitem__(self, key: bytes | tuple[bytes, bytes], value: Link) -> None:
        if len(self) >= self._MOST:
            self.clear()
        super().__setitem__(key, value)


Placement = Literal["spread", "links", "end"]
"""
spread: behind the first link and every n-th after it, ever further apart, and at the end: a page of a thousand links
needs no hundred traps. links: behind the first and strictly every n-th, and at the end. end: only there.
"""


class Spacing(msgspec.Struct, frozen=True):
    """Behind which links of a page bait stands. The same for all visitors, so that a prepared page has its spots."""

    placement: Placement = "spread"
    every: int = 3

    AT_ONE_DISTANCE: ClassVar[int] = 4

    def distances(self) -> Iterator[int]:
        """How many links to the next bait, each time."""
        if self.placement == "end":
            return
        yield 1
        placed = 1
        while True:
            yield self.every << ((placed - 1) // self.AT_ONE_DISTANCE if self.placement == "spread" else 0)
            placed += 1

"""
Integrity: what the marker of a visit says about how the visitor came by its address (PathMarker's marker integrity).

A link used by another than the one it was minted for ties the two together; the page is served all the same. A visit
without a marker is an entry: a bookmark, a search engine, a link from elsewhere are normal; one number after the other
is not. A marker that would not open was changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from hedgerow.core.decision import Evidence
from hedgerow.core.state import StateReply
from hedgerow.core.visit import BY_SCRIPT, Visit
from hedgerow.markers.token import NOBODY, visitor_digest

_NUMBER = re.compile(r"\d+", re.ASCII)
_NEXT = 2
_LONGEST = 200


def counted_on(target: str, before: str) -> int | None:
    """
    By how much two addresses differ that differ in one number alone; None where that is not so.

    >>> counted_on("/item?id=12&x=7", "/item?id=10&x=7"), counted_on("/a/1", "/b/1"), counted_on("/a/1", "/a/1")
    (2, None, None)
    """
    first = _NUMBER.search(target)
    if first is None or not before.startswith(target[: first.start()]):
        # Most addresses; the rest takes ten times as long.
        return None
    if _NUMBER.sub("0", target) != _NUMBER.sub("0", before):
        return None
    pairs = [(a, b) for a, b in zip(_NUMBER.findall(target), _NUMBER.findall(before), strict=True) if a != b]
    return abs(int(pairs[0][0][-18:]) - int(pairs[0][1][-18:])) if len(pairs) == 1 else None


@lru_cache(maxsize=1 << 12)
def _unmarked(target: str) -> tuple[Evidence]:
    text = "Came from a page of this site by an address that stands on none."
    return (Evidence("entry", "unmarked", 0.01, text, details=target),)


class MarkerIntegrityDetector:
    """
    Evidence from markers. *page_name* turns a page's digest into its path, or "" where it is forgotten.

    *marks* tells whether links to a target are marked: only then is its absence worth a word. *closed* tells whether a
    target may be reached by a marked link alone. *entries* is false for a log of a site without marked links: there the
    absence of a marker says nothing.
    """

    def __init__(
        self,
        page_name: Callable[[bytes], str],
        marks: Callable[[str], bool],
        closed: Callable[[str], bool],
        *,
        entries: bool = True,
    ) -> None:
        self._entries = entries
        self._page_name = page_name
        self._marks = marks
        self._closed = closed

    def __call__(self, visit: Visit, memory: StateReply) -> Sequence[Evidence]:
        if visit.tampered:
            return (Evidence("integrity", "tampered", 0.1, "Asked for a marked link that had been changed."),)
        marker = visit.marker
        if marker is None:
            return self._entry(visit, memory.entries)
        if marker.kind in {"trap", "maze"} or marker.issued_to == NOBODY:
            return ()
        if marker.issued_to == visitor_digest(visit.visitor) or marker.issued_to in visit.linked:
            return ()
        page = self._page_name(marker.parent)
        text = f"Used a link of {f'the page {page}' if page else 'a page of this site'} that another visitor was given."
        return (Evidence("integrity", "minted-for-another", 0.1, text, details=marker.issued_to.hex()),)

    def _entry(self, visit: Visit, entries: Sequence[str]) -> Sequence[Evidence]:
        """
        A page that is always linked with a marker, asked for without one; *entries* are those before it.

        One that the visitor has asked for of late is no news: a program that watches whether a site is up asks for the
        same few for ever.
        """
        if not self._entries or visit.kind != "page" or BY_SCRIPT in visit.signs or not self._marks(visit.target):
            # Scripts make addresses up: that is what they are for.
            return ()
        if self._closed(visit.target):
            return (Evidence("entry", "closed", 1.0, "This page can only be reached from another page of this site."),)
        target = visit.target[:_LONGEST]
        if target in entries:
            return ()
        before = entries[-1] if entries else ""
        step = counted_on(target, before) if before else None
        if step is not None and step <= _NEXT:
            text = f"Counts up addresses: {target} after {before}."
            return (Evidence("entry", "enumerated", 0.1, text, details=target),)
        if visit.origin == "same":
            return _unmarked(target)
        if step is not None and visit.origin != "cross":
            text = f"Came without a marked link to {target} after {before}."
            return (Evidence("entry", "entry-like-the-last", 0.01, text, details=target),)
        if visit.origin == "unknown":
            return (Evidence("entry", "entry", 0.01, "Came without a marked link.", details=target),)
        # Worth nothing but to be remembered, and that only where a number could be counted on.
        return (
            (Evidence("entry", "entry", 0.0, "Came without a marked link.", details=target),)
            if _NUMBER.search(target)
            else ()
        )

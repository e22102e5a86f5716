"""
Integrity: what the marker of a visit says about how the visitor came by its address (PathMarker's marker integrity).

A link used by another than the one it was minted for ties the two together; the page is served all the same. A visit
without a marker is an entry: a bookmark, a search engine, a link from elsewhere are normal. A marker that would not
open was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hedgerow.marker.seal import NOBODY, visitor_digest
from hedgerow.recall import Memory
from hedgerow.verdict import Evidence
from hedgerow.visit import Visit


class IntegrityDetector:
    """
    Evidence from markers. *page_name* turns a page's digest into its path, or "" where it is forgotten.

    *marks* tells whether links to a target are marked: only then is its absence worth a word. *closed* tells whether a
    target may be reached by a marked link alone.
    """

    def __init__(
        self, page_name: Callable[[bytes], str], marks: Callable[[str], bool], closed: Callable[[str], bool]
    ) -> None:
        self._page_name = page_name
        self._marks = marks
        self._closed = closed

    def __call__(self, visit: Visit, memory: Memory) -> Sequence[Evidence]:  # noqa: ARG002 - one shape for all
        if visit.tampered:
            return (Evidence("integrity", "tampered", 0.3, "Asked for a marked link that had been changed."),)
        marker = visit.marker
        if marker is None:
            return self._entry(visit)
        if marker.kind in {"trap", "maze"} or marker.minted_for == NOBODY:
            return ()
        if marker.minted_for == visitor_digest(visit.visitor) or marker.minted_for in visit.linked:
            return ()
        page = self._page_name(marker.parent)
        text = f"Used a link of {f'the page {page}' if page else 'a page of this site'} that another visitor was given."
        return (Evidence("integrity", "minted-for-another", 0.1, text, details=marker.minted_for.hex()),)

    def _entry(self, visit: Visit) -> Sequence[Evidence]:
        """A page that is always linked with a marker, asked for without one and without coming from anywhere."""
        if visit.kind != "page" or not self._marks(visit.target):
            return ()
        if self._closed(visit.target):
            return (Evidence("entry", "closed", 1.0, "This page can only be reached from another page of this site."),)
        if visit.origin in {"cross", "none"}:
            return ()
        if visit.origin == "same":
            text = "Came from a page of this site by an address that stands on none."
            return (Evidence("integrity", "unmarked", 0.05, text),)
        return (Evidence("integrity", "entry", 0.0, "Came without a marked link."),)

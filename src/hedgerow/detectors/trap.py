"""
Trap: the visitor asked for a link that no person can see (mod_antiCrawl's hidden links).

Nobody can be framed. A trap link names the visitor it was given to, and only that visitor falls into it: sent to
somebody else, posted where others click it, or embedded as an image on another site, it is recorded and counts for
nothing. Who could get at a link given to you is behind your very address, and could ask for it there as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hedgerow.core.decision import Evidence
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.markers.token import visitor_digest


class TrapDetector:
    """Evidence from hidden links. *page_name* turns a page's digest into its path, or "" where it is forgotten."""

    def __init__(self, page_name: Callable[[bytes], str]) -> None:
        self._page_name = page_name

    def __call__(self, visit: Visit, memory: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one shape for all
        marker = visit.marker
        if marker is None or marker.kind not in {"trap", "maze"}:
            return ()
        page = self._page_name(marker.parent)
        where = f"the page {page}" if page else "a page of this site"
        if visit.prefetch:
            return (Evidence("trap", "trap-prefetched", 0.0, f"A browser fetched a hidden link of {where} ahead."),)
        if marker.issued_to == visitor_digest(visit.visitor) or marker.issued_to in visit.linked:
            return (Evidence("trap", "trap", 1.0, f"Followed a link of {where} that no person can see."),)
        if visit.origin == "cross":
            return (Evidence("trap", "trap-embedded", 0.0, f"Another site led to a hidden link of {where}."),)
        return (Evidence("trap", "trap-of-another", 0.0, f"A hidden link of {where}, given to another visitor."),)

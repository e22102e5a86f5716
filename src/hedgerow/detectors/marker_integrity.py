"""
How the visitor came by the address: the marker of the link it used (PathMarker's marker integrity).

A link used by another visitor than the one it was issued to connects the two; the page is served all the same. A visit
without a marker is an entry. A bookmark, a search engine or a link from elsewhere is normal; one number after the other
is not. A marker that cannot be opened was changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from hedgerow.core.decision import ISSUED_TO_ANOTHER, Evidence, PolicyRule
from hedgerow.core.state import StateReply
from hedgerow.core.visit import BY_SCRIPT, Visit
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup, SettingsTables
from hedgerow.detectors.trap import TrapSettings
from hedgerow.markers.token import NOBODY, visitor_digest

_NUMBER = re.compile(r"\d+", re.ASCII)
_NEXT = 2
_LONGEST = 200

_TAMPERED = EvidenceCode(
    "integrity", "tampered", 0.1, "Requested a marked link that had been changed.",
    "A marker that cannot be opened. Answered with 404.",
)  # fmt: skip
_ISSUED_TO_ANOTHER = EvidenceCode(
    "integrity", ISSUED_TO_ANOTHER, 0.1, "Used a link of {where} that another visitor was given.",
    "The link was issued to another visitor. The page is served; the ledger has whom it was issued to and where it "
    "stood.",
)  # fmt: skip
_CLOSED = EvidenceCode(
    "entry", "closed", 1.0, "This page can only be reached from another page of this site.",
    "An entry where `marker.strict` allows none. Refused; nobody is blocked.",
)  # fmt: skip
_ENUMERATED = EvidenceCode(
    "entry", "enumerated", 0.1, "Enumerates addresses: {target} after {before}.",
    "A page without a marker whose address differs from the one before it by the next number or the next but one: "
    "`/item?id=7`, `/item?id=8`.",
)  # fmt: skip
_UNMARKED = EvidenceCode(
    "entry", "unmarked", 0.01, "Came from a page of this site to an address that no page links to.",
    "A page without a marker, requested from a page of this site.",
)  # fmt: skip
_LIKE_THE_LAST = EvidenceCode(
    "entry", "entry-like-the-last", 0.01, "Came without a marked link to {target} after {before}.",
    "Typed or bookmarked, and different from the entry before it in one number only.",
)  # fmt: skip
_ENTRY = EvidenceCode(
    "entry", "entry", 0.01, "Came without a marked link.",
    "A page without a marker: the request does not say where it came from. It weighs 0 if it was typed, bookmarked or "
    "linked by another site. The last eight of a visitor are remembered and do not count again.",
)  # fmt: skip


def number_step(target: str, before: str) -> int | None:
    """
    Return by how much two addresses differ that differ in one number only, or None.

    >>> number_step("/item?id=12&x=7", "/item?id=10&x=7"), number_step("/a/1", "/b/1"), number_step("/a/1", "/a/1")
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
    return (_UNMARKED.evidence(details=target),)


class MarkerIntegrityDetector:
    """
    Gives evidence of markers. *page_name* turns the digest of a page into its path, or into "" if it is forgotten.

    *marks* tells whether links to a target are marked: only then does a missing marker mean anything. *closed* tells
    whether a target may only be reached by a marked link. *entries* is false for the log of a site without marked
    links, where a missing marker means nothing.
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

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:
        if visit.tampered:
            return (_TAMPERED.evidence(),)
        marker = visit.marker
        if marker is None:
            return self._entry(visit, reply.entries)
        if marker.kind in {"trap", "maze"} or marker.issued_to == NOBODY:
            return ()
        if marker.issued_to == visitor_digest(visit.visitor) or marker.issued_to in visit.linked:
            return ()
        page = self._page_name(marker.parent)
        where = f"the page {page}" if page else "a page of this site"
        return (_ISSUED_TO_ANOTHER.evidence(details=marker.issued_to.hex(), where=where),)

    def _entry(self, visit: Visit, entries: Sequence[str]) -> Sequence[Evidence]:
        """
        Judge a page without a marker that is always linked with one; *entries* are the visitor's entries before it.

        An address among those gives no evidence: a program that monitors a site requests the same few for ever.
        """
        if not self._entries or visit.kind != "page" or BY_SCRIPT in visit.anomalies or not self._marks(visit.target):
            # Scripts legitimately compose addresses.
            return ()
        if self._closed(visit.target):
            return (_CLOSED.evidence(),)
        target = visit.target[:_LONGEST]
        if target in entries:
            return ()
        before = entries[-1] if entries else ""
        step = number_step(target, before) if before else None
        if step is not None and step <= _NEXT:
            return (_ENUMERATED.evidence(details=target, target=target, before=before),)
        if visit.origin == "same":
            return _unmarked(target)
        if step is not None and visit.origin != "cross":
            return (_LIKE_THE_LAST.evidence(details=target, target=target, before=before),)
        if visit.origin == "unknown":
            return (_ENTRY.evidence(details=target),)
        # Weighs nothing, and is only remembered to recognise the next number.
        return (_ENTRY.evidence(weight=0.0, details=target),) if _NUMBER.search(target) else ()


def _build(context: DetectorContext) -> MarkerIntegrityDetector | None:
    if not context.marks_links:
        return None
    return MarkerIntegrityDetector(
        context.page_name, context.is_marked, context.is_closed, entries=not context.access_log
    )  # fmt: skip


def _rule(settings: SettingsTables) -> PolicyRule:
    return PolicyRule("refuse", settings.table(TrapSettings).block_for)


DETECTOR = DetectorSpec(
    name="integrity",
    doc=__doc__,
    order=20,
    groups=(
        EvidenceGroup("integrity", _rule),
        EvidenceGroup("entry", PolicyRule("refuse", 0.0, records_entry=True)),
    ),
    codes=(_TAMPERED, _ISSUED_TO_ANOTHER, _CLOSED, _ENUMERATED, _UNMARKED, _LIKE_THE_LAST, _ENTRY),
    build=_build,
    enabled='`marker.mode` or a rule in `marker.rules` other than `"off"`',
    table="marker",
)

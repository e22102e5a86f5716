"""
How the visitor came by the address: the marker of the link it used (PathMarker's marker integrity).

A link used by another visitor than the one it was issued to connects the two; the page is served all the same. A link
that was typed, or came from another site or a message, is an entry: people pass links on. It weighs something only if
the request comes from a page of this site, where a visitor has links of its own. Even there it weighs nothing for a
browser that changed its address within its network, as behind a company's proxies.

A visit without a marker is an entry. A bookmark, a search engine or a link from elsewhere is normal. One number after
the other is not, unless each page leads to the next: scripts of the site count, too. It weighs less for a visitor who
solved a challenge.

A marker that cannot be opened was changed, or its key is lost. In an opaque address nothing else is left; in a query
the page is. A closed page (`marker.strict`, `marker.closed`) opens only by a marker that is valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal

from hedgerow.core.address import neighbours_of
from hedgerow.core.decision import CLOSED, ISSUED_TO_ANOTHER, UNMARKED, Evidence, PolicyRule
from hedgerow.core.state import ACCOUNT, CLEARANCE, StateReply
from hedgerow.core.visit import BY_PROGRAM, BY_SCRIPT, ELSEWHERE, HIDDEN_KINDS, UNMARKED_SITE, Marker, Visit
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup, SettingsTables
from hedgerow.detectors.trap import TrapSettings
from hedgerow.markers.encoding import MOST_HAND_OVERS
from hedgerow.markers.token import NOBODY, page_digest, visitor_digest
from hedgerow.request.header_anomalies import is_browser
from hedgerow.request.link_uses import RecentNames
from hedgerow.request.program_history import ProgramHistory, entry_target

LinkUse = Literal["none", "own", "moved", "neighbour", "foreign"]
"""
Whose link a visit used: nobody's, its visitor's own, one that the same browser was given as another visitor (at another
address, or before it logged in), one of a neighbouring address, or one of a stranger.
"""

_NUMBER = re.compile(r"\d+", re.ASCII)
_NEXT = 2
_LONGEST = 200
_MOST_SHOWN = 20_000

_TAMPERED = EvidenceCode(
    "integrity", "tampered", 0.0, "Requested a marked link that had been changed.",
    "A marker that cannot be opened. Answered with 404. If the key was lost, all old links are such, and nobody gets a "
    "page by guessing.",
)  # fmt: skip
_DAMAGED = EvidenceCode(
    "entry", "damaged", 0.01, "Came by a marked link that was changed or cut off.",
    "The mark in a query cannot be opened, or stood on another link. The page is served: people edit addresses, and "
    "programs cut them off. It weighs as much as no mark: 0 if it was typed, bookmarked or linked by another site.",
)  # fmt: skip
_ISSUED_TO_ANOTHER = EvidenceCode(
    "integrity", ISSUED_TO_ANOTHER, 0.1, "Used a link of {where} that another visitor was given.",
    "The link was issued to another visitor, and the request comes from a page of this site. The page is served; the "
    "ledger has whom it was issued to and where it stood. If the request does not say where it comes from, it weighs "
    "0.01; if it was typed or comes from another site, 0. Campaigns are found by it in any case.",
)  # fmt: skip
_ISSUED_TO_NEIGHBOUR = EvidenceCode(
    "integrity", "minted-for-neighbour", 0.0, "Used a link of {where} that a neighbouring address was given.",
    "A browser on the very page that has the link, at another address of the same network (IPv4 /24, IPv6 /56): it "
    "uses several addresses and keeps no cookies. Campaigns do not count it.",
)  # fmt: skip
_CLOSED = EvidenceCode(
    "entry", CLOSED, 1.0, "This page can only be reached from another page of this site.",
    "An entry to a page that `marker.strict` or `marker.closed` closes. Refused; nobody is blocked.",
)  # fmt: skip
_ENUMERATED = EvidenceCode(
    "entry", "enumerated", 0.1, "Enumerates addresses: {target} after {before}.",
    "A page without a marker whose address differs from the one before it by the next number or the next but one: "
    "`/item?id=7`, `/item?id=8`. A browser that says it comes from the one before it is only `unmarked`. For a visitor "
    "who solved a challenge it weighs 0.02, and 0.01 from a page of this site.",
)  # fmt: skip
_CLEARED_WEIGHTS = {"same": 0.01}
_CLEARED_WEIGHT = 0.02
_FOREIGN_WEIGHTS = {"same": _ISSUED_TO_ANOTHER.weight, "unknown": 0.01}
_UNMARKED = EvidenceCode(
    "entry", UNMARKED, 0.01, "Came from a page of this site to an address that no page links to.",
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


def _is_cleared(visit: Visit, reply: StateReply) -> bool:
    """Return whether the visitor solved a challenge; an account keeps its name then, so its score has to tell."""
    if visit.visitor.startswith(CLEARANCE):
        return True
    score = reply.score
    return (
        visit.visitor.startswith(ACCOUNT) and score is not None and score.challenges > 0 and score.identity == "person"
    )


@lru_cache(maxsize=64)
def _neighbours(address: str) -> frozenset[bytes]:
    return frozenset(map(visitor_digest, neighbours_of(address)))


def _is_neighbour(visit: Visit, marker: Marker) -> bool:
    """Return whether a browser on the page of the link has only moved to another address of its network."""
    return (
        visit.origin == "same"
        and visit.visitor == visit.prefix
        and is_browser(visit.anomalies)
        and (not visit.referrer or page_digest(visit.referring_target) == marker.parent)
        and marker.issued_to in _neighbours(visit.address)
    )


def link_use(visit: Visit) -> LinkUse:
    """Return whose link the visit used."""
    marker = visit.marker
    if marker is None or marker.kind in HIDDEN_KINDS or marker.issued_to == NOBODY:
        return "none"
    if marker.issued_to == visitor_digest(visit.visitor):
        return "own"
    if marker.issued_to in visit.linked:
        return "own" if marker.issued_to in _neighbours(visit.address) else "moved"
    return "neighbour" if _is_neighbour(visit, marker) else "foreign"


def next_generation(visit: Visit) -> int:
    """
    Return the generation of the links on the page that a visit gets.

    A visitor's own links carry it on. A visitor with a clearance or an account, or without a marked link, starts again.
    """
    marker = visit.marker
    if marker is None or visit.visitor != visit.prefix:
        return 0
    use = link_use(visit)
    if use == "none":
        return 0
    return min(marker.generation + (use in {"foreign", "moved"}), MOST_HAND_OVERS)


@lru_cache(maxsize=1 << 12)
def _unmarked(target: str) -> tuple[Evidence]:
    return (_UNMARKED.evidence(details=target),)


class _ShownPages:
    """
    Which visitors requested which pages lately.

    It is kept in this process only. What it forgets weighs 0.01.
    """

    def __init__(self) -> None:
        self._names = RecentNames(_MOST_SHOWN)

    @staticmethod
    def _name(visit: Visit) -> bytes:
        return visitor_digest(visit.visitor) + page_digest(visit.target)

    def add(self, visit: Visit) -> None:
        self._names.add(self._name(visit))

    def __contains__(self, visit: Visit) -> bool:
        # A browser had another name before it obtained a clearance.
        page = page_digest(visit.target)
        return any(name in self._names for name in (self._name(visit), *(linked + page for linked in visit.linked)))


class MarkerIntegrityDetector:
    """
    Gives evidence of markers. *page_name* turns the digest of a page into its path, or into "" if it is forgotten.

    *marks* tells whether links to a target are marked: only then does a missing marker mean anything. *closed* tells
    whether a target may only be reached by a marked link. *entries*
    is false for the log of a site without marked links, where a missing marker means nothing.
    """

    def __init__(
        self,
        page_name: Callable[[bytes], str],
        marks: Callable[[str], bool],
        closed: Callable[[str], bool],
        *,
        entries: bool = True,
    ) -> None:
        self._shown = _ShownPages()
        self._entries = entries
        self._page_name = page_name
        self._marks = marks
        self._closed = closed

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:
        evidence = self._judge(visit, reply)
        if visit.kind == "page":
            self._shown.add(visit)
        return evidence

    def _judge(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:
        if visit.is_page_unknown:
            return (_TAMPERED.evidence(),)
        marker = visit.marker
        if marker is None:
            entry = self._entry(visit, reply)
            return self._with_damage(visit, reply, entry) if visit.tampered else entry
        use = link_use(visit)
        if use in {"none", "own", "moved"} or ELSEWHERE in visit.anomalies:
            return ()
        page = self._page_name(marker.parent)
        where = f"the page {page}" if page else "a page of this site"
        if use == "neighbour":
            return (_ISSUED_TO_NEIGHBOUR.evidence(where=where),)
        weight = _FOREIGN_WEIGHTS.get(visit.origin, 0.0)
        return (_ISSUED_TO_ANOTHER.evidence(weight=weight, details=marker.issued_to.hex(), where=where),)

    def _with_damage(self, visit: Visit, reply: StateReply, entry: Sequence[Evidence]) -> Sequence[Evidence]:
        """Judge a page whose mark was changed, or is under a lost key: as an entry, and under a name of its own."""
        target = visit.target[:_LONGEST]
        is_known = target in map(entry_target, reply.entries)
        weight = _DAMAGED.weight if visit.origin in {"same", "unknown"} and not is_known else 0.0
        if any(one.weight > weight for one in entry):
            return entry
        return (_DAMAGED.evidence(weight=weight, details=target),)

    def _entry(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:
        """
        Judge a page without a marker that is always linked with one.

        A page among the visitor's last entries gives no evidence: a program that monitors a site requests the same few
        for ever. Whether a page is closed does not depend on what the request says it is for.
        """
        if not self._entries or visit.kind not in {"page", "prefetch"} or UNMARKED_SITE in visit.anomalies:
            # Links may have been without marks for a while.
            return ()
        if self._closed(visit.target):
            return (_CLOSED.evidence(),)
        if visit.kind == "prefetch" or BY_SCRIPT in visit.anomalies or not self._marks(visit.target):
            # Scripts legitimately compose addresses.
            return ()
        if ELSEWHERE in visit.anomalies:
            return ()
        if BY_PROGRAM in visit.anomalies and ProgramHistory(reply.entries, visit).is_listed_file:
            return ()
        target = visit.target[:_LONGEST]
        entries = [entry_target(entry) for entry in reply.entries]
        if target in entries:
            return ()
        before = entries[-1] if entries else ""
        step = number_step(target, before) if before else None
        if step is not None and step <= _NEXT and not self._is_led(visit, before):
            weight = _CLEARED_WEIGHTS.get(visit.origin, _CLEARED_WEIGHT) if _is_cleared(visit, reply) else None
            return (_ENUMERATED.evidence(weight=weight, details=target, target=target, before=before),)
        if visit.origin == "same":
            # Who goes back, or loads a page again, comes to it without the mark by which it came first.
            return _unmarked(target) if visit not in self._shown else ()
        if step is not None and visit.origin != "cross":
            return (_LIKE_THE_LAST.evidence(details=target, target=target, before=before),)
        if visit.origin == "unknown":
            return (_ENTRY.evidence(details=target),)
        # Weighs nothing, and is only remembered to recognise the next number.
        return (_ENTRY.evidence(weight=0.0, details=target),) if _NUMBER.search(target) else ()

    @staticmethod
    def _is_led(visit: Visit, before: str) -> bool:
        """Return whether a browser says that the page before led to this one, as a script behind "next" does."""
        return visit.origin == "same" and is_browser(visit.anomalies) and visit.referring_target[:_LONGEST] == before


def _build(context: DetectorContext) -> MarkerIntegrityDetector | None:
    if not context.marks_links:
        return None
    return MarkerIntegrityDetector(
        context.page_name, context.is_marked, context.is_closed, entries=not context.access_log
    )  # fmt: skip


_CODES = (
    _TAMPERED, _DAMAGED, _ISSUED_TO_ANOTHER, _ISSUED_TO_NEIGHBOUR, _CLOSED, _ENUMERATED, _UNMARKED, _LIKE_THE_LAST,
    _ENTRY,
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
    codes=_CODES,
    build=_build,
    enabled='`marker.mode` or a rule in `marker.rules` other than `"off"`',
    table="marker",
)

"""Rows of the ledger as visits, and a follower that reads new rows with their decisions, once and in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from hedgerow.core.address import prefix_of
from hedgerow.core.decision import Action, Decision, Evidence, Observed
from hedgerow.core.visit import UNMARKED_SITE, Kind, Marker, MarkerKind, Origin, Proof, Visit
from hedgerow.ledger.reader import LedgerReader
from hedgerow.markers.encoding import PAGE_BYTES, VISITOR_BYTES

LEDGER_COLUMNS = (
    "at", "visitor", "address", "account", "method", "host", "target", "kind", "referrer", "user_agent", "origin",
    "prefetch", "bot", "marker_kind", "minted_for", "parent", "marker_target", "asked", "tampered", "linked", "status",
    "claim", "proof", "signs", "fingerprint", "observed",
)  # fmt: skip
_KINDS = frozenset(get_args(Kind))
_ORIGINS = frozenset(get_args(Origin))
_MARKERS = frozenset(get_args(MarkerKind))
_PROOFS = frozenset(get_args(Proof))
FOLLOWED_COLUMNS = ("action", "evidence", *LEDGER_COLUMNS)
_EVIDENCE = msgspec.json.Decoder(tuple[Evidence, ...])
_WITHOUT_EVIDENCE = {
    (action, observed): Decision(action, observed=observed)
    for action in get_args(Action)
    for observed in get_args(Observed)
}


def visit_of_row(row: Sequence[Any]) -> Visit | None:
    """Return the visit in a row of the ledger (`LEDGER_COLUMNS`), or None if a value is invalid."""
    (
        at, visitor, address, account, method, host, target, kind, referrer, agent, origin, prefetch, bot, mark,
        issued_to, parent, marker_target, asked, tampered, linked, status, claim, proof, anomalies, fingerprint,
        observed,
    ) = row  # fmt: skip
    texts = (*row[1:7], referrer, agent, bot, asked, claim, anomalies, fingerprint, observed)
    if not isinstance(at, float) or not isinstance(status, int) or not all(isinstance(t, str) for t in texts):
        return None
    if kind not in _KINDS or origin not in _ORIGINS or proof not in _PROOFS or not isinstance(linked, bytes):
        return None
    marker = None
    if mark:
        valid = isinstance(issued_to, bytes) and isinstance(parent, bytes) and isinstance(marker_target, str)
        if mark not in _MARKERS or not valid:
            return None
        generation = parent[PAGE_BYTES] if len(parent) == PAGE_BYTES + 1 else 0
        marker = Marker(mark, issued_to, parent[:PAGE_BYTES], marker_target, generation)
    signs = (*anomalies.split(), UNMARKED_SITE) if observed == "neutral" else tuple(anomalies.split())
    digests = tuple(linked[i : i + VISITOR_BYTES] for i in range(0, len(linked), VISITOR_BYTES))
    return Visit(
        at, address, visitor, prefix_of(address), method, target, kind, account, host, agent, referrer,
        origin, bool(prefetch), bot, marker, status, asked, bool(tampered), digests,
        claim, proof, signs, fingerprint,
    )  # fmt: skip


class LedgerFollower:
    """Reads a ledger from the row after number *after*, or from its end if that is None."""

    def __init__(self, reader: LedgerReader, after: int | None = None) -> None:
        self._reader = reader
        newest = reader.newest()
        # A new ledger counts from 1 again.
        self.after = newest if after is None else after if after <= newest else 0
        self.bad = 0
        """Number of invalid rows."""

    @property
    def behind(self) -> int:
        """The number of rows still to read."""
        return max(0, self._reader.newest() - self.after)

    def read(self) -> Sequence[tuple[Visit, Decision]]:
        """Return the next visits, none if there are no new ones."""
        visits = []
        for number, *row in self._reader.after(self.after, FOLLOWED_COLUMNS):
            self.after = number
            found = entry_of_row(row)
            if found is None:
                self.bad += 1
            else:
                visits.append(found)
        return visits


def entry_of_row(row: Sequence[Any]) -> tuple[Visit, Decision] | None:
    """Return the visit in a row of the ledger (`FOLLOWED_COLUMNS`) and the decision on it, None if one is invalid."""
    action, evidence, *rest = row
    visit, decision = visit_of_row(rest), _decision(action, evidence, rest[-1])
    return None if visit is None or decision is None else (visit, decision)


def _decision(action: Any, evidence: Any, observed: Any) -> Decision | None:
    without_evidence = _WITHOUT_EVIDENCE.get((action, observed))
    if without_evidence is None or evidence == "[]":
        return without_evidence
    try:
        return Decision(action, _EVIDENCE.decode(evidence), observed=observed)
    except (msgspec.MsgspecError, TypeError):
        return None

"""
Labels: which visits of the ledger were made by the operator's own training crawlers.

A file beside the ledger, a line for each crawl: from which address, under which user agent, from when to when, and
what it was. Only who may write there can label anything, and a label says nothing about visits of before or after, or
of another program at the same address.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from hedgerow.core.visit import Visit
from hedgerow.errors import StoreError


class Label(msgspec.Struct, frozen=True):
    """One crawl: who made it, of which host, from *since* to *until*, and its *label*."""

    address: str
    user_agent: str
    host: str
    since: float
    until: float
    label: str

    def fits(self, visit: Visit) -> bool:
        """Whether *visit* was made by this crawl."""
        return (
            self.since <= visit.at <= self.until
            and visit.address == self.address
            and visit.user_agent == self.user_agent
            and visit.host.lower() == self.host
        )


def labels_path(ledger: Path) -> Path:
    """Where the labels of a ledger are."""
    return ledger.with_name("crawls.jsonl")


def add_label(path: Path, label: Label) -> None:
    """Write one more label."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        with path.open("ab") as file:
            file.write(msgspec.json.encode(label) + b"\n")
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from None


def read_labels(path: Path) -> list[Label]:
    """All labels of *path*; none where there is no such file."""
    try:
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        return [msgspec.json.decode(line, type=Label) for line in lines if line.strip()]
    except (OSError, msgspec.MsgspecError) as error:
        raise StoreError(f"cannot read the labels in {path}: {error}") from None


def label_of(visit: Visit, labels: Sequence[Label]) -> str:
    """What a visit was labelled, or "" where it was not; of several the last one counts."""
    return next((label.label for label in reversed(labels) if label.fits(visit)), "")

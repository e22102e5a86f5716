"""
Labels of the visits that the operator's own training crawlers made.

The file next to the ledger has one JSON line per crawl: address, user agent, host, period and label. A label does not
apply to earlier or later visits, nor to another program at the same address.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from hedgerow.core.visit import Visit
from hedgerow.errors import StoreError
from hedgerow.file_owner import create_private_file, make_directory


class Label(msgspec.Struct, frozen=True):
    address: str
    user_agent: str
    host: str
    since: float
    until: float
    label: str

    def matches(self, visit: Visit) -> bool:
        return (
            self.since <= visit.at <= self.until
            and visit.address == self.address
            and visit.user_agent == self.user_agent
            and visit.host.lower() == self.host
        )


def labels_path(ledger: Path) -> Path:
    return ledger.with_name("crawls.jsonl")


def add_label(path: Path, label: Label) -> None:
    try:
        make_directory(path.parent, 0o777)
        create_private_file(path)
        with path.open("ab") as file:
            file.write(msgspec.json.encode(label) + b"\n")
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from None


def read_labels(path: Path) -> list[Label]:
    """Return all labels in *path*, none if the file does not exist."""
    try:
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        return [msgspec.json.decode(line, type=Label) for line in lines if line.strip()]
    except (OSError, msgspec.MsgspecError) as error:
        raise StoreError(f"cannot read the labels in {path}: {error}") from None


def label_of(visit: Visit, labels: Sequence[Label]) -> str:
    return next((label.label for label in reversed(labels) if label.matches(visit)), "")

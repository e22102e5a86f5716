"""The answers of `resources`, and limits of changes, for the service and for the commands that ask it."""

from __future__ import annotations

import msgspec

from hedgerow.core.decision import Block, Campaign, VisitorScore
from hedgerow.lists.model import Listing
from hedgerow.web.ledger_access import StoredDecision

MAX_IMPORT = 10_000
"""Entries of one import. Commands write larger ones into the database themselves: that is work for seconds."""
MAX_IMPORT_BYTES = 4_000_000


class Service(msgspec.Struct, frozen=True):
    """The service that answers: its version, its state directory, and whether it only observes."""

    version: str
    directory: str
    observing: bool


class StateRow(msgspec.Struct, frozen=True):
    """
    What is stored under a key. *pages* is how many the visitor got as far as the ledger goes back, if one visitor was
    asked for.
    """

    key: str
    block: Block | None
    score: VisitorScore | None
    pages: int | None = None


class StateRows(msgspec.Struct, frozen=True):
    """
    Rows in the order of their keys. *next* is the key after which more follow, or null. Without rows but with *next*
    the service is still making a copy: ask for the same again.
    """

    rows: list[StateRow]
    next: str | None


class FoundDecision(msgspec.Struct, frozen=True):
    """
    A decision. *keys* are the keys of the visitors that the ledger may have stored as this one: it may hide addresses.
    """

    decision: StoredDecision
    keys: list[str]


class StoredCampaigns(msgspec.Struct, frozen=True):
    """Campaigns in the order of their ids. *next* is the id after which more follow, or null."""

    campaigns: list[Campaign]
    next: str | None


class Entries(msgspec.Struct, frozen=True):
    """Entries of the lists in the order of list and subject. *next* is the entry after which more follow, or null."""

    entries: list[Listing]
    next: str | None

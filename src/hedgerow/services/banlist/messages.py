"""
The messages between a ban-list client and its server, as JSON.

The server sends list messages, one per line, in a response without end. `start` means that a snapshot follows, and that
everything before it must be forgotten. `at` names the version of all that was sent so far, and also serves as a
heartbeat. The client sends visits in batches.
"""

from __future__ import annotations

from typing import Final

import msgspec

from hedgerow.core.decision import Block
from hedgerow.lists.model import Listing, ListName

LISTS_PATH: Final = "/client/lists"
VISITS_PATH: Final = "/client/visits"
MOST_VISITS: Final = 500
"""The maximum number of visits in a batch."""
HEARTBEAT: Final = 3.0
"""Seconds between two messages if nothing changes."""


class ListMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the lists. Exactly one field is set."""

    start: bool = False
    at: str = ""
    put: Listing | None = None
    drop: tuple[ListName, str] | None = None
    block: Block | None = None
    free: str = ""


class VisitMessage(msgspec.Struct, frozen=True, array_like=True):
    """
    A visit, as the client saw it.

    The client determines *address* and *account*, because it knows its own proxies. *content* is the media type of the
    response if it is known.
    """

    at: float
    address: str
    method: str
    target: str
    scheme: str
    headers: list[tuple[str, str]]
    status: int = 0
    content: str = ""
    account: str = ""


class VisitsReceived(msgspec.Struct, frozen=True):
    """The response to a batch."""

    taken: int


def encode_message(line: ListMessage) -> bytes:
    return msgspec.json.encode(line) + b"\n"

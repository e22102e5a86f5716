"""
What goes over the wire between a ban-list client and its server, as JSON. Nouns; no behaviour.

Lists go down in lines, without end. `start` says that everything before it is forgotten: a snapshot follows. `at` says
that what came so far is the version of that name, and also that the server is still there. Visits go up in batches.
"""

from __future__ import annotations

from typing import Final

import msgspec

from hedgerow.core.decision import Block
from hedgerow.lists.model import Listing, ListName

LISTS_PATH: Final = "/client/lists"
VISITS_PATH: Final = "/client/visits"
MOST_VISITS: Final = 500
"""Visits in a batch, at the most."""
HEARTBEAT: Final = 3.0
"""Seconds after which the server says that it is there, where nothing changes."""


class ListMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the lists: exactly one of these."""

    start: bool = False
    at: str = ""
    put: Listing | None = None
    drop: tuple[ListName, str] | None = None
    block: Block | None = None
    free: str = ""


class VisitMessage(msgspec.Struct, frozen=True, array_like=True):
    """
    A visit, as the client saw it.

    *address* and *account* are the visitor's, told apart by the client, which knows its own proxies; *headers* say
    nothing of either. *content* is the type of the content that it was answered with, where that is known.
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
    """What the server says to a batch."""

    taken: int


def encode_message(line: ListMessage) -> bytes:
    return msgspec.json.encode(line) + b"\n"

"""
What the state is asked about a visit, and what it answers: one atomic trip. Nouns; no behaviour.

Asking counts the visit. That is what makes the answer right under concurrency: the count that comes back already
holds this visit and every one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from hedgerow.core.decision import Block, Evidence, ScoreUpdate, VisitorScore
from hedgerow.core.visit import Kind, Visit

ACCOUNT = "account:"
"""The key of a visitor with an account starts with this."""


CLEARANCE = "clearance:"
"""The key of a visitor without an account that has solved a challenge starts with this."""


def prefix_key(prefix: str) -> str:
    """
    The key of all visitors at an address prefix, those with accounts too.

    The prefix alone is the key of the visitor without an account, so blocking that one leaves the accounts behind the
    same address alone.
    """
    return prefix + "/*"


class StateQuery(msgspec.Struct, frozen=True, gc=False):
    """
    One visit, as the state sees it.

    *network* is empty where no window asks for networks. Where *count* is false nothing is counted: verified bots.
    *day* is the number of the visit's day at the site, or 0 where nothing is counted by days. *site_rate* asks for the
    rate of visits to the whole site.
    """

    at: float
    kind: Kind
    visitor: str
    prefix: str
    network: str
    count: bool
    day: int = 0
    site_rate: bool = False


class StateReply(msgspec.Struct, frozen=True, gc=False):
    """
    What is remembered about a visit's makers.

    *block* is the block in force, of the visitor, of everyone at its address, or of its network. *counts* has one
    number for each window, in the settings' order; it is empty where the visit was not counted. *strikes* is how many
    accounts at this address are blocked now. *score* is the visitor's, or None where nothing is known of it. *today*
    is how many pages and calls the visitor has had on this day, this one among them. *entries* are the last few
    addresses that it asked for without a marker, the latest last. *offences* has the keys that were blocked before, as
    far as that is remembered, and how often. *site_rate* is how many visits a second the whole site has had lately,
    this one among them.
    """

    block: Block | None
    counts: tuple[int, ...]
    strikes: int = 0
    score: VisitorScore | None = None
    today: int = 0
    entries: tuple[str, ...] = ()
    offences: tuple[tuple[str, int], ...] = ()
    site_rate: float = 0.0


class StateUnavailable(Exception):  # noqa: N818 - what the settings ask for, not an error
    """The state cannot be asked now, and the settings let nobody in without it."""


Detector = Callable[[Visit, StateReply], Sequence[Evidence]]
"""One way to recognise a crawler."""


class State(Protocol):
    """
    The small hot memory, shared by all gates of a site.

    `record_visit` counts and answers atomically. `commit` makes or renews a block, `update_score` changes a score.
    `forgive` takes block and standing back; it is false where there was neither. `blocks` lists those in force at *at*,
    `scores` those that are known.
    """

    def record_visit(self, question: StateQuery) -> StateReply: ...

    def reclassify(self, question: StateQuery, claimed: Kind) -> StateReply:
        """
        Count a visit, which was recalled as *claimed*, as the kind that it turned out to be; the same answer.

        It is one visit, so it moves: what it was counted as first is taken back.
        """

    def commit(self, block: Block) -> None: ...

    def update_score(self, change: ScoreUpdate) -> None: ...

    def forgive(self, key: str) -> bool | None:
        """Whether there was anything to forgive; None where that is not known: it is done once the store is back."""

    def blocks(self, at: float) -> Sequence[Block]: ...

    def scores(self) -> Sequence[tuple[str, VisitorScore]]: ...


@runtime_checkable
class AsyncState(Protocol):
    """A state on another machine, for who can do something else while it is asked."""

    async def record_visit_async(self, question: StateQuery) -> StateReply: ...

    async def reclassify_async(self, question: StateQuery, claimed: Kind) -> StateReply: ...

    async def close_async(self) -> None:
        """Close the connection of this event loop."""

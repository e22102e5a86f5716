"""
The query to the state store for a visit, its reply, and the protocols of stores and detectors.

A query also counts the visit. That keeps the reply right under concurrency: the counts in it already contain this visit
and every one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import msgspec

from hedgerow.core.decision import Block, Evidence, ScoreUpdate, VisitorScore
from hedgerow.core.visit import Kind, Visit

ACCOUNT = "account:"
"""The key of a visitor with an account starts with this."""


CLEARANCE = "clearance:"
"""The key of a visitor without an account that has solved a challenge starts with this."""


EVERYONE = "/*"
"""The key of all visitors at an address prefix is the prefix and this: see `prefix_key`."""


def prefix_key(prefix: str) -> str:
    """
    The key of all visitors at an address prefix, those with accounts too.

    The prefix alone is the key of the visitor without an account, so blocking that one leaves the accounts behind the
    same address alone.
    """
    return prefix + EVERYONE


class StateQuery(msgspec.Struct, frozen=True, gc=False):
    """
    One visit, as the state sees it.

    *network* is empty where no window asks for networks. Where *count* is false nothing is counted: verified bots.
    *day* is the number of the visit's day at the site, or 0 where nothing is counted by days; the visit counts for it
    under the name *daily*, or under that of the visitor if this is empty. *site_rate* asks for the rate of visits to
    the whole site. With *apart* the windows count the visit under names of their own, which end with it.
    """

    at: float
    kind: Kind
    visitor: str
    prefix: str
    network: str
    count: bool
    day: int = 0
    site_rate: bool = False
    daily: str = ""
    apart: str = ""

    def counted(self) -> StateQuery:
        """Return the query with the names under which windows count the visit."""
        if not self.apart:
            return self
        visitor, prefix, network = self.visitor, self.prefix, self.network
        apart = self.apart
        return msgspec.structs.replace(
            self, visitor=visitor + apart, prefix=prefix + apart, network=network + apart if network else ""
        )


class StateReply(msgspec.Struct, frozen=True, gc=False):
    """
    What is remembered about a visit's makers.

    *block* is the block in force, of the visitor, of everyone at its address, or of its network. *counts* has one
    number for each window, in the settings' order; it is empty where the visit was not counted. *strikes* is how many
    accounts at this address are blocked now. *score* is the visitor's, or None where nothing is known of it. *today* is
    how many pages count for the name *daily* of the query on this day, this one among them. *entries* are the last few
    addresses that it asked for without a marker, the latest last. *offences* has the keys that were blocked before, as
    far as that is remembered, and how often. *site_rate* is how many visits a second the whole site has had lately,
    this one among them. *held* is how many clearances are used side by side at the address, where a detector asked for
    it: see `Engine.needs_held`. *read_today* is how many pages the address has read today, for a visit that counts
    apart from these, where the engine asked for it: see `Engine.needs_read`. *of_network* and *held_in_network* are the
    same for the visitor's IPv6 network: pages of today without a clearance, and clearances.
    """

    block: Block | None
    counts: tuple[int, ...]
    strikes: int = 0
    score: VisitorScore | None = None
    today: int = 0
    entries: tuple[str, ...] = ()
    offences: tuple[tuple[str, int], ...] = ()
    site_rate: float = 0.0
    held: int = 0
    read_today: int = 0
    of_network: int = 0
    held_in_network: int = 0


class StateUnavailable(Exception):  # noqa: N818 - what the settings ask for, not an error
    """The state cannot be asked now, and the settings let nobody in without it."""


Detector = Callable[[Visit, StateReply], Sequence[Evidence]]
"""One way to recognise a crawler."""


class State(Protocol):
    """Counters, blocks and scores, shared by all gates of a site."""

    def record_visit(
        self, query: StateQuery, counted_as: Kind | None = None
    ) -> StateReply | Coroutine[Any, Any, StateReply]:
        """
        Count a visit and return what is known about its visitor, atomically.

        A store in this process answers at once; the answer of a remote one must be awaited. A visit that was recorded
        before *counted_as* another kind is moved: it is one visit, so what it was counted as is taken back.
        """

    def commit(self, block: Block) -> None:
        """Make or renew a block."""

    def update_score(self, change: ScoreUpdate) -> None: ...

    def forgive(self, key: str) -> bool | None:
        """Remove block and score; return whether there was any, or None if the store will only do it later."""

    def blocks(self, at: float) -> Sequence[Block]:
        """Return the blocks in force at *at*."""

    def scores(self) -> Sequence[tuple[str, VisitorScore]]: ...

    def look_up(self, keys: Sequence[str], at: float) -> tuple[Sequence[Block], Sequence[tuple[str, VisitorScore]]]:
        """Return the blocks in force at *at* and the scores of some keys, without reading all others."""

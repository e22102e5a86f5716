"""The protocol of state stores: what they offer to the site that owns them, besides `core.state.State`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from hedgerow.core.decision import Block, VisitorScore
from hedgerow.core.rate_limit import RateLimit
from hedgerow.core.state import State
from hedgerow.state.sqlite.journal import SqliteJournal

RunBlocking = Callable[[Callable[[], Any], float], Awaitable[Any]]
"""Makes a function that blocks, for at most so many seconds, awaitable."""


class StateStore(State, Protocol):
    """
    A state store that a site owns.

    *spent* is how many bytes the counters take. *forgotten* is how many visitors were forgotten for lack of room. Its
    length is the number of keys that have counters.
    """

    @property
    def spent(self) -> int: ...

    @property
    def forgotten(self) -> int: ...

    @property
    def alone(self) -> int:
        """Visits that were answered without what other processes know, because that could not be reached."""

    def __len__(self) -> int: ...

    def use(self, windows: Sequence[RateLimit]) -> None:
        """Count for these windows from now on: settings were read again. What is remembered stays."""

    def keep_in(self, journal: SqliteJournal) -> None:
        """Have what changes in blocks and standings noted in *journal*."""

    def restore(self, blocks: Sequence[Block], scores: Sequence[tuple[str, VisitorScore]]) -> None:
        """Take over what was remembered before a restart."""

    def use_threads(self, run: RunBlocking) -> None:
        """Answer threads that have no event loop: *run* makes what blocks them awaitable."""

    async def disconnect(self) -> None:
        """Close what belongs to the running event loop."""

    def close(self) -> None: ...

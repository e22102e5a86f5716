"""The protocol of state stores: what they offer to the site that owns them, in addition to `core.state.State`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from hedgerow.core.decision import Block, VisitorScore
from hedgerow.core.rate_limit import RateLimit
from hedgerow.core.state import State
from hedgerow.state.sqlite.journal import SqliteJournal

RunBlocking = Callable[[Callable[[], Any], float], Awaitable[Any]]
"""Makes a function awaitable that blocks for at most so many seconds."""


class StateStore(State, Protocol):
    """A state store that a site owns. Its length is the number of keys that have counters."""

    @property
    def bytes_used(self) -> int:
        """The bytes that the counters take in this process or file."""

    @property
    def forgotten(self) -> int:
        """The number of visitors that were forgotten for lack of room."""

    @property
    def alone(self) -> int:
        """The number of visits that were decided without the other servers, because Redis was unavailable."""

    @property
    def unavailable(self) -> bool:
        """Whether a store on another machine did not answer when it was last asked."""

    @property
    def errors(self) -> int:
        """How often such a store did not answer any more."""

    def __len__(self) -> int: ...

    def check(self) -> str:
        """Ask the store whether it works. Return what is wrong, or "". May block for a moment."""

    def use_limits(self, windows: Sequence[RateLimit]) -> None:
        """Count for these windows from now on. What is known stays."""

    def use_journal(self, journal: SqliteJournal) -> None:
        """Report changes of blocks and scores to *journal*."""

    def restore(self, blocks: Sequence[Block], scores: Sequence[tuple[str, VisitorScore]]) -> None:
        """Take over what was known before a restart."""

    def use_threads(self, run: RunBlocking) -> None:
        """Answer threads without an event loop. *run* makes blocking functions awaitable."""

    async def disconnect(self) -> None:
        """Close what belongs to the running event loop."""

    def close(self) -> None: ...

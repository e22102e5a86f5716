"""
What every engine of the state offers besides `record_visit.State`: to whom it belongs, and what an operator sees of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hedgerow.core.decision import Block, VisitorScore
from hedgerow.core.rate_limit import RateLimit
from hedgerow.core.state import State
from hedgerow.state.sqlite.journal import SqliteJournal


class StateStore(State, Protocol):
    """
    A state, as `build` makes it and the site takes care of it.

    *spent* is how many bytes the counters take, *forgotten* how many visitors were forgotten because there was no room;
    its length is the number of keys that have counters.
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

    def close(self) -> None: ...

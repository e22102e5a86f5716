"""Commands of the operator about visitors, sent to the file of the state or to the Redis of all gates."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Protocol

from hedgerow.core.decision import Block, Campaign, VisitorScore
from hedgerow.errors import StoreError
from hedgerow.settings import Settings
from hedgerow.state.sqlite.journal import connect, order, read, read_campaigns
from hedgerow.state.store import StateStore
from hedgerow.web.paths import state_path
from hedgerow.web.stores import import_redis_stores


class VisitorStore(Protocol):
    """Scores, blocks and campaigns of visitors."""

    def read(self, at: float) -> tuple[Sequence[Block], Sequence[tuple[str, VisitorScore]]]: ...

    def order(self, key: str, block: Block | None) -> bool:
        """Block *key*, or forgive it if *block* is None. Return false if there was nothing to forgive."""

    def campaigns(self) -> Sequence[Campaign]:
        """Return all campaigns, the one that was active last at the end."""


class _SqliteVisitors:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def read(self, at: float) -> tuple[Sequence[Block], Sequence[tuple[str, VisitorScore]]]:
        return read(self._connection, at)

    def order(self, key: str, block: Block | None) -> bool:
        return order(self._connection, key, block)

    def campaigns(self) -> Sequence[Campaign]:
        return read_campaigns(self._connection)


class _RedisVisitors:
    def __init__(self, settings: Settings, state: StateStore) -> None:
        self._settings = settings
        self._state = state

    def read(self, at: float) -> tuple[Sequence[Block], Sequence[tuple[str, VisitorScore]]]:
        return self._state.blocks(at), self._state.scores()

    def order(self, key: str, block: Block | None) -> bool:
        if block is None:
            forgiven = self._state.forgive(key)
            if forgiven is None:
                raise StoreError("Redis does not respond, nothing was forgiven; try again")
            return forgiven
        self._state.commit(block)
        return True

    def campaigns(self) -> Sequence[Campaign]:
        campaigns: Sequence[Campaign] = import_redis_stores().read_campaigns(self._state)
        return sorted(campaigns, key=lambda campaign: campaign.seen)


@contextmanager
def open_visitor_store(settings: Settings) -> Iterator[VisitorStore]:
    if settings.state.url:
        # A gate logs a lost connection; a command reports it once, as an error.
        logging.getLogger("hedgerow.state").addHandler(logging.NullHandler())
        with closing(import_redis_stores().build_redis(settings, patience=5.0)) as state:
            if state.away:
                raise StoreError(f"Redis cannot be reached, see state.url: {state.why}")
            yield _RedisVisitors(settings, state)
        return
    if not settings.state.durable:
        raise StoreError("state.durable is off: nothing is stored that could be shown")
    path = state_path(settings)
    if not path.parent.is_dir():
        raise StoreError(f"there is no {path}; name the settings of the site with --config")
    with closing(connect(path)) as connection:
        yield _SqliteVisitors(connection)

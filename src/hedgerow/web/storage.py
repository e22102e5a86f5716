"""
From settings to everything that a site remembers in, for each form in which it runs.

One process keeps its state in memory. Gates on several machines share a Redis (`storage_redis`), each of them a process
or several. Several workers of a machine share one file (`worker_stores`), and a process
beside them (`side_stores`) does for all of them what must be done once: it watches, keeps the journal, carries out
orders, and tells the operator what all have counted.
"""

from __future__ import annotations

import socket
import time
from contextlib import closing
from pathlib import Path
from types import ModuleType

from hedgerow.core.ledger import Ledger, NoLedger
from hedgerow.errors import StoreError
from hedgerow.settings import Settings
from hedgerow.state.lmdb.clearance_usage import LmdbClearanceUsage
from hedgerow.state.lmdb.held_visits import LmdbHeldVisits
from hedgerow.state.lmdb.revoked_bots import LmdbRevokedBots
from hedgerow.state.lmdb.state import LmdbState, remove_environment
from hedgerow.state.lmdb.worker_metrics import LmdbWorkerMetrics
from hedgerow.state.sqlite.journal import connect, read
from hedgerow.state.store import StateStore
from hedgerow.watch.relay import Relay, send_to
from hedgerow.web.build import (
    build_journal,
    build_ledger,
    build_state,
    build_used_challenges,
    obedient_journal,
    postgresql_parts,
    state_path,
)
from hedgerow.web.build_bots import state_directory
from hedgerow.web.holdings import SiteStores


def build_stores(settings: Settings, *, state: StateStore | None = None, ledger: Ledger | None = None) -> SiteStores:
    """Those of one process. Who brings a state takes care of it."""
    journal = None
    if state is None and settings.state.url:
        stores: SiteStores = redis_parts().build(settings, ledger=build_ledger(settings) if ledger is None else ledger)
        return stores
    if state is None:
        state = build_state(settings)
        journal = build_journal(settings, state)
    # Not `ledger or ...`: a ledger that holds nothing yet may be false.
    return SiteStores(
        state, build_ledger(settings) if ledger is None else ledger, build_used_challenges(settings),
        journal=journal, watches=settings.watch.enabled,
    )  # fmt: skip


def redis_parts() -> ModuleType:
    """What needs the extra `redis`; one line that says so where it is not installed."""
    try:
        from hedgerow.web import storage_redis
    except ModuleNotFoundError as error:
        raise StoreError(f"state.url needs {error.name}: pip install 'hedgerow[redis]'") from None
    return storage_redis


def shared_path(settings: Settings) -> Path:
    """The file that workers share."""
    return state_directory(settings) / "state.lmdb"


def prepare_shared(settings: Settings) -> None:
    """Make the file that workers share anew, with what was remembered before. Starts no thread: workers are forked."""
    for url in {settings.ledger.url, settings.lists.url} - {""}:
        # What is wrong with the tables is told once, and not by every worker again and again.
        postgresql_parts().check(url)
    remove_environment(shared_path(settings))
    with closing(build_lmdb(settings)) as state:
        if settings.state.durable and not settings.state.url:
            with closing(connect(state_path(settings))) as connection:
                state.restore(*read(connection, time.time()))


def build_lmdb(settings: Settings) -> LmdbState:
    return LmdbState(
        shared_path(settings),
        settings.density.windows if settings.density.enabled else (),
        memory=settings.state.memory,
        most_blocks=settings.state.blocks,
        remember=settings.policy.remember,
    )


def worker_stores(settings: Settings, watch: socket.socket) -> SiteStores:
    """
    Those of one worker of several; its visits go out by *watch*.

    Where the state is in Redis, workers are gates like others, and share nothing else than what they have counted.
    """
    state = build_lmdb(settings)
    if settings.state.url:
        stores: SiteStores = redis_parts().build(settings, ledger=build_ledger(settings))
        stores.watches, stores.tallies, stores.pending = False, LmdbWorkerMetrics(state), LmdbHeldVisits(state)
        return stores
    relay = Relay(send_to(watch), queue=settings.watch.queue) if settings.watch.enabled else None
    return SiteStores(
        state, build_ledger(settings), build_used_challenges(settings),
        LmdbClearanceUsage(state), LmdbRevokedBots(state),
        watches=False, relay=relay, tallies=LmdbWorkerMetrics(state), pending=LmdbHeldVisits(state),
    )  # fmt: skip


def side_stores(settings: Settings, intake: socket.socket) -> SiteStores:
    """Those of the process beside the workers, whose visits come in by *intake*."""
    state = build_lmdb(settings)
    if settings.state.url:
        stores: SiteStores = redis_parts().build(settings, ledger=NoLedger())
        stores.tallies = LmdbWorkerMetrics(state)
        return stores
    journal = obedient_journal(settings, state) if settings.state.durable else None
    return SiteStores(
        state, NoLedger(), build_used_challenges(settings), LmdbClearanceUsage(state), LmdbRevokedBots(state),
        journal=journal, watches=settings.watch.enabled, tallies=LmdbWorkerMetrics(state), intake=intake,
    )  # fmt: skip

"""
From settings to the stores of a site, for each form in which it runs.

One process keeps its state in memory. Several workers of one machine share a file (`worker_stores`); the process beside
them (`side_stores`) does once for all of them what must be done once: it runs the watch, keeps the journal, carries out
operators' commands, and adds up what all of them count. Gates on several machines share a Redis (`redis_stores`).
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from hedgerow.challenge.clearance import ClearanceUsage
from hedgerow.challenge.interfaces import UsedChallenges
from hedgerow.core.decision import Block, ScoreUpdate
from hedgerow.core.ledger import Ledger, NoLedger
from hedgerow.core.rate_limit import RateLimit
from hedgerow.errors import StoreError
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.lists.asn import AsnFile
from hedgerow.lists.disk_copy import ListsCopy
from hedgerow.lists.follower import Follower
from hedgerow.lists.model import Lists
from hedgerow.lists.sql_store import ListStore
from hedgerow.lists.sqlite_store import SqliteLists
from hedgerow.markers.token import TokenCodecs
from hedgerow.request.robots_compliance import RevokedBots
from hedgerow.settings import Settings
from hedgerow.state.held_visits import HeldVisits
from hedgerow.state.lmdb.clearance_usage import LmdbClearanceUsage
from hedgerow.state.lmdb.held_visits import LmdbHeldVisits
from hedgerow.state.lmdb.revoked_bots import LmdbRevokedBots
from hedgerow.state.lmdb.state import LmdbState, remove_environment
from hedgerow.state.lmdb.worker_metrics import LmdbWorkerMetrics
from hedgerow.state.memory.held_visits import MemoryHeldVisits
from hedgerow.state.memory.state import MemoryState
from hedgerow.state.memory.used_challenges import MemoryUsedChallenges
from hedgerow.state.sqlite.journal import SqliteJournal, connect, read
from hedgerow.state.sqlite.used_challenges import SqliteUsedChallenges
from hedgerow.state.store import StateStore
from hedgerow.watch.relay import Relay, send_to
from hedgerow.web.key_file import load_keys, read_keys
from hedgerow.web.paths import key_path, ledger_path, shared_path, state_directory, state_path

if TYPE_CHECKING:
    from hedgerow.web.redis_stores import SiteWatch


@dataclass(frozen=True)
class SiteStores:
    """
    The stores of one process.

    *runs_watch*: the watch runs in this process, and visits of others come in by *visit_socket*. Otherwise they go to
    it through *relay*, if there is one. *shared_watch* divides its work with the watches of other processes.
    *held_visits* are answers that wait for a front server, *worker_metrics* what each worker has counted.
    """

    state: StateStore
    ledger: Ledger
    used_challenges: UsedChallenges
    clearance_usage: ClearanceUsage = field(default_factory=ClearanceUsage)
    revoked_bots: RevokedBots = field(default_factory=dict[str, float])
    journal: SqliteJournal | None = None
    runs_watch: bool = True
    relay: Relay | None = None
    worker_metrics: LmdbWorkerMetrics | None = None
    visit_socket: socket.socket | None = None
    shared_watch: SiteWatch | None = None
    held_visits: HeldVisits = field(default_factory=MemoryHeldVisits)


# ---- One store each


def import_postgresql() -> ModuleType:
    """Import what needs the extra `postgresql`."""
    try:
        from hedgerow.ledger import postgresql
    except ModuleNotFoundError as error:
        raise StoreError(f"PostgreSQL needs {error.name}: pip install 'hedgerow[postgresql]'") from None
    return postgresql


def import_redis_stores() -> ModuleType:
    """Import what needs the extra `redis`."""
    try:
        from hedgerow.web import redis_stores
    except ModuleNotFoundError as error:
        raise StoreError(f"state.url needs {error.name}: pip install 'hedgerow[redis]'") from None
    return redis_stores


def build_token_codecs(settings: Settings) -> TokenCodecs:
    """Use the keys in `HEDGEROW_KEYS`, else those of the key file, which is made at the first start."""
    if text := os.environ.get("HEDGEROW_KEYS"):
        return TokenCodecs(read_keys(text, "HEDGEROW_KEYS"))
    directory = state_directory(settings)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the directory {directory}: {error.strerror}; set another") from None
    return TokenCodecs(load_keys(key_path(settings), time.time()))


def build_ledger(settings: Settings) -> Ledger:
    own = settings.ledger
    if not own.enabled:
        return NoLedger()
    if own.url:
        ledger: Ledger = import_postgresql().PostgresLedger(
            own.url, state_directory(settings) / "ledger.spool",
            keep_days=own.keep_days, queue=own.queue, spool=own.spool,
        )  # fmt: skip
        return ledger
    return SqliteLedger(ledger_path(settings), keep_days=own.keep_days, queue=own.queue)


def build_used_challenges(settings: Settings) -> UsedChallenges:
    """Use a file that all processes share, unless the settings ask for memory."""
    challenge = settings.challenge
    if challenge.store == "memory":
        return MemoryUsedChallenges(challenge.spent)
    return SqliteUsedChallenges(state_directory(settings) / "challenges.sqlite", challenge.spent)


def build_list_store(settings: Settings) -> ListStore:
    if settings.lists.url:
        import_postgresql()
        from hedgerow.lists.postgresql_store import PostgresLists

        return PostgresLists(settings.lists.url)
    return SqliteLists(Path(settings.lists.path or state_directory(settings) / "lists.sqlite").expanduser())


def build_list_follower(settings: Settings) -> Follower | None:
    """Build what keeps the lists as their store has them, not yet started; None if lists are switched off."""
    lists = settings.lists
    if not lists.enabled:
        return None
    asn = AsnFile(Path(lists.asn_file).expanduser()) if lists.asn_file else None
    copy = ListsCopy(state_directory(settings) / "lists-copy.jsonl", lists.url) if lists.url else None
    return Follower(build_list_store(settings), Lists(), asn=asn, copy=copy)


def rate_limits(settings: Settings) -> tuple[RateLimit, ...]:
    """Return what the state must count for."""
    return tuple(settings.density.windows) if settings.density.enabled else ()


def build_state(settings: Settings) -> MemoryState:
    return MemoryState(
        rate_limits(settings),
        memory=settings.state.memory,
        most_blocks=settings.state.blocks,
        remember=settings.policy.remember,
    )


def build_lmdb(settings: Settings) -> LmdbState:
    return LmdbState(
        shared_path(settings),
        rate_limits(settings),
        memory=settings.state.memory,
        most_blocks=settings.state.blocks,
        remember=settings.policy.remember,
    )


def open_journal(settings: Settings, state: StateStore) -> SqliteJournal:
    """Open the journal, which keeps what changes in *state* and carries out operators' commands there."""
    journal = SqliteJournal(state_path(settings))
    state.keep_in(journal)

    def obey(key: str, command: Block | ScoreUpdate | None) -> None:
        if isinstance(command, ScoreUpdate):
            state.update_score(command)
        elif command is not None:
            state.commit(command)
        else:
            state.forgive(key)

    journal.obey = obey
    return journal


# ---- All stores of a process


def build_stores(settings: Settings, *, state: StateStore | None = None, ledger: Ledger | None = None) -> SiteStores:
    """Build the stores of a site in one process. A *state* that is given is neither restored nor closed."""
    # Not `ledger or ...`: a ledger that holds nothing yet may be false.
    if ledger is None:
        ledger = build_ledger(settings)
    journal = None
    if state is None and settings.state.url:
        stores: SiteStores = import_redis_stores().build_redis_stores(settings, ledger=ledger)
        return stores
    if state is None:
        state = build_state(settings)
        if settings.state.durable:
            journal = open_journal(settings, state)
            state.restore(*journal.read(time.time()))
    return SiteStores(
        state, ledger, build_used_challenges(settings), journal=journal, runs_watch=settings.watch.enabled
    )


def prepare_shared(settings: Settings) -> None:
    """Make the file that workers share, with what was remembered before. Starts no thread, for workers are forked."""
    for url in {settings.ledger.url, settings.lists.url} - {""}:
        # Faults of the tables are reported once, and not by every worker again and again.
        import_postgresql().check(url)
    remove_environment(shared_path(settings))
    with closing(build_lmdb(settings)) as state:
        if settings.state.durable and not settings.state.url:
            with closing(connect(state_path(settings))) as connection:
                state.restore(*read(connection, time.time()))


def worker_stores(settings: Settings, watch: socket.socket) -> SiteStores:
    """
    Build the stores of one worker of several, which sends its visits by the socket *watch*.

    If the state is in Redis, workers are gates like any other, and share only their metrics and held visits.
    """
    state = build_lmdb(settings)
    metrics, held = LmdbWorkerMetrics(state), LmdbHeldVisits(state)
    if settings.state.url:
        stores: SiteStores = import_redis_stores().build_redis_stores(settings, ledger=build_ledger(settings))
        return replace(stores, runs_watch=False, worker_metrics=metrics, held_visits=held)
    relay = Relay(send_to(watch), queue=settings.watch.queue) if settings.watch.enabled else None
    return SiteStores(
        state, build_ledger(settings), build_used_challenges(settings),
        LmdbClearanceUsage(state), LmdbRevokedBots(state),
        runs_watch=False, relay=relay, worker_metrics=metrics, held_visits=held,
    )  # fmt: skip


def side_stores(settings: Settings, visit_socket: socket.socket) -> SiteStores:
    """Build the stores of the process beside the workers, whose visits come in by *visit_socket*."""
    state = build_lmdb(settings)
    metrics = LmdbWorkerMetrics(state)
    if settings.state.url:
        stores: SiteStores = import_redis_stores().build_redis_stores(settings, ledger=NoLedger())
        return replace(stores, worker_metrics=metrics)
    journal = open_journal(settings, state) if settings.state.durable else None
    return SiteStores(
        state, NoLedger(), build_used_challenges(settings), LmdbClearanceUsage(state), LmdbRevokedBots(state),
        journal=journal, runs_watch=settings.watch.enabled, worker_metrics=metrics, visit_socket=visit_socket,
    )  # fmt: skip

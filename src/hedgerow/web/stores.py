"""
From settings to the stores of a site, for each form in which it runs.

A single process keeps its state in memory. Workers on one machine share a file (`worker_stores`). A side process
(`side_stores`) does what must be done once for all workers: it runs the watch, keeps the journal, carries out
operators' commands, and adds up the workers' metrics. Gates on several machines share a Redis (`redis_stores`).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from hedgerow.challenge.clearance import ClearanceUsage
from hedgerow.challenge.interfaces import UsedChallenges
from hedgerow.core.decision import Block, ScoreUpdate
from hedgerow.core.ledger import Ledger, NoLedger
from hedgerow.core.rate_limit import RateLimit
from hedgerow.detectors.rate_limit import counted_windows
from hedgerow.errors import StoreError
from hedgerow.file_owner import make_directory
from hedgerow.ledger.pseudonyms import Hide, address_hider
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.lists.follower import Follower, ListsCopy, asn_file, country_file
from hedgerow.lists.model import Lists, SiteLists
from hedgerow.lists.sql_store import ListStore
from hedgerow.lists.sqlite_store import SqliteLists
from hedgerow.markers.token import TokenCodecs
from hedgerow.request.robots_compliance import RevokedBots
from hedgerow.settings import Settings
from hedgerow.state.held_visits import HeldVisits, MemoryHeldVisits
from hedgerow.state.lmdb.shared_stores import LmdbClearanceUsage, LmdbHeldVisits, LmdbRevokedBots, LmdbWorkerMetrics
from hedgerow.state.lmdb.state import LmdbState, remove_environment
from hedgerow.state.memory.state import MemoryState
from hedgerow.state.sqlite.journal import SqliteJournal, connect, read
from hedgerow.state.store import StateStore
from hedgerow.state.used_challenges import MemoryUsedChallenges, SqliteUsedChallenges
from hedgerow.watch.relay import Relay, send_to
from hedgerow.web.key_file import load_keys, read_keys
from hedgerow.web.paths import (
    key_path,
    ledger_path,
    privacy_key_path,
    shared_path,
    state_directory,
    state_path,
    temporary_file,
)

if TYPE_CHECKING:
    from hedgerow.web.redis_stores import SiteWatch


@dataclass(frozen=True)
class SiteStores:
    """
    The stores of one process.

    With *runs_watch* the watch runs in this process, and receives visits of other processes by *visit_socket*.
    Otherwise *relay* sends visits to it, if there is one. *shared_watch* divides its work with the watches of other
    processes. *held_visits* are responses that wait for a front server.
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


def _import(module: str, user: str, extra: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise StoreError(f"{user} needs {error.name}: pip install 'hedgerow[{extra}]'") from None


def import_postgresql() -> ModuleType:
    return _import("hedgerow.ledger.postgresql", "PostgreSQL", "postgresql")


def import_redis_stores() -> ModuleType:
    return _import("hedgerow.web.redis_stores", "state.url", "redis")


def build_token_codecs(settings: Settings) -> TokenCodecs:
    """Use the keys in `HEDGEROW_KEYS`, else those of the key file, which is created at the first start."""
    if text := os.environ.get("HEDGEROW_KEYS"):
        return TokenCodecs(read_keys(text, "HEDGEROW_KEYS"))
    directory = state_directory(settings)
    try:
        make_directory(directory)
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
            keep_days=own.keep_days, queue=own.queue, spool=own.spool, hide=build_hide(settings),
        )  # fmt: skip
        return ledger
    return SqliteLedger(ledger_path(settings), keep_days=own.keep_days, queue=own.queue, hide=build_hide(settings))


def build_hide(settings: Settings) -> Hide | None:
    """Return what hides addresses in the ledger. The key of hashes is in a file of its own, made on first use."""
    privacy = settings.privacy
    if privacy.addresses != "hashed" or privacy.key:
        return address_hider(privacy.addresses, privacy.key)
    path = privacy_key_path(settings)
    try:
        make_directory(path.parent)
        with (
            temporary_file(path, f"{secrets.token_hex(32)}\n".encode()) as temporary,
            contextlib.suppress(FileExistsError),
        ):
            # Unlike a rename, a link never replaces the key of another process.
            os.link(temporary, path)
        key = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"cannot read or make {path}, the key of hashed addresses: {error}") from None
    return address_hider("hashed", key)


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


def build_list_follower(settings: Settings, common: Lists | None = None) -> Follower | None:
    """
    Build what updates the lists from their store, not yet started; None if lists are switched off.

    *common* are the lists of all sites, which count beside those of one of them.
    """
    lists = settings.lists
    if not lists.enabled:
        return None
    asn = asn_file(Path(lists.asn_file).expanduser()) if lists.asn_file else None
    countries = country_file(Path(lists.country_file).expanduser()) if lists.country_file else None
    copy = ListsCopy(state_directory(settings) / "lists-copy.jsonl", lists.url) if lists.url else None
    own = Lists(networks=lists.networks) if common is None else SiteLists(common, networks=lists.networks)
    return Follower(build_list_store(settings), own, asn=asn, countries=countries, copy=copy)


def rate_limits(settings: Settings) -> tuple[RateLimit, ...]:
    """Return the limits that the state must count for."""
    return counted_windows(settings.density, settings.path)


def state_limits(settings: Settings) -> dict[str, Any]:
    """Return the options that all states have."""
    state = settings.state
    return {"memory": state.memory, "most_blocks": state.blocks, "remember": settings.policy.remember}


def build_state(settings: Settings) -> MemoryState:
    return MemoryState(rate_limits(settings), **state_limits(settings))


def build_lmdb(settings: Settings) -> LmdbState:
    return LmdbState(shared_path(settings), rate_limits(settings), **state_limits(settings))


def open_journal(settings: Settings, state: StateStore) -> SqliteJournal:
    """Open the journal, which stores the changes of *state* and carries out operators' commands there."""
    journal = SqliteJournal(state_path(settings))
    state.use_journal(journal)

    def obey(key: str, command: Block | ScoreUpdate | None) -> None:
        if isinstance(command, ScoreUpdate):
            state.update_score(command)
        elif command is not None:
            state.commit(command)
        else:
            state.forgive(key)

    journal.on_command = obey
    return journal


# ---- All stores of a process


def build_stores(settings: Settings, *, state: StateStore | None = None, ledger: Ledger | None = None) -> SiteStores:
    """Build the stores of a site in one process. A given *state* is neither restored nor closed."""
    # Not `ledger or ...`: an empty ledger may be false.
    ledger = build_ledger(settings) if ledger is None else ledger
    journal = None
    if state is None and settings.state.url:
        return _redis_stores(settings, ledger)
    if state is None:
        state = build_state(settings)
        if settings.state.durable:
            journal = open_journal(settings, state)
            state.restore(*journal.read(time.time()))
    return SiteStores(
        state, ledger, build_used_challenges(settings), journal=journal, runs_watch=settings.watch.enabled
    )


def _redis_stores(settings: Settings, ledger: Ledger) -> SiteStores:
    stores: SiteStores = import_redis_stores().build_redis_stores(settings, ledger=ledger)
    return stores


def prepare_shared(settings: Settings) -> None:
    """
    Create the files that workers share, with the state of the last run. Starts no thread: workers are forks.

    Both files are needed: a reload may begin or end observing.
    """
    for url in {settings.ledger.url, settings.lists.url} - {""}:
        # Faults of the tables are reported once, and not by every worker.
        import_postgresql().check(url)
    for observe in (False, True):
        chosen = msgspec.structs.replace(settings, observe=observe)
        remove_environment(shared_path(chosen))
        with closing(build_lmdb(chosen)) as state:
            if settings.state.durable and not settings.state.url and state_path(chosen).is_file():
                with closing(connect(state_path(chosen))) as connection:
                    state.restore(*read(connection, time.time()))


def worker_stores(settings: Settings, watch: socket.socket, ledger: Ledger | None = None) -> SiteStores:
    """
    Build the stores of one of several workers, which sends its visits by the socket *watch*.

    If the state is in Redis, each worker is a gate of its own. Workers then share only their metrics and held visits.
    """
    state = build_lmdb(settings)
    metrics, held = LmdbWorkerMetrics(state), LmdbHeldVisits(state)
    ledger = build_ledger(settings) if ledger is None else ledger
    if settings.state.url:
        stores = _redis_stores(settings, ledger)
        return replace(stores, runs_watch=False, worker_metrics=metrics, held_visits=held)
    relay = Relay(send_to(watch), queue=settings.watch.queue) if settings.watch.enabled else None
    return SiteStores(
        state, ledger, build_used_challenges(settings),
        LmdbClearanceUsage(state), LmdbRevokedBots(state),
        runs_watch=False, relay=relay, worker_metrics=metrics, held_visits=held,
    )  # fmt: skip


def side_stores(settings: Settings, visit_socket: socket.socket) -> SiteStores:
    """Build the stores of the side process, which receives the workers' visits by *visit_socket*."""
    state = build_lmdb(settings)
    metrics = LmdbWorkerMetrics(state)
    if settings.state.url:
        return replace(_redis_stores(settings, NoLedger()), worker_metrics=metrics)
    journal = open_journal(settings, state) if settings.state.durable else None
    return SiteStores(
        state, NoLedger(), build_used_challenges(settings), LmdbClearanceUsage(state), LmdbRevokedBots(state),
        journal=journal, runs_watch=settings.watch.enabled, worker_metrics=metrics, visit_socket=visit_socket,
    )  # fmt: skip

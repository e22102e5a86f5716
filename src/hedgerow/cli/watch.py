"""`hedgerow watch`: the watch as a separate process, which follows the ledger or the Redis streams."""

from __future__ import annotations

import logging
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from threading import Event, Thread

from hedgerow.cli.main import Config
from hedgerow.core.decision import ScoreUpdate
from hedgerow.errors import HedgerowError, StoreError
from hedgerow.logs.ledger_rows import LedgerFollower
from hedgerow.settings import Settings, load_settings
from hedgerow.state.sqlite.journal import SqliteJournal, connect, order_changes
from hedgerow.watch.session_store import SqliteSessions
from hedgerow.watch.watch import Watch
from hedgerow.web.gate import build_policy
from hedgerow.web.ledger_access import has_ledger, open_ledger
from hedgerow.web.log_format import log_to_stderr
from hedgerow.web.paths import ledger_path, state_path
from hedgerow.web.stores import import_redis_stores
from hedgerow.web.watch import build_panels, build_sessions, build_watch, configure_watch

log = logging.getLogger("hedgerow")

Reread = Callable[[], Settings | None]
"""Returns new settings after a SIGHUP, otherwise None."""

_PAUSE = 0.1
_RETRY_AFTER = 1.0
_SAVE_EVERY = 10.0
_FAR_BEHIND = 50_000


def run(config: Config = None) -> None:
    settings = load_settings(config)
    log_to_stderr(settings.logging)
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    reload_requested = Event()
    signal.signal(signal.SIGHUP, lambda *_: reload_requested.set())

    def reread() -> Settings | None:
        if not reload_requested.is_set():
            return None
        reload_requested.clear()
        return load_settings(config)

    if settings.state.url:
        follow_streams(settings, stop, reread)
        return
    if settings.watch.enabled:
        raise HedgerowError("the gate runs the watch itself; set enabled = false in [watch] to run it here")
    if settings.privacy.addresses != "full":
        raise HedgerowError("the ledger has no full addresses, by which gates know visitors: see [privacy]")
    sessions = build_sessions(settings)
    if sessions is None or not settings.ledger.enabled:
        raise HedgerowError("a separate watch needs the ledger and state.durable to communicate with the gates")
    with closing(sessions), closing(SqliteJournal(state_path(settings))) as journal:
        follow_ledger(settings, sessions, journal, stop, reread)


def follow_streams(settings: Settings, stop: Event, reread: Reread = lambda: None) -> None:
    """Process the Redis streams together with all other watches of the site, until *stop* is set."""
    parts = import_redis_stores()
    with closing(parts.build_redis(settings)) as state:
        watch = parts.SiteWatch(settings, state)
        log.info("watching as %s", watch.name)
        thread = Thread(target=watch.run, args=(stop,), name="hedgerow-watch")
        thread.start()
        while thread.is_alive() and not stop.wait(_PAUSE):
            _reload(watch.reload, reread)
        thread.join()


def follow_ledger(
    settings: Settings, sessions: SqliteSessions, journal: SqliteJournal, stop: Event, reread: Reread = lambda: None
) -> None:
    """Follow the ledger from the end of the stored sessions."""
    while not has_ledger(settings):
        if stop.wait(_PAUSE):
            return
    updates: list[ScoreUpdate] = []
    watch = build_watch(settings, build_policy(settings), updates.append)
    watch.note = journal.note_campaign
    watch.record_changes()
    watch.restore(sessions.read(), journal.campaigns(time.time()))
    saved_at, is_late = time.monotonic(), False
    with closing(open_ledger(settings)) as ledger, closing(connect(state_path(settings))) as orders:
        name = ledger.name if settings.ledger.url else str(ledger_path(settings).absolute())
        follower = LedgerFollower(ledger, sessions.position(name))
        log.info("following the ledger %s from row %d on", ledger.name, follower.after)
        unavailable = False

        def use(settings: Settings) -> None:
            configure_watch(watch, settings, build_policy(settings), build_panels(settings))
            log.info("reloaded the settings and the bundles")

        while not stop.is_set():
            _reload(use, reread)
            try:
                visits, behind = follower.read(), follower.behind
            except StoreError as error:
                if not unavailable:
                    log.warning("%s; will continue when it responds", error)
                unavailable = True
                stop.wait(_RETRY_AFTER)
                continue
            unavailable = False
            for visit, decision in visits:
                watch.see(visit, decision)
            if updates:
                order_changes(orders, updates)
                updates.clear()
            if time.monotonic() - saved_at > _SAVE_EVERY:
                _save(watch, sessions, (name, follower.after))
                saved_at = time.monotonic()
                if (behind > _FAR_BEHIND) is not is_late:
                    is_late = not is_late
                    log.warning("%d visits behind" if is_late else "no longer behind: %d visits", behind)
            if not visits:
                stop.wait(_PAUSE)
        _save(watch, sessions, (name, follower.after))


def _reload(use: Callable[[Settings], None], reread: Reread) -> None:
    """Apply new settings, if there are any and they are valid."""
    try:
        if (settings := reread()) is not None:
            use(settings)
    except HedgerowError as error:
        log.error("not reloaded: %s", error)  # noqa: TRY400 - a fault of the operator


def _save(watch: Watch, sessions: SqliteSessions, position: tuple[str, int]) -> None:
    """Store sessions and the position they include in one step, so that after a crash no visit is lost or repeated."""
    watch.note_campaigns()
    try:
        sessions.write(watch.changed(), watch.records(), position)
    except sqlite3.Error as error:
        log.error("cannot store pending sessions: %s", error)  # noqa: TRY400

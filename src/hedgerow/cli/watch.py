"""`hedgerow watch`: the watch as a process of its own, which reads the ledger along."""

from __future__ import annotations

import logging
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from hedgerow.cli.ledger_access import has_ledger, open_ledger
from hedgerow.core.decision import ScoreUpdate
from hedgerow.errors import HedgerowError, StoreError
from hedgerow.logs.ledger_follower import LedgerFollower
from hedgerow.settings import Settings, load_settings
from hedgerow.state.sqlite.journal import SqliteJournal, connect, order_changes
from hedgerow.watch.session_store import SqliteSessions
from hedgerow.watch.watch import Watch
from hedgerow.web.gate import build_policy
from hedgerow.web.paths import ledger_path, state_path
from hedgerow.web.stores import import_redis_stores
from hedgerow.web.watch import build_panels, build_sessions, build_watch, configure_watch

log = logging.getLogger("hedgerow")

_PAUSE = 0.1
_AGAIN = 1.0
_SAVE_EVERY = 10.0
_FAR_BEHIND = 50_000


def run(*, config: Path | None) -> None:
    """Watch until told to stop."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    settings = load_settings(config)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    again = threading.Event()
    signal.signal(signal.SIGHUP, lambda *_: again.set())

    def reread() -> Settings | None:
        if not again.is_set():
            return None
        again.clear()
        return load_settings(config)

    if settings.state.url:
        share_work(settings, stop, reread)
        return
    if settings.watch.enabled:
        raise HedgerowError("the gate watches by itself; set enabled = false in [watch] to have it done here")
    sessions = build_sessions(settings)
    if sessions is None or not settings.ledger.enabled:
        raise HedgerowError("a watch of its own needs the ledger and state.durable: it has no other way to the gates")
    with closing(sessions), closing(SqliteJournal(state_path(settings))) as journal:
        look_along(settings, sessions, journal, stop, reread)


def share_work(settings: Settings, stop: threading.Event, reread: Callable[[], Settings | None] = lambda: None) -> None:
    """Watch what gates put into Redis, with all other watches of the site, until *stop* is set; *reread* as below."""
    parts = import_redis_stores()
    with closing(parts.build_redis(settings)) as state:
        watch = parts.SiteWatch(settings, state)
        log.info("watching as %s", watch.name)
        working = threading.Thread(target=watch.run, args=(stop,), name="hedgerow-watch")
        working.start()
        while working.is_alive() and not stop.wait(_PAUSE):
            _reload(watch.reload, reread)
        working.join()


def look_along(
    settings: Settings,
    sessions: SqliteSessions,
    journal: SqliteJournal,
    stop: threading.Event,
    reread: Callable[[], Settings | None] = lambda: None,
) -> None:
    """
    Read the ledger along, from where the sessions that were kept end, until *stop* is set.

    *reread* gives other settings, where there are any; with them the bundles are taken as they are then.
    """
    while not has_ledger(settings):
        if stop.wait(_PAUSE):
            return
    found: list[ScoreUpdate] = []
    watch = build_watch(settings, build_policy(settings), found.append)
    watch.note = journal.note_campaign
    watch.keep()
    watch.restore(sessions.read(), journal.campaigns(time.time()))
    saved_at, late = time.monotonic(), False
    with closing(open_ledger(settings)) as ledger, closing(connect(state_path(settings))) as orders:
        name = ledger.name if settings.ledger.url else str(ledger_path(settings).absolute())
        along = LedgerFollower(ledger, sessions.position(name))
        log.info("watching along the ledger %s, from row %d on", ledger.name, along.after)
        away = False

        def use(settings: Settings) -> None:
            configure_watch(watch, settings, build_policy(settings), build_panels(settings))
            log.info("reloaded the settings and the bundles")

        while not stop.is_set():
            _reload(use, reread)
            try:
                visits, behind = along.read(), along.behind
            except StoreError as error:
                if not away:
                    log.warning("%s; goes on when it answers", error)
                away = True
                stop.wait(_AGAIN)
                continue
            away = False
            for visit, decision in visits:
                watch.see(visit, decision)
            if found:
                order_changes(orders, found)
                found.clear()
            if time.monotonic() - saved_at > _SAVE_EVERY:
                _save(watch, sessions, (name, along.after))
                saved_at = time.monotonic()
                if (behind > _FAR_BEHIND) is not late:
                    late = not late
                    log.warning("%d visits behind" if late else "no longer behind: %d visits", behind)
            if not visits:
                stop.wait(_PAUSE)
        _save(watch, sessions, (name, along.after))


def _reload(use: Callable[[Settings], None], reread: Callable[[], Settings | None]) -> None:
    """Go on under other settings, where there are any and they are right."""
    try:
        if (settings := reread()) is not None:
            use(settings)
    except HedgerowError as error:
        log.error("not reloaded: %s", error)  # noqa: TRY400 - the fault is the operator's, not ours


def _save(watch: Watch, sessions: SqliteSessions, position: tuple[str, int]) -> None:
    """Sessions and how far they go, in one step: what is read again after a crash is what they lack."""
    watch.note_campaigns()
    try:
        sessions.write(watch.changed(), watch.records(), position)
    except sqlite3.Error as error:
        log.error("pending sessions cannot be written: %s", error)  # noqa: TRY400

"""
The watch analyses visits off the request path, in order for each visitor, and updates scores in the state.

`Watch` finds campaigns of visitors that share links, and judges the order in which a visitor follows links. It asks no
clock. `WatchThread` runs it in a background thread: a request only puts its visit into a queue. When the queue fills
up, the thread skips some visitors entirely until there is room again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Literal, Protocol

from hedgerow.core.decision import Campaign, Decision, Identity, ScoreUpdate
from hedgerow.core.visit import Visit
from hedgerow.policy.decision_policy import DecisionPolicy
from hedgerow.watch.link_sharing import LinkSharing
from hedgerow.watch.models.panel import Panel, PanelRecord
from hedgerow.watch.sessions.lru import forget_oldest
from hedgerow.watch.sessions.path import PREFIXES, PathSession, step_of
from hedgerow.watch.sessions.pending import PendingSession
from hedgerow.watch.sessions.window import SessionWindow, access_of
from hedgerow.watch.snapshot import SnapshotChanges, WatchSnapshot

log = logging.getLogger(__name__)

Response = Literal["challenge", "record"]
"""What a recognised visitor gets: a challenge, or a note in its score that weighs nothing."""

_MOST_MISSED = 100_000
_AT_ONCE = 8
_MOST_AT_ONCE = 16
_PAUSE = 0.05
_IDLE = 10.0
_BREATH = 0.00005
_SAVE_EVERY = 30.0
_LEAST_STEPS = 3
_MOST_SAVED = 5_000
_SAVED_AT_ONCE = 200


class Sessions(Protocol):
    """Where pending sessions survive a restart."""

    def read(self) -> WatchSnapshot: ...

    def write(self, changes: SnapshotChanges, records: Sequence[PanelRecord] = ()) -> None: ...

    def close(self) -> None: ...


class Watch:
    """
    Analyses visits. *update_score* changes a score in the state, *note* stores a campaign.

    *paths* judges a session at 10, 20, ... 60 steps; *windows* judges a window at 27 visits and after each further 27.
    Without both there are no sessions. At most *most_sessions* are pending. Not thread-safe.
    """

    def __init__(
        self,
        policy: DecisionPolicy,
        update_score: Callable[[ScoreUpdate], None],
        *,
        sharing: LinkSharing | None = None,
        paths: Panel | None = None,
        windows: Panel | None = None,
        on_campaign: Response = "challenge",
        on_path: Response = "record",
        on_window: Response = "record",
        observe: bool = False,
        host: str = "",
        note: Callable[[str, Campaign | None], None] | None = None,
        most_sessions: int = 50_000,
    ) -> None:
        self.policy = policy
        self.update_score = update_score
        self.sharing = sharing
        self.paths = paths
        self.windows = windows
        self.on_campaign: Response = on_campaign
        self.on_path: Response = on_path
        self.on_window: Response = on_window
        self.observe = observe
        self.host = host
        """The site's host, for visits that do not name it, such as those of a log."""
        self.note = note
        self._most = most_sessions
        self._sessions: dict[str, PendingSession] = {}
        self._changed: set[str] | None = None
        self.seen = 0
        """Number of visits analysed."""
        self.found: Counter[str] = Counter()
        """How often sessions and windows were judged to be what, and the number of members of campaigns."""

    @property
    def pending(self) -> int:
        """Number of pending sessions."""
        return len(self._sessions)

    def see(self, visit: Visit, decision: Decision) -> None:
        self.seen += 1
        if visit.bot or not visit.visitor:
            return
        if self.sharing is not None:
            self._see_sharing(self.sharing, visit, decision)
        if (decision.action == "pass" or self.observe) and not visit.tampered:
            self._see_path(visit)

    def miss(self, visitor: str) -> None:
        """Drop the session of a visitor of whom visits were skipped: a session with gaps cannot be judged."""
        if self._sessions.pop(visitor, None) is not None and self._changed is not None:
            self._changed.add(visitor)

    def keep(self) -> None:
        """Track changes from now on, for `changed`."""
        if self._changed is None:
            self._changed = set()
        if self.sharing is not None:
            self.sharing.keep()

    def campaigns(self) -> Sequence[Campaign]:
        return self.sharing.campaigns() if self.sharing is not None else ()

    def note_campaigns(self) -> None:
        """Store the current state of all campaigns."""
        if self.note is not None:
            for campaign in self.campaigns():
                self.note(campaign.id, campaign)

    @property
    def panels(self) -> Sequence[Panel]:
        return [panel for panel in (self.paths, self.windows) if panel is not None]

    def records(self) -> Sequence[PanelRecord]:
        return [panel.record for panel in self.panels]

    def restore(self, kept: WatchSnapshot, campaigns: Sequence[Campaign] = ()) -> None:
        """Restore what was pending before a restart."""
        for visitor, session in kept.sessions[-self._most :]:
            pending = PendingSession.from_bytes(session)
            if pending is not None:
                self._sessions[visitor] = pending
        for panel in self.panels:
            for record in kept.records:
                panel.take(record)
        if self.sharing is not None:
            self.sharing.restore(campaigns)
            self.sharing.restore_ties(kept.ties)

    def forget(self, whose: Callable[[str], bool]) -> None:
        """Drop the sessions of these visitors: another watch takes them over."""
        for visitor in [name for name in self._sessions if whose(name)]:
            del self._sessions[visitor]
            if self._changed is not None:
                self._changed.discard(visitor)

    def holds(self, visitor: str) -> bool:
        return visitor in self._sessions

    def changed(self, most: int | None = None, *, least: int = _LEAST_STEPS) -> SnapshotChanges:
        """
        Return what has changed since the last call, at most *most* of each kind.

        A session is None if it is gone, or has fewer than *least* steps so far.
        """
        if self._changed is None:
            return SnapshotChanges({}, {})
        names = list(islice(self._changed, most))
        self._changed.difference_update(names)
        changed: dict[str, tuple[float, bytes] | None] = {}
        for name in names:
            session = self._sessions.get(name)
            worth = session is not None and session.size >= least
            changed[name] = (session.latest, session.to_bytes()) if worth and session is not None else None
        if self.sharing is None:
            return SnapshotChanges(changed, {})
        # A reload may have switched it on since.
        self.sharing.keep()
        return SnapshotChanges(changed, self.sharing.changed(most))

    def _see_sharing(self, sharing: LinkSharing, visit: Visit, decision: Decision) -> None:
        issuer = next((e.issued_to for e in decision.evidence if e.issued_to), None) if decision.evidence else None
        found = sharing.see(visit, issuer)
        if found is None:
            return
        campaign = found.campaign
        self.found["campaign"] += len(found.joined)
        log.info("campaign %s: %s", campaign.id, campaign.text)
        if self.note is not None:
            self.note(campaign.id, campaign)
            for gone in found.merged:
                self.note(gone, None)
        for member in found.joined:
            self._tell(member, visit.at, "suspect", "campaign", self.on_campaign)

    def _see_path(self, visit: Visit) -> None:
        paths, windows = self.paths, self.windows
        if paths is None and windows is None:
            return
        step = step_of(visit, self.host)
        if step is None:
            session = self._sessions.get(visit.visitor)
            if session is not None and session.path is not None:
                session.path.note()
            return
        session = self._pending(visit.visitor)
        if paths is not None:
            path = session.path
            if path is None:
                path = session.path = PathSession()
            path.add(*step)
            if path.size in PREFIXES:
                self._judge(paths, path, visit, "path", self.on_path)
        if windows is not None:
            window = session.window
            if window is None:
                window = session.window = SessionWindow()
            window.add(access_of(visit, step, self.host))
            if window.is_due:
                window.fresh = 0
                self._judge(windows, window, visit, "window", self.on_window)

    def _pending(self, visitor: str) -> PendingSession:
        """Return the session of a visitor for changing; the session idle for longest makes room for a new one."""
        changed = self._changed
        session = self._sessions.pop(visitor, None)
        if session is None:
            session = PendingSession(None, None)
            if len(self._sessions) >= self._most:
                gone = forget_oldest(self._sessions)
                if changed is not None:
                    changed.update(gone)
        self._sessions[visitor] = session
        if changed is not None:
            changed.add(visitor)
        return session

    def _judge(
        self, panel: Panel, session: PathSession | SessionWindow, visit: Visit, what: str, response: Response
    ) -> None:
        identity = panel.judge(session, visit.visitor, visit.at)
        self.found[identity if what == "path" else f"{what}-{identity}"] += 1
        if identity != "person":
            self._tell(visit.visitor, visit.at, identity, f"{what}-{identity}", response)

    def _tell(self, visitor: str, at: float, identity: Identity, code: str, response: Response) -> None:
        if response == "challenge":
            self.update_score(self.policy.flag(visitor, at, identity, code))
        else:
            self.update_score(self.policy.annotate(visitor, at, code))


class WatchThread:
    """
    Runs a watch in a background thread; `add` is the gate's `on_decision` callback.

    At most *queue* visits wait. From half of that on, every second visitor is skipped, then three of four, and so on.
    The thread ends when it is idle.
    """

    def __init__(self, watch: Watch, *, queue: int = 10_000, sessions: Sessions | None = None) -> None:
        self.watch = watch
        self._queue = queue
        self._sessions = sessions
        self._waiting: deque[tuple[Visit, Decision]] = deque()
        self._missed: set[str] = set()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = False
        self._saved_at = time.monotonic()
        self._thread: threading.Thread | None = None
        self.left_out = 0
        """Number of visits skipped because the watch fell behind."""
        if sessions is not None:
            watch.keep()
            self._guard(self._restore)

    @property
    def waiting(self) -> int:
        """Number of visits in the queue."""
        return len(self._waiting)

    def add(self, visit: Visit, decision: Decision) -> None:
        """Put a visit into the queue. Never blocks."""
        waiting = len(self._waiting)
        if waiting * 2 >= self._queue and self._is_left_out(visit.visitor, waiting):
            self.left_out += 1
            if len(self._missed) < _MOST_MISSED:
                self._missed.add(visit.visitor)
            return
        self._waiting.append((visit, decision))
        if self._thread is None:
            self._start()
        elif not self._wake.is_set():
            self._wake.set()

    def miss(self, visitor: str) -> None:
        """Note that visits of this visitor were lost."""
        if len(self._missed) < _MOST_MISSED:
            self._missed.add(visitor)

    def _is_left_out(self, visitor: str, waiting: int) -> bool:
        """
        Tell whether to skip a visitor while so many visits wait.

        Half of the visitors are skipped when the queue is half full, all of them when it is full.
        `hash` differs in each process, so nobody can choose a name that is always skipped.
        """
        room = self._queue - waiting
        if room <= 0:
            return True
        share = 2
        while room * share < self._queue:
            share *= 2
        return hash(visitor) % share != 0

    def close(self) -> None:
        """Process the queue, save pending sessions, and stop."""
        self._stop = True
        self._wake.set()
        thread = self._thread
        if thread is not None:
            thread.join()
        while self._waiting:
            self._guard(self._look)
        self._save(None)
        if self._sessions is not None:
            self._sessions.close()
            self._sessions = None

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stop:
                self._thread = threading.Thread(target=self._run, name="hedgerow-watch", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._stop:
            self._wake.clear()
            while self._waiting:
                self._guard(self._look)
                # Yields to threads that answer requests.
                time.sleep(_BREATH)
            if time.monotonic() - self._saved_at > _SAVE_EVERY:
                self._save(_MOST_SAVED)
            # Visits often come in bursts: do not wake up for each of them.
            time.sleep(_PAUSE)
            if not self._waiting and not self._wake.wait(_IDLE):
                self._save(None)
                with self._lock:
                    if not self._waiting:
                        self._thread = None
                        return

    def _look(self) -> None:
        watch, waiting, missed = self.watch, self._waiting, self._missed
        # The longer the queue, the larger the batch: switching threads costs more than analysing a visit.
        at_once = max(_AT_ONCE, min(len(waiting) // _AT_ONCE, _MOST_AT_ONCE))
        for _ in range(min(at_once, len(waiting))):
            visit, decision = waiting.popleft()
            if missed and visit.visitor in missed:
                missed.discard(visit.visitor)
                watch.miss(visit.visitor)
            watch.see(visit, decision)

    def _restore(self) -> None:
        if self._sessions is not None:
            self.watch.restore(self._sessions.read())

    def _save(self, most: int | None) -> None:
        """Save at most *most* changes, a few at a time, so that requests do not wait."""
        self._saved_at = time.monotonic()
        self._guard(self.watch.note_campaigns)
        if self._sessions is not None:
            self._guard(partial(self._sessions.write, SnapshotChanges({}, {}), self.watch.records()))
        while self._sessions is not None and (changed := self.watch.changed(_SAVED_AT_ONCE)):
            self._guard(partial(self._sessions.write, changed))
            if most is not None:
                most -= len(changed)
                if most <= 0:
                    return
                time.sleep(_BREATH)

    def _guard(self, do: Callable[[], None]) -> None:
        """Log any failure and go on: the watch must survive for the next visits."""
        try:
            do()
        except Exception:
            log.exception("the watch has failed at something, and goes on")

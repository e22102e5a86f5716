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
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import partial
from typing import Literal

from hedgerow.core.decision import BEYOND_K2, BRISK, HURRIED, JUDGED_PERSON, Campaign, Decision, Identity, ScoreUpdate
from hedgerow.core.state import ACCOUNT, CLEARANCE
from hedgerow.core.visit import ARRIVAL, BY_PROGRAM, BY_SCRIPT, ELSEWHERE, UNMARKED_SITE, Visit
from hedgerow.policy.decision_policy import DecisionPolicy
from hedgerow.watch.link_sharing import LinkSharing
from hedgerow.watch.models.panel import Panel, PanelRecord
from hedgerow.watch.rotating_addresses import RotatingAddresses
from hedgerow.watch.session_store import PendingSession, SnapshotChanges, SqliteSessions, WatchSnapshot
from hedgerow.watch.sessions.lru import LruDict
from hedgerow.watch.sessions.path import PathLengths, PathSession, Reader, path_sessions, step_of
from hedgerow.watch.sessions.window import SessionWindow, WindowLengths, access_of, session_windows

log = logging.getLogger(__name__)

DOUBTFUL = "-doubtful"
"""The end of codes for a judgement below the threshold, which only adds to the score: `path-doubtful`."""
WITHOUT_LINKS = "path-without-links"
"""The code of a visitor beyond the pages of one clearance that hardly uses links, although they are marked."""

Response = Literal["challenge", "record"]
"""What a recognised visitor gets: a challenge, or a note in its score that weighs nothing."""

_SHARE_WITHOUT_CLEARANCE = 0.6
"""What one judgement weighs, as a share of what makes a suspect, for a visitor without a clearance."""
_SHARE_BELOW = 0.3
"""What a judgement just below the threshold weighs. It grows with the square of the nearness to the threshold."""
_MIN_NEARNESS = 0.3
"""The nearness to the threshold below which a judgement weighs nothing: most people never come that near."""
_MAX_MISSED = 100_000
_MIN_BATCH = 8
_MAX_BATCH = 16
_PAUSE = 0.05
_IDLE = 10.0
_YIELD = 0.00005
_SAVE_EVERY = 30.0
_MIN_STEPS = 3
_MAX_SAVED = 5_000
_SAVE_BATCH = 200


@dataclass(eq=False)
class Watch:
    """
    Analyses visits. *update_score* changes a score in the state, *note* stores a campaign.

    *paths* judges a session at 10, 20, ... 60 steps; *windows* judges a window at 27 visits and after each further 27,
    unless `set_lengths` says otherwise. Without both there are no sessions. A whole session of a person is noted in the
    score. At most *max_sessions* are pending. Not thread-safe.
    """

    policy: DecisionPolicy
    update_score: Callable[[ScoreUpdate], None]
    _: KW_ONLY
    sharing: LinkSharing | None = None
    paths: Panel | None = None
    windows: Panel | None = None
    on_campaign: Response = "challenge"
    on_path: Response = "challenge"
    on_window: Response = "challenge"
    observe: bool = False
    """Whether visits from a time in which the site only observed count. Otherwise they must have no consequences."""
    host: str = ""
    """The site's host, for visits that do not name it, such as those of a log."""
    note: Callable[[str, Campaign | None], None] | None = None
    is_marked: Callable[[str], bool] | None = None
    """Tells whether links to a target are marked: only then does a missing mark mean anything. None: none is."""
    max_sessions: InitVar[int] = 50_000
    seen: int = 0
    """Number of visits analysed."""
    found: Counter[str] = field(default_factory=Counter)
    """How often sessions and windows were judged to be what, and the number of members of campaigns."""

    def __post_init__(self, max_sessions: int) -> None:
        self._sessions: LruDict[str, PendingSession] = LruDict(max_sessions)
        self.rotating = RotatingAddresses()
        self._path_class, self._window_class = PathSession, SessionWindow

    def set_lengths(self, paths: PathLengths, window: WindowLengths) -> None:
        """Set the lengths of sessions. Pending sessions of other lengths are dropped."""
        classes = path_sessions(paths), session_windows(window)
        if classes != (self._path_class, self._window_class):
            self._path_class, self._window_class = classes
            self.forget(lambda _: True)

    @property
    def pending(self) -> int:
        return len(self._sessions)

    def see(self, visit: Visit, decision: Decision) -> None:
        self.seen += 1
        if visit.bot or not visit.visitor or (decision.observed and not self.observe):
            return
        if ELSEWHERE in visit.anomalies:
            # The visitor did not ask for it.
            return
        if self.sharing is not None:
            self._see_rotating(visit, decision)
        if ARRIVAL in visit.anomalies:
            # Nobody knows whether the visitor did.
            return
        if self.sharing is not None:
            self._see_sharing(self.sharing, visit, decision)
        if decision.lets_in and not visit.is_page_unknown:
            self._see_path(visit, decision)

    def miss(self, visitor: str) -> None:
        """Drop the session of a visitor of whom visits were skipped: a session with gaps cannot be judged."""
        if self._sessions.pop(visitor, None) is not None:
            self._sessions.mark_changed(visitor)

    def record_changes(self) -> None:
        """Record changes from now on, for `changed`."""
        self._sessions.record_changes()
        if self.sharing is not None:
            self.sharing.record_changes()

    def campaigns(self) -> Sequence[Campaign]:
        if self.sharing is None:
            return ()
        return sorted([*self.sharing.campaigns(), *self.rotating.campaigns()], key=lambda campaign: campaign.since)

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

    def restore(self, snapshot: WatchSnapshot, campaigns: Sequence[Campaign] = ()) -> None:
        for visitor, session in snapshot.sessions[-self._sessions.limit :]:
            pending = PendingSession.from_bytes(session, self._path_class, self._window_class)
            if pending is not None:
                self._sessions[visitor] = pending
        for panel in self.panels:
            for record in snapshot.records:
                panel.restore(record)
        if self.sharing is not None:
            self.sharing.restore([one for one in campaigns if one.kind == "sharing"])
            self.rotating.restore([one for one in campaigns if one.kind == "rotating"])
            self.sharing.restore_ties(snapshot.ties)

    def forget(self, is_forgotten: Callable[[str], bool]) -> None:
        """Drop the sessions of some visitors: another watch takes them over."""
        for visitor in [name for name in self._sessions if is_forgotten(name)]:
            del self._sessions[visitor]
            self._sessions.forget_changes(visitor)

    def holds(self, visitor: str) -> bool:
        return visitor in self._sessions

    def changed(self, limit: int | None = None, *, min_steps: int = _MIN_STEPS) -> SnapshotChanges:
        """Return at most *limit* changes of each kind. A session that is gone or too short to store is None."""
        changed: dict[str, tuple[float, bytes] | None] = {}
        for name in self._sessions.take_changed(limit):
            session = self._sessions.get(name)
            is_stored = session is not None and session.size >= min_steps
            changed[name] = (session.latest, session.to_bytes()) if is_stored and session is not None else None
        if self.sharing is None:
            return SnapshotChanges(changed, {})
        # A reload may have switched it on since.
        self.sharing.record_changes()
        return SnapshotChanges(changed, self.sharing.changed(limit))

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
            self._report(member, visit.at, "suspect", "campaign", self.on_campaign)

    def _see_rotating(self, visit: Visit, decision: Decision) -> None:
        campaign = self.rotating.see(visit, decision)
        if campaign is not None:
            self.found["rotating"] += 1
            log.info("campaign %s: %s", campaign.id, campaign.text)
            if self.note is not None:
                self.note(campaign.id, campaign)

    def _see_path(self, visit: Visit, decision: Decision) -> None:
        paths, windows = self.paths, self.windows
        # What scripts fetch, often all links of a page at once, says nothing about how somebody reads.
        if (paths is None and windows is None) or BY_SCRIPT in visit.anomalies:
            return
        step = step_of(visit, self.host)
        if step is None:
            session = self._sessions.get(visit.visitor)
            if session is not None and session.path is not None:
                session.path.add_side_request()
            return
        session = self._sessions.use(visit.visitor, PendingSession)
        if paths is not None:
            path = session.path
            if path is None:
                path = session.path = self._path_class()
            path.add(*step, self._lacks_mark(visit))
            if path.size in path.lengths.judge_at:
                self._judge(paths, path, visit, decision, self.on_path)
        if windows is not None:
            window = session.window
            if window is None:
                window = session.window = self._window_class()
            window.add(access_of(visit, step, self.host))
            if window.is_due:
                window.fresh = 0
                self._judge(windows, window, visit, decision, self.on_window)

    def _lacks_mark(self, visit: Visit) -> bool:
        """Tell whether a page was asked for without a mark that each link to it has."""
        is_without = visit.marker is None and UNMARKED_SITE not in visit.anomalies
        return is_without and self.is_marked is not None and self.is_marked(visit.target)

    def _judge(
        self, panel: Panel, session: PathSession | SessionWindow, visit: Visit, decision: Decision, response: Response
    ) -> None:
        judgement = panel.judge(session, visit.visitor, visit.at)
        identity = judgement.identity
        what = "path" if isinstance(session, PathSession) else "window"
        self.found[identity if what == "path" else f"{what}-{identity}"] += 1
        # A program cannot show that it is a person. What it may do is another detector's business.
        response = "record" if BY_PROGRAM in visit.anomalies else response
        reader = self._reader(visit.visitor)
        is_beyond_k2 = any(one.code == BEYOND_K2 for one in decision.evidence)
        if is_beyond_k2 and reader != "hurried":
            # What people have within the pages of one clearance excuses nobody any more.
            reader = ""
        is_usual = reader in {"turning", "unhurried"}
        if reader == "hurried" and what == "path" and response == "challenge":
            identity = "suspect" if identity == "person" else identity
            self.update_score(self.policy.flag(visit.visitor, visit.at, identity, HURRIED))
        elif is_beyond_k2 and isinstance(session, PathSession) and session.is_mostly_unmarked:
            self._report(visit.visitor, visit.at, "suspect", WITHOUT_LINKS, response)
        elif identity != "person" and is_usual and response == "challenge":
            self.update_score(self.policy.flag_reader(visit.visitor, visit.at, f"{what}-{reader}"))
        elif identity != "person":
            self._report(visit.visitor, visit.at, identity, f"{what}-{identity}", response)
            if reader == "brisk":
                self.update_score(self.policy.annotate(visit.visitor, visit.at, what + BRISK))
        elif response == "challenge" and judgement.nearness >= _MIN_NEARNESS and not is_usual:
            share = _SHARE_BELOW * judgement.nearness**2
            self.update_score(self.policy.flag(visit.visitor, visit.at, "suspect", what + DOUBTFUL, share=share))
        elif visit.visitor.startswith(CLEARANCE) and (
            session.size >= self._path_class.lengths.long or self.paths is None
        ):
            # Above k2 this decides: see `detectors.containment`.
            self.update_score(self.policy.annotate(visit.visitor, visit.at, JUDGED_PERSON))

    def _reader(self, visitor: str) -> Reader:
        """Tell how a person can have taken the steps of a visitor who is one browser; else ""."""
        session = self._sessions.get(visitor)
        if session is None or session.path is None or not visitor.startswith((CLEARANCE, ACCOUNT)):
            return ""
        return session.path.reader

    def _report(self, visitor: str, at: float, identity: Identity, code: str, response: Response) -> None:
        if response == "challenge":
            # Without a clearance, people without JavaScript among them, one judgement is not enough.
            is_certain = code == "campaign" or visitor.startswith((CLEARANCE, ACCOUNT))
            share = 1.0 if is_certain else _SHARE_WITHOUT_CLEARANCE
            self.update_score(self.policy.flag(visitor, at, identity, code, share=share))
        else:
            self.update_score(self.policy.annotate(visitor, at, code))


class WatchThread:
    """
    Runs a watch in a background thread; `add` is the gate's `on_decision` callback.

    At most *queue* visits wait. From half of that on, every second visitor is skipped, then three of four, and so on.
    The thread ends when it is idle.
    """

    def __init__(self, watch: Watch, *, queue: int = 10_000, sessions: SqliteSessions | None = None) -> None:
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
        self._failing = False
        if sessions is not None:
            watch.record_changes()
            self._guard(lambda: watch.restore(sessions.read()))

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def problem(self) -> str:
        """What is wrong with the watch, or ""."""
        thread = self._thread
        if self._failing:
            return "it failed at its last visits, see the log"
        if self._waiting and thread is not None and not thread.is_alive():
            return "its thread has ended, see the log"
        return "its queue is full" if len(self._waiting) >= self._queue else ""

    def add(self, visit: Visit, decision: Decision) -> None:
        """Put a visit into the queue. Never blocks."""
        waiting = len(self._waiting)
        if waiting * 2 >= self._queue and self._is_left_out(visit.visitor, waiting):
            self.left_out += 1
            self.miss(visit.visitor)
            return
        self._waiting.append((visit, decision))
        if self._thread is None:
            self._start()
        elif not self._wake.is_set():
            self._wake.set()

    def miss(self, visitor: str) -> None:
        """Note that visits of this visitor were lost."""
        if len(self._missed) < _MAX_MISSED:
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
            self._guard(self._process_batch)
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
                self._guard(self._process_batch)
                # Yields to threads that answer requests.
                time.sleep(_YIELD)
            if time.monotonic() - self._saved_at > _SAVE_EVERY:
                self._save(_MAX_SAVED)
            # Visits often come in bursts: do not wake up for each of them.
            time.sleep(_PAUSE)
            if not self._waiting and not self._wake.wait(_IDLE):
                self._save(None)
                with self._lock:
                    if not self._waiting:
                        self._thread = None
                        return

    def _process_batch(self) -> None:
        watch, waiting, missed = self.watch, self._waiting, self._missed
        # The longer the queue, the larger the batch: switching threads costs more than analysing a visit.
        batch = max(_MIN_BATCH, min(len(waiting) // _MIN_BATCH, _MAX_BATCH))
        for _ in range(min(batch, len(waiting))):
            visit, decision = waiting.popleft()
            if missed and visit.visitor in missed:
                missed.discard(visit.visitor)
                watch.miss(visit.visitor)
            watch.see(visit, decision)

    def _save(self, limit: int | None) -> None:
        """Save at most *limit* changes, a few at a time, so that requests do not wait."""
        self._saved_at = time.monotonic()
        self._guard(self.watch.note_campaigns)
        if self._sessions is not None:
            self._guard(partial(self._sessions.write, SnapshotChanges({}, {}), self.watch.records()))
        while self._sessions is not None and (changed := self.watch.changed(_SAVE_BATCH)):
            self._guard(partial(self._sessions.write, changed))
            if limit is not None:
                limit -= len(changed)
                if limit <= 0:
                    return
                time.sleep(_YIELD)

    def _guard(self, do: Callable[[], None]) -> None:
        """Log any failure and go on: the watch must survive for the next visits."""
        try:
            do()
        except Exception:
            self._failing = True
            log.exception("the watch failed and continues")
        else:
            self._failing = False

"""
The follower: a thread that keeps a server's lists in memory equal to the store.

Twice a second it asks the store for the changes after the last number it has seen. So the cost depends on the changes
and not on the size of the lists, and no request waits for SQL. If the store is on another machine, the server keeps a
copy on disk and starts with it while the store is unreachable.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from itertools import count

from hedgerow.errors import StoreAwayError
from hedgerow.lists.asn import AsnFile
from hedgerow.lists.disk_copy import ListsCopy
from hedgerow.lists.model import Listing, Lists
from hedgerow.lists.sql_store import ListFeed, ListStore

log = logging.getLogger(__name__)

_INTERVAL = 0.5
_YIELD = 0.001
_HOUR = 3600.0
_COPY_INTERVAL = 60.0
_COPY_SHARE = 0.05
"""The share of its time that the thread may spend on copies."""


class Follower:
    """
    Keeps *lists* equal to the store in a thread, from `start` until `close`.

    *asn* is a MaxMind file of network operators, which is reopened when it is replaced. *copy* is the copy on disk to
    start with while the store is unreachable.
    """

    def __init__(
        self, store: ListStore, lists: Lists, *, asn: AsnFile | None = None, copy: ListsCopy | None = None
    ) -> None:
        self.store = store
        self.lists = lists
        self._asn = asn
        self._copy = copy
        self._is_copy = False
        self._changed_at: float | None = None
        self._copy_after = 0.0
        self._seen = 0
        self._feed: ListFeed | None = None
        self._failing = False
        self._purged_at = -math.inf
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hedgerow-lists", daemon=True)

    def start(self) -> None:
        """Load the lists, or their copy, and start the thread."""
        try:
            self.refresh(at_once=True)
        except StoreAwayError as error:
            self._failing = True
            log.warning("%s; until it is back %s", error, self._load_copy())
        self._thread.start()

    def _load_copy(self) -> str:
        """Load the copy if there is one, and return a message that says what was loaded."""
        listings = self._copy.read() if self._copy is not None else None
        if self._copy is None or listings is None:
            return "there are no lists"
        with self._lock:
            for listing in listings:
                self.lists.put(listing)
            self.lists.settle()
            self._is_copy = True
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self._copy.written_at))
        return f"the lists are those of {when}: {len(listings):,} entries from {self._copy.path}"

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._disconnect()

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL):
            try:
                self._purge()
                self.refresh()
                self._update_copy()
            except Exception as error:  # noqa: BLE001 - keep the lists, and try again
                if not self._failing:
                    log.error("cannot read the lists, so they stay unchanged: %s", error)  # noqa: TRY400
                self._failing = True
                self._disconnect()
            else:
                if self._failing:
                    log.info("the lists can be read again")
                self._failing = False

    def _purge(self) -> None:
        now = time.monotonic()
        if now - self._purged_at > _HOUR:
            self._purged_at = now
            self.store.purge()

    def _update_copy(self) -> None:
        """Write a copy after a change, but not so often that it takes more than the allowed share of time."""
        copy, changed_at, began = self._copy, self._changed_at, time.monotonic()
        if copy is None or changed_at is None or began < self._copy_after:
            return
        if copy.written_at <= changed_at:
            try:
                copy.write(self.store.read(), self._yield)
            except OSError as error:
                log.error("cannot copy the lists to %s: %s", copy.path, error)  # noqa: TRY400 - one line
        # Otherwise another process has written it since.
        if copy.written_at > changed_at:
            self._changed_at = None
        self._copy_after = time.monotonic() + max(_COPY_INTERVAL, (time.monotonic() - began) / _COPY_SHARE)

    def refresh(self, *, at_once: bool = False) -> None:
        """Apply the changes since the last call, unless *at_once* with pauses in which requests are served."""
        with self._lock:
            self._apply_changes((lambda: None) if at_once else self._yield)
            if self._asn is not None and (asn_of := self._asn.changed()) is not None:
                self.lists.use(asn_of)

    def _apply_changes(self, pause: Callable[[], None]) -> None:
        if self._feed is None:
            self._feed = self.store.follow()
        with self._feed.since(self._seen) as changes:
            if changes is None:
                return
            anew = changes.anew or self._is_copy
            if anew:
                self.lists.clear()
            applied = 0
            for rows in changes.rows:
                for *row, gone in rows:
                    if gone:
                        self.lists.drop(row[0], row[1])
                    else:
                        self.lists.put(Listing(*row))
                applied += len(rows)
                pause()
        if applied or anew:
            self.lists.settle(_every(50, pause))
            self._changed_at = time.time()
        self._is_copy = False
        self._seen = changes.newest

    def _yield(self) -> None:
        if not self._stop.is_set():
            time.sleep(_YIELD)

    def _disconnect(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close()


def _every(number: int, pause: Callable[[], None]) -> Callable[[], None]:
    calls = count(1)

    def paused() -> None:
        if not next(calls) % number:
            pause()

    return paused

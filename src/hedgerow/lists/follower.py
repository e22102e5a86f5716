"""
The lists of a site: what their store must do, and how a gate reads along.

A gate asks twice a second, in a thread of its own, what has changed since the number that it has seen. So a change
costs what was changed, not what is there, and no request ever waits for SQL. Where the store is on another machine a
gate keeps a copy, and starts with that when the store is away.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import msgspec

from hedgerow.errors import StoreAwayError
from hedgerow.lists.asn import AsnFile
from hedgerow.lists.disk_copy import ListsCopy
from hedgerow.lists.model import Listing, ListName, Lists, SubjectKind

log = logging.getLogger(__name__)

_PAUSE = 0.5
_BREATH = 0.001
_HOUR = 3600.0
_COPY_EVERY = 60.0
_COPY_SHARE = 0.05
"""How much of its time the thread may spend on copies."""


class ListFilter(msgspec.Struct, frozen=True):
    """Which entries to read. *address* asks for those that hold it, *text* for a word of the reason."""

    list: ListName | None = None
    sort: SubjectKind | None = None
    subject: str = ""
    address: str = ""
    author: str = ""
    text: str = ""
    in_force_at: float | None = None
    after: tuple[str, str] | None = None
    limit: int = -1


class ListChanges(NamedTuple):
    """
    What has changed up to the number *newest*: each of *rows* is a listing's fields and whether it is gone.

    *anew*: it is all that there is, and what was known before is to be forgotten.
    """

    newest: int
    anew: bool
    rows: Iterator[Sequence[Sequence[Any]]]


class ListFeed(Protocol):
    """A way to ask a store again and again, kept open."""

    def since(self, seen: int) -> AbstractContextManager[ListChanges | None]:
        """What has changed behind the number *seen*; None where nothing has since it was asked for the last time."""

    def close(self) -> None: ...


class ListStore(Protocol):
    """The entries of all lists, kept for good. Each call is one transaction."""

    def read(self, wanted: ListFilter | None = None) -> Iterator[Listing]:
        """Entries in the order of list and subject."""

    def count(self, name: ListName, at: float) -> int:
        """How many entries of a list are in force."""

    def add(self, listing: Listing) -> bool:
        """Whether it was new; what was there stays as it is. An entry that has ended is there no longer."""

    def put(self, listings: Iterable[Listing], *, replacing: str = "") -> int:
        """
        Take all entries, or none where the iterable raises; how many there were.

        What the author *replacing* had entered before and is not among them goes.
        """

    def remove(self, name: ListName, subject: str) -> bool: ...

    def purge(self) -> None:
        """Forget entries that ended a week ago, and what is said of those removed an hour ago."""

    def follow(self) -> ListFeed: ...


class Follower:
    """
    Keeps *lists* as the store has them, in a thread of its own, from the first `take` until `close`.

    *asn* is a MaxMind file that tells operators; it is opened again when it is replaced. *copy* is what a gate starts
    with while the store is away.
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
        self._copy_from = 0.0
        self._seen = 0
        self._following: ListFeed | None = None
        self._failing = False
        self._purged_at = -math.inf
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hedgerow-lists", daemon=True)

    def start(self) -> None:
        """Take in what is there, or the copy of it, then keep looking."""
        try:
            self.take(at_once=True)
        except StoreAwayError as error:
            self._failing = True
            log.warning("%s; until it is back %s", error, self._take_copy())
        self._thread.start()

    def _take_copy(self) -> str:
        """Begin with the copy, where there is one; what there is now, in words."""
        listings = self._copy.read() if self._copy is not None else None
        if self._copy is None or listings is None:
            return "there are no lists: nobody is let in or kept out by them"
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
        while not self._stop.wait(_PAUSE):
            try:
                self._purge()
                self.take()
                self._keep_copy()
            except Exception as error:  # noqa: BLE001 - whatever it is, the lists stay as they are, and we look again
                if not self._failing:
                    log.error("the lists cannot be read, they stay as they are: %s", error)  # noqa: TRY400
                self._failing = True
                self._disconnect()
            else:
                if self._failing:
                    log.info("the lists are read again")
                self._failing = False

    def _purge(self) -> None:
        now = time.monotonic()
        if now - self._purged_at > _HOUR:
            self._purged_at = now
            self.store.purge()

    def _keep_copy(self) -> None:
        """Write a copy of what has changed: soon at first, then as seldom as its writing takes long."""
        copy, changed_at, began = self._copy, self._changed_at, time.monotonic()
        if copy is None or changed_at is None or began < self._copy_from:
            return
        if copy.written_at <= changed_at:
            try:
                copy.write(self.store.read(), self._breathe)
            except OSError as error:
                log.error("the lists cannot be copied to %s: %s", copy.path, error)  # noqa: TRY400 - one line
        # Else another process has done so since.
        if copy.written_at > changed_at:
            self._changed_at = None
        self._copy_from = time.monotonic() + max(_COPY_EVERY, (time.monotonic() - began) / _COPY_SHARE)

    def take(self, *, at_once: bool = False) -> None:
        """
        Take in what has changed since the last time.

        Much of it is taken in small pieces with pauses in between, in which requests are answered, but for the first
        time.
        """
        with self._lock:
            self._take_changes((lambda: None) if at_once else self._breathe)
            if self._asn is not None and (asn_of := self._asn.changed()) is not None:
                self.lists.use(asn_of)

    def _take_changes(self, pause: Callable[[], None]) -> None:
        if self._following is None:
            self._following = self.store.follow()
        with self._following.since(self._seen) as changes:
            if changes is None:
                return
            anew = changes.anew or self._is_copy
            if anew:
                self.lists.clear()
            taken = 0
            for rows in changes.rows:
                for *row, gone in rows:
                    if gone:
                        self.lists.drop(row[0], row[1])
                    else:
                        self.lists.put(Listing(*row))
                taken += len(rows)
                pause()
        if taken or anew:
            self.lists.settle(_sometimes(pause))
            self._changed_at = time.time()
        self._is_copy = False
        self._seen = changes.newest

    def _breathe(self) -> None:
        if not self._stop.is_set():
            time.sleep(_BREATH)

    def _disconnect(self) -> None:
        following, self._following = self._following, None
        if following is not None:
            following.close()


def _sometimes(pause: Callable[[], None], every: int = 50) -> Callable[[], None]:
    calls = 0

    def paused() -> None:
        nonlocal calls
        calls += 1
        if not calls % every:
            pause()

    return paused

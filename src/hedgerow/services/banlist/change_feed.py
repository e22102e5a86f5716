"""
The numbered changes of lists and blocks, for clients that reconnect.

A thread looks for changes twice a second. Only the latest are kept. A client that has missed more gets a snapshot from
the stores.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from hedgerow.core.decision import Block
from hedgerow.errors import StoreAwayError
from hedgerow.lists.follower import Follower
from hedgerow.lists.model import Listing, ListName, Lists
from hedgerow.lists.sql_store import ListFilter, ListStore
from hedgerow.services.banlist.messages import ListMessage, encode_message

log = logging.getLogger(__name__)

_INTERVAL = 0.5
_MAX_CHANGES = 50_000
_MIN_EXTENSION = 10.0


class ChangeFeed:
    """
    The changes of a *store* of lists, if there is one, and of *blocks* (a function that returns those in force).

    While *enforces* returns false, neither blocks nor black entries are sent: the server only observes, and clients
    would enforce them. A version is a random name and a number, so that numbers from before a restart are not mistaken
    for new ones.
    """

    def __init__(
        self,
        store: ListStore | None,
        blocks: Callable[[float], Sequence[Block]],
        clock: Callable[[], float] = time.time,
        enforces: Callable[[], bool] = lambda: True,
    ) -> None:
        self._enforces = enforces
        self._enforced = enforces()
        self._store = store
        self._blocks_at = blocks
        self._clock = clock
        self._lock = threading.Lock()
        self._name = secrets.token_hex(6)
        self._number = 0
        self._changes: deque[tuple[int, bytes]] = deque(maxlen=_MAX_CHANGES)
        self._blocks: dict[str, Block] = {}
        self.failing = False
        """Whether the stores could not be read the last time."""
        self._stop = threading.Event()
        self._lists = _ReportedLists(self._add, self._restart)
        self._follower = Follower(store, self._lists) if store is not None else None
        self._thread = threading.Thread(target=self._run, name="hedgerow-feed", daemon=True)

    def start(self) -> None:
        try:
            self._update()
        except StoreAwayError as error:
            self.failing = True
            log.warning("%s; clients keep their lists until it is back", error)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._follower is not None:
            self._follower.close()

    @property
    def version(self) -> str:
        return f"{self._name}-{self._number}"

    def since(self, version: str) -> tuple[str, Sequence[bytes]] | None:
        """Return the newest version, and the lines since *version*, or None if they are no longer known."""
        name, _, number = version.rpartition("-")
        with self._lock:
            if name != self._name or not number.isdigit():
                return None
            seen = int(number)
            oldest = self._changes[0][0] if self._changes else self._number + 1
            if seen > self._number or seen < oldest - 1:
                return None
            # From the end: usually there are few new ones.
            new = takewhile(lambda change: change[0] > seen, reversed(self._changes))
            return self.version, [line for _, line in new][::-1]

    def snapshot(self) -> tuple[str, Iterator[bytes]]:
        """Return the version from which to continue, and all lines. Changes may be sent again, which does no harm."""
        with self._lock:
            version, blocks = self.version, list(self._blocks.values())
        return version, self._lines(blocks)

    def _lines(self, blocks: Sequence[Block]) -> Iterator[bytes]:
        yield encode_message(ListMessage(start=True))
        if self._store is not None:
            for listing in self._store.read(ListFilter(in_force_at=self._clock())):
                if self._is_sent(listing):
                    yield encode_message(ListMessage(put=listing))
        for block in blocks:
            yield encode_message(ListMessage(block=block))

    def _is_sent(self, listing: Listing | None) -> bool:
        return listing is None or self._enforced or listing.list == "white"

    def _add(self, line: ListMessage) -> None:
        if not self._is_sent(line.put):
            return
        with self._lock:
            self._number += 1
            self._changes.append((self._number, encode_message(line)))

    def _restart(self) -> None:
        with self._lock:
            self._name = secrets.token_hex(6)
            self._changes.clear()

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL):
            try:
                self._update()
            except Exception as error:  # noqa: BLE001 - try again
                if not self.failing:
                    log.error("cannot read lists or blocks, so clients keep theirs: %s", error)  # noqa: TRY400
                self.failing = True
            else:
                self.failing = False

    def _update(self) -> None:
        if self._enforces() is not self._enforced:
            self._enforced = not self._enforced
            # Every client gets a snapshot.
            self._restart()
        if self._follower is not None:
            self._follower.refresh()
            # The entries at the start are not changes.
            self._lists.reports = True
        now = {block.key: block for block in self._blocks_at(self._clock())} if self._enforced else {}
        for key, block in now.items():
            before = self._blocks.get(key)
            if before is None or _differs(before, block):
                self._blocks[key] = block
                self._add(ListMessage(block=block))
        for key in [key for key in self._blocks if key not in now]:
            del self._blocks[key]
            self._add(ListMessage(free=key))


def _differs(before: Block, now: Block) -> bool:
    """Return whether a block must be sent again. Each visit of a blocked visitor extends it a little."""
    return (
        now.until > before.until + _MIN_EXTENSION
        or now.until < before.until
        or (now.action, now.evidence.code) != (before.action, before.evidence.code)
    )


class _ReportedLists(Lists):
    """Lists that store nothing and report every change."""

    def __init__(self, on_change: Callable[[ListMessage], None], on_clear: Callable[[], None]) -> None:
        super().__init__()
        self._on_change = on_change
        self._on_clear = on_clear
        self.reports = False

    def put(self, listing: Listing) -> None:
        if self.reports:
            self._on_change(ListMessage(put=listing))

    def drop(self, name: ListName, subject: str) -> None:
        if self.reports:
            self._on_change(ListMessage(drop=(name, subject)))

    def clear(self) -> None:
        self._on_clear()

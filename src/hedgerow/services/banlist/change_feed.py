"""
What has changed in lists and blocks, by number: for clients that were away for a while.

A thread looks twice a second. Only changes are kept, and only so many: who has missed more is given everything anew,
straight from the stores.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from hedgerow.core.decision import Block
from hedgerow.errors import StoreAwayError
from hedgerow.lists.follower import Follower
from hedgerow.lists.model import Listing, ListName, Lists
from hedgerow.lists.sql_store import ListFilter, ListStore
from hedgerow.services.banlist.messages import ListMessage, encode_message

log = logging.getLogger(__name__)

_PAUSE = 0.5
_MOST_KEPT = 50_000
_WORTH_TELLING = 10.0


class ChangeFeed:
    """
    The changes of a *store* of lists, where there is one, and of *blocks* (those in force at a time).

    A version is named by this feed and a number: after a restart nobody takes an old number for a new one.
    """

    def __init__(
        self,
        store: ListStore | None,
        blocks: Callable[[float], Sequence[Block]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._ask_blocks = blocks
        self._clock = clock
        self._lock = threading.Lock()
        self._name = secrets.token_hex(6)
        self._number = 0
        self._changes: deque[tuple[int, bytes]] = deque(maxlen=_MOST_KEPT)
        self._blocks: dict[str, Block] = {}
        self.failing = False
        """Whether the stores cannot be read, as far as is known."""
        self._stop = threading.Event()
        self._noted = _Noted(self._note, self._start_anew)
        self._follower = Follower(store, self._noted) if store is not None else None
        self._thread = threading.Thread(target=self._run, name="hedgerow-feed", daemon=True)

    def start(self) -> None:
        try:
            self._look()
        except StoreAwayError as error:
            self.failing = True
            log.warning("%s; until it is back clients keep what they have", error)
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
        """The newest version, and the lines from *version* to it; None where they are no longer known."""
        name, _, number = version.rpartition("-")
        with self._lock:
            if name != self._name or not number.isdigit():
                return None
            seen = int(number)
            oldest = self._changes[0][0] if self._changes else self._number + 1
            if seen > self._number or seen < oldest - 1:
                return None
            # The newest stand last, and mostly there are few.
            lines = []
            for changed, line in reversed(self._changes):
                if changed <= seen:
                    break
                lines.append(line)
            return self.version, lines[::-1]

    def snapshot(self) -> tuple[str, Iterator[bytes]]:
        """
        The version from which to go on, and everything as lines.

        What changes while it is read may be in it, and comes again afterwards: to take it twice changes nothing.
        """
        with self._lock:
            version, blocks = self.version, list(self._blocks.values())
        return version, self._lines(blocks)

    def _lines(self, blocks: Sequence[Block]) -> Iterator[bytes]:
        yield encode_message(ListMessage(start=True))
        if self._store is not None:
            for listing in self._store.read(ListFilter(in_force_at=self._clock())):
                yield encode_message(ListMessage(put=listing))
        for block in blocks:
            yield encode_message(ListMessage(block=block))

    def _note(self, line: ListMessage) -> None:
        with self._lock:
            self._number += 1
            self._changes.append((self._number, encode_message(line)))

    def _start_anew(self) -> None:
        with self._lock:
            self._name = secrets.token_hex(6)
            self._changes.clear()

    def _run(self) -> None:
        while not self._stop.wait(_PAUSE):
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - whatever it is, clients keep what they have, and we look again
                if not self.failing:
                    log.error("lists or blocks cannot be read, clients keep what they have: %s", error)  # noqa: TRY400
                self.failing = True
            else:
                self.failing = False

    def _look(self) -> None:
        if self._follower is not None:
            self._follower.refresh()
            # What was there from the start is no change.
            self._noted.on = True
        now = {block.key: block for block in self._ask_blocks(self._clock())}
        for key, block in now.items():
            before = self._blocks.get(key)
            if before is None or _is_other(before, block):
                self._blocks[key] = block
                self._note(ListMessage(block=block))
        for key in [key for key in self._blocks if key not in now]:
            del self._blocks[key]
            self._note(ListMessage(free=key))


def _is_other(before: Block, now: Block) -> bool:
    """Whether a block is worth telling of again: each visit of who is blocked makes it a little longer."""
    return (
        now.until > before.until + _WORTH_TELLING
        or now.until < before.until
        or (now.action, now.evidence.code) != (before.action, before.evidence.code)
    )


class _Noted(Lists):
    """Lists that keep nothing, and have every change noted."""

    def __init__(self, note: Callable[[ListMessage], None], forget: Callable[[], None]) -> None:
        super().__init__()
        self._note_change = note
        self._forget_all = forget
        self.on = False

    def put(self, listing: Listing) -> None:
        if self.on:
            self._note_change(ListMessage(put=listing))

    def drop(self, name: ListName, subject: str) -> None:
        if self.on:
            self._note_change(ListMessage(drop=(name, subject)))

    def clear(self) -> None:
        self._forget_all()

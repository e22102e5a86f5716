"""
A ledger that is written by a thread of its own, off the request path: what SQLite and PostgreSQL have in common.

An append is one `deque.append`. The writer wakes twice a second, or as soon as a thousand rows wait. When the queue is
full entries are dropped and counted; requests go on. What waits when the program ends without closing the ledger (a
middleware whose server knows no shutdown) is still written.
"""

from __future__ import annotations

import atexit
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator

from hedgerow.core.ledger import Entry

_BATCH = 1000
_PAUSE = 0.5


class QueuedLedger(ABC):
    """At most *queue* entries wait. Whoever makes one calls `_start` once it can write."""

    def __init__(self, queue: int) -> None:
        self._waiting: deque[Entry] = deque()
        self._most = queue
        self._wake = threading.Event()
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="hedgerow-ledger", daemon=True)
        self.lost = 0
        self.written = 0
        self.failing = False
        """Whether entries are being lost now."""

    def append(self, entry: Entry) -> None:
        if self._stop or len(self._waiting) >= self._most:
            self.lost += 1
            return
        self._waiting.append(entry)
        if len(self._waiting) == _BATCH:
            self._wake.set()

    def close(self) -> None:
        if not self._stop:
            self._stop = True
            self._wake.set()
            self._thread.join()
            self._disconnect()
            atexit.unregister(self.close)

    def _start(self) -> None:
        self._thread.start()
        atexit.register(self.close)

    def _run(self) -> None:
        while not self._stop:
            self._wake.wait(_PAUSE)
            self._wake.clear()
            self._write_waiting()
        self._write_waiting()

    def _batches(self) -> Iterator[list[Entry]]:
        """What waits, taken off a thousand at a time."""
        while self._waiting:
            yield [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]

    @abstractmethod
    def _write_waiting(self) -> None:
        """Write what waits; raises nothing, whatever happens: the next entries must find a writer."""

    @abstractmethod
    def _disconnect(self) -> None: ...

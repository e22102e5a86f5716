"""
The queue of a ledger and the thread that writes it: the common base of SQLite and PostgreSQL.

An append is one `deque.append`. The writer wakes twice a second, or when a thousand rows are pending. If the queue is
full, entries are dropped and counted. Pending entries are also written when the program ends without closing the
ledger, as middleware may.
"""

from __future__ import annotations

import atexit
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator

from hedgerow.core.ledger import Entry

_BATCH_SIZE = 1000
_INTERVAL = 0.5


class QueuedLedger(ABC):
    """A ledger with at most *queue* pending entries. A subclass calls `_start` when it can write."""

    def __init__(self, queue: int) -> None:
        self._pending: deque[Entry] = deque()
        self._max_pending = queue
        self._wake = threading.Event()
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="hedgerow-ledger", daemon=True)
        self.lost = 0
        self.written = 0
        self.failing = False
        """True while entries are being lost."""
        self.errors = 0

    @property
    def pending(self) -> int:
        return len(self._pending)

    def append(self, entry: Entry) -> None:
        if self._stop or len(self._pending) >= self._max_pending:
            self.lost += 1
            return
        self._pending.append(entry)
        if len(self._pending) == _BATCH_SIZE:
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
            self._wake.wait(_INTERVAL)
            self._wake.clear()
            self._write_pending()
        self._write_pending()

    def _batches(self) -> Iterator[list[Entry]]:
        """Yield the pending entries in batches, removing them from the queue."""
        while self._pending:
            yield [self._pending.popleft() for _ in range(min(_BATCH_SIZE, len(self._pending)))]

    @abstractmethod
    def _write_pending(self) -> None:
        """Write the pending entries. Must not raise, or the writer thread would end."""

    @abstractmethod
    def _disconnect(self) -> None: ...

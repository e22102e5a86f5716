"""
Puzzles made in advance by a background thread.

The thread pauses four times as long as it works. So a client that requests one puzzle after another gets them ever more
slowly, and takes no CPU time from other visitors.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from time import thread_time
from typing import Generic, TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)

_PAUSE_FACTOR = 4.0
_PAUSE_AFTER_FAILURE = 10.0


class CaptchaPool(Generic[T]):
    """Has up to *size* puzzles, made by *make*, ready. The thread starts with `start` or the first `take`."""

    def __init__(self, make: Callable[[], T], size: int, name: str) -> None:
        self._make = make
        self._size = size
        self._name = name
        self._ready: deque[T] = deque()
        self._taken = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.made = 0

    def __len__(self) -> int:
        return len(self._ready)

    def start(self) -> None:
        with self._lock:
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._run, name=f"hedgerow-{self._name}", daemon=True)
                self._thread.start()

    def take(self) -> T | None:
        """Return a puzzle for one visitor, or None if none is ready. Never waits."""
        self.start()
        try:
            return self._ready.popleft()
        except IndexError:
            return None
        finally:
            self._taken.set()

    def close(self) -> None:
        self._ended.set()
        self._taken.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            if len(self._ready) >= self._size:
                self._taken.wait()
                self._taken.clear()
                continue
            began = thread_time()
            try:
                self._ready.append(self._make())
                self.made += 1
                pause = (thread_time() - began) * _PAUSE_FACTOR
            except Exception as error:  # noqa: BLE001 - whatever it is, visitors can be asked something else
                log.error("no %s can be made: %s", self._name, error)  # noqa: TRY400
                pause = _PAUSE_AFTER_FAILURE
            self._ended.wait(pause)

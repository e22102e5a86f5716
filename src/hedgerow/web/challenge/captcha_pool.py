"""
Puzzles made in the background, so that asking one is quick.

A thread of its own keeps a fixed number of them ready. It rests four times as long as it works: who asks for one
puzzle after the other gets them ever more slowly, and takes nothing from the visitors of the site.
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

_REST = 4.0
_AFTER_A_FAILURE = 10.0


class CaptchaPool(Generic[T]):
    """Keeps *size* of what *make* makes. The thread starts when the first is asked for, or by `start`."""

    def __init__(self, make: Callable[[], T], size: int, name: str) -> None:
        self._make = make
        self._size = size
        self._name = name
        self._ready: deque[T] = deque()
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.made = 0

    def __len__(self) -> int:
        return len(self._ready)

    def start(self) -> None:
        """Begin to fill it."""
        with self._lock:
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._run, name=f"hedgerow-{self._name}", daemon=True)
                self._thread.start()

    def take(self) -> T | None:
        """One that nobody else gets, or None where none is ready; never waits."""
        self.start()
        try:
            taken = self._ready.popleft()
        except IndexError:
            taken = None
        self._wanted.set()
        return taken

    def close(self) -> None:
        """Make no more."""
        self._ended.set()
        self._wanted.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            if len(self._ready) >= self._size:
                self._wanted.wait()
                self._wanted.clear()
                continue
            began = thread_time()
            try:
                self._ready.append(self._make())
                self.made += 1
                rest = (thread_time() - began) * _REST
            except Exception as error:  # noqa: BLE001 - whatever it is, visitors can be asked something else
                log.error("no %s can be made: %s", self._name, error)  # noqa: TRY400
                rest = _AFTER_A_FAILURE
            self._ended.wait(rest)

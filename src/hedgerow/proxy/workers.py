"""
Worker processes for one site, and one process for tasks that must run once.

The supervisor process restarts processes that die, forwards its signals, and ends when all have ended. It starts no
thread and opens no store, because its children are forks.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

from hedgerow.errors import HedgerowError

log = logging.getLogger("hedgerow")

_MIN_LIFETIME = 1.0
_PAUSE = 0.05
_FORWARDED_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_DIE_WITH_PARENT = 1


class Workers:
    """
    Runs each of the named *tasks* in its own process until a SIGTERM or SIGINT.

    A task that ends by itself is restarted, after a second if it had only just started. SIGHUP is forwarded to all.
    """

    def __init__(self, tasks: Sequence[tuple[str, Callable[[], None]]]) -> None:
        self._tasks = tuple(tasks)
        self._running: dict[int, tuple[int, float]] = {}
        self._due: dict[int, float] = {}
        self._stopping = False

    def run(self) -> None:
        """Run until all processes have ended."""
        previous = {number: signal.signal(number, self._forward) for number in _FORWARDED_SIGNALS}
        try:
            for index in range(len(self._tasks)):
                self._start(index)
            while self._running or (self._due and not self._stopping):
                self._reap()
                for index in [i for i, due in self._due.items() if due <= time.monotonic() and not self._stopping]:
                    del self._due[index]
                    self._start(index)
                time.sleep(_PAUSE)
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _forward(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signature of a signal handler
        if number != signal.SIGHUP:
            self._stopping = True
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def _start(self, index: int) -> None:
        # Block signals: one that arrives before the process is recorded would not reach it.
        signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED_SIGNALS)
        # A process started after the signal to stop would never receive one.
        if not self._stopping:
            parent = os.getpid()
            process = os.fork()
            if process == 0:
                self._run_child(index, parent)
            self._running[process] = (index, time.monotonic())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED_SIGNALS)

    def _run_child(self, index: int, parent: int) -> NoReturn:
        """Run a task in the child process and exit."""
        status = 1
        try:
            for number in _FORWARDED_SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            # If the supervisor dies, no child may stay behind with its port.
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGTERM)
            # SIGHUP stays blocked until the task has a handler: settings may change while it starts.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
            if os.getppid() == parent:
                self._tasks[index][1]()
            status = 0
        except HedgerowError as error:
            log.error("%s", error)  # noqa: TRY400 - a fault of the operator
        except BaseException:  # noqa: BLE001 - the stack above belongs to the supervisor
            traceback.print_exc()
        finally:
            logging.shutdown()
            sys.stderr.flush()
            os._exit(status)

    def _reap(self) -> None:
        while self._running:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return
            index, since = self._running.pop(process, (-1, 0.0))
            if index < 0 or self._stopping:
                continue
            name, code = self._tasks[index][0], os.waitstatus_to_exitcode(status)
            log.error("the %s (process %d) ended with status %d and will be restarted", name, process, code)
            lived = time.monotonic() - since
            self._due[index] = time.monotonic() + (0.0 if lived > _MIN_LIFETIME else _MIN_LIFETIME)

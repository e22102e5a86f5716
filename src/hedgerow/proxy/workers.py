"""
Several processes for one site: workers that serve, and one beside them that does what must be done once.

The first process only looks after the others: it starts again whoever dies, passes on the signals that it gets, and
ends when all have ended. It starts no thread and opens no store while it has any: its children are its forks.
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

_SHORT_LIFE = 1.0
_PAUSE = 0.05
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_DIE_WITH_PARENT = 1


class Workers:
    """
    Runs each of *duties* in a process of its own, under its name, until a SIGTERM or SIGINT.

    A duty that ends by itself is begun again, after a second where it had just begun. SIGHUP goes to all of them.
    """

    def __init__(self, duties: Sequence[tuple[str, Callable[[], None]]]) -> None:
        self._duties = tuple(duties)
        self._running: dict[int, tuple[int, float]] = {}
        self._due: dict[int, float] = {}
        self._stopping = False

    def run(self) -> None:
        """Returns when all have ended; raises nothing of theirs."""
        before = {number: signal.signal(number, self._pass_on) for number in _PASSED_ON}
        try:
            for index in range(len(self._duties)):
                self._start(index)
            while self._running or (self._due and not self._stopping):
                self._reap()
                for index in [i for i, due in self._due.items() if due <= time.monotonic() and not self._stopping]:
                    del self._due[index]
                    self._start(index)
                time.sleep(_PAUSE)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler's shape
        if number != signal.SIGHUP:
            self._stopping = True
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def _start(self, index: int) -> None:
        # A signal that comes between the fork and the note of it would reach everybody but the new one.
        signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
        # A process that is started after the signal to stop would never get one.
        if not self._stopping:
            parent = os.getpid()
            process = os.fork()
            if process == 0:
                self._become(index, parent)
            self._running[process] = (index, time.monotonic())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)

    def _become(self, index: int, parent: int) -> NoReturn:
        """Be a child, and nothing else ever after."""
        status = 1
        try:
            for number in _PASSED_ON:
                signal.signal(number, signal.SIG_DFL)
            # Whatever becomes of the first process, nobody is left behind with its port.
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGTERM)
            # A SIGHUP waits until the duty has a handler for it, and unblocks it: what it read may be old by then.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
            if os.getppid() == parent:
                self._duties[index][1]()
            status = 0
        except HedgerowError as error:
            log.error("%s", error)  # noqa: TRY400 - the fault is the operator's, not ours
        except BaseException:  # noqa: BLE001 - it must end here: the stack above belongs to the first process
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
            said = os.waitstatus_to_exitcode(status)
            name = self._duties[index][0]
            log.error("the %s (process %d) has ended with %d, and is started again", name, process, said)
            lived = time.monotonic() - since
            self._due[index] = time.monotonic() + (0.0 if lived > _SHORT_LIFE else _SHORT_LIFE)

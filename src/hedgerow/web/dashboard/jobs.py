"""
Commands of Hedgerow that pages of the dashboard start: reports and replays, which take long and need much memory.

Each runs in a process of its own with low priority, so requests of visitors do not wait for it. One runs at a time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from hedgerow.errors import HedgerowError

_MAX_SECONDS = 3600
_LAST_WORDS = 300


class Job(msgspec.Struct, frozen=True):
    """What was started last under a name. *ended* is 0 while it runs. *problem* is empty if all went well."""

    name: str
    started: float
    ended: float = 0.0
    problem: str = ""


class Jobs:
    """The jobs of a dashboard: the last one of each name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._results: dict[str, Any] = {}

    def last(self, name: str) -> Job | None:
        return self._jobs.get(name)

    def result(self, name: str) -> Any:
        """Return what the last job of this name returned, None if there was none or it failed or still runs."""
        return self._results.get(name)

    def start(self, name: str, work: Callable[[], object]) -> Job:
        """Run *work* in a thread. Raises HedgerowError if another job runs."""
        with self._lock:
            if running := next((job for job in self._jobs.values() if not job.ended), None):
                raise HedgerowError(f"{running.name} is still running; try again when it has ended")
            job = self._jobs[name] = Job(name, time.time())
            self._results.pop(name, None)
        threading.Thread(target=self._run, args=(job, work), name=f"hedgerow-{name}", daemon=True).start()
        return job

    def _run(self, job: Job, work: Callable[[], object]) -> None:
        problem = ""
        try:
            self._results[job.name] = work()
        except Exception as failed:  # noqa: BLE001 - whatever went wrong, the operator gets to see it
            problem = str(failed) or type(failed).__name__
        self._jobs[job.name] = msgspec.structs.replace(job, ended=time.time(), problem=problem)


def run_command(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a command of Hedgerow to its end. Raises HedgerowError with its last words if it fails."""
    nice = [path, "-n", "10"] if (path := shutil.which("nice")) else []
    command = [*nice, sys.executable, "-m", "hedgerow", *arguments]
    try:
        ended = subprocess.run(  # noqa: S603 - our own command
            command, env={**os.environ, **environment}, capture_output=True, timeout=_MAX_SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise HedgerowError(f"it took more than {_MAX_SECONDS // 60} minutes and was ended") from None
    except OSError as error:
        raise HedgerowError(f"it cannot be started: {error.strerror}") from None
    if ended.returncode != 0:
        words = ended.stderr.decode("utf-8", "replace").strip() or f"it ended with status {ended.returncode}"
        raise HedgerowError(words[-_LAST_WORDS:])

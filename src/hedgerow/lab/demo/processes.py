"""The processes of the demo: started in their own sessions, and stopped by their ids."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hedgerow.errors import HedgerowError

HOST = "127.0.0.1"

_START_TIMEOUT = 20.0
_GRACE_PERIOD = 10.0
_POLL_INTERVAL = 0.02


class Processes:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        # Without variables that could lead a crawler elsewhere or change Hedgerow's settings.
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("HEDGEROW__") and not name.lower().endswith("_proxy")
        } | {"HOME": str(folder), "HEDGEROW__DIRECTORY": str(folder / "state")}

    def start(self, command: Sequence[str], *, log: str) -> subprocess.Popen[bytes]:
        # In its own session, so that only the demo gets Ctrl-C and can stop everything in order.
        with (self._folder / log).open("ab") as out:
            process = subprocess.Popen(  # noqa: S603 - our own commands
                command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes], *, grace_period: float = _GRACE_PERIOD) -> None:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(grace_period)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.remove(process)

    def stop(self) -> None:
        for process in reversed(self._running.copy()):
            self.end(process)


def wait_for(name: str, is_ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a process is ready. Raises HedgerowError with the last line of its log if it does not start."""
    end = time.monotonic() + _START_TIMEOUT
    while not is_ready():
        if process.poll() is not None or time.monotonic() > end:
            last = log.read_text("utf-8", "replace").strip().rpartition("\n")[2]
            raise HedgerowError(f"{name} does not start: {last or 'no output'}")
        time.sleep(_POLL_INTERVAL)


def find_program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True

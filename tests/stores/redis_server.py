"""A Redis of the tests' own: a process on a free port of this machine, stopped by its id."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

PATIENCE = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def missing(what: str) -> None:
    """A part is not here: that is a failure in CI, and a skipped test elsewhere."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing, and in CI nothing may be", pytrace=False)
    pytest.skip(f"{what} is missing")


class RedisServer:
    """Nothing is written to disk: what was in it is gone when it stops."""

    def __init__(self, *options: str) -> None:
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if program is None:
            missing("redis-server")
        assert program is not None
        self._program = program
        self._options = options
        self._folder = tempfile.TemporaryDirectory()
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def log(self) -> Path:
        return Path(self._folder.name) / "redis.log"

    def start(self) -> None:
        with self.log.open("ab") as out:
            quiet = ["--save", "", "--appendonly", "no", "--dir", self._folder.name]
            self.process = subprocess.Popen(
                [self._program, "--bind", "127.0.0.1", "--port", str(self.port), *quiet, *self._options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        end = time.monotonic() + PATIENCE
        while not self._answers():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, "redis-server does not answer"
            time.sleep(0.01)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
            probe.sendall(b"PING\r\n")
            return probe.recv(100)[:1] in {b"+", b"-"}
        return False

    def kill(self, number: int = signal.SIGKILL) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait(PATIENCE)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(PATIENCE)

    def close(self) -> None:
        self.stop()
        self._folder.cleanup()


def command(port: int, *words: Sequence[str] | str) -> bytes:
    """What Redis says to one command, raw."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connected:
        line = b"*%d\r\n" % len(words)
        for word in words:
            data = str(word).encode()
            line += b"$%d\r\n%b\r\n" % (len(data), data)
        connected.sendall(line)
        return connected.recv(1_000_000)

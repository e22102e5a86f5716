"""Redis and PostgreSQL of the tests' own: processes on free ports of this machine, stopped by their ids."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg

from attached import attached

from .conftest import missing
from .servers import PATIENCE, free_port


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
                # Tests pause it, and a paused process does not heed SIGTERM.
                attached(
                    [self._program, "--bind", "127.0.0.1", "--port", str(self.port), *quiet, *self._options], by="KILL"
                ),
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
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connected:
        line = b"*%d\r\n" % len(words)
        for word in words:
            data = str(word).encode()
            line += b"$%d\r\n%b\r\n" % (len(data), data)
        connected.sendall(line)
        return connected.recv(1_000_000)


class PostgresServer:
    """A cluster of its own in a temporary folder; everybody on this machine may connect. Never synced: it is a test."""

    def __init__(self) -> None:
        folder = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
        found = folder / "postgres" if folder is not None else Path(shutil.which("postgres") or "/nowhere")
        if not found.exists():
            missing("postgresql")
        self._programs = found.parent
        self._folder = Path(tempfile.mkdtemp(prefix="hedgerow-postgres"))
        # It refuses to run as root.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user is not None:
            entry = pwd.getpwnam(self._user)
            os.chown(self._folder, entry.pw_uid, entry.pw_gid)
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        options = ["-D", str(self._folder / "data"), "-A", "trust", "-U", "hedgerow", "-N", "-E", "UTF8", "--locale=C"]
        subprocess.run(
            [self._programs / "initdb", *options], user=self._user, cwd=self._folder, check=True, capture_output=True
        )
        self.start()

    @property
    def log(self) -> Path:
        return self._folder / "postgres.log"

    @property
    def url(self) -> str:
        return f"postgresql://hedgerow@127.0.0.1:{self.port}/postgres"

    def new_database(self) -> str:
        """The address of a schema with nothing in it, which is as good as a database and made at once."""
        self._databases += 1
        name = f"test{self._databases}"
        with psycopg.connect(self.url) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{self.url}?options=-csearch_path%3D{name}"

    def start(self) -> None:
        options = [
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "fsync=off",
            "-c",
            f"unix_socket_directories={self._folder}",
        ]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                attached([self._programs / "postgres", "-D", self._folder / "data", "-p", str(self.port), *options]),
                user=self._user,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        end = time.monotonic() + PATIENCE
        while not self._answers():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, "postgres does not answer"
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=1).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT ends all connections; SIGQUIT ends them without a word, as a crash would."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE)

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

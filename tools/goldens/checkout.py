"""The Hedgerow that is recorded: a Python that can import it, run with an environment in which nothing varies."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

KEYS = f"1 0 {bytes(range(64)).hex()}\n"
"""The keys of all recordings: with them, marked links and hidden links are the same in each."""
WIDTH = 100
PATIENCE = 600.0
"""Seconds after which a command is considered stuck."""

_CHILD = Path(__file__).with_name("command_child.py")
_FORGOTTEN_NAMES = frozenset({
    "CLICOLOR_FORCE", "COLORTERM", "FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "STATE_DIRECTORY", "TTY_COMPATIBLE",
})  # fmt: skip


class Output(NamedTuple):
    """What a command wrote, and its exit status."""

    status: int
    out: str
    err: str

    def text(self) -> str:
        """All of it, for a golden file."""
        parts = [f"exit status {self.status}\n"]
        for name, text in (("standard output", self.out), ("standard error", self.err)):
            if text:
                parts.append(f"{name}:\n{text if text.endswith(chr(10)) else text + chr(10)}")
        return "".join(parts)


class Checkout:
    """Runs programs under *python* with the Hedgerow that it imports. *scratch* is a folder for temporary files."""

    def __init__(self, python: Path, scratch: Path) -> None:
        # Not resolved: the link in a virtual environment is what makes Python use that environment.
        self.python = Path(os.path.abspath(python))  # noqa: PTH100
        self.scratch = scratch
        code = "import hedgerow, sys; sys.stdout.write(hedgerow.__file__)"
        found = subprocess.run(
            [self.python, "-c", code], cwd=scratch, env=self.environment(), capture_output=True, text=True, check=False
        )
        if found.returncode:
            raise SystemExit(f"golden: {self.python} cannot import hedgerow:\n{found.stderr}")
        self.package = Path(found.stdout).parent
        """The folder of the package that is recorded."""

    @property
    def root(self) -> Path:
        """The folder of the checkout, which has docs/ and src/."""
        return self.package.parents[1]

    def environment(self) -> dict[str, str]:
        """The environment of all programs: fixed keys, width and language, no colours, none of the user's settings."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("HEDGEROW") and not name.lower().endswith("_proxy") and name not in _FORGOTTEN_NAMES
        }
        fixed = {
            "HEDGEROW_KEYS": KEYS,
            "RUNTIME_DIRECTORY": str(self.scratch / "run"),
            "XDG_STATE_HOME": str(self.scratch / "home-state"),
            "COLUMNS": str(WIDTH),
            "TERMINAL_WIDTH": str(WIDTH),
            "LINES": "50",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "USER": "golden",
            "LOGNAME": "golden",
            "PYTHONUTF8": "1",
        }
        return {**kept, **fixed}

    def run(self, *arguments: str | Path, cwd: Path | None = None, given: bytes = b"", nice: int = 0) -> Output:
        """Run `hedgerow` with *arguments*; *given* is its standard input."""
        return self.run_python("-m", "hedgerow", *arguments, cwd=cwd, given=given, nice=nice)

    def run_python(self, *arguments: str | Path, cwd: Path | None = None, given: bytes = b"", nice: int = 0) -> Output:
        """Run the Python of this checkout with *arguments*. The higher *nice* is, the more it gives way to others."""
        command = [self.python, *arguments]
        done = subprocess.run(
            ["nice", "-n", str(nice), *command] if nice else command,
            cwd=cwd or self.scratch,
            env=self.environment(),
            input=given,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        return Output(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))

    def run_all(
        self, commands: Sequence[tuple[Sequence[str], Mapping[str, str]]], cwd: Path | None = None
    ) -> list[Output]:
        """Run several commands in one process: for those that start no servers and leave nothing behind."""
        done = self.run_python("-P", _CHILD, cwd=cwd, given=json.dumps(commands).encode())
        if done.status:
            raise SystemExit(f"golden: {self.python} cannot run commands:\n{done.text()}")
        return [Output(*one) for one in json.loads(done.out)]

    def start(self, arguments: Sequence[str | Path], log: Path) -> Process:
        """Start the Python of this checkout with *arguments* as a server whose output goes to *log*."""
        return Process([str(self.python), *map(str, arguments)], log, self.scratch, self.environment())

    def folder(self, name: str) -> Path:
        """A new temporary folder."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.scratch))


class Process:
    """A server; stopped by its own process id."""

    def __init__(self, command: Sequence[str], log: Path, cwd: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=cwd, env=environment
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def output(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def stop(self) -> None:
        """End it with SIGTERM, or with SIGKILL where that takes more than half a minute."""
        if self.alive:
            self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

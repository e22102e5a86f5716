"""Real servers, each a process of its own that is stopped by its id."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from attached import attached
from hedgerow.core.visit import Marker
from hedgerow.markers.clean import without_marks
from hedgerow.markers.encoding import KIND_CODES
from hedgerow.markers.token import TokenCodec, TokenCodecs, page_digest, visitor_digest
from hedgerow.web.key_file import load_keys

HEDGEROW = Path(sys.executable).parent / "hedgerow"
# 0 is wanted. uvicorn raises the signal once more after it has ended well; `test_upstream` waits for the change.
PATIENCE = 120.0
"""Seconds after which something that is not there is held to be broken. Never decides a test that goes well."""


def find_program(name: str) -> str | None:
    """The path of a program, also where only root's PATH has it."""
    for folder in [*os.environ.get("PATH", "").split(os.pathsep), "/usr/sbin", "/usr/local/sbin"]:
        path = Path(folder) / name
        if folder and os.access(path, os.X_OK):
            return str(path)
    return None


_dice = random.SystemRandom()


def free_port() -> int:
    """
    A port at which nobody listens, and that nobody else gets between this and its use.

    It is below those that the system hands out by itself, and its name is taken: tests that run side by side, each in
    a process of its own, never choose the same.
    """
    while True:
        port = _dice.randrange(20_000, 32_000)
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0hedgerow tests {port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            name.close()
            continue
        name.detach()  # for as long as this process runs
        return port


def wait_for(what: str, there: Callable[[], object], *, patience: float = PATIENCE) -> None:
    """Wait until *there* says something true."""
    end = time.monotonic() + patience
    while not there():
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience:g} s in vain: {what}")
        time.sleep(0.02)


def clean_environment(**more: str) -> dict[str, str]:
    """The environment without anything that could send a client elsewhere or change the settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HEDGEROW__") and not name.lower().endswith("_proxy")
    }
    return {**kept, **more}


def run(command: list[str], *, cwd: Path) -> str:
    """What a program says that must end well."""
    home = {"HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
    done = subprocess.run(
        command, cwd=cwd, env=clean_environment(**home), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


class Running:
    """A process with a log."""

    def __init__(
        self, command: list[str], log: Path, *, cwd: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                attached(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=clean_environment(**(environment or {})),
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def said(self) -> str:
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def stop(self, *, patience: float = PATIENCE) -> int:
        """SIGTERM, and its exit status."""
        if self.alive:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"process {self.pid} did not stop in {patience:g} s:\n{self.said()}") from None


class Nginx:
    """nginx in front of a folder. *more* goes into its server block."""

    def __init__(self, program: str, folder: Path, root: Path, *, more: str = "") -> None:
        self._program = program
        self._folder = folder
        self.root = root
        self._more = more
        self.access_log = folder / "access.log"
        self.port = free_port()
        self.running: Running | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self._folder / "error.log"

    def start(self) -> None:
        """Start, or start again on the same port. If the port was taken meanwhile, the first start takes another."""
        first = not (self._folder / "nginx.conf").exists()
        for _ in range(5):
            (self._folder / "nginx.conf").write_text(self._config())
            running = Running(
                [self._program, "-p", str(self._folder), "-c", "nginx.conf", "-e", str(self.log)],
                self.log,
                cwd=self._folder,
            )
            try:
                wait_for("nginx", lambda running=running: answers(self.port) or not running.alive)
            except AssertionError:
                running.stop()
                raise
            if running.alive:
                self.running = running
                return
            if not first:
                break
            self.port = free_port()
        raise AssertionError(f"nginx does not start:\n{self.log.read_text()}")

    def stop(self) -> None:
        if self.running is not None:
            self.running.stop()
            self.running = None

    def _config(self) -> str:
        here = self._folder
        user = "user root;" if os.geteuid() == 0 else ""
        temporary = "".join(
            f"{name}_temp_path {here}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        return f"""{user}
daemon off;
worker_processes 1;
pid {here}/nginx.pid;
error_log {self.log} warn;
events {{ worker_connections 1024; }}
http {{
include /etc/nginx/mime.types;
{temporary}
log_format visits '$http_x_forwarded_for\t$remote_addr\t$status\t$request_uri';
access_log {self.access_log} visits;
gzip on; gzip_types text/css; gzip_min_length 100;
server {{ listen 127.0.0.1:{self.port}; root {self.root}; index index.html; {self._more} }}
}}
"""

    def pages_given_to(self, address: str) -> set[str]:
        """The pages that the site gave to *address*, directly or through Hedgerow."""
        given = set()
        for line in self.access_log.read_text("utf-8", "replace").splitlines():
            forwarded, remote, status, target = line.split("\t", 3)
            if (remote if forwarded == "-" else forwarded) == address and status in {"200", "206"}:
                name = target.partition("?")[0].removeprefix("/") or "index.html"
                if name.endswith(".html"):
                    given.add(name)
        return given


class Protect:
    """`hedgerow protect` in front of *upstream*, as anybody would start it, with a directory of its own."""

    def __init__(
        self,
        upstream: str,
        folder: Path,
        *,
        settings: str = "",
        admin: bool = True,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        command = [str(HEDGEROW), "protect", upstream, "--listen", "127.0.0.1:0", *options]
        if admin:
            command += ["--admin", "127.0.0.1:0"]
        self.config = folder / "hedgerow.toml"
        if settings:
            self.config.write_text(settings)
            command += ["--config", str(self.config)]
        self.running = Running(
            command, folder / "protect.log", cwd=folder,
            environment={"HEDGEROW__DIRECTORY": str(folder / "state"), **(environment or {})},
        )  # fmt: skip
        self._stopped = False
        try:
            wait_for("hedgerow protect", lambda: self._found("protecting .* at") or not self.running.alive)
            self.url = self._found("protecting .* at")
            wait_for("an answer", lambda: (self.port and answers(self.port)) or not self.running.alive)
            self.admin = ""
            if admin:
                wait_for("the admin listener", lambda: self._found("metrics at") or not self.running.alive)
                self.admin = self._found("metrics at")
        except AssertionError:
            self.running.stop()
            raise
        assert self.running.alive, self.running.said()

    def _found(self, before: str) -> str:
        found = re.search(before + r" (https?://127\.0\.0\.1:\d+)", self.running.said())
        return found[1] if found else ""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2] or 0)

    @property
    def pid(self) -> int:
        return self.running.pid

    @property
    def log(self) -> Path:
        return self.running.log

    def said(self) -> str:
        return self.running.said()

    def stop(self, *, patience: float = PATIENCE) -> None:
        """SIGTERM; it must end well and have nothing to complain of."""
        if self._stopped:
            return
        self._stopped = True
        status = self.running.stop(patience=patience)
        said = self.said()
        assert status == 0, f"hedgerow protect ended with {status}:\n{said}"
        assert "Traceback" not in said, said

    def ask_admin(self, path: str) -> str:
        # Opened without the proxies that the environment may name.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.admin + path, timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    def blocked(self) -> dict[str, str]:
        """Who is blocked, and why."""
        return {block["key"]: block["evidence"]["text"] for block in json.loads(self.ask_admin("/blocks"))}

    def metric(self, name: str) -> float:
        for line in self.ask_admin("/metrics").splitlines():
            if line.startswith(name + " "):
                return float(line.rpartition(" ")[2])
        raise AssertionError(f"no metric {name}")

    def visits(self) -> list[sqlite3.Row]:
        """The ledger; complete once Hedgerow has stopped."""
        with contextlib.closing(sqlite3.connect(self.folder / "state" / "ledger.sqlite")) as ledger:
            ledger.row_factory = sqlite3.Row
            return ledger.execute("SELECT * FROM visits ORDER BY id").fetchall()

    def marker(self, url: str) -> Marker | None:
        """What an address of ours says, opened with the key; None where it is the site's own."""
        address = url.removeprefix(self.url).partition("#")[0]
        path = address.partition("?")[0]
        if path.startswith("/~"):
            return self._seal().unseal(path.removeprefix("/~"))
        mark = re.search(r"[?&]~=([\w-]{23})\.([\w-]{4})(?=&|$)", address)
        view = self._seal().clean.open(mark[1]) if mark else None
        if mark is None or view is None:
            return None
        # A relative link is one of a page in the top folder: all sites here are flat, or have absolute links.
        target = "/" + without_marks(address.encode()).decode().removeprefix("/")
        kind = self._seal().clean.kind(view, mark[2], target, target.partition("?")[0])
        return Marker(kind, view.issued_to, view.parent, target) if kind is not None else None

    def _seal(self) -> TokenCodec:
        return TokenCodecs(load_keys(self.folder / "state" / "hedgerow.key", 0.0)).of("127.0.0.1")

    def marked(self, target: str, who: str = "127.0.0.1") -> str:
        """The marked address of *target*, as it stands on the start page for *who*."""
        clean = self._seal().clean
        view = clean.view(visitor_digest(who), page_digest("/"), time.time())
        (check,) = clean.checks(view, clean.plan([KIND_CODES["page"] + target.encode()]))
        return f"{target}{'&' if '?' in target else '?'}~={view.text.decode()}.{check.decode()}"

    def is_trap(self, url: str) -> bool:
        marker = self.marker(url)
        return marker is not None and marker.kind in {"trap", "maze"}

    def plain(self, url: str) -> str:
        """An address as the site knows it. One that leads nowhere, such as a trap, stays as it is."""
        marker = self.marker(url)
        if marker is None or self.is_trap(url):
            return url
        _, hash_, place = url.partition("#")
        return (self.url if url.startswith(self.url) else "") + marker.target + hash_ + place

    def memory(self) -> int:
        """Bytes that the process has in memory now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024


def ask(server: Protect, path: str = "/") -> int:
    """The status of one request for a page, on a connection of its own: any worker may get it."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"Connection": "close", "Accept": "text/html", "Sec-Fetch-Mode": "navigate"}
    request = urllib.request.Request(server.url + path, headers=headers)
    try:
        with opener.open(request, timeout=PATIENCE) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@contextlib.contextmanager
def stopping(*servers: Nginx | Protect) -> Iterator[None]:
    """Stop *servers*, the last first, whatever happens."""
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.callback(server.stop)
        yield

"""The forms in which Hedgerow is deployed, each as servers on loopback that a recording starts and stops."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from goldens.checkout import Checkout, Process
from goldens.exchange import HOST, Answer, Request, send

PATIENCE = 60.0
_APPLICATION = Path(__file__).with_name("application.py")
_FRONT = "127.0.0.1"
"""Where a front server asks from: the settings of all recordings trust it."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(what: str, there: Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait until *there* returns something true."""
    end = time.monotonic() + patience
    while not there():
        if time.monotonic() > end:
            raise SystemExit(f"golden: waited {patience:g} s for {what}")
        time.sleep(0.02)


class Form:
    """A running Hedgerow of one form. `send` sends a visitor's request through it."""

    name = ""
    rewrites = True
    """Whether pages get marked links and hidden links."""
    is_proxy = False

    def __init__(self, checkout: Checkout, settings: str) -> None:
        self.checkout = checkout
        self.folder = checkout.folder(self.name)
        self.state = self.folder / "state"
        self.config = self.folder / "hedgerow.toml"
        self.config.write_text(f'directory = "{self.state}"\n{settings}', "utf-8")
        self._seen = self.folder / "seen"
        self._seen.touch()
        self._read = 0
        self._processes: list[Process] = []
        self.port = free_port()
        self.admin: int | None = None

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        while self._processes:
            self._processes.pop().stop()

    def temporary(self) -> dict[str, str]:
        """Strings of this run alone, and what is written for them."""
        return {str(self.folder): "(folder)", f":{self.port}": ":(port)"}

    def run(self, what: str, port: int, arguments: list[Any]) -> None:
        """Start a server, and wait until it answers at *port*."""
        process = self.checkout.start(arguments, self.folder / f"{what}.log")
        self._processes.append(process)
        wait_for(f"{what} of {self.name}", lambda: not process.alive or _answers(port))
        if not process.alive:
            raise SystemExit(f"golden: {what} of {self.name} ended:\n{process.output()}")

    def run_application(self, kind: str, port: int, *arguments: str | Path) -> None:
        self.run(kind, port, ["-P", _APPLICATION, kind, str(port), self._seen, *arguments])

    def send(self, request: Request) -> Answer:
        return send(self.port, request)

    def received(self) -> list[dict[str, Any]]:
        """The requests that reached the site since this was last called."""
        lines = self._seen.read_text("utf-8").splitlines()
        new, self._read = lines[self._read :], len(lines)
        return [json.loads(line) for line in new]


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


class Protect(Form):
    """`hedgerow protect` in front of the site."""

    name = "protect"
    is_proxy = True
    more: tuple[str, ...] = ()

    def start(self) -> None:
        self._site = free_port()
        self.admin = free_port()
        self.run_application("upstream", self._site)
        listen, admin = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.admin}"
        command = ["-m", "hedgerow", "protect", f"http://127.0.0.1:{self._site}", "--listen", listen]
        self.run("protect", self.port, [*command, "--config", self.config, "--admin", admin, *self.more])
        wait_for("the admin listener", lambda: _answers(self.admin or 0))

    def temporary(self) -> dict[str, str]:
        return {**super().temporary(), f":{self._site}": ":(port of the site)", f":{self.admin}": ":(admin port)"}


class Workers(Protect):
    """`hedgerow protect` with two processes, which share their state in a file."""

    name = "workers"
    more = ("--workers", "2")


class Asgi(Form):
    """The ASGI middleware."""

    name = "asgi"

    def start(self) -> None:
        self.run_application("asgi", self.port, self.config)


class Wsgi(Form):
    """The WSGI middleware."""

    name = "wsgi"

    def start(self) -> None:
        self.run_application("wsgi", self.port, self.config)


class Serve(Form):
    """`hedgerow serve`, asked at /auth as Caddy and Traefik ask: the answer is the visitor's answer."""

    name = "serve"
    rewrites = False

    def start(self) -> None:
        self.admin = free_port()
        listen, admin = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.admin}"
        command = ["-m", "hedgerow", "serve", "--listen", listen, "--config", self.config, "--admin", admin]
        self.run("serve", self.port, command)
        wait_for("the admin listener", lambda: _answers(self.admin or 0))

    def temporary(self) -> dict[str, str]:
        return {**super().temporary(), f":{self.admin}": ":(admin port)"}

    def send(self, request: Request) -> Answer:
        if request.target.startswith("/.hedgerow/"):
            return self._ask(request.target, request, whole=True)
        return self._ask("/auth", request)

    def _ask(self, path: str, request: Request, *more: tuple[str, str], whole: bool = False) -> Answer:
        """Ask as a front does: *whole* says that method and body are those of the visitor."""
        kept = [(name, value) for name, value in request.headers if not name.lower().startswith("x-forwarded-")]
        about = [
            ("X-Forwarded-Method", request.method), ("X-Forwarded-Uri", request.target), ("X-Forwarded-Host", HOST),
            ("X-Forwarded-Proto", "http"), ("X-Forwarded-For", _client_of(request)), *more,
        ]  # fmt: skip
        method, body = (request.method, request.body) if whole else ("GET", b"")
        return send(self.port, Request(method, path, _FRONT, [*kept, *about], body))


class ServeLater(Serve):
    """`hedgerow serve`, asked at /auth/later as nginx and Apache ask: a refusal is fetched from /answer."""

    name = "serve-later"

    def send(self, request: Request) -> Answer:
        if request.target.startswith("/.hedgerow/"):
            return super().send(request)
        asked = self._ask("/auth/later", request)
        if asked.status != 401:
            return asked
        answer = self._ask("/answer", request, ("X-Hedgerow-Ref", asked.header("hedgerow-ref")), whole=True)
        earlier = [("Later-Decision", asked.header("hedgerow-decision"))]
        return answer._replace(headers=[*earlier, *answer.headers])


def _client_of(request: Request) -> str:
    forwarded = [value for name, value in request.headers if name.lower() == "x-forwarded-for"]
    return ", ".join([*forwarded, request.address])


ALL: tuple[type[Form], ...] = (Protect, Workers, Asgi, Wsgi, Serve, ServeLater)


@contextlib.contextmanager
def running(form: type[Form], checkout: Checkout, settings: str, prepare: Callable[[Form], None]) -> Iterator[Form]:
    """A running form; *prepare* is called before its servers start."""
    one = form(checkout, settings)
    prepare(one)
    try:
        one.start()
        yield one
    finally:
        one.stop()

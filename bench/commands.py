"""
`python -m bench commands`: commands beside a service that has many scored visitors, by its API and by its files.

`hedgerow protect` runs with a token, so that commands ask it, and then with users only, so that they use its files.
A visitor asks for a page meanwhile, fifty times a second.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from hedgerow.core.decision import Block, Evidence, VisitorScore
from hedgerow.settings import load_settings
from hedgerow.state.sqlite.journal import connect
from hedgerow.web.admin.passwords import hash_password
from hedgerow.web.paths import state_path
from real.servers import HEDGEROW, Running, clean_environment, free_port, wait_for

TOKEN = "a-long-token-of-the-measurement-0123456789"
EVERY = 0.02
COMMANDS = (
    ("visitors", "show", "--json"), ("visitors", "show", "192.0.2.1"), ("attack", "status"), ("limits", "--json"),
    ("lists", "show", "--blocks", "--json"),
)  # fmt: skip


def fill(path: Path, count: int) -> None:
    """Write scores, and blocks of a tenth of the visitors, as the state does."""
    dice, now = random.Random(1), time.time()
    evidence = Evidence("trap", "trap", 1.0, "Followed a hidden link.")
    encode = msgspec.json.encode
    with closing(connect(path)) as connection:
        connection.execute("BEGIN")
        for number in range(count):
            key = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            score = VisitorScore("suspect", 5 * dice.random(), now, 20_000, 3, 1, (("trap", 1), ("k1", 2)))
            connection.execute("INSERT INTO standings VALUES (?, ?, ?)", (key.encode(), now, encode(score)))
            if number % 10 == 0:
                block = Block(key, key, now, now + 86_400, "refuse", evidence)
                connection.execute("INSERT INTO blocks VALUES (?, ?, ?)", (key.encode(), block.until, encode(block)))
        connection.execute("COMMIT")


class Service:
    """`hedgerow protect` with a state of its own, and a visitor."""

    def __init__(self, folder: Path, login: str, count: int, options: Sequence[str]) -> None:
        self.folder, self.port, self.admin = folder, free_port(), free_port()
        config = folder / "settings.toml"
        config.write_text(
            f"directory = '{folder}'\n[state]\nmemory = 1000000000\n[admin]\nlisten = '127.0.0.1:{self.admin}'\n{login}"
        )
        fill(state_path(load_settings(config)), count)
        self._environment = {"RUNTIME_DIRECTORY": str(folder)}
        command = [str(HEDGEROW), "protect", "http://127.0.0.1:1", "--listen", f"127.0.0.1:{self.port}"]
        self.running = Running(
            [*command, "--config", str(config), *options], folder / "log", cwd=folder, environment=self._environment
        )
        wait_for("the service", lambda: self.visit() > 0)

    def visit(self) -> float:
        """Ask for a page, and return the seconds; 0 if nobody answers."""
        start = time.perf_counter()
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
                connection.request("GET", "/")
                connection.getresponse().read()
        except OSError:
            return 0.0
        return time.perf_counter() - start

    def part(self, after: str) -> tuple[float, str | None]:
        """Ask for one part of the state."""
        start = time.perf_counter()
        with closing(http.client.HTTPConnection("127.0.0.1", self.admin, timeout=60)) as connection:
            connection.request(
                "GET", f"/api/v1/state?size=500&after={after}", headers={"Authorization": f"Bearer {TOKEN}"}
            )
            answer = json.loads(connection.getresponse().read())
        return time.perf_counter() - start, answer["next"]

    def command(self, *arguments: str) -> float:
        start = time.perf_counter()
        subprocess.run(
            [str(HEDGEROW), *arguments], cwd=self.folder, env=clean_environment(**self._environment),
            capture_output=True, check=True, timeout=600,
        )  # fmt: skip
        return time.perf_counter() - start

    @contextmanager
    def visited(self, what: str) -> Iterator[None]:
        """Let a visitor ask for pages, and print how long these took."""
        times: list[float] = []
        ended = threading.Event()

        def ask() -> None:
            while not ended.wait(EVERY):
                times.append(self.visit())

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        times.sort()
        shown = [times[len(times) // 2], times[int(len(times) * 0.99)], times[-1]]
        median, p99, slowest = (f"{1000 * one:.1f}" for one in shown)
        print(f"  a page {what}: {len(times):,}; median {median} ms, p99 {p99} ms, slowest {slowest} ms")


def measure(service: Service, turns: int, *, by_api: bool) -> None:
    with service.visited("alone"):
        time.sleep(5)
    if by_api:
        answers: list[float] = []
        with service.visited("while all of the state is read"):
            for _ in range(turns):
                after: str | None = ""
                while after is not None:
                    seconds, after = service.part(after)
                    answers.append(seconds)
        median, slowest = statistics.median(answers), max(answers)
        print(f"  {len(answers):,} answers: median {1000 * median:.1f} ms, slowest {1000 * slowest:.1f} ms")
    with service.visited("while commands run"):
        for arguments in COMMANDS:
            seconds = statistics.median(service.command(*arguments) for _ in range(turns))
            print(f"  hedgerow {' '.join(arguments)}: {seconds:.2f} s")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scores", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args(arguments)
    logins = {
        "by the API": f"token = '{TOKEN}'\n",
        "by files": f"[[admin.users]]\nname = 'alice'\npassword = '{hash_password('a password')}'\n",
    }
    options = ["--workers", str(given.workers)] if given.workers > 1 else []
    for name, login in logins.items():
        print(f"{name}, {given.scores:,} scores:")
        with tempfile.TemporaryDirectory() as folder:
            service = Service(Path(folder), login, given.scores, options)
            try:
                measure(service, given.turns, by_api=name == "by the API")
            finally:
                service.running.stop()


if __name__ == "__main__":
    main()

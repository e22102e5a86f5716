"""
`[[path]]` and `hedgerow attack` with `hedgerow protect`: one process, workers, and Redis.

Programs ask over HTTP; the commands are run as an operator would. Chromium passes the whole site during an attack.
"""

from __future__ import annotations

import http.client
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .databases import RedisServer
from .servers import HEDGEROW, Nginx, Protect, clean_environment, wait_for

RULES = """
[[path]]
path = "/sql-select*"
protection = "off"

[[path]]
path = "/sql-insert*"
clearance = true

[[path]]
path = "/sql-c*"
limits = [{ count = 3, seconds = 600, of = "requests" }]
"""


@pytest.fixture(scope="module")
def site(nginx: Callable[..., Nginx], documentation: Path) -> Nginx:
    return nginx(documentation)


@pytest.fixture(params=["one process", "workers", "redis"])
def kind(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[str]]]:
    """More settings and options: the kind of state."""
    if request.param != "redis":
        yield "", ["--workers", "2"] if request.param == "workers" else []
        return
    server = RedisServer()
    try:
        yield f"[state]\nurl = '{server.url}'\ntimeout = 3.0\n", []
    finally:
        server.close()


def ask(hedgerow: Protect, path: str, who: str = "127.0.0.1") -> tuple[int, bytes]:
    """Return status and body of a request that a program makes from the address *who*."""
    connection = http.client.HTTPConnection("127.0.0.1", hedgerow.port, timeout=60, source_address=(who, 0))
    connection.request("GET", path, headers={"user-agent": "curl/8.0", "accept": "*/*"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def is_asked(hedgerow: Protect, who: str) -> bool:
    """Tell whether a program at a new address is asked for a clearance, because of an attack."""
    time.sleep(0.3)
    status, body = ask(hedgerow, "/sql-delete.html", who)
    return status == 429 and b"under-attack" in body


def run_command(hedgerow: Protect, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(HEDGEROW), *arguments, "--config", str(hedgerow.config)],
        capture_output=True, text=True, timeout=60, check=False,
        env=clean_environment(HEDGEROW__DIRECTORY=str(hedgerow.folder / "state"), COLUMNS="200"),
    )  # fmt: skip


def command(hedgerow: Protect, *arguments: str) -> str:
    done = run_command(hedgerow, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_rules_and_an_attack(
    site: Nginx, protect: Callable[..., Protect], kind: tuple[str, list[str]], address: Callable[[], str]
) -> None:
    hedgerow = protect(site.url, settings=kind[0] + RULES, options=kind[1])
    who = address()

    def status(path: str) -> int:
        return ask(hedgerow, path, who)[0]

    assert ask(hedgerow, "/sql-select.html", who) == (200, (site.root / "sql-select.html").read_bytes())
    assert status("/sql-insert.html") == 429
    found = [status(f"/sql-c{name}.html") for name in ("reateview", "reateindex", "reatetable", "reatedatabase")]
    assert found == [200, 200, 200, 429]
    assert status("/sql-delete.html") == 200
    wait_for("the line of the decision", lambda: "rule for /sql-insert*" in hedgerow.said())
    assert "rule        /sql-select*: protection off" in command(hedgerow, "explain", "/sql-select.html")
    # The process that writes the ledger gets the visits of the workers a moment later.
    applied = "rule        The rule for the path /sql-c* applies"
    wait_for("the visit in the ledger", lambda: applied in run_command(hedgerow, "explain", who).stdout)

    assert command(hedgerow, "attack", "status") == "off\n"
    command(hedgerow, "attack", "on", "--for", "10m")
    wait_for("the attack", lambda: is_asked(hedgerow, address()))
    assert status("/sql-select.html") == 200
    wait_for("the metric", lambda: hedgerow.metric("hedgerow_under_attack") == 1)
    assert "under attack" in hedgerow.said()
    command(hedgerow, "attack", "off")
    wait_for("the end", lambda: not is_asked(hedgerow, address()))


def test_a_browser_reads_the_site_during_an_attack(
    site: Nginx, protect: Callable[..., Protect], browser: Any, address: Callable[[], str]
) -> None:
    """It obtains a clearance by itself, before the first page, and notices nothing on the others."""
    hedgerow = protect(site.url, settings="[responses]\nsite = 'docs'\n")
    command(hedgerow, "attack", "on")
    wait_for("the attack", lambda: is_asked(hedgerow, address()))
    page = browser.new_page()
    page.goto(hedgerow.url + "/sql-select.html")
    wait_for("the page", lambda: "SELECT" in page.title())
    for name in ("sql-insert", "sql-delete"):
        answer = page.goto(f"{hedgerow.url}/{name}.html")
        assert answer.status == 200

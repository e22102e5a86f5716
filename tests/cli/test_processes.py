"""`hedgerow protect`, `serve` and `client` end well on SIGTERM, whenever it arrives."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from driving import settings
from hedgerow.cli.processes import per_worker
from real.servers import HEDGEROW, Running, answers, free_port, wait_for

UPSTREAM = "http://127.0.0.1:1"
COMMANDS = {
    "protect": ["protect", UPSTREAM],
    "protect with workers": ["protect", UPSTREAM, "--workers", "2"],
    "serve": ["serve"],
    "serve with workers": ["serve", "--workers", "2"],
}


@contextlib.contextmanager
def started(folder: Path, command: list[str]) -> Iterator[tuple[Running, int]]:
    """A command with a listener, and its port."""
    port = free_port()
    running = Running(
        [str(HEDGEROW), *command, "--listen", f"127.0.0.1:{port}"], folder / "log", cwd=folder,
        environment={"HEDGEROW__DIRECTORY": str(folder / "state")},
    )  # fmt: skip
    try:
        yield running, port
    finally:
        running.stop()


def ask(port: int) -> None:
    """One visit; nothing listens behind Hedgerow, so the answer is an error."""
    with contextlib.suppress(urllib.error.HTTPError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60).close()


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_sigterm_ends_a_command_well_while_it_starts_and_its_port_is_open(tmp_path, command):
    # The settings are a pipe: they are read once before the port is bound, and the second time waits for a writer.
    settings = tmp_path / "hedgerow.toml"
    os.mkfifo(settings)
    with started(tmp_path, [*command, "--config", str(settings)]) as (running, port):
        settings.write_text('[identity]\ntrusted_proxies = ["127.0.0.1/32"]\n')
        wait_for("an open port", lambda: answers(port) or not running.alive)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == 0, running.said()
    assert "Traceback" not in running.said()


@pytest.mark.parametrize("command", [COMMANDS["protect"], COMMANDS["protect with workers"]])
def test_sigterm_ends_a_command_well_however_often_it_is_sent(tmp_path, command):
    with started(tmp_path, command) as (running, port):
        wait_for("an open port", lambda: answers(port) or not running.alive)
        ask(port)
        end = time.monotonic() + 60
        while running.alive and time.monotonic() < end:
            running.process.send_signal(signal.SIGTERM)
            time.sleep(0.001)
        assert running.process.returncode == 0, running.said()
    assert "Traceback" not in running.said()
    with contextlib.closing(sqlite3.connect(tmp_path / "state" / "ledger.sqlite")) as ledger:
        assert ledger.execute("SELECT count(*) FROM visits").fetchone() == (1,)


def test_sigterm_ends_a_client_well_as_soon_as_its_port_is_open(tmp_path):
    (tmp_path / "token").write_text("token-of-the-shop\n")
    with started(tmp_path, ["client", UPSTREAM, "--token-file", "token"]) as (running, port):
        # No pause between two looks: the event loop runs a few milliseconds after the port is open.
        while not answers(port) and running.alive:
            pass
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == 0, running.said()


@pytest.mark.parametrize(
    ("entries", "workers", "each"), [(150, 4, 37), (150, 2, 75), (150, 64, 30), (20, 4, 20), (0, 4, 0)]
)
def test_each_worker_counts_a_part_of_the_entries_to_the_site(entries, workers, each):
    assert per_worker(settings(f"[rotating]\nentries = {entries}\n"), workers).rotating.entries == each

"""`/live`, `/ready` and `/health`: what they say while a part fails, and when it works again."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import time

import pytest

from driving import settings
from hedgerow.core.decision import PASS
from hedgerow.core.visit import Visit
from hedgerow.lists.model import Listing
from hedgerow.web.app import Site
from hedgerow.web.health import Health
from hedgerow.web.stores import build_list_store
from real.servers import free_port


@pytest.fixture
def site(tmp_path):
    site = Site(settings(f'directory = "{tmp_path}"\n'))
    yield site
    site.close()


def answer(site: Site, path: str = "/ready", upstream: str = "") -> tuple[int, str]:
    status, text = asyncio.run(Health(site, upstream).answer(path))
    return status, text.decode()


def eventually(site: Site, expected: int) -> str:
    deadline = time.monotonic() + 60
    while (found := answer(site))[0] != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found[0] == expected, found
    return found[1]


def visit() -> Visit:
    return Visit(time.time(), "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", "/")


@pytest.mark.parametrize("path", ["/ready", "/health"])
def test_a_site_that_works_is_well(site, path):
    assert answer(site, path) == (200, "well\n")


def test_the_protected_site_must_be_reachable(site):
    port = free_port()
    upstream = f"http://127.0.0.1:{port}"
    for path in ("/ready", "/health"):
        status, text = answer(site, path, upstream)
        assert (status, text) == (
            503, f"failing: upstream\nupstream: {upstream} cannot be reached: Connection refused\n",
        )  # fmt: skip
    assert answer(site, "/live", upstream) == (200, "alive\n")
    with socket.create_server(("127.0.0.1", port)):
        assert answer(site, upstream=upstream) == (200, "well\n")


def test_a_ledger_that_loses_visits_is_named(site, tmp_path):
    with sqlite3.connect(tmp_path / "ledger.sqlite") as connection:
        connection.execute("ALTER TABLE visits RENAME TO gone")
    site.app.gate.record(visit(), PASS, 200)
    assert eventually(site, 503).startswith("failing: ledger\n")
    with sqlite3.connect(tmp_path / "ledger.sqlite") as connection:
        connection.execute("ALTER TABLE gone RENAME TO visits")
    site.app.gate.record(visit(), PASS, 200)
    assert eventually(site, 200) == "well\n"


def test_lists_that_cannot_be_read_are_named(site, tmp_path):
    build_list_store(site.app.settings).add(Listing("black", "192.0.2.1", "", "", 0.0, 0.0))
    with sqlite3.connect(tmp_path / "lists.sqlite") as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE TABLE%'").fetchall():
            if not table.startswith("sqlite_"):
                connection.execute(f"ALTER TABLE {table} RENAME TO {table}_gone")
    assert eventually(site, 503).startswith("failing: lists\n")


def test_blocks_that_cannot_be_stored_are_named(site, tmp_path):
    with sqlite3.connect(tmp_path / "state.sqlite") as connection:
        connection.execute("ALTER TABLE standings RENAME TO gone")
    site.stores.journal.note_score("192.0.2.1", None)
    assert eventually(site, 503).startswith("failing: journal\n")
    with sqlite3.connect(tmp_path / "state.sqlite") as connection:
        connection.execute("ALTER TABLE gone RENAME TO standings")
    eventually(site, 200)


def test_a_watch_that_fails_is_named_until_it_works_again(site):
    assert site.watch is not None
    site.watch.add(None, None)  # type: ignore[arg-type]
    assert eventually(site, 503).startswith("failing: watch\n")
    site.watch.add(visit(), PASS)
    eventually(site, 200)


def test_a_result_is_kept_for_a_moment(site):
    port = free_port()
    health = Health(site, f"http://127.0.0.1:{port}")

    async def ask_twice() -> tuple[int, int]:
        first, _ = await health.answer("/ready")
        with socket.create_server(("127.0.0.1", port)):
            second, _ = await health.answer("/ready")
        return first, second

    assert asyncio.run(ask_twice()) == (503, 503)

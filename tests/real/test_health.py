"""Health of a running gate while Redis, PostgreSQL or the site are down, and the health check of the container."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from hedgerow.ledger.postgresql import migrate

from .databases import PostgresServer, RedisServer
from .servers import Nginx, Protect, find_program, wait_for

DOCKERFILE = Path(__file__).parents[2] / "deploy" / "docker" / "Dockerfile"


def ready(gate: Protect, path: str = "/ready") -> tuple[int, str]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(gate.admin + path, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def fails_with(gate: Protect, *parts: str) -> None:
    wait_for(f"failing: {parts}", lambda: ready(gate)[1].startswith(f"failing: {', '.join(parts)}\n"))
    assert ready(gate)[0] == 503


@pytest.fixture
def nginx(tmp_path):
    program = find_program("nginx")
    if program is None:
        pytest.skip("needs nginx")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "index.html").write_text("<p>Hello</p>")
    server = Nginx(program, tmp_path / "nginx", tmp_path / "root")
    yield server
    server.stop()


@pytest.mark.parametrize("options", [(), ("--workers", "2")], ids=["one process", "workers"])
def test_what_is_down_is_named(nginx, tmp_path, options):
    redis, postgresql = RedisServer(), PostgresServer()
    try:
        url = postgresql.new_database()
        migrate(url)
        settings = f'[state]\nurl = "{redis.url}"\n[ledger]\nurl = "{url}"\n[lists]\nurl = "{url}"\n'
        gate = Protect(nginx.url, tmp_path / "gate", settings=settings, options=options)
        try:
            wait_for("a gate that is well", lambda: ready(gate) == (200, "well\n"))
            redis.stop()
            fails_with(gate, "state")
            redis.start()
            wait_for("a gate that is well", lambda: ready(gate) == (200, "well\n"))
            postgresql.stop()
            fails_with(gate, "ledger", "lists")
            nginx.stop()
            fails_with(gate, "upstream", "ledger", "lists")
            assert ready(gate, "/live") == (200, "alive\n")
        finally:
            gate.stop()
    finally:
        redis.close()
        postgresql.close()


def test_the_ledger_of_a_worker_is_watched(nginx, tmp_path):
    gate = Protect(nginx.url, tmp_path / "gate", options=("--workers", "2"))
    try:
        wait_for("a gate that is well", lambda: ready(gate) == (200, "well\n"))
        with sqlite3.connect(tmp_path / "gate" / "state" / "ledger.sqlite") as connection:
            connection.execute("ALTER TABLE visits RENAME TO gone")
        with urllib.request.urlopen(gate.url + "/", timeout=60) as answer:
            assert answer.status == 200
        fails_with(gate, "ledger")
        assert "(process " in ready(gate)[1]
    finally:
        gate.stop()


def test_the_health_check_of_the_container_asks_the_admin_listener(nginx, tmp_path):
    text = DOCKERFILE.read_text()
    check = re.search(r"^HEALTHCHECK .*\\\n +CMD (\[.*\])$", text, re.MULTILINE)
    assert check is not None
    name, *words = json.loads(check[1])
    assert name == "python"
    listen = re.search(r"HEDGEROW__ADMIN__LISTEN=(\S+)", text)[1]
    gate = Protect(nginx.url, tmp_path / "gate", admin=True)
    _, _, port = gate.admin.rpartition(":")

    def status() -> int:
        # Only the port is another: several tests run on one machine.
        assert "8081" in words[1]
        assert listen == "127.0.0.1:8081"
        here = [word.replace("8081", port) for word in words]
        return subprocess.run([sys.executable, *here], timeout=60, check=False, capture_output=True).returncode

    try:
        assert status() == 0
        nginx.stop()
        assert status() == 0
    finally:
        gate.stop()
    assert status() != 0

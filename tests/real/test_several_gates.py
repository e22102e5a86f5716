"""Two gates and two watches with one Redis and one PostgreSQL: what one knows all know, and what if one dies."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from hedgerow.core.decision import PASS
from hedgerow.core.visit import Marker, Visit
from hedgerow.ledger.postgresql import migrate
from hedgerow.lists.postgresql_store import PostgresLists
from hedgerow.markers.token import page_digest, visitor_digest
from hedgerow.state.redis.address import parse_redis_address
from hedgerow.state.redis.thread_connection import ThreadConnection
from hedgerow.watch.redis_streams import PARTS, Streams
from hedgerow.watch.session_store import PendingSession
from hedgerow.web.key_file import new_key, write_keys

from .databases import PATIENCE, PostgresServer, RedisServer
from .outage import Load
from .servers import HEDGEROW, Nginx, Protect, Running, ask, clean_environment, wait_for

SETTINGS = """
[state]
url = "{redis}"
prefix = "site:"
# Long: on a busy machine the default gives up now and then, and a gate goes on by itself. Here all is to be counted.
timeout = 3.0
[ledger]
url = "{postgresql}"
[lists]
url = "{postgresql}"
[watch]
enabled = false
[containment]
enabled = false
[policy]
suspects = "refuse"
[density]
windows = [{{ count = 30, seconds = 600.0 }}]
block_for = 600.0
[identity]
trusted_proxies = []
"""


@pytest.fixture(scope="module")
def redis():
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def postgresql():
    server = PostgresServer()
    yield server
    server.close()


class Gates:
    """Two gates in front of one site, as on two machines: each with a directory of its own."""

    def __init__(self, protect: Callable[..., Protect], site: Nginx, redis: RedisServer, url: str) -> None:
        self.settings = SETTINGS.format(redis=redis.url, postgresql=url)
        self.url = url
        # Links that one has marked are opened by the other.
        keys = {"HEDGEROW_KEYS": write_keys([new_key(time.time())])}
        self.both = [protect(site.url, settings=self.settings, environment=keys) for _ in range(2)]

    def rows(self) -> int:
        with psycopg.connect(self.url) as connection:
            return int(connection.execute("SELECT count(*) FROM visits").fetchone()[0])

    def forgive(self) -> None:
        request = urllib.request.Request(self.both[0].admin + "/forgive", data=b"key=127.0.0.1", method="POST")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        # Where nothing is known against it, that is 404.
        with contextlib.suppress(urllib.error.HTTPError):
            opener.open(request, timeout=PATIENCE).close()


@pytest.fixture(scope="module")
def gates(protect, site, redis, postgresql):
    url = postgresql.new_database()
    migrate(url)
    return Gates(protect, site, redis, url)


def test_a_crawler_that_spreads_its_requests_is_caught_as_fast_as_on_one(gates):
    answers = [ask(gates.both[n % 2]) for n in range(40)]
    assert answers == [200] * 30 + [429] * 10
    assert list(gates.both[0].blocked()) == list(gates.both[1].blocked()) == ["127.0.0.1"]
    wait_for("the ledger", lambda: gates.rows() == 40)


def test_forgiven_by_one_is_forgiven_by_all(gates):
    gates.forgive()
    assert [ask(gate) for gate in gates.both] == [200, 200]


def test_while_redis_hangs_or_is_gone_the_site_is_up_and_what_was_blocked_stays_so(gates, redis):
    first, second = gates.both
    while ask(first) == 200:
        pass
    assert ask(second) == 429
    redis.kill(signal.SIGSTOP)
    try:
        # Both have seen the block before, and both go on by themselves.
        assert [ask(gate) for gate in gates.both] == [429, 429]
    finally:
        redis.kill(signal.SIGCONT)
    redis.kill(signal.SIGKILL)
    try:
        assert [ask(gate) for gate in gates.both] == [429, 429]
    finally:
        redis.start()
    # A Redis that has lost everything is told what was decided without it, and is used again.
    for gate in gates.both:
        wait_for("Redis again", lambda gate=gate: "Redis answers again" in gate.said().rpartition("does not answer")[2])
    gates.forgive()
    # A line that was idle while Redis died finds that out now, and passes it on once it is up again.
    wait_for("forgiven", lambda: ask(first) == ask(second) == 200)
    answers = []
    while len(answers) < 60 and answers.count(429) < 2:
        answers.append(ask(gates.both[len(answers) % 2]))
    assert answers[-2:] == [429, 429]


def test_what_is_decided_at_one_while_redis_is_away_holds_at_both_when_it_is_back(gates, redis):
    first, second = gates.both
    gates.forgive()
    # A gate hears of that from Redis with its next request.
    wait_for("forgiven", lambda: ask(first) == ask(second) == 200)
    redis.kill(signal.SIGSTOP)
    try:
        while ask(first) == 200:
            pass
        assert ask(second) == 200
    finally:
        redis.kill(signal.SIGCONT)
    wait_for("the block at the other", lambda: list(second.blocked()) == ["127.0.0.1"])
    # It uses Redis again a moment later.
    wait_for("its use", lambda: ask(second) == 429)
    redis.kill(signal.SIGSTOP)
    try:
        gates.forgive()
        assert [ask(gate) for gate in gates.both] == [200, 429]
    finally:
        redis.kill(signal.SIGCONT)
    wait_for("forgiven at the other", lambda: ask(second) == 200)
    assert ask(first) == 200


def hedgerow(gate: Protect, *words: str) -> None:
    """A command of the operator, on the machine of this gate."""
    command = [str(HEDGEROW), *words, "--config", str(gate.config)]
    environment = clean_environment(HEDGEROW__DIRECTORY=str(gate.folder / "state"))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE * 2, check=False)
    assert done.returncode == 0, done.stderr


def test_what_the_operator_says_on_one_machine_holds_on_the_other(gates):
    first, second = gates.both
    gates.forgive()
    wait_for("forgiven", lambda: ask(first) == ask(second) == 200)
    hedgerow(first, "visitors", "block", "127.0.0.1")
    assert [ask(gate) for gate in gates.both] == [403, 403]
    gates.forgive()
    assert [ask(gate) for gate in gates.both] == [200, 200]
    hedgerow(second, "lists", "add", "black", "127.0.0.1")
    for gate in gates.both:
        wait_for("the list", lambda gate=gate: ask(gate) == 403)
    assert PostgresLists(gates.url).remove("black", "127.0.0.1")
    for gate in gates.both:
        wait_for("the list", lambda gate=gate: ask(gate) == 200)
    gates.forgive()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_every_request_is_answered_while_redis_dies_and_it_is_used_again(gates, redis, number):
    with Load([gate.port for gate in gates.both], rate=40) as load:
        wait_for("some requests", lambda: len(load.answers) > 10)
        redis.kill(number)
        try:
            wait_for("some without it", lambda: all(alone(gate) for gate in gates.both))
        finally:
            if number == signal.SIGKILL:
                redis.start()
            else:
                redis.kill(signal.SIGCONT)
        for gate in gates.both:
            wait_for("Redis again", lambda gate=gate: not alone(gate))
        answered = len(load.answers)
        wait_for("some with it", lambda: len(load.answers) > answered + 10)
    assert load.statuses() == {200}
    # What one counts the other sees.
    answers = [ask(gates.both[n % 2]) for n in range(32)]
    assert answers == [200] * 30 + [429] * 2
    gates.forgive()


def alone(gate: Protect) -> bool:
    """Whether any of its lines to Redis is down."""
    said = gate.said()
    return said.count("does not answer") > said.count("answers again")


def test_while_postgresql_is_gone_no_row_is_lost(gates, postgresql):
    before = gates.rows()
    postgresql.stop(signal.SIGQUIT)
    try:
        for n in range(20):
            ask(gates.both[n % 2], f"/{n}")
        spools = [gate.folder / "state" / "ledger.spool" for gate in gates.both]
        wait_for("the spools", lambda: all(spool.is_dir() and any(spool.glob("*.batch")) for spool in spools))
    finally:
        postgresql.start()
    wait_for("all rows", lambda: gates.rows() >= before + 20)
    wait_for("empty spools", lambda: not any(any(spool.glob("*.batch")) for spool in spools))
    with psycopg.connect(gates.url) as connection:
        written = connection.execute(
            "SELECT target, count(*) FROM visits WHERE target ~ '^/[0-9]+$' GROUP BY target"
        ).fetchall()
    assert sorted(written) == sorted((f"/{n}", 1) for n in range(20))
    for gate in gates.both:
        assert gate.metric("hedgerow_ledger_lost_total") == 0


def test_workers_with_redis_are_gates_like_others(protect, site, redis, postgresql):
    url = postgresql.new_database()
    migrate(url)
    settings = SETTINGS.format(redis=redis.url, postgresql=url).replace('"site:"', '"workers:"')
    server = protect(site.url, settings=settings, options=["--workers", "2"])
    assert [ask(server) for _ in range(34)] == [200] * 30 + [429] * 4
    assert list(server.blocked()) == ["127.0.0.1"]
    wait_for(
        "what both have counted", lambda: 'hedgerow_visits_total{action="pass"} 30.0' in server.ask_admin("/metrics")
    )
    server.stop()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM visits").fetchone()[0] == 34


# ---- The watches


def seen(visitor: str, n: int, at: float) -> Visit:
    marker = Marker("page", visitor_digest(visitor), page_digest(f"/{n - 1}"), f"/{n}")
    return Visit(at, visitor, visitor, visitor, "GET", f"/{n}", marker=marker)


class Watching:
    def __init__(self, folder: Path, settings: str, number: int) -> None:
        config = folder / "watch.toml"
        config.write_text(settings)
        self.running = Running(
            [str(HEDGEROW), "watch", "--config", str(config)], folder / f"watch{number}.log", cwd=folder,
            environment={"HEDGEROW__DIRECTORY": str(folder)},
        )  # fmt: skip
        wait_for("the watch", lambda: "watching as" in self.running.said() or not self.running.alive)
        assert self.running.alive, self.running.said()


def test_a_watch_that_is_killed_loses_no_session_and_counts_no_visit_twice(redis, tmp_path):
    settings = f'[state]\nurl = "{redis.url}"\nprefix = "watched:"\n[ledger]\nenabled = false\n'
    address = parse_redis_address(redis.url)
    link, streams = ThreadConnection(address, lambda: (), timeout=PATIENCE), Streams(address, "watched:")
    visitors, steps = [f"192.0.2.{n}" for n in range(1, 41)], 12
    watches = [Watching(tmp_path, settings, n) for n in range(2)]

    def left() -> int:
        return sum(link.ask_all([("XLEN", f"watched:visits:{part}") for part in range(PARTS + 1)]))

    def holders() -> set[bytes]:
        return set(link.ask(("MGET", *(f"watched:lease:{part}" for part in range(PARTS + 1)))))

    try:
        wait_for("both at work", lambda: len(holders() - {None}) == 2 and None not in holders())
        # Settings and models are read again in between; wrong ones change nothing.
        for text, said in ((settings, "has reloaded"), (settings + '[watch]\nmodel = "nowhere"\n', "not reloaded")):
            (tmp_path / "watch.toml").write_text(text)
            os.kill(watches[1].running.pid, signal.SIGHUP)
            wait_for(said, lambda said=said: said in watches[1].running.said())
        for n in range(steps):
            for start in range(0, len(visitors), 10):
                some = visitors[start : start + 10]
                assert streams.deliver([(seen(who, n, time.time()), PASS) for who in some], ())
            if n == steps // 2:
                os.kill(watches[0].running.pid, signal.SIGKILL)
        wait_for("all visits", lambda: left() == 0)
        wait_for("one at work", lambda: len(holders()) == 1)
        for who in visitors:
            kept = PendingSession.from_bytes(link.ask(("GET", f"watched:session:{who}")))
            assert (who, kept.size) == (who, steps)
    finally:
        link.close()
        streams.close()
        assert watches[1].running.stop() == 0
        watches[0].running.process.kill()
        watches[0].running.process.wait()
    assert "Traceback" not in watches[1].running.said()

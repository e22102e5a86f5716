"""
Faults of machines, with real processes under load: what must hold while they last, and afterwards.

In each: every request of a person is answered, by the site itself unless the site is away; who is blocked stays so
until the moment it was blocked to; and no row of the ledger is lost, but those of the last seconds before a process is
killed (`LEDGER_BOUND`), or those that a full disk has no room for, which are counted. `make faults` runs these and what
else is about faults; `ROUNDS` in the environment sets how many processes are killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from hedgerow.ledger.postgresql import migrate

from .databases import PostgresServer, RedisServer, command
from .outage import Load
from .servers import HEDGEROW, PATIENCE, Nginx, Protect, ask, clean_environment, wait_for

ROUNDS = int(os.environ.get("ROUNDS", "4"))
RATE = 30.0
LEDGER_BOUND = 2.0
"""Seconds: the ledger writes twice a second, and a busy machine takes a moment for it."""
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
DAY = 86_400
BLOCKED_FOR = 600.0
SETTINGS = """
[watch]
enabled = false
[containment]
enabled = false
[rotating]
enabled = false
[policy]
suspects = "refuse"
[density]
windows = [{ count = 30, seconds = 600.0 }]
block_for = 600.0
"""


def block_me(gate: Protect) -> float:
    """Ask until 127.0.0.1 is blocked, and return when that ends."""
    while ask(gate) == 200:
        pass
    return until(gate)


def until(gate: Protect) -> float:
    blocks = {block["key"]: block["until"] for block in json.loads(gate.ask_admin("/blocks"))}
    return blocks.get("127.0.0.1", 0.0)


def check_block(gate: Protect, end: float) -> None:
    """The block is not shorter than it was. A blocked visitor that asks prolongs it, to ten minutes from then."""
    assert end - 1.0 <= until(gate) <= time.time() + BLOCKED_FOR + 1.0


def rows(gate: Protect) -> set[str]:
    with contextlib.closing(sqlite3.connect(gate.folder / "state" / "ledger.sqlite", timeout=PATIENCE)) as ledger:
        return {target for (target,) in ledger.execute("SELECT target FROM visits")}


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def disk(tmp_path) -> Iterator[Path]:
    """A small file system of its own, as root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


# ---- Processes


def test_a_killed_process_is_replaced_and_who_is_blocked_stays_so(protect, site):
    """kill -9 of the only process, started again as systemd would: blocks stay, rows of two seconds may be lost."""
    gate = protect(site.url, settings=SETTINGS)
    end = block_me(gate)
    time.sleep(LEDGER_BOUND)
    for number in range(ROUNDS):
        with Load([gate.port], rate=RATE, path=f"/round-{number}") as load:
            time.sleep(random.Random(number).uniform(0.5, LEDGER_BOUND + 1))
            killed_at = time.perf_counter()
            old = {one.target for one in load.answers if one.status in {200, 404}}
            sent = time.perf_counter() - killed_at
            os.kill(gate.pid, signal.SIGKILL)
            gate.running.process.wait(PATIENCE)
        before = rows(gate)
        missing = old - before
        assert len(missing) <= RATE * (LEDGER_BOUND + sent), f"{len(missing)} rows are lost"
        gate._stopped = True
        gate.log.unlink()
        gate = Protect(site.url, gate.folder, settings=SETTINGS)
        assert ask(gate) == 429, "who was blocked is let in"
        check_block(gate, end)
        assert before <= rows(gate)
    gate.stop()


def test_workers_that_are_killed_are_replaced_under_load(protect, site):
    """kill -9 of random processes beside and below the main one: others answer, and the blocked stay blocked."""
    gate = protect(site.url, settings=SETTINGS, options=["--workers", "2"])
    end = block_me(gate)
    chance = random.Random(1)
    with Load([gate.port], rate=RATE) as load:
        for _ in range(ROUNDS):
            victim = chance.choice(children(gate.pid))
            os.kill(victim, signal.SIGKILL)
            wait_for("another one", lambda v=victim: v not in children(gate.pid) and len(children(gate.pid)) == 3)
            time.sleep(1)
        wait_for("a blocked visitor", lambda: ask(gate) == 429)
    check_block(gate, end)
    broken = [one for one in load.answers if one.status not in {200, 404}]
    # A request that a killed worker held is lost with it.
    assert len(broken) <= 8 * ROUNDS, f"{len(broken)} of {len(load.answers)} requests failed"
    assert load.answers[-1].status == 200


def test_a_storm_of_sighup_disturbs_nobody(protect, site):
    """Two hundred reloads, of which every tenth finds broken settings."""
    gate = protect(site.url, settings=SETTINGS)
    end = block_me(gate)
    text = gate.config.read_text()
    with Load([gate.port], rate=RATE) as load:
        for number in range(200):
            gate.config.write_text("[density]\nwindows = 5\n" if number % 10 == 0 else text)
            os.kill(gate.pid, signal.SIGHUP)
            time.sleep(0.02)
        gate.config.write_text(text)
        os.kill(gate.pid, signal.SIGHUP)
        time.sleep(2)
        assert ask(gate) == 429
    assert load.statuses() == {200}
    check_block(gate, end)
    gate.stop()
    assert {one.target for one in load.answers} <= rows(gate)


def test_without_descriptors_the_site_answers_again_as_soon_as_there_are_some(protect, site):
    """The limit is lowered to what is in use: nobody is served. It is raised: everybody is, and the block is there."""
    gate = protect(site.url, settings=SETTINGS)
    end = block_me(gate)
    limits = resource.prlimit(gate.pid, resource.RLIMIT_NOFILE)
    used = len(list(Path(f"/proc/{gate.pid}/fd").iterdir()))
    with Load([gate.port], rate=10) as load:
        resource.prlimit(gate.pid, resource.RLIMIT_NOFILE, (used, limits[1]))
        time.sleep(2)
        assert gate.running.alive
        resource.prlimit(gate.pid, resource.RLIMIT_NOFILE, limits)
        load.phase = "after"
        wait_for("answers", lambda: len(load.took("after")) > 20)
    assert {one.status for one in load.answers if one.phase == "after"} == {200}
    assert ask(gate) == 429
    check_block(gate, end)


# ---- Disks


def test_on_a_full_disk_everybody_is_answered_and_the_lost_are_counted(site, disk):
    """Nothing is written any more; blocks are in memory, and rows come again once there is room."""
    gate = Protect(site.url, disk / "gate", settings=SETTINGS)
    try:
        end = block_me(gate)
        time.sleep(LEDGER_BOUND)
        filler = disk / "filler"
        with Load([gate.port], rate=RATE) as load:
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            time.sleep(6)
            assert ask(gate) == 429
            filler.unlink()
            wait_for("rows again", lambda: 'hedgerow_failing{part="ledger"} 0.0' in gate.ask_admin("/metrics"))
            time.sleep(LEDGER_BOUND)
            load.phase = "after"
            time.sleep(LEDGER_BOUND)
        assert load.statuses() == {200}
        check_block(gate, end)
        lost = gate.metric("hedgerow_ledger_lost_total")
        missing = {one.target for one in load.answers} - rows(gate)
        gate.running.stop()
        missing &= {one.target for one in load.answers} - rows(gate)
        assert len(missing) <= lost, f"{len(missing)} rows are missing, {lost} counted as lost"
        assert not {one.target for one in load.answers if one.phase == "after"} & missing
    finally:
        gate.running.stop()


def test_on_a_disk_that_refuses_every_write_everybody_is_answered(protect, site):
    """As one that a kernel has made read-only after errors. Rows come again once it can be written to."""
    gate = protect(site.url, settings=SETTINGS)
    end = block_me(gate)
    time.sleep(LEDGER_BOUND)
    with Load([gate.port], rate=RATE) as load:
        limits = resource.prlimit(gate.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        time.sleep(4)
        assert ask(gate) == 429
        assert 'hedgerow_failing{part="ledger"} 1.0' in gate.ask_admin("/metrics")
        resource.prlimit(gate.pid, resource.RLIMIT_FSIZE, limits)
        wait_for("rows again", lambda: 'hedgerow_failing{part="ledger"} 0.0' in gate.ask_admin("/metrics"))
        load.phase = "after"
        time.sleep(LEDGER_BOUND)
    assert load.statuses() == {200}
    check_block(gate, end)
    gate.stop()
    assert {one.target for one in load.answers if one.phase == "after"} <= rows(gate)


def test_a_start_on_a_read_only_disk_is_one_sentence(site, disk):
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    done = subprocess.run(
        [str(HEDGEROW), "protect", site.url, "--listen", "127.0.0.1:0"],
        env=clean_environment(HEDGEROW__DIRECTORY=str(disk / "state")),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "Read-only file system" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_after_a_crash_with_corrupt_files_the_site_starts(protect, site):
    """All databases are overwritten while nothing runs: they are set aside, and pages are served."""
    gate = protect(site.url, settings=SETTINGS)
    block_me(gate)
    gate.stop()
    for path in (gate.folder / "state").glob("*.sqlite"):
        path.write_bytes(random.Random(path.name).randbytes(path.stat().st_size))
        for rest in ("-wal", "-shm"):
            Path(f"{path}{rest}").unlink(missing_ok=True)
    gate.log.unlink()
    again = Protect(site.url, gate.folder, settings=SETTINGS)
    try:
        assert ask(again) == 200
        assert "is corrupt" in again.said()
        assert list((gate.folder / "state").glob("*.corrupt-*"))
    finally:
        again.stop()


# ---- Clocks


@pytest.mark.skipif(not FAKETIME.exists(), reason="faketime is not installed")
def test_a_clock_that_jumps_and_comes_back_changes_nothing(protect, site, tmp_path):
    """300 days ahead and back: pages are served, rows stay, and the block ends when it was to end."""
    setting = tmp_path / "clock"
    setting.write_text("+0")
    environment = {
        "LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(setting), "FAKETIME_NO_CACHE": "1",
        "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }  # fmt: skip
    gate = protect(site.url, settings=SETTINGS + "[ledger]\nkeep_days = 2.0\n", environment=environment)
    end = block_me(gate)
    assert abs(end - time.time() - BLOCKED_FOR) < 30
    for jump in (f"+{300 * DAY}", f"-{300 * DAY}", "+0"):
        setting.write_text(jump)
        with Load([gate.port], rate=RATE, path=f"/{jump.strip('+-')}") as load:
            time.sleep(LEDGER_BOUND)
        assert load.statuses() <= {200, 404}
    assert until(gate) <= time.time() + BLOCKED_FOR + 1.0, "the block was extended"
    kept = rows(gate)
    assert "/" in kept, "rows were deleted"
    assert any(target.startswith(f"/{300 * DAY}") for target in kept)


# ---- Upstreams and databases


def test_a_site_that_comes_and_goes(protect, nginx: Callable[..., Nginx], tmp_path: Path):
    """Each request is answered at once, by the site or with 502, and by the site again in the end."""
    root = tmp_path / "flapping"
    root.mkdir()
    (root / "index.html").write_text("<!DOCTYPE html><title>t</title><p><a href='/'>x</a>")
    server = nginx(root)
    gate = protect(server.url, settings=SETTINGS)
    end = block_me(gate)
    with Load([gate.port], rate=RATE) as load:
        for _ in range(5):
            server.stop()
            time.sleep(0.4)
            server.start()
            time.sleep(0.4)
        load.phase = "after"
        time.sleep(1)
    assert load.statuses() <= {200, 502}
    assert max(one.took for one in load.answers) < 10
    assert {one.status for one in load.answers if one.phase == "after"} == {200}
    assert ask(gate) == 429
    check_block(gate, end)


def test_a_redis_that_is_slow_or_starts_again_empty_loses_no_block(protect, site):
    """A slow one is waited for, for a moment. An empty one is told of blocks that gates know."""
    redis = RedisServer()
    gate = protect(site.url, settings=f'[state]\nurl = "{redis.url}"\n' + SETTINGS)
    try:
        block_me(gate)
        with Load([gate.port], rate=RATE) as load:
            for _ in range(5):
                command(redis.port, "CLIENT", "PAUSE", "300", "ALL")
                time.sleep(0.5)
            assert ask(gate) == 429
            redis.kill(signal.SIGKILL)
            time.sleep(1)
            assert ask(gate) == 429, "the block is lost while Redis is away"
            redis.start()
            time.sleep(1)
            wait_for("the block", lambda: ask(gate) == 429)
            load.phase = "after"
            time.sleep(2)
            assert ask(gate) == 429, "the block is lost after Redis has started empty"
        assert load.statuses() == {200}
    finally:
        gate.stop()
        redis.close()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_postgresql_that_hangs_or_is_gone_loses_no_row(protect, site, how):
    """Rows wait on disk; each is written once in the end."""
    server = PostgresServer()
    url = server.new_database()
    migrate(url)
    gate = protect(site.url, settings=f'[ledger]\nurl = "{url}"\n' + SETTINGS)
    try:
        with Load([gate.port], rate=RATE, path="/pg") as load:
            time.sleep(1)
            if how == "killed":
                server.stop(signal.SIGQUIT)
                time.sleep(3)
                server.start()
            else:
                processes = [server.process.pid, *children(server.process.pid)]
                for process in processes:
                    os.kill(process, signal.SIGSTOP)
                time.sleep(4)
                for process in processes:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGCONT)
            time.sleep(2)
        asked = {one.target for one in load.answers}

        def written() -> list[tuple[str, int]]:
            with psycopg.connect(url) as connection:
                query = "SELECT target, count(*) FROM visits WHERE target LIKE '/pg%' GROUP BY target"
                return connection.execute(query).fetchall()

        wait_for("all rows", lambda: {target for target, _ in written()} >= asked)
        assert {count for _, count in written()} == {1}
        assert load.statuses() == {404}
        assert gate.metric("hedgerow_ledger_lost_total") == 0
    finally:
        gate.stop(patience=PATIENCE)
        server.close()

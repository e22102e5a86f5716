"""Several workers: what one knows all know, whoever dies is replaced, and all of them reload and stop together."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from .servers import PATIENCE, Nginx, Protect, ask, wait_for

WORKERS = 3


def children(server: Protect) -> list[int]:
    """The process beside the workers, and the workers."""
    found = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return sorted(map(int, found))


def counted(server: Protect, action: str) -> float:
    found = re.search(rf'hedgerow_visits_total{{action="{action}"}} (\d+)', server.ask_admin("/metrics"))
    return float(found[1]) if found else 0.0


@pytest.fixture(scope="module")
def workers(protect: Callable[..., Protect], site: Nginx) -> Protect:
    settings = (
        "[containment]\nenabled = false\n"
        "[policy]\nsuspects = 'refuse'\n[density]\nwindows = [{ count = 30, seconds = 600.0 }]\nblock_for = 600.0\n"
    )
    return protect(site.url, settings=settings, options=["--workers", str(WORKERS)])


def test_counters_of_all_workers_are_one(workers):
    """Each worker alone would let 30 through: together they let 30 through, to the visit."""
    answers = [ask(workers) for _ in range(40)]
    assert answers.count(200) == 30
    assert answers[30:] == [429] * 10
    assert list(workers.blocked()) == ["127.0.0.1"]
    wait_for("what all have counted", lambda: (counted(workers, "pass"), counted(workers, "refuse")) == (30, 10))
    wait_for("the watch", lambda: workers.metric("hedgerow_watch_seen_total") == 40)


def test_forgiving_reaches_all_workers_and_the_file(workers):
    request = urllib.request.Request(workers.admin + "/forgive", data=b"key=127.0.0.1", method="POST")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=PATIENCE):
        pass
    assert [ask(workers) for _ in range(6)] == [200] * 6

    def kept() -> list[tuple[bytes]]:
        with closing(sqlite3.connect(workers.folder / "state" / "state.sqlite")) as journal:
            return journal.execute("SELECT key FROM blocks").fetchall()

    wait_for("the journal", lambda: kept() == [])


def test_whoever_dies_is_started_again_and_nothing_is_forgotten(workers):
    for _ in range(31):
        ask(workers)
    assert ask(workers) == 429
    before = children(workers)
    assert len(before) == WORKERS + 1
    for process in before:
        os.kill(process, signal.SIGKILL)
        wait_for("another one", lambda gone=process: gone not in children(workers) and len(children(workers)) == 4)
    assert not set(before) & set(children(workers))
    wait_for("an answer", lambda: ask(workers) == 429)
    wait_for("the operator's side", lambda: list(workers.blocked()) == ["127.0.0.1"])
    assert workers.said().count("will be restarted") == WORKERS + 1


def test_all_reload(workers):
    text = workers.config.read_text()
    workers.config.write_text(text + "[traps]\nenabled = false\n[identity]\ntrusted_proxies = ['127.0.0.1']\n")
    os.kill(workers.pid, signal.SIGHUP)
    wait_for("reloaded", lambda: workers.said().count("reloaded the settings") == WORKERS + 1)
    workers.config.write_text("[density]\nwindows = 5\n")
    os.kill(workers.pid, signal.SIGHUP)
    wait_for("not reloaded", lambda: workers.said().count("not reloaded") == WORKERS + 1)
    workers.config.write_text(text)


def test_all_stop_together(workers):
    processes = children(workers)
    workers.stop()
    assert not [process for process in processes if Path(f"/proc/{process}").exists()]

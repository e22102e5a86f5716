"""
Whole requests through two gates with one Redis and one PostgreSQL, while either fails.

100 requests a second, each by another visitor, go to the two gates in turns. Redis is stopped (SIGSTOP) and killed
(SIGKILL), and what requests took meanwhile stands next to what they took before. PostgreSQL is killed for a minute
(`OUTAGE` in the environment: other seconds); then each request must have exactly one row. Last, how soon a change on
one machine holds on the other.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from bench.samples import page
from hedgerow.core.decision import Block, Evidence
from hedgerow.ledger.postgresql import migrate
from hedgerow.lists.model import Listing
from hedgerow.lists.postgresql_store import PostgresLists
from hedgerow.settings import read_settings
from hedgerow.web.key_file import new_key, write_keys
from hedgerow.web.redis_stores import build_redis
from real.databases import PostgresServer, RedisServer
from real.outage import Load
from real.servers import Nginx, Protect, ask, find_program, wait_for

GOAL = 0.05
RATE, PHASE, CHANGES = 100, 4.0, 10
ME = "127.0.0.1"
SETTINGS = """
[state]
url = "{redis}"
[ledger]
url = "{postgresql}"
[lists]
url = "{postgresql}"
"""


def main() -> None:
    nginx = find_program("nginx")
    if nginx is None:
        print("nginx is not installed: not measured")
        return
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        (folder / "site").mkdir()
        (folder / "site" / "index.html").write_bytes(page())
        redis = stack.enter_context(contextlib.closing(RedisServer()))
        postgresql = stack.enter_context(contextlib.closing(PostgresServer()))
        url = postgresql.new_database()
        migrate(url)
        settings = SETTINGS.format(redis=redis.url, postgresql=url)
        site = Nginx(nginx, folder / "nginx", folder / "site")
        stack.callback(site.stop)
        keys = {"HEDGEROW_KEYS": write_keys([new_key(time.time())])}
        gates = []
        for name in ("first", "second"):
            gates.append(Protect(site.url, folder / name, settings=settings, environment=keys))
            stack.callback(gates[-1].stop, patience=90.0)
        _redis(gates, redis)
        _postgresql(gates, postgresql, url, float(os.environ.get("OUTAGE", "60")))
        _changes(gates, settings, url)


def _alone(gates: list[Protect]) -> int:
    return int(sum(gate.metric("hedgerow_state_alone_total") for gate in gates))


def _redis(gates: list[Protect], redis: RedisServer) -> None:
    """What requests take while Redis hangs, is gone, and is there again."""
    alone = {}
    with Load([gate.port for gate in gates], rate=RATE) as load:

        def phase(name: str) -> None:
            before = _alone(gates)
            load.phase = name
            time.sleep(PHASE)
            alone[name] = _alone(gates) - before

        phase("(warming up)")
        phase("Redis answers")
        redis.kill(signal.SIGSTOP)
        phase("Redis hangs")
        redis.kill(signal.SIGCONT)
        phase("Redis is back")
        redis.kill(signal.SIGKILL)
        phase("Redis is gone")
        redis.start()
        load.phase = "(coming back)"
        time.sleep(1.0)
        phase("Redis is there again")
    before = _p99(load.took("Redis answers"))
    for name, decided in alone.items():
        took = load.took(name)
        middle, p99 = took[len(took) // 2], _p99(took)
        print(
            f"requests, {name:22} p50 {middle * 1e3:6.1f} ms, p99 {p99 * 1e3:6.1f} ms ({(p99 - before) * 1e3:+6.1f}), "
            f"{took[-1] * 1e3:6.1f} at most; decided without Redis: {decided}"
        )
    bad = [one for one in load.answers if one.status != 200]
    added = max(_p99(load.took(name)) for name in ("Redis hangs", "Redis is gone")) - before
    print(f"{len(load.answers):,} requests, not answered with 200: {len(bad)}")
    print(f"goal: p99 at most {GOAL * 1e3:.0f} ms more while Redis is away, is {added * 1e3:+.1f}")


def _p99(took: list[float]) -> float:
    return took[int(len(took) * 0.99)]


def _postgresql(gates: list[Protect], postgresql: PostgresServer, url: str, seconds: float) -> None:
    """Each request has one row, whatever becomes of PostgreSQL meanwhile."""
    with Load([gate.port for gate in gates], rate=RATE, path="/while-away") as load:
        time.sleep(2.0)
        postgresql.stop(signal.SIGQUIT)
        time.sleep(seconds)
        postgresql.start()
        time.sleep(2.0)
    back = time.monotonic()

    def rows() -> dict[str, int]:
        with psycopg.connect(url) as connection:
            query = "SELECT target, count(*) FROM visits WHERE target LIKE '/while-away%' GROUP BY target"
            return dict(connection.execute(query).fetchall())

    asked = {one.target for one in load.answers}
    wait_for("all rows", lambda: len(rows()) >= len(asked), patience=120.0)
    found = rows()
    lost = sum(gate.metric("hedgerow_ledger_lost_total") for gate in gates)
    print(
        f"PostgreSQL killed for {seconds:g} s: {len(asked):,} requests, {len(asked - found.keys())} without a row, "
        f"{sum(count > 1 for count in found.values())} with two, counted as lost {lost:.0f}"
    )
    print(f"all rows there {time.monotonic() - back:.1f} s after the last request, statuses {sorted(load.statuses())}")


def _changes(gates: list[Protect], settings: str, url: str) -> None:
    """From when a change is made, beside both gates, until the last of them acts on it."""
    lists, listed, blocked = PostgresLists(url), [], []
    why = Evidence("administrator", "administrator", 1.0, "By the administrator.")
    with contextlib.closing(build_redis(read_settings(settings, environment={}), timeout=5.0)) as state:
        for _ in range(CHANGES):
            lists.add(Listing("black", ME, "why", "bench", time.time()))
            listed.append(_until(gates, refused=True))
            lists.remove("black", ME)
            _until(gates, refused=False)
            now = time.time()
            state.commit(Block(ME, ME, now, now + 600, "refuse", why))
            blocked.append(_until(gates, refused=True))
            state.forgive(ME)
            _until(gates, refused=False)
    print(f"a change of the lists reaches both gates within  {max(listed):6.2f} s (of {CHANGES}; goal 2)")
    print(f"a block of one visitor holds in both within      {max(blocked):6.2f} s (of {CHANGES})")


def _until(gates: list[Protect], *, refused: bool) -> float:
    began = time.monotonic()
    for gate in gates:
        wait_for("the change", lambda gate=gate: (ask(gate, "/data.txt") == 403) is refused)
    return time.monotonic() - began

"""
What docs/scale.md computes with: bytes of a visitor in Redis, visits a shared watch looks at, rows PostgreSQL takes.

Starts a Redis and a PostgreSQL of its own on this machine, as the tests do.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from bench.samples import BROWSER
from hedgerow.core.decision import PASS
from hedgerow.core.gate import run_now
from hedgerow.core.ledger import Entry, NoLedger
from hedgerow.core.state import StateQuery
from hedgerow.core.visit import Visit
from hedgerow.detectors.rate_limit import DEFAULT_WINDOWS
from hedgerow.ledger.postgresql import PostgresLedger, migrate
from hedgerow.markers.token import Key, TokenCodecs, page_digest, visitor_digest
from hedgerow.settings import read_settings
from hedgerow.state.redis.address import parse_redis_address
from hedgerow.state.redis.state import RedisState
from hedgerow.watch.redis_streams import Streams
from hedgerow.web.gate import build_gate
from hedgerow.web.redis_stores import SiteWatch, build_redis
from real.databases import PostgresServer, RedisServer

VISITORS, VISITS, WAITING = 50_000, 40_000, 5_000


def main() -> None:
    with closing(RedisServer()) as redis:
        _bytes_of_a_visitor(redis.url)
        _watch(redis.url)
    with closing(PostgresServer()) as postgresql, tempfile.TemporaryDirectory() as folder:
        _rows(postgresql.new_database(), Path(folder))


def _memory(state: RedisState) -> int:
    info = state.ask(("INFO", "memory")).decode()
    return int(next(line for line in info.splitlines() if line.startswith("used_memory:")).partition(":")[2])


async def _directly(ask, _):
    return ask()


def _bytes_of_a_visitor(url: str) -> None:
    with closing(RedisState(parse_redis_address(url), DEFAULT_WINDOWS, prefix="bench:", timeout=30.0)) as state:
        state.use_threads(_directly)
        before = _memory(state)
        for n in range(VISITORS):
            address = f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"
            for visit in range(3):
                run_now(state.record_visit(StateQuery(1.8e9 + visit, "page", address, address, "", count=True)))
        print(f"bytes in Redis of a visitor with three visits    {(_memory(state) - before) / VISITORS:10.0f}")
        state.ask(("FLUSHALL",))


def _visits() -> list[Visit]:
    seals = TokenCodecs([Key(1, bytes(range(64)), 0.0)])
    gate = build_gate(read_settings("", environment={}), tokens=seals, ledger=NoLedger())
    made = []
    for n in range(VISITS):
        address = f"10.0.{n % 1000 >> 8}.{n % 250}"
        seal, parent = seals.of("127.0.0.1:8080"), page_digest(f"/docs/{n // 1000}.html")
        token = seal.seal("page", visitor_digest(address), parent, f"/docs/{n // 1000 + 1}.html".encode())
        made.append(gate.identifier.visit(time.time(), address, "GET", "/~" + token.decode(), BROWSER))
    return made


def _watch(url: str) -> None:
    settings = read_settings(f'[state]\nurl = "{url}"\n', environment={})
    streams = Streams(parse_redis_address(url), settings.state.prefix)
    seen = [(visit, PASS) for visit in _visits()]
    gate_cpu = watch_cpu = took = used = 0.0
    with closing(build_redis(settings, timeout=30.0)) as state:
        watch = SiteWatch(settings, state)
        # A stream keeps the newest 10,000 visits.
        for first in range(0, VISITS, WAITING):
            before, began = _memory(state), time.process_time()
            for start in range(first, first + WAITING, 200):
                assert streams.deliver(seen[start : start + 200], ())
            gate_cpu += time.process_time() - began
            used = used or _memory(state) - before
            began, clock = time.process_time(), time.monotonic()
            # Those by marked links are in two streams.
            while watch.seen < 2 * (first + WAITING):
                watch.process()
            watch_cpu += time.process_time() - began
            took += time.monotonic() - clock
        watch.close()
    streams.close()
    print(f"CPU of a gate to pass a visit on to the watch    {gate_cpu / VISITS * 1e6:10.1f} µs")
    print(f"CPU of a shared watch for one visit              {watch_cpu / VISITS * 1e6:10.1f} µs")
    print(f"visits that one shared watch looks at            {VISITS / took:10,.0f} a second")
    print(f"bytes in Redis of a visit that waits for a watch {used / WAITING:10.0f}")


def _rows(url: str, folder: Path) -> None:
    migrate(url)
    visits = _visits()
    ledger = PostgresLedger(url, folder, queue=VISITS)
    began, clock = time.process_time(), time.monotonic()
    for visit in visits:
        ledger.append(Entry(visit, PASS, 200))
    ledger.close()
    cpu, took = time.process_time() - began, time.monotonic() - clock
    with psycopg.connect(url) as connection:
        table = connection.execute("SELECT inhrelid::regclass::text FROM pg_inherits LIMIT 1").fetchone()[0]
        size = connection.execute("SELECT pg_total_relation_size(%s::regclass)", (table,)).fetchone()[0]
    print(f"CPU of a gate for one row                        {cpu / VISITS * 1e6:10.1f} µs")
    print(f"rows that one gate writes to PostgreSQL          {VISITS / took:10,.0f} a second")
    print(f"bytes of a row on disk, indexes included         {size / VISITS:10.0f}")

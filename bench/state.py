"""
What a trip to the state costs, in each engine, and how many decisions a second go through Redis from two gates.

The second part starts a Redis of its own on this machine and measures, in turns, redis-benchmark with the script of a
visit and two gate processes that decide on prepared visits, 64 of them at once each. The third stops and kills that
Redis, and says for how long decisions waited meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import uvloop

from bench.samples import BROWSER
from bench.timing import measure
from hedgerow.core.ledger import NoLedger
from hedgerow.core.state import StateQuery
from hedgerow.detectors.rate_limit import DEFAULT_WINDOWS
from hedgerow.markers.token import Key, TokenCodecs, page_digest, visitor_digest
from hedgerow.settings import read_settings
from hedgerow.state.lmdb.state import LmdbState
from hedgerow.state.memory.state import MemoryState
from hedgerow.state.redis.address import parse_redis_address
from hedgerow.state.redis.scripts import Scripts
from hedgerow.state.redis.state import RedisState
from hedgerow.web.gate import build_gate

GOAL, GOAL_RATIO = 20_000, 0.4
ROUNDS, SECONDS = 5, 3.0
AT_ONCE, GATES = 64, 2
VISITORS = 20_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _trips(Path(folder))
        program, benchmark = shutil.which("redis-server"), shutil.which("redis-benchmark")
        if program is None or benchmark is None:
            print("redis-server and redis-benchmark are not here")
            return
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", folder]

        def start() -> subprocess.Popen:
            server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
            _wait_for(port)
            return server

        _throughput(start, benchmark, port)
        _failures(start, port)


def _question(n: int) -> StateQuery:
    address = f"10.{n % VISITORS >> 16}.{n % VISITORS >> 8 & 255}.{n % 256}"
    return StateQuery(1.8e9 + n * 0.001, "page", address, address, "", count=True)


def _trips(folder: Path) -> None:
    ticks = itertools.count()
    memory = MemoryState(DEFAULT_WINDOWS)
    with closing(LmdbState(folder / "state.lmdb", DEFAULT_WINDOWS)) as shared:
        found = measure(
            {
                "memory": lambda: memory.record_visit(_question(next(ticks))),
                "LMDB": lambda: shared.record_visit(_question(next(ticks))),
                "(the question alone)": lambda: _question(next(ticks)),
            }
        )
    for name, seconds in found.items():
        print(f"one trip, {name:38} {seconds * 1e6:8.2f} µs")


def _throughput(start: Callable[[], subprocess.Popen], benchmark: str, port: int) -> None:
    server = start()
    try:
        theirs, ours, cost = [], [], []
        for _ in range(ROUNDS):
            theirs.append(_redis_benchmark(benchmark, port))
            rate, cpu = _gates(port)
            ours.append(rate)
            cost.append(cpu)
    finally:
        server.terminate()
        server.wait()
    ratio = statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
    rate = statistics.median(ours)
    print(f"redis-benchmark, EVALSHA of a visit              {statistics.median(theirs):10,.0f} a second")
    print(f"decisions through Redis from {GATES} gates             {rate:10,.0f} a second")
    print(f"CPU of a gate for one                            {statistics.median(cost) * 1e6:10.1f} µs")
    print(f"goal: at least {GOAL:,} a second, is {rate:,.0f}; at least {GOAL_RATIO} of redis-benchmark, is {ratio:.2f}")


def _failures(start: Callable[[], subprocess.Popen], port: int) -> None:
    """For how long decisions wait: with Redis there, hanging, there again, gone, and there again; 200 a second."""
    server = start()
    waits: dict[str, list[float]] = {}

    async def run() -> None:
        nonlocal server
        state = RedisState(parse_redis_address(f"redis://127.0.0.1:{port}"), DEFAULT_WINDOWS, prefix="bench:")
        ticks = itertools.count()

        async def phase(name: str) -> None:
            found = waits.setdefault(name, [])

            async def one() -> None:
                began = time.perf_counter()
                await state.record_visit(_question(next(ticks)))
                found.append(time.perf_counter() - began)

            tasks = []
            for _ in range(400):
                tasks.append(asyncio.ensure_future(one()))
                await asyncio.sleep(0.005)
            await asyncio.gather(*tasks)

        await phase("Redis answers")
        server.send_signal(signal.SIGSTOP)
        await phase("Redis hangs")
        server.send_signal(signal.SIGCONT)
        await phase("Redis is back")
        server.kill()
        server.wait()
        await phase("Redis is gone")
        server = await asyncio.to_thread(start)
        await asyncio.sleep(0.5)
        alone = state.alone
        await phase("Redis is there again")
        print(f"decided without Redis: {alone} while it was away, {state.alone - alone} afterwards")
        await state.disconnect()
        state.close()

    try:
        uvloop.run(run())
    finally:
        server.terminate()
        server.wait()
    for name, found in waits.items():
        found.sort()
        p99, most = found[int(len(found) * 0.99)] * 1e3, found[-1] * 1e3
        print(f"wait of a decision, {name:22} p99 {p99:6.2f} ms, {most:6.2f} ms at most")


def _wait_for(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.02)
        else:
            return


def _redis_benchmark(program: str, port: int) -> float:
    """EVALSHA of the script of a visit, pipelined as the gates pipeline it, from as many connections."""
    scripts = Scripts("bench:", DEFAULT_WINDOWS, memory=300_000_000, most_blocks=100_000, remember=0.0)
    address = parse_redis_address(f"redis://127.0.0.1:{port}")
    with closing(RedisState(address, DEFAULT_WINDOWS, prefix="bench:", timeout=5)) as state:
        # Each measurement begins with nothing: how often a visitor has been here is then the same in both.
        state.ask(("FLUSHALL",))
        # A time that may stand on a command line.
        at = struct.unpack("<d", b"AAAAAAAA")[0]
        name = "10.0.0.__rand_int__"
        command = scripts.record_visit(StateQuery(at, "page", name, name, "", count=True))
        # Every other line of a command on the wire is a length.
        words = command.decode().split("\r\n")[2:-1:2]
    done = subprocess.run(
        [
            program, "-p", str(port), "-c", str(GATES), "-P", str(AT_ONCE), "-n", "100000", "-r", str(VISITORS),
            "--csv", *words,
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout.splitlines()[-1].split('","')[1])


def _gates(port: int) -> tuple[float, float]:
    """Decisions a second of all gates together, and the CPU seconds of one decision."""
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(GATES)
    with context.Pool(GATES, initializer=_remember, initargs=(start,)) as pool:
        found = pool.starmap(_gate, [(port, number) for number in range(GATES)], 1)
    return sum(count / seconds for count, seconds, _ in found), statistics.mean(cpu / n for n, _, cpu in found)


_start: list = []


def _remember(start) -> None:
    _start.append(start)


def _gate(port: int, number: int) -> tuple[int, float, float]:
    state = RedisState(parse_redis_address(f"redis://127.0.0.1:{port}"), DEFAULT_WINDOWS, prefix="bench:", timeout=5)
    state.ask(("FLUSHALL",))
    settings = read_settings("", environment={})
    seals = TokenCodecs([Key(1, bytes(range(64)), 0.0)])
    gate = build_gate(settings, tokens=seals, ledger=NoLedger(), state=state)
    visits = []
    for n in range(VISITORS):
        # By a marked link that was made for this visitor, as most visits are.
        address = f"10.{number}.{n >> 8}.{n & 255}"
        token = seals.of("127.0.0.1:8080").seal("page", visitor_digest(address), page_digest("/"), b"/docs/page.html")
        visits.append(gate.identifier.visit(time.time(), address, "GET", "/~" + token.decode(), BROWSER))
    assert visits[0].marker is not None

    async def one_after_another(mine, end: float) -> int:
        count = 0
        while time.monotonic() < end:
            for _ in range(50):
                await gate.decide(next(mine))
            count += 50
        return count

    async def run() -> tuple[int, float, float]:
        mine = itertools.cycle(visits)
        await gate.decide(visits[0])
        _start[0].wait()
        cpu, began = time.process_time(), time.monotonic()
        counts = await asyncio.gather(*(one_after_another(mine, began + SECONDS) for _ in range(AT_ONCE)))
        took, used = time.monotonic() - began, time.process_time() - cpu
        await state.disconnect()
        return sum(counts), took, used

    result = uvloop.run(run())
    assert not state.alone, "Redis was away for a moment"
    state.close()
    return result

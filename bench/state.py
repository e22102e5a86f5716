"""
What a trip to the state costs, in each engine, and how many decisions a second go through Redis from two gates.

The second part starts a Redis of its own on this machine and measures, in turns, redis-benchmark with the script of a
visit and two gate processes that decide on prepared visits, 64 of them at once each.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import shutil
import socket
import statistics
import struct
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path

import uvloop

from bench.samples import BROWSER
from bench.timing import measure
from hedgerow.build import build_gate
from hedgerow.marker.seal import Key, Seals
from hedgerow.recall import Question
from hedgerow.settings import read_settings
from hedgerow.settings.schema import DEFAULT_WINDOWS
from hedgerow.stores.ledger import NoLedger
from hedgerow.stores.lmdb import LmdbState
from hedgerow.stores.memory import MemoryState
from hedgerow.stores.redis import RedisState
from hedgerow.stores.redis_link import parse_address
from hedgerow.stores.redis_scripts import Scripts

GOAL, GOAL_RATIO = 20_000, 0.4
ROUNDS, SECONDS = 5, 3.0
AT_ONCE, GATES = 64, 2
VISITORS = 20_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _trips(Path(folder))
        _throughput(Path(folder))


def _question(n: int) -> Question:
    address = f"10.{n % VISITORS >> 16}.{n % VISITORS >> 8 & 255}.{n % 256}"
    return Question(1.8e9 + n * 0.001, "page", address, address, "", count=True)


def _trips(folder: Path) -> None:
    ticks = itertools.count()
    memory = MemoryState(DEFAULT_WINDOWS)
    with closing(LmdbState(folder / "state.lmdb", DEFAULT_WINDOWS)) as shared:
        found = measure(
            {
                "memory": lambda: memory.recall(_question(next(ticks))),
                "LMDB": lambda: shared.recall(_question(next(ticks))),
                "(the question alone)": lambda: _question(next(ticks)),
            }
        )
    for name, seconds in found.items():
        print(f"one trip, {name:38} {seconds * 1e6:8.2f} µs")


def _throughput(folder: Path) -> None:
    program, benchmark = shutil.which("redis-server"), shutil.which("redis-benchmark")
    if program is None or benchmark is None:
        print("redis-server and redis-benchmark are not here")
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(folder)]
    server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    try:
        _wait_for(port)
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
    address = parse_address(f"redis://127.0.0.1:{port}")
    with closing(RedisState(address, DEFAULT_WINDOWS, prefix="bench:", patience=5)) as state:
        # Each measurement begins with nothing: how often a visitor has been here is then the same in both.
        state.ask(("FLUSHALL",))
        # A time that may stand on a command line.
        at = struct.unpack("<d", b"AAAAAAAA")[0]
        command = scripts.recall(Question(at, "page", *["10.0.0.__rand_int__"] * 2, "", count=True))
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
    state = RedisState(parse_address(f"redis://127.0.0.1:{port}"), DEFAULT_WINDOWS, prefix="bench:", patience=5)
    state.ask(("FLUSHALL",))
    settings = read_settings("", environment={})
    gate = build_gate(settings, seals=Seals([Key(1, bytes(range(64)), 0.0)]), ledger=NoLedger(), state=state)
    visits = [
        gate.identifier.visit(time.time(), f"10.{number}.{n >> 8}.{n & 255}", "GET", "/docs/page.html?x=1", BROWSER)
        for n in range(VISITORS)
    ]

    async def one_after_another(mine, end: float) -> int:
        count = 0
        while time.monotonic() < end:
            for _ in range(50):
                await gate.decide_afar(next(mine))
            count += 50
        return count

    async def run() -> tuple[int, float, float]:
        mine = itertools.cycle(visits)
        await gate.decide_afar(visits[0])
        _start[0].wait()
        cpu, began = time.process_time(), time.monotonic()
        counts = await asyncio.gather(*(one_after_another(mine, began + SECONDS) for _ in range(AT_ONCE)))
        took, used = time.monotonic() - began, time.process_time() - cpu
        await state.close_afar()
        return sum(counts), took, used

    result = uvloop.run(run())
    assert not state.alone, "Redis was away for a moment"
    state.close()
    return result

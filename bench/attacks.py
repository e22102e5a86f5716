"""
A person's page while the server is under attack, next to the same page from nginx at the same moments.

`python -m bench attacks`. The attackers: 10,000 connections that send their head byte by byte, 5,000 idle websockets,
floods of valid and of wrong answers to challenges, clients that do not read, and floods of long headers. Counts are
scaled down where a process may not open so many files, and printed. Attackers, the person, nginx and Hedgerow share the
machine. `ATTACKS="slow idle"` in the environment runs some of them. The goal: 99 of 100 pages within a second, and
memory within `MEMORY`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import websockets

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from attacks.browsers import CHROME, page_at
from bench.soak import processes
from challenge.solver import solve
from real.servers import Nginx, Protect, Running, find_program, free_port

SECONDS = 12.0
GOAL = 1.0
MEMORY = 600
"""MB: 60 MB at rest, up to 25 kB for a connection, 32 kB for an unread response, and the caches."""
PAUSE = 0.1
RAMP = 5.0
"""Seconds until an attack has begun."""
LEAST = 20
ONLY = os.environ.get("ATTACKS", "").split()
ROOT = Path(__file__).parent.parent
PAGES_PER_PERSON = 15
LINES = "".join(f"{name}: {value}\r\n" for name, value in CHROME.items())
SETTINGS = "[watch]\nenabled = false\n"
Attack = Callable[["Target"], Awaitable[None]]


class Target(NamedTuple):
    """The server under attack, and how many connections an attack may have."""

    port: int
    slow: int
    idle: int
    others: int
    websocket_port: int


class WideNginx(Nginx):
    """nginx with room for all websockets, which it passes on to *websocket_port*."""

    def __init__(self, program: str, folder: Path, root: Path, websocket_port: int) -> None:
        more = (
            f"location /ws {{ proxy_pass http://127.0.0.1:{websocket_port}; proxy_http_version 1.1; "
            "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; proxy_read_timeout 600s; }"
        )
        super().__init__(program, folder, root, more=more)

    def _config(self) -> str:
        return super()._config().replace("worker_connections 1024", "worker_connections 15000")


def address(number: int) -> str:
    """One of many addresses of this machine, at most 100 connections each for 10,000."""
    return f"127.{30 + number % 100}.7.9"


async def connect(target: Target, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", target.port, local_addr=(address(number), 0))


async def many(count: int, one: Callable[[int], Awaitable[None]]) -> None:
    """Run *one* so many times at once, started within a few seconds; each goes on until it is cancelled."""

    async def again(number: int) -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, IndexError):
                await one(number)
            await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(again(number))
            if number % 200 == 199:
                await asyncio.sleep(0.02)


async def slow_heads(target: Target) -> None:
    async def one(number: int) -> None:
        _, writer = await connect(target, number)
        try:
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
            while not writer.is_closing():
                writer.write(b"a")
                await asyncio.sleep(8)
        finally:
            writer.close()

    await many(target.slow, one)


async def idle_websockets(target: Target) -> None:
    async def one(number: int) -> None:
        url = f"ws://127.0.0.1:{target.port}/ws"
        with contextlib.suppress(websockets.WebSocketException, TimeoutError):
            async with websockets.connect(
                url, local_addr=(address(number), 0), open_timeout=60, ping_interval=None, proxy=None
            ) as connection:
                await connection.wait_closed()

    async def wait(connection: websockets.ServerConnection) -> None:
        await connection.wait_closed()

    async with websockets.serve(wait, "127.0.0.1", target.websocket_port, ping_interval=None):
        await many(target.idle, one)


async def post(target: Target, number: int, path: str, body: bytes) -> bytes:
    reader, writer = await connect(target, number)
    try:
        own = LINES.replace("sec-fetch-site: none", "sec-fetch-site: same-origin")
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nReferer: http://x/\r\n{own}Connection: close\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return await reader.read()
    finally:
        writer.close()


async def wrong_answers(target: Target) -> None:
    async def one(number: int) -> None:
        await post(target, number, "/.hedgerow/answer", b"ticket=x&challenge=y&answer=z")

    await many(target.others, one)


async def right_answers(target: Target) -> None:
    async def one(number: int) -> None:
        answer = await post(target, number, "/.hedgerow/task", b"")
        if b" 200 " in answer[:20]:
            told = json.loads(answer.partition(b"\r\n\r\n")[2])
            solution = await asyncio.to_thread(solve, json.dumps(told))
            fields = {"ticket": told["ticket"], "challenge": told["challenge"], "answer": solution}
            await post(target, number, "/.hedgerow/clear", urlencode(fields).encode())

    await many(min(50, target.others), one)


async def slow_readers(target: Target) -> None:
    async def one(number: int) -> None:
        reader, writer = await connect(target, number)
        try:
            writer.write(b"GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readexactly(1)
            await asyncio.sleep(60)
        finally:
            writer.transport.abort()

    await many(target.others, one)


async def long_headers(target: Target) -> None:
    headers = "".join(f"X-{number}: {'a' * 620}\r\n" for number in range(95)).encode()

    async def one(number: int) -> None:
        reader, writer = await connect(target, number)
        try:
            for _ in range(20):
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n")
                await reader.read(65_536)
        finally:
            writer.close()

    await many(target.others, one)


async def nobody(_: Target) -> None:
    await asyncio.sleep(60)


async def page_time(port: int, person: int) -> float:
    """Seconds for a page over a connection of its own; infinite if it is not answered with 200."""
    mine = f"127.{140 + person % 100}.{person // 100}.3"
    start = time.perf_counter()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(mine, 0))
            try:
                writer.write(f"GET / HTTP/1.1\r\nHost: x\r\n{LINES}Connection: close\r\n\r\n".encode())
                answer = await reader.read()
            finally:
                writer.close()
            if b" 200 " in answer[:20]:
                return time.perf_counter() - start
    return float("inf")


def memory(pid: int) -> float:
    """MB of all processes."""
    texts = [Path(f"/proc/{each}/smaps_rollup").read_text() for each in processes(pid)]
    return sum(int(text.partition("\nPss:")[2].split()[0]) for text in texts) / 1024


ATTACKS: dict[str, tuple[str, Attack]] = {
    "nobody": ("nobody else", nobody),
    "slow": ("{0.slow:,} slow connections", slow_heads),
    "idle": ("{0.idle:,} idle websockets", idle_websockets),
    "wrong": ("wrong answers, {0.others} clients", wrong_answers),
    "right": ("right answers, 50 clients", right_answers),
    "unread": ("{0.others} clients that do not read", slow_readers),
    "headers": ("heads of 60 kB, {0.others} clients", long_headers),
}


def files_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def settled(pid: int) -> None:
    """Wait until all connections of an attack are open, or for a minute."""
    end, before = time.monotonic() + 60, -1
    await asyncio.sleep(RAMP)
    while time.monotonic() < end and abs(files_of(pid) - before) > 0.02 * before + 5:
        before = files_of(pid)
        await asyncio.sleep(3)


@contextlib.contextmanager
def attacking(running: Running) -> Iterator[None]:
    try:
        yield
    finally:
        running.process.kill()
        running.process.wait()


async def measured(name: str, target: Target, gate: Protect, nginx: int, first: int) -> bool:
    """Measure pages while the attack *name* runs in a process of its own, and print a row."""
    times: dict[str, list[float]] = {"gate": [], "nginx": []}
    command = [sys.executable, "-m", "bench.attacks", name, *map(str, target)]
    with attacking(Running(command, gate.folder / f"{name}.log", cwd=ROOT)):
        await settled(gate.pid)
        highest, start, number = 0.0, time.monotonic(), 0
        while time.monotonic() < start + SECONDS or number < LEAST:
            person = first + number // PAGES_PER_PERSON
            times["gate"].append(await page_time(gate.port, person))
            times["nginx"].append(await page_time(nginx, person))
            highest = max(highest, memory(gate.pid))
            connections = files_of(gate.pid)
            number += 1
            await asyncio.sleep(PAUSE)
    p99 = {who: statistics.quantiles(its, n=100, method="inclusive")[98] for who, its in times.items()}
    median = {who: statistics.median(its) for who, its in times.items()}
    held = p99["gate"] <= GOAL and highest <= MEMORY
    row = [one for who in times for one in (median[who] * 1e3, p99[who] * 1e3)]
    columns = "".join(f"{one:9.0f}" for one in (*row, highest, connections))
    print(f"{ATTACKS[name][0].format(target):34}{number:6}{columns}  {'ok' if held else 'MISSED'}", flush=True)
    await asyncio.sleep(2)
    return held


async def _all(gate: Protect, site: Nginx, target: Target) -> bool:
    held = [await measured(name, target, gate, site.port, 40 * number) for number, name in enumerate(ONLY or ATTACKS)]
    return all(held)


def _allow_files() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    return limit


def main() -> None:
    program = find_program("nginx")
    if program is None:
        print("nginx is not installed: not measured")
        return
    limit = _allow_files()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        (folder / "site").mkdir()
        (folder / "site" / "index.html").write_bytes(page_at("/"))
        (folder / "site" / "large.bin").write_bytes(bytes(5_000_000))
        port = free_port()
        site = WideNginx(program, folder / "nginx", folder / "site", port)
        stack.callback(site.stop)
        gate = Protect(site.url, folder / "gate", settings=SETTINGS)
        stack.callback(gate.stop)
        # A websocket takes two files of the gate, and two of this process.
        target = Target(gate.port, min(10_000, limit * 9 // 10), min(5_000, limit // 4), 200, port)
        print(f"{limit:,} open files allowed; times in ms, memory in MB; goal: p99 {GOAL * 1e3:.0f} ms, {MEMORY} MB")
        print(f"{'':34}{'pages':>6}{'median':>9}{'p99':>9}{'nginx':>9}{'p99':>9}{'memory':>9}{'files':>9}")
        held = asyncio.run(_all(gate, site, target))
    if not held:
        raise SystemExit(1)


if __name__ == "__main__":
    _allow_files()
    asyncio.run(ATTACKS[sys.argv[1]][1](Target(*map(int, sys.argv[2:]))))

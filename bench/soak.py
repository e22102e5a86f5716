"""
Steady mixed traffic for half an hour (`MINUTES` in the environment): does memory grow, is anything lost?

`make soak`. Readers with the headers of Chromium, crawlers, forms, scripts, nonsense, wrong answers to challenges,
websockets and clients that leave in the middle ask a `hedgerow protect` in front of nginx, from a fixed number of
addresses. The settings are read again every few minutes (SIGHUP). Every few seconds memory (PSS), descriptors and
threads of its processes are looked at. At the end each answered request must have its row in the ledger.

Before that, `WARM_UP` requests are sent as fast as `WARM_RATE` says: until then memory grows, because caches and the
records of these visitors fill up to their limits. At the usual rate that would take 40 minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from attacks.browsers import CHROME, page_at
from real.servers import Nginx, Protect, find_program

MINUTES = float(os.environ.get("MINUTES", "30"))
RATE = float(os.environ.get("RATE", "40"))
WORKERS = int(os.environ.get("WORKERS", "1"))
WARM_UP = int(os.environ.get("WARM_UP", "100000"))
WARM_RATE = float(os.environ.get("WARM_RATE", "200"))
MOST_AT_ONCE = 300
VISITORS = 1500
GUESSERS = 150
"""Others, who give wrong answers to challenges: these are refused after some of them, and readers shall not be."""
EVERY = 5.0
GOAL = 1.0
"""MB per hour."""
HUNDREDTHS = 100
SETTINGS = """
[identity]
trusted_proxies = ["127.0.0.0/8"]
[containment]
k1 = 1000000
k2 = 1000000
[rotating]
enabled = false
[policy]
suspects = "pass"
"""
"""Nearly all readers get pages, which are rewritten, and the watch goes on judging them: that is most work."""
HEADERS = "".join(f"{name}: {value}\r\n" for name, value in CHROME.items())


class Sample(NamedTuple):
    """What the processes have at one moment: seconds since the start, MB, descriptors, threads."""

    at: float
    memory: float
    files: int
    threads: int


class Traffic:
    """Asks *port* from fixed addresses, in a mix that stays the same."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._random = random.Random(1)
        self._number = 0
        self.answered: set[int] = set()
        self.statuses: Counter[int] = Counter()
        self.unanswered = 0

    async def run(self, requests: int, rate: float) -> None:
        """Send so many requests at *rate* per second, or slower where they are not answered that fast."""
        asked: set[asyncio.Task[None]] = set()
        due = time.monotonic()
        for _ in range(requests):
            if len(asked) >= MOST_AT_ONCE:
                await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            task = asyncio.ensure_future(self._one())
            asked.add(task)
            task.add_done_callback(asked.discard)
            due = max(due + 1 / rate, time.monotonic() - 1)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        await asyncio.gather(*asked)

    async def _one(self) -> None:
        self._number += 1
        number, kind = self._number, self._random.randrange(HUNDREDTHS)
        visitor = self._random.randrange(VISITORS)
        if 15 <= kind < 18:
            visitor = VISITORS + visitor % GUESSERS
        address = f"{20 + visitor % 150}.{visitor // 10}.{visitor % 7}.{1 + visitor % 250}"
        word = "".join(self._random.choices("abcdef", k=2))
        # The number of a request is in its referrer, so that pages have no more addresses than on a usual site.
        own = f"Host: soak.example\r\nX-Forwarded-For: {address}\r\nReferer: http://soak.example/?soak={number}\r\n"
        lines = f"{own}{HEADERS}Connection: close\r\n"
        request = f"GET /{word}/ HTTP/1.1\r\n{lines}\r\n"
        if kind < 10:
            request = f"POST /form HTTP/1.1\r\n{lines}Content-Length: 7\r\n\r\na=b&c=d"
        elif kind < 15:
            request = f"GET /{word}/ HTTP/1.1\r\n{own}Connection: close\r\n\r\n"
        elif kind < 18:
            number, body = 0, "ticket=x&challenge=y&answer=z"
            request = f"POST /.hedgerow/answer HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n{body}"
        elif kind < 20:
            number, request = 0, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"
        elif kind < 22:
            number = 0
            request = (
                "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
        await self._send(request.encode(), number, leaves=kind >= 97)

    async def _send(self, request: bytes, number: int, *, leaves: bool) -> None:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                async with asyncio.timeout(30):
                    writer.write(request)
                    if leaves:
                        # In the middle of the response: whether the request was seen is uncertain.
                        await reader.read(20)
                        return
                    answer = await reader.read()
                    self.statuses[int(answer.split(b" ", 2)[1])] += 1
                    if number:
                        self.answered.add(number)
                    return
            except (TimeoutError, IndexError, ValueError):
                pass
            finally:
                writer.close()
        self.unanswered += 1


def processes(pid: int) -> list[int]:
    """The process *pid* and what it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in processes(int(child)))]


def look(pid: int, start: float) -> Sample:
    memory, files, threads = 0, 0, 0
    for each in processes(pid):
        rollup = Path(f"/proc/{each}/smaps_rollup").read_text()
        # Without the files that it maps: programs and libraries, which others may share at times.
        memory += int(rollup.partition("\nPss_Anon:")[2].split()[0])
        files += len(list(Path(f"/proc/{each}/fd").iterdir()))
        threads += len(list(Path(f"/proc/{each}/task").iterdir()))
    return Sample(time.monotonic() - start, memory / 1024, files, threads)


def slope(samples: Sequence[Sample]) -> float:
    """MB per hour: the median of the slopes between each of the first half and its fellow in the second (Theil)."""
    half = len(samples) // 2
    pairs = zip(samples[:half], samples[-half:], strict=True)
    return statistics.median((b.memory - a.memory) / (b.at - a.at) * 3600 for a, b in pairs)


def plot(samples: Sequence[Sample], *, width: int = 72, height: int = 10) -> str:
    """The memory over time in characters."""
    columns = [samples[int(n * len(samples) / width)].memory for n in range(width)]
    low, high = min(columns), max(columns)
    step = (high - low) / (height - 1) or 1.0
    rows = [["*" if round((value - low) / step) == row else " " for value in columns] for row in range(height)]
    lines = [f"{low + step * row:8.2f} |{''.join(cells)}" for row, cells in enumerate(rows)]
    axis = f"{'':10}0{'minutes':>{width // 2}}{samples[-1].at / 60:>{width // 2 - 2}.0f}"
    return "\n".join(["MB", *reversed(lines), f"{'':8} +{'-' * width}", axis])


def rows_of(ledger: Path) -> set[int]:
    with contextlib.closing(sqlite3.connect(ledger)) as connection:
        referrers = connection.execute("SELECT referrer FROM visits WHERE referrer LIKE '%soak=%'")
        return {int(referrer.rpartition("soak=")[2]) for (referrer,) in referrers}


async def _traffic(traffic: Traffic, start: float) -> float:
    """Warm up, then send steady traffic. Return the seconds since *start* at which it began."""
    await traffic.run(WARM_UP, WARM_RATE)
    warm_at = time.monotonic() - start
    await traffic.run(int(MINUTES * 60 * RATE), RATE)
    return warm_at


async def _soak(gate: Protect, traffic: Traffic) -> tuple[list[Sample], float]:
    start, samples = time.monotonic(), []
    running = asyncio.ensure_future(_traffic(traffic, start))
    reload_at = start + 120
    while not running.done():
        await asyncio.wait([running], timeout=EVERY)
        samples.append(look(gate.pid, start))
        if time.monotonic() > reload_at:
            os.kill(gate.pid, signal.SIGHUP)
            reload_at += 240
    return samples, await running


def main() -> None:
    nginx = find_program("nginx")
    if nginx is None:
        print("nginx is not installed: not measured")
        return
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        for word in (a + b for a in "abcdef" for b in "abcdef"):
            (folder / "site" / word).mkdir(parents=True)
            (folder / "site" / word / "index.html").write_bytes(page_at("/" + word))
        site = Nginx(nginx, folder / "nginx", folder / "site")
        stack.callback(site.stop)
        options = ["--workers", str(WORKERS)] if WORKERS > 1 else []
        gate = Protect(site.url, folder / "gate", settings=SETTINGS, options=options)
        stack.callback(gate.stop)
        traffic = Traffic(gate.port)
        samples, warm_at = asyncio.run(_soak(gate, traffic))
        lost = gate.metric("hedgerow_ledger_lost_total")
        gate.stop()
        missing = traffic.answered - rows_of(folder / "gate" / "state" / "ledger.sqlite")
    report(samples, warm_at, traffic, len(missing), lost)


def report(samples: list[Sample], warm_at: float, traffic: Traffic, missing: int, lost: float) -> None:
    warm = [one for one in samples if one.at >= warm_at]
    growth = slope(warm)
    print(f"{samples[-1].at / 60:.0f} minutes, {sum(traffic.statuses.values()):,} answers, {RATE:g} requests a second, "
          f"{VISITORS:,} addresses, {WORKERS} process(es)")  # fmt: skip
    print(f"warm after {warm_at / 60:.1f} minutes and {WARM_UP:,} requests")
    print("statuses: " + ", ".join(f"{status}: {count:,}" for status, count in sorted(traffic.statuses.items())))
    print(f"{'':14}{'start':>9}{'warm':>9}{'end':>9}{'highest':>9}")
    for name, values in (("memory, MB", [s.memory for s in samples]), ("descriptors", [s.files for s in samples]),
                         ("threads", [s.threads for s in samples])):  # fmt: skip
        middle = values[len(samples) - len(warm)]
        print(f"{name:14}{values[0]:9.1f}{middle:9.1f}{values[-1]:9.1f}{max(values):9.1f}")
    print(plot(samples))
    print(f"memory after the warm-up: {growth:+.2f} MB per hour (goal: below {GOAL:g})")
    print(f"memory in the last half of it: {slope(warm[len(warm) // 2 :]):+.2f} MB per hour")
    print(f"answered requests without a row in the ledger: {missing} of {len(traffic.answered):,}")
    print(f"lost by the ledger's own count: {lost:.0f}; not answered: {traffic.unanswered}")
    flat = max(s.files for s in warm[-20:]) <= max(s.files for s in warm[:20]) + 20
    threads = warm[-1].threads <= warm[0].threads + 2
    if growth >= GOAL or missing or lost or traffic.unanswered or not flat or not threads:
        print("FAILED")
        raise SystemExit(1)


if __name__ == "__main__":
    main()

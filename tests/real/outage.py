"""A steady load of requests by many visitors, while something fails: who was answered what, and how long it took."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from .servers import PATIENCE


class Answered(NamedTuple):
    """One request: in which phase it was sent, of what, the status (0: none), and the seconds until its end."""

    phase: str
    target: str
    status: int
    took: float


class Load:
    """
    Asks the servers at *ports* in turns, *rate* times a second, from another address of this machine each time.

    It asks when it is time to, whether or not others have been answered: who waits holds up nobody else.
    """

    def __init__(self, ports: Sequence[int], *, rate: float, path: str = "/") -> None:
        self._ports = ports
        self._pause = 1.0 / rate
        self._path = path
        self._stop = threading.Event()
        self.phase = ""
        self.answers: list[Answered] = []
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        asked: list[asyncio.Task[None]] = []
        due = time.monotonic()
        while not self._stop.is_set():
            asked.append(asyncio.ensure_future(self._ask(len(asked))))
            due += self._pause
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        await asyncio.gather(*asked)

    async def _ask(self, number: int) -> None:
        phase, target, status = self.phase, f"{self._path}?n={number}", 0
        mine = f"127.{1 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
        began = time.perf_counter()
        try:
            async with asyncio.timeout(PATIENCE):
                port = self._ports[number % len(self._ports)]
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(mine, 0))
                try:
                    writer.write(b"GET %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % target.encode())
                    answer = await reader.read()
                    status = int(answer.split(b" ", 2)[1])
                finally:
                    writer.close()
        except (OSError, TimeoutError, IndexError):
            pass
        self.answers.append(Answered(phase, target, status, time.perf_counter() - began))

    def statuses(self) -> set[int]:
        return {one.status for one in self.answers}

    def took(self, phase: str) -> list[float]:
        """How long those of a phase took, the quickest first."""
        return sorted(one.took for one in self.answers if one.phase == phase)

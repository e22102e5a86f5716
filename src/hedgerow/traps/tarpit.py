"""
Tarpit: how many crawlers are detained at once, and how slowly they are served.

Detaining must never cost the site more than the crawler, so there is one fixed budget of connections and of
bytes for all detained clients together. Who does not fit in is turned away with a plain refusal. Only the
accounts and the schedule are here: the adapters wait and send.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Self


class Tarpit:
    """
    The budget: at most *connections* stays and *memory* bytes at any time, whatever the threads do.

    A page is sent in at most *pieces* pieces over about *seconds* seconds. `admitted` and `turned_away` count
    since the start; `inside` and `bytes_inside` are now.
    """

    def __init__(self, connections: int = 64, memory: int = 2_000_000, seconds: float = 20.0, pieces: int = 40) -> None:
        if min(connections, memory, seconds) < 0 or pieces < 1:
            raise ValueError("connections, memory and seconds are at least 0, pieces at least 1")
        self._connections = connections
        self._memory = memory
        self._seconds = seconds
        self._pieces = pieces
        self._lock = Lock()
        self.admitted = 0
        self.turned_away = 0
        self.inside = 0
        self.bytes_inside = 0

    def admit(self, size: int) -> Stay | None:
        """A stay for a page of *size* bytes, or None where the budget is spent."""
        if size < 0:
            raise ValueError(f"a page has at least 0 bytes, not {size}")
        with self._lock:
            if self.inside >= self._connections or self.bytes_inside + size > self._memory:
                self.turned_away += 1
                return None
            self.admitted += 1
            self.inside += 1
            self.bytes_inside += size
        return Stay(self, size, self._seconds, self._pieces)

    def _release(self, stay: Stay) -> None:
        with self._lock:
            if stay.left:
                return
            stay.left = True
            self.inside -= 1
            self.bytes_inside -= stay.size


class Stay:
    """One detained client, from `Tarpit.admit` until it leaves; as a context manager it leaves by itself."""

    __slots__ = ("_pieces", "_seconds", "_tarpit", "left", "size")

    def __init__(self, tarpit: Tarpit, size: int, seconds: float, pieces: int) -> None:
        self._tarpit = tarpit
        self._seconds = seconds
        self._pieces = pieces
        self.size = size
        self.left = False

    def pieces(self, body: bytes) -> Iterator[tuple[float, bytes]]:
        """
        What to send, and how many seconds to wait before each.

        The first piece goes at once, so that a client which gives up on a silent server stays. *body* may be
        shorter than the stay was admitted for, never longer: the budget would be a lie.

        >>> list(Tarpit(seconds=3.0, pieces=4).admit(8).pieces(b"crawlers"))
        [(0.0, b'cr'), (1.0, b'aw'), (1.0, b'le'), (1.0, b'rs')]
        """
        if len(body) > self.size:
            raise ValueError(f"admitted for {self.size} bytes, not for {len(body)}")
        return self._cut(body)

    def _cut(self, body: bytes) -> Iterator[tuple[float, bytes]]:
        length = len(body)
        number = min(self._pieces, length)
        pause = self._seconds / (number - 1) if number > 1 else 0.0
        for piece in range(number):
            start, end = piece * length // number, (piece + 1) * length // number
            yield (pause if piece else 0.0), body[start:end]

    def leave(self) -> None:
        """Give back what the stay took; a second time it does nothing."""
        self._tarpit._release(self)  # noqa: SLF001 - one thing in two classes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

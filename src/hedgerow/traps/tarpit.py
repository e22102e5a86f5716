"""
The tarpit: the budget for detained crawlers, and the schedule by which each is served slowly.

Detaining must never cost the site more than the crawler. So all detained clients share a fixed budget of connections
and bytes. A client that does not fit is refused. This module does no I/O: `web` waits and sends.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Self


class Tarpit:
    """
    A thread-safe budget of *connections* clients and *memory* bytes at a time.

    A page is sent in at most *pieces* pieces over about *seconds* seconds. `admitted` and `turned_away` are totals
    since the start; `inside` and `bytes_inside` are current.
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
        """Return a stay for a page of *size* bytes, or None if the budget is used up."""
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
    """One detained client, from `Tarpit.admit` until `leave`. A context manager calls `leave` at its end."""

    __slots__ = ("_pieces", "_seconds", "_tarpit", "left", "size")

    def __init__(self, tarpit: Tarpit, size: int, seconds: float, pieces: int) -> None:
        self._tarpit = tarpit
        self._seconds = seconds
        self._pieces = pieces
        self.size = size
        self.left = False

    def pieces(self, body: bytes) -> Iterator[tuple[float, bytes]]:
        """
        Yield the pieces of *body*, each with the seconds to wait before it.

        The first piece is sent at once, so that a client that gives up on a silent server stays. *body* may be shorter
        than the admitted size, but not longer.

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
        """Return the stay's share of the budget. A second call does nothing."""
        self._tarpit._release(self)  # noqa: SLF001 - friend class

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

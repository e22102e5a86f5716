"""The pending session of one visitor, its path and its window, serialised together."""

from __future__ import annotations

from typing import Self

import msgspec

from hedgerow.watch.sessions.path import PathSession
from hedgerow.watch.sessions.window import SessionWindow

_LENGTH = 2


class PendingSession(msgspec.Struct, gc=False, eq=False):
    """A visitor's *path* and *window*; None where the watch does not use it."""

    path: PathSession | None
    window: SessionWindow | None

    @property
    def latest(self) -> float:
        return self.path.latest if self.path is not None else self.window.latest if self.window is not None else 0.0

    @property
    def size(self) -> int:
        return max(self.path.size if self.path is not None else 0, self.window.size if self.window is not None else 0)

    def to_bytes(self) -> bytes:
        path = self.path.to_bytes() if self.path is not None else b""
        return len(path).to_bytes(_LENGTH, "big") + path + (self.window.to_bytes() if self.window is not None else b"")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self | None:
        """Return the session in *data*, or None if neither path nor window is valid."""
        end = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
        if len(data) < max(end, _LENGTH):
            return None
        path, window = PathSession.from_bytes(data[_LENGTH:end]), SessionWindow.from_bytes(data[end:])
        return cls(path, window) if path is not None or window is not None else None

"""Pending: what is under way of one visitor, its path and its window, as one thing that is kept together."""

from __future__ import annotations

from typing import Self

import msgspec

from hedgerow.watch.sessions.path import PathSession
from hedgerow.watch.sessions.window import SessionWindow

_LENGTH = 2


class PendingSession(msgspec.Struct, gc=False, eq=False):
    """A visitor's *path* and *window*; either may be None where nobody asks for it."""

    path: PathSession | None
    window: SessionWindow | None

    @property
    def latest(self) -> float:
        """When the last step was taken."""
        return self.path.latest if self.path is not None else self.window.latest if self.window is not None else 0.0

    @property
    def size(self) -> int:
        """Steps that are remembered."""
        return max(self.path.size if self.path is not None else 0, self.window.size if self.window is not None else 0)

    def to_bytes(self) -> bytes:
        path = self.path.to_bytes() if self.path is not None else b""
        return len(path).to_bytes(_LENGTH, "big") + path + (self.window.to_bytes() if self.window is not None else b"")

    @classmethod
    def from_bytes(cls, kept: bytes) -> Self | None:
        """What was kept as *kept*, or None where that is none of ours; a part that makes no sense begins anew."""
        end = _LENGTH + int.from_bytes(kept[:_LENGTH], "big")
        if len(kept) < max(end, _LENGTH):
            return None
        path, window = PathSession.from_bytes(kept[_LENGTH:end]), SessionWindow.from_bytes(kept[end:])
        return cls(path, window) if path is not None or window is not None else None

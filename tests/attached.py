"""Processes that end with the test process that started them, however that one ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def attached(command: Sequence[str | Path], *, by: str = "TERM") -> list[str | Path]:
    """
    *command*, prefixed so that Linux sends it the signal *by* when its parent is gone.

    Fixtures stop what they have started. They cannot when the test process is killed, or when pytest-xdist gives up
    waiting for a worker after an interrupt. Start such a command in the main thread: the end of another thread counts
    as the end of the parent.
    """
    return ["setpriv", "--pdeathsig", by, "--", *command]

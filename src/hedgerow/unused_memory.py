"""Unused memory: give it back to the system."""

from __future__ import annotations

import ctypes
import sys


def release_unused_memory() -> None:
    """
    Give free memory back to the system. Some milliseconds.

    glibc keeps what was freed between other blocks, in each thread. After many large blocks were freed, that is much.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)

"""
Shelf: large arrays that are used again as soon as nobody has them any more.

The pieces of a log are all of one size. Memory for each of them anew would have to be cleared by the system, page by
page.
"""

from __future__ import annotations

import sys
from threading import Lock

import numpy as np
from numpy.typing import NDArray

_OURS = 2
"""References to an array that nobody else has: the shelf's own and that of the question."""

_STEP = 1 << 20
"""Bytes. Lines are not all of the same length, so what each piece of a log takes is only about the same."""


class BufferPool:
    """Where arrays of bytes lie; from any thread."""

    def __init__(self) -> None:
        self._arrays: list[NDArray[np.uint8]] = []
        self._lock = Lock()

    def take(self, size: int) -> NDArray[np.uint8]:
        """
        *size* bytes, whatever is in them: the taker's, as long as there is a view of them.

        The smallest of those that are free and large enough; where there is none, a new one takes the place of the
        largest that is free.
        """
        with self._lock:
            free = [k for k in range(len(self._arrays)) if sys.getrefcount(self._arrays[k]) == _OURS]
            free.sort(key=lambda k: len(self._arrays[k]))
            for k in free:
                if len(self._arrays[k]) >= size:
                    return self._arrays[k][:size]
            made = np.empty(-(-size // _STEP) * _STEP, np.uint8)
            if free:
                self._arrays[free[-1]] = made
            else:
                self._arrays.append(made)
            return made[:size]

"""
Digests: 64 bits that stand for a text of a log.

Pages, shapes of pages and user agents are known by their digests, and whoever sends requests chooses the texts. So the
digest is keyed with random numbers of this run: nobody can look for two texts that have the same one. It is a
multilinear hash (Carter and Wegman; Lemire and Kaser, "Strongly universal string hashing is fast"): two different texts
have the same 64 bits with a probability of 2 to the -64. No output depends on the value of a digest.
"""

from __future__ import annotations

import os
import struct
from functools import cached_property
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.logs.reader import MAX_LINE_BYTES
from hedgerow.report.tables.jit import Kernel

KEY_NUMBERS = 2 * (MAX_LINE_BYTES // 4 + 4)
_ONE, _TWO, _THREE, _FOUR, _FIVE, _SIX, _SEVEN, _EIGHT = map(np.uint64, range(1, 9))
_HALF = np.uint64(32)
_LOW, _HIGH = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFF00000000)


class DigestKey:
    """
    A key: two random *numbers* for each four bytes of a text, behind two for a beginning and two for the size.

    *secret* are its bytes, where there is such a key already.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self.secret: bytes = secret or os.urandom(8 * KEY_NUMBERS)
        self.numbers: NDArray[np.uint64] = np.frombuffer(self.secret, "<u8").astype(np.uint64)

    @cached_property
    def _halves(self) -> tuple[tuple[int, int, list[int]], ...]:
        return tuple((first, size, rest) for first, size, *rest in (self.numbers[k::2].tolist() for k in (0, 1)))

    def digest(self, text: bytes) -> int:
        """What the kernel `digest` gives for *text*."""
        size, text = len(text), text[:MAX_LINE_BYTES]
        count = -(-len(text) // 4)
        parts = struct.unpack(f"<{count}I", text.ljust(4 * count, b"\0"))
        low, high = (first + size * factor + sum(map(mul, parts, rest)) for first, factor, rest in self._halves)
        return (low >> 32 & int(_LOW) | high & int(_HIGH)) or 1


@Kernel
def eight(data: Any, i: Any) -> Any:
    """
    The eight bytes at *i* as one number, the first the lowest: one instruction once it is compiled.

    *i* has no sign: that spares numba a test for less than 0.
    """
    low = np.uint64(data[i]) | np.uint64(data[i + _ONE]) << _EIGHT
    low |= np.uint64(data[i + _TWO]) << np.uint64(16) | np.uint64(data[i + _THREE]) << np.uint64(24)
    high = np.uint64(data[i + _FOUR]) << np.uint64(32) | np.uint64(data[i + _FIVE]) << np.uint64(40)
    high |= np.uint64(data[i + _SIX]) << np.uint64(48) | np.uint64(data[i + _SEVEN]) << np.uint64(56)
    return low | high


@Kernel
def digest(data: Any, start: int, end: int, key: Any) -> Any:
    """64 bits for the bytes of *data* from *start* to before *end*, behind which there are seven more; never 0."""
    i, stop = np.uint64(start), np.uint64(min(end, start + MAX_LINE_BYTES))
    size = np.uint64(end) - i
    low, high = key[0] + size * key[2], key[1] + size * key[3]
    k = _FOUR
    while i < stop:
        word = eight(data, i)
        if stop - i < _EIGHT:
            word &= (_ONE << (stop - i) * _EIGHT) - _ONE
        first, second = word & _LOW, word >> _HALF
        low += first * key[k] + second * key[k + _TWO]
        high += first * key[k + _ONE] + second * key[k + _THREE]
        k += _FOUR
        i += _EIGHT
    found = low >> _HALF | high & _HIGH
    return found or _ONE

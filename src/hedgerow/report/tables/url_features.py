"""
URL features: what is counted of a target and of a referrer, for every line of every format; and digests of texts.

A page is identified by the digest of its target, and its shape by the digest of an outline that pages of one kind
share: the topics of a forum, the articles of a shop. So groups of pages are found without knowing the site.

A digest has 64 bits. Strangers choose the texts, so digests are keyed with random numbers of this run: nobody can
search for two texts with the same digest. It is a multilinear hash (Carter and Wegman; Lemire and Kaser, "Strongly
universal string hashing is fast"): two different texts have the same digest with a probability of 2 to the -64. No
output depends on the value of a digest.
"""

from __future__ import annotations

import os
import struct
from functools import cached_property
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.request_kind import ASSETS, CALL_NAMES, CALL_SUFFIXES
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


PAGE, CALL, ASSET, PREFETCH = 0, 1, 2, 3
"""The numbers of the kinds of requests."""

PARAMETERS, HEAD, ROBOTS, REFERRED, OLD_HTTP = 1, 2, 4, 8, 16
"""Flags: has a query, asks for headers only, asks for robots.txt, has a referrer, is HTTP/1.0."""

OUTLINE_SIZE = MAX_LINE_BYTES + 8
"""Bytes of the longest outline."""

_HEADER = 4
_LONGEST_SUFFIX = 6
_ROBOTS = np.frombuffer(b"/robots.txt", np.uint8)
_SLASH, _DOT, _QUESTION, _AND, _EQUALS, _HASH, _ZERO, _NINE = b"/.?&=#09"


def _table(texts: frozenset[str]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Short texts, a row each; in the first place how long it is."""
    rows = [[len(text), *text.encode()] for text in sorted(texts)]
    width = max(map(len, rows))
    return np.array([row + [0] * (width - len(row)) for row in rows], np.uint8)


_ASSETS, _CALL_SUFFIXES, _CALL_NAMES = map(_table, (ASSETS, CALL_SUFFIXES, CALL_NAMES))


@Kernel
def _is_in(data: Any, start: int, end: int, table: Any, lower: bool) -> bool:
    """Whether these bytes are one of the texts of *table*; capitals are small letters where *lower* says so."""
    size = end - start
    for row in range(len(table)):
        if table[row, 0] != size:
            continue
        k = 0
        while k < size:
            byte = data[start + k]
            if lower and 65 <= byte <= 90:
                byte += 32
            if byte != table[row, k + 1]:
                break
            k += 1
        if k == size:
            return True
    return False


@Kernel
def kind_of_target(data: Any, start: int, end: int) -> int:
    """The kind of a request for a target, as `request_kind.kind_of` says."""
    stop = start
    while stop < end and data[stop] != _QUESTION:
        stop += 1
    name = stop
    dot = -1
    while name > start and data[name - 1] != _SLASH:
        name -= 1
        if dot < 0 and data[name] == _DOT:
            dot = name
    if dot >= 0 and _is_in(data, dot + 1, stop, _ASSETS, True):
        return ASSET
    if dot >= 0 and _is_in(data, dot + 1, stop, _CALL_SUFFIXES, True):
        return CALL
    if name == stop and stop > start:
        stop = name = stop - 1
        while name > start and data[name - 1] != _SLASH:
            name -= 1
    return CALL if _is_in(data, name, stop, _CALL_NAMES, False) else PAGE


@Kernel
def _order_key(data: Any, start: int, end: int) -> Any:
    """
    Eight bytes that sort as a person sorts: letters by the alphabet, numbers by their size.

    A run of digits is led by its length, so that 9 comes before 10.
    """
    key = np.uint64(0)
    used = 0
    i = start
    while i < end and used < 8:
        byte = data[i]
        if _ZERO <= byte <= _NINE:
            while i < end - 1 and data[i] == _ZERO and _ZERO <= data[i + 1] <= _NINE:
                i += 1
            stop = i
            while stop < end and _ZERO <= data[stop] <= _NINE:
                stop += 1
            key = key << np.uint64(8) | np.uint64(_ZERO + min(stop - i, 9))
            used += 1
            while i < stop and used < 8:
                key = key << np.uint64(8) | np.uint64(data[i])
                used += 1
                i += 1
            i = stop
            continue
        if 65 <= byte <= 90:
            byte += 32
        key = key << np.uint64(8) | np.uint64(byte)
        used += 1
        i += 1
    return key << np.uint64(8 * (8 - used)) if used else key


@Kernel
def outline(data: Any, start: int, end: int, out: Any) -> Any:
    """
    The order key of a target (path and query), the size of its outline, which goes to *out*, and its flags.

    The order sorts it among its like: by the last value of the query, or by the last name of the path. The outline has
    the first directory, how many follow, the suffix, and the names in the query.
    """
    query = start
    first_end = name = start
    slashes = 0
    dot = -1
    while query < end and data[query] != _QUESTION:
        byte = data[query]
        if byte == _SLASH:
            slashes += 1
            if slashes == 2:
                first_end = query
            name = query + 1
            dot = -1
        elif byte == _DOT:
            dot = query
        query += 1
    size = _HEADER
    digit = False
    for i in range(start, first_end):
        byte = data[i]
        if _ZERO <= byte <= _NINE:
            if digit:
                continue
            digit = True
            byte = _HASH
        else:
            digit = False
        out[size] = byte
        size += 1
    out[0], out[1] = slashes & 255, slashes >> 8 & 127 | (128 if name == query else 0)
    out[2], out[3] = size & 255, size >> 8 & 255
    if dot >= 0 and query - dot <= _LONGEST_SUFFIX:
        for i in range(dot, query):
            out[size] = data[i]
            size += 1
    last = name
    if name == query and query > start:
        # The name of a directory stands before its slash.
        last = query - 1
        while last > start and data[last - 1] != _SLASH:
            last -= 1
    until = query
    in_name = True
    for i in range(query + 1, end):
        byte = data[i]
        if byte == _AND:
            in_name = True
        elif byte == _EQUALS and in_name:
            in_name = False
            last = i + 1
            until = end
        elif in_name:
            out[size] = byte
            size += 1
    if until == end:
        until = last
        while until < end and data[until] != _AND:
            until += 1
    flags = PARAMETERS if query + 1 < end else 0
    if query - start == len(_ROBOTS):
        flags |= ROBOTS
        for k in range(len(_ROBOTS)):
            if data[start + k] != _ROBOTS[k]:
                flags &= ~ROBOTS
    return _order_key(data, last, until), size, flags


@Kernel
def split_referrer(data: Any, start: int, end: int) -> Any:
    """Where the host of a referrer begins and ends, and where its page ends; no host where it is no URL."""
    i = start
    while i + 2 < end and not (data[i] == 58 and data[i + 1] == _SLASH and data[i + 2] == _SLASH):
        i += 1
    if i + 2 >= end:
        return start, start, start
    host = i + 3
    stop = host
    while stop < end and data[stop] != _HASH:
        stop += 1
    slash = host
    while slash < stop and data[slash] != _SLASH:
        slash += 1
    return host, slash, stop

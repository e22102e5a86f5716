"""
Describing: what a target and a referrer are, in numbers. Compiled by numba, and used for every line of every format.

A page is a digest of its target. Pages that are built alike have one shape: a forum's topics, a shop's articles. So the
groups of pages of any site are found without knowing the site.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.request_kind import ASSETS, CALL_NAMES, CALL_SUFFIXES
from hedgerow.report.tables.jit import M1, M2, below, compiled, eight, find, folded, lean

Bytes = NDArray[np.uint8]

PAGE, CALL, ASSET, PREFETCH = 0, 1, 2, 3
"""The numbers of the kinds of requests."""

PARAMETERS, HEAD, ROBOTS, REFERRED, OLD_HTTP = 1, 2, 4, 8, 16
"""The flags: has a query, asks for headers only, asks for robots.txt, has a referrer, is HTTP/1.0."""

_S = np.uint64(29)
_SLASH = np.frombuffer(b"/", np.uint8)


@lean
def _mix(h: Any, word: Any) -> Any:
    h = (h ^ word) * M1
    return h ^ (h >> _S)


@lean
def _few(data: Bytes, start: int, end: int) -> Any:
    """Fewer than eight bytes as one number, the first the lowest."""
    if start + 8 <= len(data):
        return eight(data, start) & below(end - start)
    word = np.uint64(0)
    for i in range(start, end):
        word |= np.uint64(data[i]) << np.uint64(8 * (i - start))
    return word


@lean
def digest(data: Bytes, start: int, end: int) -> Any:
    """64 bits for the bytes from *start* to before *end*; never 0."""
    size = np.uint64(end - start)
    h = M2 ^ size
    i = start
    while i + 16 <= end:
        h = folded(eight(data, i) ^ M1, eight(data, i + 8) ^ h)
        i += 16
    # What is left, with bytes before it that have been seen; how many they are is in the digest.
    if end - start < 8:
        h = folded(_few(data, start, end) ^ M1, h)
    elif end - i > 8:
        h = folded(eight(data, i) ^ M1, eight(data, end - 8) ^ h)
    else:
        h = folded(eight(data, end - 8) ^ M1, h)
    h = folded(h ^ M1, size ^ M2)
    return h if h != np.uint64(0) else np.uint64(1)


def _suffixes() -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """The suffixes of assets and calls as a table of 1,024 places: the text as two numbers, and the kind."""
    keys, kinds = np.zeros((1024, 2), np.uint64), np.zeros(1024, np.uint8)
    for suffixes, kind in ((ASSETS, ASSET), (CALL_SUFFIXES, CALL)):
        for suffix in sorted(suffixes):
            text = suffix.encode()
            low, high = (int.from_bytes(part, "little") for part in (text[:8], text[8:]))
            place = ((low * int(M1)) & _ALL_BITS) >> 54
            while keys[place, 0]:
                place = (place + 1) % 1024
            keys[place], kinds[place] = (low, high), kind
    return keys, kinds


_ALL_BITS = (1 << 64) - 1
_LONGEST_SUFFIX = max(map(len, ASSETS | CALL_SUFFIXES))
_KEYS, _KINDS = _suffixes()


def _names() -> NDArray[np.uint8]:
    """The names of calls, a row each; in its last place how long it is."""
    names = sorted(name.encode() for name in CALL_NAMES)
    found = np.zeros((len(names), max(map(len, names)) + 1), np.uint8)
    for row, name in zip(found, names, strict=True):
        row[: len(name)] = np.frombuffer(name, np.uint8)
        row[-1] = len(name)
    return found


_NAMES = _names()
_LONGEST_NAME = _NAMES.shape[1] - 1


@lean
def _is_call(data: Bytes, start: int, end: int) -> Any:
    """Whether the last name of a path is a call's."""
    if end > start and data[end - 1] == 47:
        end -= 1
    size = end - start
    if size > _LONGEST_NAME:
        return False
    for k in range(len(_NAMES)):
        if _NAMES[k, _LONGEST_NAME] != size:
            continue
        i = 0
        while i < size and _NAMES[k, i] == data[start + i]:
            i += 1
        if i == size:
            return True
    return False


@lean
def _suffix_kind(data: Bytes, start: int, end: int) -> Any:
    """The kind of a page whose name has these bytes behind its last dot."""
    if end - start > _LONGEST_SUFFIX or end <= start:
        return PAGE
    low = np.uint64(0)
    high = np.uint64(0)
    for i in range(start, end):
        c = data[i]
        if 65 <= c <= 90:
            c += np.uint8(32)
        if i - start < 8:
            low |= np.uint64(c) << np.uint64(8 * (i - start))
        else:
            high |= np.uint64(c) << np.uint64(8 * (i - start - 8))
    place = np.int64(low * M1 >> np.uint64(54))
    while _KEYS[place, 0] != np.uint64(0):
        if _KEYS[place, 0] == low and _KEYS[place, 1] == high:
            return np.int64(_KINDS[place])
        place = (place + 1) % 1024
    return PAGE


@lean
def _order_key(data: Bytes, start: int, end: int) -> Any:
    """
    Eight bytes that sort as a person sorts: letters by the alphabet, numbers by their size.

    A run of digits is led by its length, so that 9 comes before 10.
    """
    key = np.uint64(0)
    used = 0
    i = start
    while i < end and used < 8:
        c = data[i]
        if 48 <= c <= 57:
            while i < end - 1 and data[i] == 48 and 48 <= data[i + 1] <= 57:
                i += 1
            stop = i
            while stop < end and 48 <= data[stop] <= 57:
                stop += 1
            key = key << np.uint64(8) | np.uint64(48 + min(stop - i, 9))
            used += 1
            while i < stop and used < 8:
                key = key << np.uint64(8) | np.uint64(data[i])
                used += 1
                i += 1
            i = stop
            continue
        if 65 <= c <= 90:
            c += np.uint8(32)
        key = key << np.uint64(8) | np.uint64(c)
        used += 1
        i += 1
    return key << np.uint64(8 * (8 - used))


@lean
def build(data: Bytes, start: int, end: int) -> Any:
    """
    How a target (path and query) is built, in numbers: order, shape, kind, flags.

    The order sorts it among its like: by the last value of the query, or by the last name of the path. The shape is
    shared by pages that are built alike: the first directory, how many follow, the suffix, and the names in the query.
    """
    query = find(data, start, end, 63, 63)
    flags = PARAMETERS if query + 1 < end else 0
    # The path: its first directory, how many there are, and where its last name begins.
    first_end = start
    slashes = 0
    name = start
    dot = -1
    shape = M1
    for i in range(start, query):
        c = data[i]
        if c == 47:
            slashes += 1
            if slashes == 2:
                first_end = i
            name = i + 1
            dot = -1
        elif c == 46:
            dot = i
    digit = False
    for i in range(start, first_end):
        c = data[i]
        if 48 <= c <= 57:
            if digit:
                continue
            digit = True
            c = np.uint8(35)
        else:
            digit = False
        shape = (shape ^ np.uint64(c)) * M2
    shape = _mix(shape, np.uint64(slashes))
    if name == query:
        shape = _mix(shape, np.uint64(7))
    kind = PAGE
    if dot >= 0:
        kind = _suffix_kind(data, dot + 1, query)
        if query - dot <= 6:
            for i in range(dot, query):
                shape = (shape ^ np.uint64(data[i])) * M2
    last = name
    if name == query and query > start:
        # The name of a directory stands before its slash.
        last = query - 1
        while last > start and data[last - 1] != 47:
            last -= 1
    if kind == PAGE and _is_call(data, last, query):
        kind = CALL
    until = query
    naming = True
    for i in range(query + 1, end):
        c = data[i]
        if c == 38:
            naming = True
        elif c == 61 and naming:
            naming = False
            last = i + 1
            until = end
        elif naming:
            shape = (shape ^ np.uint64(c)) * M2
    if until == end:
        stop = last
        while stop < end and data[stop] != 38:
            stop += 1
        until = stop
    shape ^= shape >> _S
    if query - start == 11 and data[start + 1] == 114 and data[start + 2] == 111 and data[start + 3] == 98:
        tail = data[start + 4] == 111 and data[start + 5] == 116 and data[start + 6] == 115 and data[start + 7] == 46
        if tail and data[start + 8] == 116 and data[start + 9] == 120 and data[start + 10] == 116:
            flags |= ROBOTS
    return _order_key(data, last, until), shape, kind, flags


@lean
def describe(data: Bytes, start: int, end: int) -> Any:
    """What a target is: page, a digest of all of it; and how it is built."""
    order, shape, kind, flags = build(data, start, end)
    return digest(data, start, end), order, shape, kind, flags


@lean
def referred(data: Bytes, start: int, end: int) -> Any:
    """
    What a referrer names: where its host starts and ends (at the same place where it has none), and the digest of its
    page, as if that were one of ours.
    """
    i = start
    while i + 2 < end and not (data[i] == 58 and data[i + 1] == 47 and data[i + 2] == 47):
        i += 1
    if i + 2 >= end:
        return start, start, np.uint64(0)
    host = i + 3
    stop = host
    while stop < end and data[stop] != 35:
        stop += 1
    slash = host
    while slash < stop and data[slash] != 47:
        slash += 1
    if slash == stop:
        return host, stop, digest(_SLASH, 0, 1)
    return host, slash, digest(data, slash, stop)


@lean
def shape_of_referrer(data: Bytes, slash: int, end: int) -> Any:
    """The shape of the page that a referrer names, whose host ends at *slash*; and where the page ends."""
    stop = slash
    while stop < end and data[stop] != 35:
        stop += 1
    if stop == slash:
        _, shape, _, _ = build(_SLASH, 0, 1)
    else:
        _, shape, _, _ = build(data, slash, stop)
    return shape, stop


@compiled
def describe_all(data: Bytes, targets: NDArray[np.int64], referrers: NDArray[np.int64]) -> Any:
    """
    `describe` and `referred` for many at once: *targets* and *referrers* are their ends in *data*, all targets first.

    Gives page, order, shape, kind, flags, the start and end of each referrer's host, its page and its shape (0: none).
    """
    n = len(targets)
    page = np.zeros(n, np.uint64)
    order = np.zeros(n, np.uint64)
    shape = np.zeros(n, np.uint64)
    kind = np.zeros(n, np.uint8)
    flags = np.zeros(n, np.uint8)
    hosts = np.zeros((n, 2), np.int64)
    parent = np.zeros(n, np.uint64)
    lead = np.zeros(n, np.uint64)
    start = 0
    for k in range(n):
        page[k], order[k], shape[k], kind[k], flags[k] = describe(data, start, targets[k])
        start = targets[k]
    for k in range(n):
        end = referrers[k]
        if end > start:
            flags[k] |= np.uint8(REFERRED)
            host, slash, above = referred(data, start, end)
            if slash > host:
                hosts[k, 0] = host
                hosts[k, 1] = slash
                parent[k] = above
                lead[k], _ = shape_of_referrer(data, slash, end)
        start = end
    return page, order, shape, kind, flags, hosts, parent, lead

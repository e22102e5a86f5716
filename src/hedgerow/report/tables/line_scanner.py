"""
Scanning: ordinary lines of an access log, in bulk, by a parser that numba compiles.

It takes a line only where it is plain beyond doubt (`splitting`). That is nearly every line of nearly every log. Of any
other line it gives only the place; `logs.formats` parses it, and is the reference for both: whatever is taken here is
parsed there to the same visit. So no line can be lost or merged with another, whatever bytes a log holds.

What a line tells becomes numbers on the spot: `describing` says which.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.tables.buffer_pool import BufferPool
from hedgerow.report.tables.jit import M1, M2, below, eight, find_all, lean
from hedgerow.report.tables.line_parser import split
from hedgerow.report.tables.url_features import (
    ASSET,
    CALL,
    HEAD,
    OLD_HTTP,
    REFERRED,
    Bytes,
    build,
    digest,
    referred,
    shape_of_referrer,
)

OTHER_CLIENT = np.uint64(1 << 63)
"""A source that is no plain IPv4 address has a number from here on."""

LONGEST_LINE = 65_536
_NEWLINE = 10

CLIENT, AGENT, PLACE, SHAPE, LEAD, HOST = 0, 1, 2, 3, 4, 5
"""
The columns of texts: client, user agent, the referrer's host, an example of the page's shape and of its parent's
shape, the virtual host.
"""
_COLUMNS = 6
_WORDS = 1 << 12
_BITS = 14
_TO_PLACE = np.uint64(64 - _BITS)
_BITS_OF_CLIENTS = 11
_TO_CLIENT = np.uint64(64 - _BITS_OF_CLIENTS)
_MOST_LINES = 1 << 19
"""Lines that are scanned at once: as many as a piece of a log has where they are of 64 bytes on the whole."""


class Scanned(NamedTuple):
    """
    The lines of a piece of a log, in numbers: one of each for each line, good or not.

    *odd* says that a line is not for us; *starts* and *ends* are its place. *texts* has a column for each kind of text:
    each row tells which of *words* it is, or -1. *words* are places of different texts in the piece: column, start,
    end. Shapes are words, too: the place is that of one page of the shape.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    odd: NDArray[np.bool_]
    source: NDArray[np.uint64]
    at: NDArray[np.int64]
    page: NDArray[np.uint64]
    parent: NDArray[np.uint64]
    order: NDArray[np.uint64]
    status: NDArray[np.uint16]
    kind: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    texts: NDArray[np.int32]
    words: NDArray[np.int64]
    digests: NDArray[np.uint64]


@lean
def ipv4(data: Bytes, start: int, end: int) -> Any:
    """The number of a plain IPv4 address; OTHER_CLIENT where it is none."""
    if end - start < 7 or end - start > 15:
        return OTHER_CLIENT
    number = np.uint64(0)
    part: Any = np.int64(0)
    digits = 0
    dots = 0
    for i in range(start, end):
        c = data[i]
        if 48 <= c <= 57:
            if digits and part == 0:
                return OTHER_CLIENT
            part = part * 10 + np.int64(c) - 48
            digits += 1
            if part > 255:
                return OTHER_CLIENT
        elif c == 46 and digits and dots < 3:
            number = number << np.uint64(8) | np.uint64(part)
            part = 0
            digits = 0
            dots += 1
        else:
            return OTHER_CLIENT
    if dots != 3 or not digits:
        return OTHER_CLIENT
    return number << np.uint64(8) | np.uint64(part)


@lean
def _number(
    data: Bytes, start: int, end: int, h: Any, column: int, table: Any, hashes: Any, words: Any, count: int
) -> Any:
    """
    Which of *words* these bytes are; a new one is added, and is then the last.

    Shapes are told by their digest *h*, other texts by digest and length; of clients the bytes are compared.
    """
    mask = np.uint64(len(table) - 1)
    place = (h + np.uint64(column)) & mask
    while table[place] >= 0:
        known = table[place]
        if hashes[known] == h and words[known, 0] == column:
            if column != CLIENT and (column == SHAPE or words[known, 2] - words[known, 1] == end - start):
                return known
            was = words[known, 1]
            same = words[known, 2] - was == end - start
            if same:
                for i in range(end - start):
                    if data[was + i] != data[start + i]:
                        same = False
                        break
            if same:
                return known
        place = (place + np.uint64(1)) & mask
    table[place] = count
    hashes[count] = h
    words[count, 0] = column
    words[count, 1] = start
    words[count, 2] = end
    return count


@lean
def _is_dash(data: Bytes, start: int, end: int) -> bool:
    return end == start or (end - start == 1 and data[start] == 45)


_PARTIAL_CONTENT = 206


@lean
def _enter(words: Any, hashes: Any, table: Any, count: int) -> None:
    """Enter *count* words into an empty table."""
    mask = np.uint64(len(table) - 1)
    for k in range(count):
        place = (hashes[k] + np.uint64(words[k, 0])) & mask
        while table[place] >= 0:
            place = (place + np.uint64(1)) & mask
        table[place] = k


@lean
def _refer(data: Bytes, start: int, end: int, known: Any, table: Any, hashes: Any, words: Any, count: int) -> int:
    """What a referrer names, into *known*: its page, and one more than the words of its host and shape; 0 for none."""
    host, slash, above = referred(data, start, end)
    known[1] = known[2] = known[3] = np.uint64(0)
    if slash > host:
        h = digest(data, host, slash)
        word = _number(data, host, slash, h, PLACE, table, hashes, words, count)
        count = max(count, word + 1)
        known[1] = above
        known[2] = np.uint64(word + 1)
        shape, stop = shape_of_referrer(data, slash, end)
        word = _number(data, slash, stop, shape, SHAPE, table, hashes, words, count)
        count = max(count, word + 1)
        known[3] = np.uint64(word + 1)
    return count


@lean
def _client(data: Bytes, start: int, end: int, clients: Any) -> Any:
    """What `ipv4` says; *clients* are those that came last."""
    size = end - start
    if size < 7 or size > 15 or start + 16 > len(data):
        return ipv4(data, start, end)
    first, second = eight(data, start), np.uint64(0)
    if size < 8:
        first &= below(size)
    else:
        second = eight(data, start + 8) & below(size - 8)
    known = clients[np.int64((first * M1 ^ second * M2) >> _TO_CLIENT)]
    if known[0] != first or known[1] != second:
        known[0], known[1], known[2] = first, second, ipv4(data, start, end)
    return known[2]


@lean
def _scan_some(
    data: Bytes, vhost: bool, line: int, count: int, out: Any, clients: Any, memory: Any, words: Any, hashes: Any,
    table: Any, ends: Any, starts: Any, source: Any, at: Any, page: Any, parent: Any, order: Any, texts: Any,
    status: Any, odd: Any, kind: Any, flags: Any,
) -> Any:  # fmt: skip
    """
    Scan from *line* on, as far as there is room for words; *count* are there. *clients* and *memory* (targets,
    referrers, user agents) are of what came last: most comes again.

    Gives the line that comes next, and how many words there are.
    """
    room = len(words) - _COLUMNS
    while line < len(ends) and count <= room:
        here = line
        line += 1
        start, end = ends[here - 1] + 1 if here else 0, ends[here]
        starts[here] = start
        for column in range(_COLUMNS):
            texts[column, here] = -1
        parent[here] = 0
        while end > start and data[end - 1] == 13:
            end -= 1
        plain = ends[here] - start <= LONGEST_LINE and split(data, start, end, vhost, out)
        odd[here] = not plain
        if not plain:
            source[here] = page[here] = order[here] = 0
            at[here] = 0
            status[here] = kind[here] = flags[here] = 0
            continue
        at[here] = out[2] * 1_000_000
        number = _client(data, out[0], out[1], clients)
        source[here] = number
        if number == OTHER_CLIENT:
            h = digest(data, out[0], out[1])
            word = _number(data, out[0], out[1], h, CLIENT, table, hashes, words, count)
            count = max(count, word + 1)
            texts[CLIENT, here] = word
        told = digest(data, out[3], out[4])
        known = memory[0, np.int64(told >> _TO_PLACE)]
        if known[0] != told:
            key, shape, what, flag = build(data, out[3], out[4])
            word = _number(data, out[3], out[4], shape, SHAPE, table, hashes, words, count)
            count = max(count, word + 1)
            known[0] = told
            known[1] = key
            known[2] = np.uint64(word)
            known[3] = np.uint64(what << 8 | flag)
        page[here] = told
        order[here] = known[1]
        texts[SHAPE, here] = known[2]
        what = np.int64(known[3]) >> 8
        flag = np.int64(known[3]) & 255
        status[here] = out[6]
        if out[5] == 2:
            flag |= HEAD
        if out[11]:
            flag |= OLD_HTTP
        if out[5] == 0:
            what = CALL
        if out[6] == _PARTIAL_CONTENT:
            what = ASSET
        kind[here] = what
        if not _is_dash(data, out[7], out[8]):
            flag |= REFERRED
            told = digest(data, out[7], out[8])
            known = memory[1, np.int64(told >> _TO_PLACE)]
            if known[0] != told:
                count = _refer(data, out[7], out[8], known, table, hashes, words, count)
                known[0] = told
            texts[PLACE, here] = np.int64(known[2]) - 1
            texts[LEAD, here] = np.int64(known[3]) - 1
            parent[here] = known[1]
        flags[here] = flag
        if not _is_dash(data, out[9], out[10]):
            told = digest(data, out[9], out[10])
            known = memory[2, np.int64(told >> _TO_PLACE)]
            size = np.uint64(out[10] - out[9])
            if known[0] != told or known[1] != size:
                word = _number(data, out[9], out[10], told, AGENT, table, hashes, words, count)
                count = max(count, word + 1)
                known[0], known[1], known[2] = told, size, np.uint64(word)
            texts[AGENT, here] = known[2]
        if vhost:
            h = digest(data, out[12], out[13])
            word = _number(data, out[12], out[13], h, HOST, table, hashes, words, count)
            count = max(count, word + 1)
            texts[HOST, here] = word
    return line, count


_FIELDS: dict[str, np.dtype[Any]] = {
    name: np.dtype(kind)
    for name, kind in (
        ("starts", "i8"), ("source", "u8"), ("at", "i8"), ("page", "u8"), ("parent", "u8"), ("order", "u8"),
        ("texts", f"{_COLUMNS}i4"), ("status", "u2"), ("odd", "?"), ("kind", "u1"), ("flags", "u1"),
    )
}  # fmt: skip
"""What each line has, in the order in which `_scan_some` takes it; the widest first, so that all lie as they should."""


def scan_all(data: Bytes, *, vhost: bool, shelf: BufferPool | None = None) -> Iterator[tuple[Bytes, Scanned]]:
    """
    The lines of *data*, and the part of it that they are: all at once, unless they are very many.

    *vhost* says that each begins with a virtual host. Room for them is taken from *shelf*.
    """
    shelf = shelf or BufferPool()
    while len(data):
        scanned = scan(data, vhost=vhost, shelf=shelf)
        end = int(scanned.ends[-1]) + 1
        yield data[:end], scanned
        data = data[end:]


def scan(data: Bytes, *, vhost: bool, shelf: BufferPool) -> Scanned:
    """The first lines of *data*, as many as are scanned at once; see `scan_all`."""
    # One type of array, whatever it is a view of: or numba compiles it all once more.
    data = data.view()
    data.flags.writeable = False
    ends = _line_ends(data, shelf)
    n = len(ends)
    columns = _columns(n, shelf)
    out, memory = np.zeros(18, np.int64), np.zeros((3, 1 << _BITS, 4), np.uint64)
    clients = np.zeros((1 << _BITS_OF_CLIENTS, 3), np.uint64)
    # No text of a time yet: its third and fourth part overlap, and cannot be these.
    out[16], out[17] = -1, 0
    words, hashes = np.zeros((_WORDS, 3), np.int64), np.zeros(_WORDS, np.uint64)
    table = np.full(4 * _WORDS, -1, np.int64)
    line = count = 0
    while True:
        line, count = _scan_some(
            data, vhost, line, count, out, clients, memory, words, hashes, table, ends, *columns.values()
        )
        if line == n:
            return Scanned(ends=ends, words=words[:count], digests=hashes[:count], **columns)
        words, hashes = np.resize(words, (4 * len(words), 3)), np.resize(hashes, 4 * len(hashes))
        table = np.full(4 * len(table), -1, np.int64)
        _enter(words, hashes, table, count)


def _line_ends(data: Bytes, shelf: BufferPool) -> NDArray[np.int64]:
    """Where each of the first lines of *data* ends; the last one may lack its newline."""
    places = shelf.take(8 * min(_MOST_LINES, len(data))).view(np.int64)
    count = find_all(data, _NEWLINE, places)
    if count < len(places) and data[-1] != _NEWLINE:
        places[count] = len(data)
        count += 1
    return places[:count]


def _columns(n: int, shelf: BufferPool) -> dict[str, NDArray[Any]]:
    """Room for `_FIELDS` of *n* lines."""
    room = shelf.take(n * sum(kind.itemsize for kind in _FIELDS.values()))
    columns, begin = {}, 0
    for name, kind in _FIELDS.items():
        end = begin + n * kind.itemsize
        columns[name] = room[begin:end].view(kind.base).reshape(*kind.shape, n)
        begin = end
    return columns

"""
Line scanner: the plain lines of a piece of a log become rows, in bulk. Compiled by numba.

What a line says becomes numbers on the spot (`url_features`). Texts that come again and again (user agents, referring
hosts, shapes of pages) are symbols: a row has the number of the text in this piece, and the row builder gives it the
number that it has in the whole log. Of a line that is not plain beyond doubt (`line_parser`) only the place is given.

A scan works in one record, which holds the piece and everything that is made of it. numba counts no references to parts
of a record, and to count them would take longer than to scan.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.logs.reader import MAX_LINE_BYTES
from hedgerow.report.tables.jit import Kernel
from hedgerow.report.tables.line_parser import (
    AGENT,
    AGENT_END,
    CLIENT,
    CLIENT_END,
    FIELDS,
    HEAD,
    HOST_END,
    METHOD,
    NO_TIME,
    OLD_VERSION,
    OTHER_CLIENT,
    OTHER_METHOD,
    PADDING,
    REFERRER,
    REFERRER_END,
    STATUS,
    TARGET,
    TARGET_END,
    TIME,
    USER,
    USER_END,
    find_line_end,
    ipv4,
    is_name,
    seconds,
    split,
)  # fmt: skip
from hedgerow.report.tables.rows import ODD, ROW, Rows
from hedgerow.report.tables.topics import TOPIC_SHIFT, is_call, topic_of_target, with_method
from hedgerow.report.tables.url_features import (
    ASSET,
    CALL,
    KEY_NUMBERS,
    OLD_HTTP,
    OUTLINE_SIZE,
    PAGE,
    REFERRED,
    DigestKey,
    digest,
    eight,
    kind_of_target,
    outline,
    split_referrer,
)  # fmt: skip
from hedgerow.report.tables.url_features import (
    HEAD as HEAD_FLAG,
)

PIECE = 1 << 24
"""Bytes of a log that are scanned at once."""

MOST_LINES = 1 << 17
MOST_SYMBOLS = 1 << 16

CLIENTS, USERS, HOSTS, AGENTS, PLACES, SHAPES = range(6)
"""Kinds of symbols: clients that are no IPv4 addresses, users, virtual hosts, user agents, referring hosts, shapes."""

SYMBOL = np.dtype(
    [
        ("digest", "u8"),
        ("kind", "i8"),
        ("start", "i8"),  # where its text begins in the piece; the text of a shape is one page of it
        ("end", "i8"),
        ("line", "i8"),  # where the line begins that has it first
        ("count", "i8"),  # how many lines have it; counted for virtual hosts only
    ]
)
_BITS = 14
_TO_SLOT = np.uint64(64 - _BITS)
_RECENT = np.dtype([("digest", "u8"), ("value", "u8"), ("first", "u4"), ("second", "u4")])
_SLOTS = 2 * MOST_SYMBOLS
_MOST_NEW = 8

WORK = np.dtype(
    [
        ("data", "u1", (PIECE + PADDING,)),
        ("rows", ROW, (MOST_LINES,)),
        ("odd", "i8", (MOST_LINES,)),
        ("symbols", SYMBOL, (MOST_SYMBOLS,)),
        ("slots", "i4", (_SLOTS,)),  # one more than the symbol that is there; 0 where there is none
        ("targets", _RECENT, (1 << _BITS,)),  # what came last: most comes again
        ("referrers", _RECENT, (1 << _BITS,)),
        ("agents", _RECENT, (1 << _BITS,)),
        ("outline", "u1", (OUTLINE_SIZE + PADDING,)),
        ("key", "u8", (KEY_NUMBERS,)),
        ("fields", "i8", (FIELDS,)),
        ("size", "i8"),  # bytes of the piece
        ("start", "i8"),  # where the next line begins
        ("lines", "i8"),
        ("odds", "i8"),
        ("used", "i8"),  # symbols
        ("vhost", "?"),  # lines begin with a virtual host
        ("users", "?"),  # users are sources
    ]
)
"""Where a piece is scanned."""

_MICROSECONDS = 1_000_000
_PARTIAL_CONTENT, _UNAUTHORIZED = 206, 401
_DASH, _QUOTE = 45, 34
_PLAIN_FLAGS, _TOPICS = (1 << TOPIC_SHIFT) - 1, 7
_ONE = np.uint64(1)

Work = NDArray[np.void]
"""One `WORK`."""


@Kernel
def _intern(work: Any, kind: int, hashed: Any, start: int, end: int, line: int) -> Any:
    """The number of the symbol whose text has the digest *hashed*, from 1 on; a new one is added."""
    slot = np.int64(hashed >> _ONE) & (_SLOTS - 1)
    while work.slots[slot]:
        known = work.symbols[work.slots[slot] - 1]
        if known.digest == hashed and known.kind == kind:
            return work.slots[slot]
        slot = (slot + 1) & (_SLOTS - 1)
    new = work.symbols[work.used]
    new.digest, new.kind, new.start, new.end, new.line, new.count = hashed, kind, start, end, line, 0
    work.used += 1
    work.slots[slot] = work.used
    return work.used


@Kernel
def _is_dash(data: Any, start: int, end: int) -> bool:
    return end == start or (end - start == 1 and data[start] == _DASH)


@Kernel
def _shape(work: Any, start: int, end: int, line: int) -> Any:
    """The symbol of the shape of a target, its order key and its flags."""
    order, size, flags = outline(work.data, start, end, work.outline)
    return _intern(work, SHAPES, digest(work.outline, 0, size, work.key), start, end, line), order, flags


@Kernel
def _target(work: Any, line: int, row: Any) -> None:
    """Page, order, shape, kind and flags of a line."""
    fields = work.fields
    start, end = fields[TARGET], fields[TARGET_END]
    hashed = digest(work.data, start, end, work.key)
    known = work.targets[hashed >> _TO_SLOT]
    if known.digest != hashed:
        shape, order, flags = _shape(work, start, end, line)
        known.digest, known.value, known.first = hashed, order, shape
        topic = topic_of_target(work.data, start, end)
        known.second = kind_of_target(work.data, start, end) << 8 | topic << TOPIC_SHIFT | flags
    row.page, row.ord, row.shape = hashed, known.value, known.first
    kind, flags = known.second >> 8, known.second & _PLAIN_FLAGS
    reads = fields[METHOD] != OTHER_METHOD
    topic = with_method(known.second >> TOPIC_SHIFT & _TOPICS, reads)
    if not reads or (kind == PAGE and is_call(topic)):
        kind = CALL
    flags |= topic << TOPIC_SHIFT
    if fields[STATUS] == _PARTIAL_CONTENT:
        kind = ASSET
    if fields[METHOD] == HEAD:
        flags |= HEAD_FLAG
    if fields[OLD_VERSION]:
        flags |= OLD_HTTP
    row.kind, row.flags, row.status = kind, flags, fields[STATUS]


@Kernel
def _referrer(work: Any, line: int, row: Any) -> None:
    """Parent, place and lead of a line: the page that led to it, its host, and its shape."""
    start, end = work.fields[REFERRER], work.fields[REFERRER_END]
    row.parent, row.place, row.lead = 0, 0, 0
    if _is_dash(work.data, start, end):
        return
    row.flags |= REFERRED
    hashed = digest(work.data, start, end, work.key)
    known = work.referrers[hashed >> _TO_SLOT]
    if known.digest != hashed:
        known.digest, known.value, known.first, known.second = hashed, 0, 0, 0
        host, slash, stop = split_referrer(work.data, start, end)
        if slash > host:
            known.first = _intern(work, PLACES, digest(work.data, host, slash, work.key), host, slash, line)
            if stop == slash:
                # It has no path, which means "/": that stands behind the piece.
                slash, stop = work.size + 1, work.size + 2
            known.value = digest(work.data, slash, stop, work.key)
            shape, _, _ = _shape(work, slash, stop, line)
            known.second = shape
    row.parent, row.place, row.lead = known.value, known.first, known.second


@Kernel
def _agent(work: Any, line: int, row: Any) -> None:
    start, end = work.fields[AGENT], work.fields[AGENT_END]
    row.agent = 0
    if _is_dash(work.data, start, end):
        return
    hashed = digest(work.data, start, end, work.key)
    known = work.agents[hashed >> _TO_SLOT]
    if known.digest != hashed:
        known.digest, known.first = hashed, _intern(work, AGENTS, hashed, start, end, line)
    row.agent = known.first


@Kernel
def _source(work: Any, line: int, row: Any) -> bool:
    """Set the source of a line: the number of an IPv4 address, or of a symbol. Return whether the client is plain."""
    data, fields = work.data, work.fields
    start, end, kind = fields[CLIENT], fields[CLIENT_END], CLIENTS
    row.source = ipv4(data, start, end)
    if row.source == OTHER_CLIENT and not is_name(data, start, end):
        return False
    if work.users and fields[STATUS] != _UNAUTHORIZED:
        user, stop = fields[USER], fields[USER_END]
        empty = stop - user == 2 and data[user] == _QUOTE and data[user + 1] == _QUOTE
        if not empty and not _is_dash(data, user, stop):
            start, end, kind = user, stop, USERS
            row.source = OTHER_CLIENT
    if row.source == OTHER_CLIENT:
        hashed = digest(data, start, end, work.key)
        row.source = OTHER_CLIENT + np.uint64(_intern(work, kind, hashed, start, end, line))
    return True


@Kernel
def _scan(works: Any) -> None:
    """Scan a piece as far as there is room for rows and symbols."""
    work = works[0]
    data, fields = work.data, work.fields
    start, line = work.start, 0
    odds = 0
    at = NO_TIME
    first = second = third = fourth = np.uint64(0)
    while start < work.size and line < MOST_LINES and work.used <= MOST_SYMBOLS - _MOST_NEW:
        row = work.rows[line]
        end = split(data, start, work.vhost, fields)
        if end >= 0:
            # Most lines are of the same second as the one before: 26 bytes, compared in four steps.
            i = np.uint64(fields[TIME])
            one, two, three, four = eight(data, i), eight(data, i + 8), eight(data, i + 16), eight(data, i + 18)
            if one != first or two != second or three != third or four != fourth:
                first, second, third, fourth = one, two, three, four
                at = seconds(data, fields[TIME])
        if end < 0 or at == NO_TIME or end - start > MAX_LINE_BYTES or not _source(work, start, row):
            end = find_line_end(data, start)
            row.t, row.page, row.kind = start, end, ODD
            work.odd[odds] = line
            odds += 1
        else:
            row.t = at * _MICROSECONDS
            _target(work, start, row)
            _referrer(work, start, row)
            _agent(work, start, row)
            if work.vhost:
                host = digest(data, start, fields[HOST_END], work.key)
                work.symbols[_intern(work, HOSTS, host, start, fields[HOST_END], start) - 1].count += 1
        start = end + 1
        line += 1
    work.start, work.lines, work.odds = start, line, odds


class Scanned(NamedTuple):
    """
    Some lines of the piece *data*: one row for each. Of the lines at *odd* only the place is known: `t` is where they
    begin, `page` where they end. Rows have the number of a symbol, from 1 on, where they will have that of its text.
    """

    data: NDArray[np.uint8]
    rows: Rows
    odd: NDArray[np.int64]
    symbols: NDArray[np.void]


def new_work(key: DigestKey, *, vhost: bool, users: bool) -> Work:
    work = np.empty(1, WORK)
    work["key"], work["vhost"], work["users"], work["outline"] = key.numbers, vhost, users, 0
    return work


def start_scan(work: Work, size: int) -> None:
    """The piece in `data` has *size* bytes and is to be scanned."""
    work["data"][0, size : size + PADDING] = 0
    work["data"][0, size : size + 2] = 10, ord("/")
    work["size"], work["start"] = size, 0


def scan(work: Work) -> Scanned | None:
    """Scan some more lines; None where there are no more. The next scan overwrites them."""
    if work["start"][0] >= work["size"][0]:
        return None
    for name in ("slots", "targets", "referrers", "agents"):
        work[name] = 0
    work["used"] = 0
    _scan.compiled(work)
    one = work[0]
    return Scanned(one["data"], one["rows"][: one["lines"]], one["odd"][: one["odds"]], one["symbols"][: one["used"]])

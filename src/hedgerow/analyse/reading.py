"""
Reading: logs of any format into the store, ordinary lines by the compiled parser, all others by the reference.

Every line is either a row or bad, and the tally says how many of each. Files are read oldest first. While one piece is
put into the store the next ones are scanned in other threads.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hedgerow.analyse.numbering import Numbering, fill
from hedgerow.analyse.scanning import Scanned, scan
from hedgerow.analyse.store import Store
from hedgerow.errors import LogError
from hedgerow.logs.dialect import AS_IT_IS, PLAIN, Dialect
from hedgerow.logs.formats import LineParser
from hedgerow.logs.reader import LONGEST_LINE, SAMPLE_LENGTH, Source, Tally, Text, look_at

Piece = NDArray[np.uint8]
Progress = Callable[[Tally], None]

_PIECE = 1 << 25
_AHEAD = 2
_VISITS_AT_ONCE = 50_000
_NEWLINE = 10


def read(
    paths: Sequence[str],
    store: Store,
    numbering: Numbering,
    progress: Progress | None = None,
    dialect: Dialect = AS_IT_IS,
) -> Tally:
    """Read all of *paths* into *store*; LogError where one of them cannot be read at all."""
    tally = Tally()
    sources = [look_at(path, dialect) for path in paths]
    tally.formats = list(dict.fromkeys(source.format.name for source in sources))
    tally.exact = all(source.format.exact for source in sources)
    sizes = [source.size for source in sources]
    if None not in sizes:
        tally.bytes_total = sum(size or 0 for size in sizes)
    # Of the same start as they were named.
    for source in sorted(sources, key=lambda source: source.start):
        if isinstance(source, Text) and source.format.name in PLAIN:
            _read_lines(source, store, numbering, tally, progress)
        else:
            _read_visits(source, store, numbering, tally, progress)
    return tally


def _read_lines(source: Text, store: Store, numbering: Numbering, tally: Tally, progress: Progress | None) -> None:
    parse = LineParser(source.format)
    waiting: deque[tuple[Piece, Future[Scanned]]] = deque()
    seen = tally.lines
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="hedgerow-scan") as pool:
        try:
            for piece in _pieces(source, tally):
                waiting.append((piece, pool.submit(scan, piece, vhost=source.format.has_host)))
                if len(waiting) > _AHEAD:
                    _take(*waiting.popleft(), parse, store, numbering, tally)
                    if progress is not None:
                        progress(tally)
            while waiting:
                _take(*waiting.popleft(), parse, store, numbering, tally)
        finally:
            for _, future in waiting:
                future.cancel()
            waiting.clear()
    source.report_damage(tally, tally.lines - seen)


def _take(
    piece: Piece, future: Future[Scanned], parse: LineParser, store: Store, numbering: Numbering, tally: Tally
) -> None:
    """Put a scanned piece into the store, its odd lines by way of the reference."""
    scanned = future.result()
    rows = numbering.rows_of(scanned, piece)
    good = ~scanned.odd
    odd = np.flatnonzero(scanned.odd)
    if len(odd):
        found, where = [], []
        for k, start, end in zip(odd.tolist(), scanned.starts[odd].tolist(), scanned.ends[odd].tolist(), strict=True):
            line = piece[start : min(end, start + LONGEST_LINE + 1)].tobytes()
            visit = parse(line) if len(line) <= LONGEST_LINE else None
            if visit is None:
                tally.count_bad(line[:SAMPLE_LENGTH].decode("latin-1"))
            else:
                found.append(visit)
                where.append(k)
        if found:
            fill(rows, np.array(where), numbering.rows_of_visits(found))
            good[where] = True
        rows = {name: column[good] for name, column in rows.items()}
    parsed = int(good.sum())
    if parsed:
        tally.parsed += parsed
        tally.note_span(rows["t"].min() / 1e6, rows["t"].max() / 1e6)
        store.add(rows)


def _read_visits(source: Source, store: Store, numbering: Numbering, tally: Tally, progress: Progress | None) -> None:
    """What is not written in plain lines, visit by visit."""
    visits = source.visits(tally)
    while some := list(islice(visits, _VISITS_AT_ONCE)):
        store.add(numbering.rows_of_visits(some))
        if progress is not None:
            progress(tally)


def _pieces(source: Text, tally: Tally) -> Iterator[Piece]:
    """The file in pieces of whole lines."""
    if source.is_plain:
        yield from _mapped(source, tally)
        return
    begun: list[bytes] = []
    size = 0
    for block in source.blocks(tally):
        begun.append(block)
        size += len(block)
        if size < _PIECE:
            continue
        data = b"".join(begun)
        whole = data.rfind(b"\n") + 1
        if whole:
            yield np.frombuffer(data, np.uint8, whole)
        rest = data[whole:]
        # Of a line without end the beginning is enough to see that it is bad.
        begun = [rest if len(rest) <= LONGEST_LINE else rest[: LONGEST_LINE + 1]]
        size = len(begun[0])
    data = b"".join(begun)
    if data:
        yield np.frombuffer(data, np.uint8)


def _mapped(source: Text, tally: Tally) -> Iterator[Piece]:
    """A plain file, without copying it."""
    try:
        with Path(source.path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                return
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    except OSError as error:
        raise LogError(f"{source.path}: cannot be read: {error.strerror}") from None
    start = 0
    while start < size:
        end = min(start + _PIECE, size)
        if end < size:
            newline = mapped.rfind(b"\n", start, end)
            if newline < 0:
                newline = mapped.find(b"\n", end)
            end = newline + 1 if newline >= 0 else size
        tally.bytes_read += end - start
        if start >= 2 * (_AHEAD + 2) * _PIECE:
            # What was read long ago need not be kept in memory.
            done = (start - (_AHEAD + 2) * _PIECE) // mmap.PAGESIZE * mmap.PAGESIZE
            mapped.madvise(mmap.MADV_DONTNEED, 0, done)
        yield np.frombuffer(mapped, np.uint8, end - start, start)
        start = end

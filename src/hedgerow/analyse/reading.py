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
from typing import Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from hedgerow.analyse.numbering import Numbering, Rows, fill, only
from hedgerow.analyse.scanning import Scanned, scan
from hedgerow.errors import LogError
from hedgerow.logs.dialect import AS_IT_IS, PLAIN, Dialect, Parser
from hedgerow.logs.reader import LONGEST_LINE, SAMPLE_LENGTH, Source, Tally, Text, look_at

Piece = NDArray[np.uint8]
Progress = Callable[[Tally], None]

_PIECE = 1 << 25
_AHEAD = 2
VISITS_AT_ONCE = 50_000
_NEWLINE = 10


class Takes(Protocol):
    """What rows are put into."""

    def add(self, rows: Rows) -> None:
        """Add *rows* behind those that are there."""


def read(
    paths: Sequence[str],
    store: Takes,
    numbering: Numbering,
    progress: Progress | None = None,
    dialect: Dialect = AS_IT_IS,
) -> Tally:
    """Read all of *paths* into *store*; LogError where one of them cannot be read at all."""
    tally = Tally()
    for source in in_turn(paths, dialect, tally):
        if is_of_plain_lines(source):
            _read_lines(source, store, numbering, tally, progress)
        else:
            _read_visits(source, store, numbering, tally, progress)
    return tally


def in_turn(paths: Sequence[str], dialect: Dialect, tally: Tally) -> list[Source]:
    """The sources at *paths*, oldest first; *tally* learns what can be said of them beforehand."""
    sources = [look_at(path, dialect) for path in paths]
    tally.formats = sorted({source.format.name for source in sources})
    tally.exact = all(source.format.exact for source in sources)
    sizes = [source.size for source in sources]
    if None not in sizes:
        tally.bytes_total = sum(size or 0 for size in sizes)
    # In whatever order they were named.
    return sorted(sources, key=lambda source: (source.start, source.path))


def is_of_plain_lines(source: Source) -> TypeGuard[Text]:
    """Whether the compiled parser can read it."""
    return isinstance(source, Text) and source.format.name in PLAIN


def _read_lines(source: Text, store: Takes, numbering: Numbering, tally: Tally, progress: Progress | None) -> None:
    parse = source.parser()
    waiting: deque[tuple[Piece, Future[Scanned]]] = deque()
    seen = tally.lines
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="hedgerow-scan") as pool:
        try:
            for piece in pieces(source, tally):
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
    piece: Piece, future: Future[Scanned], parse: Parser, store: Takes, numbering: Numbering, tally: Tally
) -> None:
    """Put a scanned piece into the store."""
    rows = rows_of_piece(piece, future.result(), parse, numbering, tally)
    if len(rows["t"]):
        store.add(rows)


def rows_of_piece(piece: Piece, scanned: Scanned, parse: Parser, numbering: Numbering, tally: Tally) -> Rows:
    """The rows of a scanned piece, those of its odd lines by way of the reference."""
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
        rows = only(rows, good)
    parsed = int(good.sum())
    if parsed:
        tally.parsed += parsed
        tally.note_span(float(rows["t"].min()) / 1e6, float(rows["t"].max()) / 1e6)
    return rows


def _read_visits(source: Source, store: Takes, numbering: Numbering, tally: Tally, progress: Progress | None) -> None:
    """What is not written in plain lines, visit by visit."""
    visits = source.visits(tally)
    while some := list(islice(visits, VISITS_AT_ONCE)):
        store.add(numbering.rows_of_visits(some))
        if progress is not None:
            progress(tally)


def pieces(source: Text, tally: Tally) -> Iterator[Piece]:
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
    mapped = in_memory(source.path)
    if mapped is None:
        return
    for start, end in cuts(mapped):
        tally.bytes_read += end - start
        if start >= 2 * (_AHEAD + 2) * _PIECE:
            # What was read long ago need not be kept in memory.
            done = (start - (_AHEAD + 2) * _PIECE) // mmap.PAGESIZE * mmap.PAGESIZE
            mapped.madvise(mmap.MADV_DONTNEED, 0, done)
        yield np.frombuffer(mapped, np.uint8, end - start, start)


def in_memory(path: str) -> mmap.mmap | None:
    """A file as bytes; None where it is empty, which cannot be had so."""
    try:
        with Path(path).open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return None
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error.strerror}") from None


def cuts(mapped: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Where the pieces of a file begin and end."""
    start, size = 0, len(mapped)
    while start < size:
        end = min(start + _PIECE, size)
        if end < size:
            newline = mapped.rfind(b"\n", start, end)
            if newline < 0:
                newline = mapped.find(b"\n", end)
            end = newline + 1 if newline >= 0 else size
        yield start, end
        start = end

"""
Reading: logs of any format into the store, ordinary lines by the compiled parser, all others by the reference.

Every line is either a row or bad, and the tally says how many of each. Files are read oldest first. While one piece is
put into the store the next ones are scanned in other threads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from io import FileIO
from itertools import chain, islice
from typing import Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import LogError
from hedgerow.logs.dialect import DEFAULT_DIALECT, PLAIN_FORMATS, Dialect, Parser
from hedgerow.logs.reader import MAX_LINE_BYTES, SAMPLE_LENGTH, ReadCounts, Source, TextSource, open_log
from hedgerow.report.tables.buffer_pool import BufferPool
from hedgerow.report.tables.line_scanner import Scanned, scan_all
from hedgerow.report.tables.row_builder import RowBuilder, Rows, fill, only

Piece = NDArray[np.uint8]
_Parts = Iterator[tuple[Piece, Scanned]]
Progress = Callable[[ReadCounts], None]

_PIECE = 1 << 25
_NEAR = 1 << 16
_AHEAD = 2
VISITS_AT_ONCE = 50_000


class Takes(Protocol):
    """What rows are put into."""

    def add(self, rows: Rows) -> None:
        """Add *rows* behind those that are there."""


def read(
    paths: Sequence[str],
    store: Takes,
    numbering: RowBuilder,
    progress: Progress | None = None,
    dialect: Dialect = DEFAULT_DIALECT,
) -> ReadCounts:
    """Read all of *paths* into *store*; LogError where one of them cannot be read at all."""
    tally = ReadCounts()
    for source in in_turn(paths, dialect, tally):
        if is_of_plain_lines(source):
            _read_lines(source, store, numbering, tally, progress)
        else:
            _read_visits(source, store, numbering, tally, progress)
    return tally


def in_turn(paths: Sequence[str], dialect: Dialect, tally: ReadCounts) -> list[Source]:
    """The sources at *paths*, oldest first; *tally* learns what can be said of them beforehand."""
    sources = [open_log(path, dialect) for path in paths]
    tally.formats = sorted({source.format.name for source in sources})
    tally.exact = all(source.format.exact for source in sources)
    sizes = [source.size for source in sources]
    if None not in sizes:
        tally.bytes_total = sum(size or 0 for size in sizes)
    # In whatever order they were named.
    return sorted(sources, key=lambda source: (source.start, source.path))


def is_of_plain_lines(source: Source) -> TypeGuard[TextSource]:
    """Whether the compiled parser can read it."""
    return isinstance(source, TextSource) and source.format.name in PLAIN_FORMATS


def _read_lines(
    source: TextSource, store: Takes, numbering: RowBuilder, tally: ReadCounts, progress: Progress | None
) -> None:
    parse = source.parser()
    waiting: deque[Future[_Parts]] = deque()
    seen, shelf = tally.lines, BufferPool()
    with (
        opened(source.path) if source.is_plain else nullcontext() as file,
        ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="hedgerow-scan") as pool,
    ):
        try:
            for load in _loads(source, file, shelf, tally):
                waiting.append(pool.submit(_scan, load, shelf, vhost=source.format.has_host))
                if len(waiting) > _AHEAD:
                    _take(waiting.popleft().result(), parse, store, numbering, tally, progress)
            while waiting:
                _take(waiting.popleft().result(), parse, store, numbering, tally, progress)
        finally:
            for future in waiting:
                future.cancel()
            waiting.clear()
    source.report_damage(tally, tally.lines - seen)


def _scan(load: Callable[[], Piece], shelf: BufferPool, *, vhost: bool) -> _Parts:
    """A piece, scanned part by part: the first of them here, which is nearly always all, the others when asked for."""
    parts = scan_all(load(), vhost=vhost, shelf=shelf)
    return chain(list(islice(parts, 1)), parts)


def _take(
    parts: _Parts, parse: Parser, store: Takes, numbering: RowBuilder, tally: ReadCounts, progress: Progress | None
) -> None:
    """Put a scanned piece into the store."""
    for piece, scanned in parts:
        rows = rows_of_piece(piece, scanned, parse, numbering, tally)
        if len(rows["t"]):
            store.add(rows)
        if progress is not None:
            progress(tally)


def rows_of_piece(piece: Piece, scanned: Scanned, parse: Parser, numbering: RowBuilder, tally: ReadCounts) -> Rows:
    """The rows of a scanned piece, those of its odd lines by way of the reference."""
    rows = numbering.rows_of(scanned, piece)
    good = ~scanned.odd
    odd = np.flatnonzero(scanned.odd)
    if len(odd):
        found, where = [], []
        for k, start, end in zip(odd.tolist(), scanned.starts[odd].tolist(), scanned.ends[odd].tolist(), strict=True):
            line = piece[start : min(end, start + MAX_LINE_BYTES + 1)].tobytes()
            visit = parse(line) if len(line) <= MAX_LINE_BYTES else None
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


def _read_visits(
    source: Source, store: Takes, numbering: RowBuilder, tally: ReadCounts, progress: Progress | None
) -> None:
    """What is not written in plain lines, visit by visit."""
    visits = source.visits(tally)
    while some := list(islice(visits, VISITS_AT_ONCE)):
        store.add(numbering.rows_of_visits(some))
        if progress is not None:
            progress(tally)


def _loads(
    source: TextSource, file: FileIO | None, shelf: BufferPool, tally: ReadCounts
) -> Iterator[Callable[[], Piece]]:
    """What gives the pieces of a log, in any thread: those of a plain *file* are read there."""
    if file is None:
        for piece in pieces(source, tally):
            yield partial(np.asarray, piece)
        return
    for start, end in cuts(file):
        tally.bytes_read += end - start
        yield partial(_loaded, file, start, end, shelf)


def pieces(source: TextSource, tally: ReadCounts) -> Iterator[Piece]:
    """A compressed log, or one that is no file, in pieces of whole lines."""
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
        begun = [rest if len(rest) <= MAX_LINE_BYTES else rest[: MAX_LINE_BYTES + 1]]
        size = len(begun[0])
    data = b"".join(begun)
    if data:
        yield np.frombuffer(data, np.uint8)


def opened(path: str) -> FileIO:
    """
    A plain file. Its pieces are copied and not mapped: whoever cuts a file short that is mapped, as some do who rotate
    logs, ends the process.
    """
    try:
        return FileIO(path)
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error.strerror}") from None


def cuts(file: FileIO) -> Iterator[tuple[int, int]]:
    """Where the pieces of a file begin and end, which are whole lines; as long as it is now."""
    start, size = 0, os.fstat(file.fileno()).st_size
    while start < size:
        end = _end_of_lines(file.fileno(), start, size)
        yield start, end
        start = end


def _end_of_lines(number: int, start: int, size: int) -> int:
    """Where the piece ends that begins at *start*; a line that is longer than a piece is one."""
    end = start + _PIECE
    if end >= size:
        return size
    stop = end
    while stop > start:
        begin = max(start, stop - _NEAR)
        newline = os.pread(number, stop - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        stop = begin
    while end < size and (block := os.pread(number, _NEAR, end)):
        newline = block.find(b"\n")
        if newline >= 0:
            return end + newline + 1
        end += len(block)
    return size


def _loaded(file: FileIO, start: int, end: int, shelf: BufferPool) -> Piece:
    """A piece of a file, as far as it is still there; of a line without end the beginning is enough."""
    piece = shelf.take(min(end - start, _PIECE))
    got = 0
    while got < len(piece) and (count := os.preadv(file.fileno(), [piece.data[got:]], start + got)):
        got += count
    # As all other pieces are: or numba compiles it all once more.
    piece.flags.writeable = False
    return piece[:got]

"""
Ingest: logs of any format become rows in a store.

The compiled scanner parses the plain lines of a large log, and the reference parser all other lines. Small logs and
structured formats are parsed by the reference parser alone. Every line is either a row or bad; the counts say how many
of each. Files are read oldest first.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from io import FileIO
from itertools import chain, islice
from typing import Protocol, TypeGuard

import numpy as np

from hedgerow.core.visit import Visit
from hedgerow.errors import LogError
from hedgerow.logs.dialect import DEFAULT_DIALECT, PLAIN_FORMATS, Dialect, Parser
from hedgerow.logs.reader import MAX_LINE_BYTES, SAMPLE_LENGTH, ReadCounts, Source, TextSource, open_log
from hedgerow.report.tables.line_scanner import PIECE, Scanned, Work, new_work, scan, start_scan
from hedgerow.report.tables.row_builder import RowBuilder
from hedgerow.report.tables.rows import Rows

Progress = Callable[[ReadCounts], None]
Load = Callable[[Work], int]
"""Puts a piece of a log where it is scanned; gives its size."""

SMALL = 4_000_000
"""Bytes of the largest logs that are not worth compiled functions."""

VISITS_AT_ONCE = 50_000
_NEAR = 1 << 16
_AHEAD = 2
_PIECE = PIECE


class RowStore(Protocol):
    """What rows are put into."""

    def add(self, rows: Rows) -> None:
        """Add *rows* behind the others, except `ODD` ones. The caller may overwrite them afterwards."""


def read(
    paths: Sequence[str],
    store: RowStore,
    builder: RowBuilder,
    progress: Progress | None = None,
    dialect: Dialect = DEFAULT_DIALECT,
) -> ReadCounts:
    """Read all of *paths* into *store*. LogError if one of them cannot be read at all."""
    counts = ReadCounts()
    sources = in_turn(paths, dialect, counts)
    left = SMALL if counts.bytes_total <= SMALL else 0
    for source in sources:
        if not is_plain(source):
            _read_visits(source.visits(counts), store, builder, counts, progress)
            continue
        blocks = source.blocks(counts)
        head = list(_head(blocks, left))
        left -= sum(map(len, head))
        if left > 0:
            _read_visits(source.visits(counts, blocks=iter(head)), store, builder, counts, progress)
        elif source.is_plain:
            with opened(source.path) as file:
                _read_lines(source, file_loads(file, counts), store, builder, counts, progress)
        else:
            loads = (partial(put, piece) for piece in pieces(chain(head, blocks)))
            _read_lines(source, loads, store, builder, counts, progress)
    return counts


def _head(blocks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yield the first *blocks*, up to *size* bytes."""
    while size > 0 and (block := next(blocks, None)) is not None:
        size -= len(block)
        yield block


def in_turn(paths: Sequence[str], dialect: Dialect, counts: ReadCounts) -> list[Source]:
    """Open the logs at *paths*, oldest first. *counts* gets their formats and sizes."""
    sources = [open_log(path, dialect) for path in paths]
    counts.formats = sorted({source.format.name for source in sources})
    counts.exact = all(source.format.exact for source in sources)
    sizes = [source.size for source in sources]
    if None not in sizes:
        counts.bytes_total = sum(size or 0 for size in sizes)
    # In whatever order they were named.
    return sorted(sources, key=lambda source: (source.start, source.path))


def is_plain(source: Source) -> TypeGuard[TextSource]:
    """Return whether the compiled scanner can read a log."""
    return isinstance(source, TextSource) and source.format.name in PLAIN_FORMATS


def _read_visits(
    visits: Iterator[Visit], store: RowStore, builder: RowBuilder, counts: ReadCounts, progress: Progress | None
) -> None:
    while some := list(islice(visits, VISITS_AT_ONCE)):
        store.add(builder.rows_of(some))
        if progress is not None:
            progress(counts)


def _read_lines(
    source: TextSource,
    loads: Iterator[Load],
    store: RowStore,
    builder: RowBuilder,
    counts: ReadCounts,
    progress: Progress | None,
) -> None:
    """Read a log with the compiled scanner in several threads. Rows are stored in the order of the lines."""
    parse, seen, workers = source.parser(), counts.lines, os.cpu_count() or 1
    vhost, users = source.format.has_host, builder.by == "account"
    free = [new_work(builder.key, vhost=vhost, users=users) for _ in range(workers + _AHEAD)]
    busy: deque[tuple[Work, Future[Scanned | None]]] = deque()

    def take() -> None:
        work, first = busy.popleft()
        scanned = first.result()
        while scanned is not None:
            store.add(rows_of(scanned, parse, builder, counts))
            if progress is not None:
                progress(counts)
            scanned = scan(work)
        free.append(work)

    with ThreadPoolExecutor(workers, thread_name_prefix="hedgerow-scan") as pool:
        try:
            for load in loads:
                work = free.pop()
                busy.append((work, pool.submit(_scan, load, work)))
                if not free:
                    take()
            while busy:
                take()
        finally:
            for _, first in busy:
                first.cancel()
    source.report_damage(counts, counts.lines - seen)


def _scan(load: Load, work: Work) -> Scanned | None:
    start_scan(work, load(work))
    return scan(work)


def rows_of(scanned: Scanned, parse: Parser, builder: RowBuilder, counts: ReadCounts) -> Rows:
    """Return the rows of scanned lines. The reference parser parses odd lines; the row of a bad line stays `ODD`."""
    rows, places, odd = scanned.rows, scanned.odd, []
    lines = zip(places.tolist(), rows["t"][places].tolist(), rows["page"][places].tolist(), strict=True)
    for place, start, end in lines:
        line = scanned.data[start : min(end, start + MAX_LINE_BYTES + 1)].tobytes()
        visit = parse(line) if len(line) <= MAX_LINE_BYTES else None
        if visit is None:
            counts.count_bad(line[:SAMPLE_LENGTH].decode("latin-1"))
        else:
            odd.append((place, visit))
            counts.count_parsed(visit.at)
    plain = len(rows) - len(places)
    first, last = builder.number(scanned, odd)
    if plain:
        counts.parsed += plain
        counts.note_span(first / 1e6, last / 1e6)
    return rows


def put(piece: bytes, work: Work) -> int:
    """Copy *piece* to where it is scanned. It has at most `PIECE` bytes."""
    work["data"][0, : len(piece)] = np.frombuffer(piece, np.uint8)
    return len(piece)


def pieces(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the text in *blocks* in pieces of whole lines. Of a line longer than a piece only the beginning is kept."""
    waiting: list[bytes] = []
    size = 0
    for block in blocks:
        waiting.append(block)
        size += len(block)
        if size < _PIECE:
            continue
        text = b"".join(waiting)
        while len(text) >= _PIECE:
            end = text.rfind(b"\n", 0, _PIECE) + 1
            if end:
                yield text[:end]
            else:
                end = text.find(b"\n") + 1
                if not end:
                    text = text[: MAX_LINE_BYTES + 1]
                    break
                yield text[: min(end, MAX_LINE_BYTES + 1)]
            text = text[end:]
        waiting, size = [text], len(text)
    text = b"".join(waiting)
    if text:
        yield text


def opened(path: str) -> FileIO:
    """
    Open a plain file.

    Its pieces are copied and not mapped: if another program truncated a mapped file, as some log rotation does, this
    process would be killed.
    """
    try:
        return FileIO(path)
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error.strerror}") from None


def file_loads(file: FileIO, counts: ReadCounts) -> Iterator[Load]:
    """Yield functions that read the pieces of a file, in any thread."""
    for start, end in cuts(file):
        counts.bytes_read += end - start
        yield partial(_read_at, file.fileno(), start, end)


def _read_at(number: int, start: int, end: int, work: Work) -> int:
    """Read a piece of a file as far as it still exists, or the beginning of a line that is longer than a piece."""
    room = work["data"][0, : min(end - start, _PIECE)].data
    size = 0
    while size < len(room) and (count := os.preadv(number, [room[size:]], start + size)):
        size += count
    return size


def cuts(file: FileIO) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each piece of a file. Pieces have whole lines."""
    start, size = 0, os.fstat(file.fileno()).st_size
    while start < size:
        end = _end_of_lines(file.fileno(), start, size)
        yield start, end
        start = end


def _end_of_lines(number: int, start: int, size: int) -> int:
    """Return the end of the piece that begins at *start*. A line longer than a piece is one piece."""
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

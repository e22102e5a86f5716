"""
Spark ingest: Spark's workers read a log in parts, and the numbers of all parts are unified.

A part is a piece of a plain file, cut as `ingest` cuts it, or a whole file that cannot be cut. A worker reads it as
`ingest` does, with its own numbers for texts, and sends what the numbers mean with the rows. Processed in the order of
the parts, these meanings give every text the number it would have had on one machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hedgerow.core.ledger import POSTGRESQL_SCHEMES
from hedgerow.errors import LogError
from hedgerow.logs.dialect import Dialect
from hedgerow.logs.formats import readable
from hedgerow.logs.reader import ReadCounts, Source, open_log
from hedgerow.report.tables.ingest import VISITS_AT_ONCE, cuts, in_turn, is_plain, opened, pieces, put, rows_of
from hedgerow.report.tables.line_parser import OTHER_CLIENT
from hedgerow.report.tables.line_scanner import new_work, scan, start_scan
from hedgerow.report.tables.row_builder import InternTable, NamedSessions, RowBuilder
from hedgerow.report.tables.rows import COLUMNS, ODD, ROW, Rows, take
from hedgerow.report.tables.url_features import DigestKey

ALL = -1
"""The end of a part that is a whole file."""

_ROWS_AT_ONCE = 200_000
_UNLIMITED = 1 << 60
_BITS_OF_A_PLACE = 40
_LONGS = ("source", "t", "page", "parent", "ord")
"""Columns of 64 bits. Spark knows only numbers with a sign: the others fit into 32 bits as they are."""

NUMBERED = ", ".join(f"{name} {'BIGINT' if name in _LONGS else 'INT'}" for name in COLUMNS) + ", number BIGINT"
"""The columns of rows as Spark knows them; *number* tells in which order rows came."""
READ = NUMBERED + ", meaning BINARY"
"""The same as a worker sends them; in the last row of a part there is only what its numbers mean."""


class Part(msgspec.Struct, frozen=True):
    """What a worker reads: bytes *start* to *end* of a file. *index* is its position, *named* its name in messages."""

    index: int
    named: str
    path: str
    start: int
    end: int


class Meaning(msgspec.Struct, frozen=True):
    """The meaning of the numbers in the rows of a part, in order, and the counts of what was read."""

    index: int
    agents: list[bytes]
    places: list[bytes]
    shapes: list[bytes]
    digests: list[int]
    others: list[tuple[str, str]]
    hosts: dict[str, int]
    sessions: NamedSessions
    read_counts: ReadCounts


def parts_of(paths: Sequence[str], dialect: Dialect, read_counts: ReadCounts) -> list[Part]:
    """Return the parts of the logs at *paths*, in the order in which one machine would read them."""
    parts: list[Part] = []
    for source in in_turn(paths, dialect, read_counts):
        if source.size is None:
            raise LogError(f"{readable(source.path)}: cannot be read by Spark's workers; write it to a file")
        is_file = not source.path.startswith(POSTGRESQL_SCHEMES)
        path = str(Path(source.path).absolute()) if is_file else source.path
        if is_plain(source) and source.is_plain:
            with opened(path) as file:
                ends = list(cuts(file))
            parts += [Part(len(parts) + k, source.path, path, start, end) for k, (start, end) in enumerate(ends)]
        else:
            parts.append(Part(len(parts), source.path, path, 0, ALL))
    return parts


def read_parts(dialect: Dialect, secret: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: yield the rows (`READ`) of the parts in *batches*. *secret* is the key of all digests."""
    for batch in batches:
        for part in batch.to_pylist():
            yield from _read_part(Part(**part), dialect, DigestKey(secret))


def _read_part(part: Part, dialect: Dialect, key: DigestKey) -> Iterator[pa.RecordBatch]:
    numbering, read_counts = RowBuilder(dialect.by, key), ReadCounts()
    # Only all parts together know which texts are one too many.
    numbering.agents, numbering.places, numbering.shapes = (
        InternTable(_UNLIMITED),
        InternTable(_UNLIMITED),
        InternTable(_UNLIMITED),
    )
    source = open_log(part.path, dialect)
    place = part.index << _BITS_OF_A_PLACE
    for all_rows in _rows_of(part, source, numbering, read_counts):
        rows = take(all_rows, np.flatnonzero(all_rows["kind"] != ODD))
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            yield _sent(some, place)
            place += len(some)
    read_counts.damage = [one.replace(readable(part.path), readable(part.named), 1) for one in read_counts.damage]
    shapes = numbering.shapes
    meaning = Meaning(
        part.index, _texts(numbering.agents), _texts(numbering.places), shapes.texts[2:],
        [key for key in shapes.keys if isinstance(key, int)], numbering.others, dict(numbering.hosts),
        numbering.cookies.sessions, read_counts,
    )  # fmt: skip
    yield _sent(np.zeros(1, ROW), place, msgspec.msgpack.encode(meaning))


def _texts(texts: InternTable) -> list[bytes]:
    return [key for key in texts.keys if isinstance(key, bytes)]


def _rows_of(part: Part, source: Source, numbering: RowBuilder, read_counts: ReadCounts) -> Iterator[Rows]:
    if not is_plain(source):
        visits = source.visits(read_counts)
        while some := list(islice(visits, VISITS_AT_ONCE)):
            yield numbering.rows_of(some)
        return
    parse = source.parser()
    work = new_work(numbering.key, vhost=source.format.has_host, users=numbering.by == "account")
    blocks = source.blocks(read_counts) if part.end == ALL else _bytes_of(part, read_counts)
    for piece in pieces(blocks):
        start_scan(work, put(piece, work))
        while (scanned := scan(work)) is not None:
            yield rows_of(scanned, parse, numbering, read_counts)
    source.report_damage(read_counts, read_counts.lines)


def _bytes_of(part: Part, read_counts: ReadCounts) -> Iterator[bytes]:
    with Path(part.path).open("rb") as file:
        file.seek(part.start)
        data = file.read(part.end - part.start)
    read_counts.bytes_read += len(data)
    yield data


def _sent(rows: Rows, place: int, meaning: bytes | None = None) -> pa.RecordBatch:
    n = len(rows)
    columns = {name: signed(name, np.ascontiguousarray(rows[name])) for name in COLUMNS}
    columns["number"] = np.arange(place, place + n)
    arrays = [pa.array(column) for column in columns.values()]
    return pa.record_batch([*arrays, pa.array([meaning] * n, pa.binary())], names=[*columns, "meaning"])


def signed(name: str, column: NDArray[np.generic]) -> NDArray[np.generic]:
    """Convert a column to Spark's types. Sources keep their order, other 64-bit columns keep their bits."""
    if name == "source":
        return (column.astype(np.uint64) ^ OTHER_CLIENT).view(np.int64)
    return column.view(np.int64) if name in _LONGS else column.astype(np.int32)


def unsigned(name: str, column: NDArray[np.generic]) -> NDArray[np.generic]:
    """Undo `signed`."""
    if name == "source":
        return column.astype(np.int64).view(np.uint64) ^ OTHER_CLIENT
    kind = ROW[name] if name in COLUMNS else None
    if kind == np.uint64:
        return column.astype(np.int64).view(np.uint64)
    return column if kind is None else column.astype(kind)


Numbers = dict[str, NDArray[np.generic]]
"""By the name of a column: the number that each number of a part becomes."""


def join(meanings: Iterable[Meaning], numbering: RowBuilder, read_counts: ReadCounts) -> dict[int, Numbers]:
    """
    Add the texts and counts of parts to *numbering* and *read_counts*.

    Return the new numbers of each part, by its index.
    """
    found: dict[int, Numbers] = {}
    for one in sorted(meanings, key=lambda meaning: meaning.index):
        agents = [numbering.agents.number(text) for text in one.agents]
        places = [numbering.places.number(text) for text in one.places]
        shapes = [numbering.shapes.number(*both) for both in zip(one.shapes, one.digests, strict=True)]
        shape = np.array([0, 1, *shapes], np.int32)
        others = [numbering.source(*other) for other in one.others]
        first = int(OTHER_CLIENT)
        numbering.cookies.add({others[k - first] if k >= first else k: number for k, number in one.sessions.items()})
        found[one.index] = {
            "source": np.array(others, np.uint64),
            "shape": shape, "lead": shape, "place": np.array([0, 1, *places], np.int32),
            "agent": np.array([0, 1, *agents], np.int32),
        }  # fmt: skip
        numbering.hosts.update(one.hosts)
        read_counts.add(one.read_counts)
    return found


def renumber(numbers: dict[int, Numbers], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: yield rows with the common numbers. A batch may have rows of several parts."""
    for batch in batches:
        columns = {name: batch.column(name).to_numpy(zero_copy_only=False).copy() for name in batch.schema.names}
        part = columns["number"] >> _BITS_OF_A_PLACE
        for index in np.unique(part).tolist():
            mine = np.flatnonzero(part == index)
            become = numbers[index]
            for name in ("shape", "lead", "place", "agent"):
                columns[name][mine] = become[name][columns[name][mine]]
            # As Spark holds them, those that are no IPv4 addresses begin at 0.
            others = mine[columns["source"][mine] >= 0]
            columns["source"][others] = signed("source", become["source"][columns["source"][others]])
        yield pa.record_batch([pa.array(column) for column in columns.values()], names=list(columns))

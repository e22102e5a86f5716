"""
Reading on many machines: a log in parts, each read by a worker of Spark, and the parts' numbers made one.

A part is a piece of a plain file, cut where `reading` cuts it, or all of a file that cannot be cut. A worker reads it
as `reading` does, but numbers its texts alone; with the rows it sends what its numbers mean. Taken in the order of the
parts these meanings give every text the number that reading one part after the other would have given it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hedgerow.errors import LogError
from hedgerow.ledger.reader import is_url
from hedgerow.logs.dialect import Dialect
from hedgerow.logs.formats import readable
from hedgerow.logs.reader import ReadCounts, Source, open_log
from hedgerow.report.tables.ingest import (
    VISITS_AT_ONCE,
    cuts,
    in_turn,
    is_of_plain_lines,
    opened,
    pieces,
    rows_of_piece,
)
from hedgerow.report.tables.line_scanner import OTHER_CLIENT, scan_all
from hedgerow.report.tables.row_builder import COLUMNS, InternTable, RowBuilder, Rows
from hedgerow.report.tables.session_cookies import Told

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
    """What a worker is to read: bytes of a file from *start* to before *end*; *index* is its turn, *named* its name."""

    index: int
    named: str
    path: str
    start: int
    end: int


class Meaning(msgspec.Struct, frozen=True):
    """What the numbers in the rows of a part mean, in their order, and what was read."""

    index: int
    agents: list[bytes]
    places: list[bytes]
    shapes: list[bytes]
    digests: list[int]
    others: list[tuple[str, str]]
    hosts: dict[str, int]
    kept: Told
    tally: ReadCounts


def parts_of(paths: Sequence[str], dialect: Dialect, tally: ReadCounts) -> list[Part]:
    """The parts of the logs at *paths*, in the order in which one machine would read them."""
    parts: list[Part] = []
    for source in in_turn(paths, dialect, tally):
        if source.size is None:
            raise LogError(f"{readable(source.path)}: cannot be read by Spark's workers; write it to a file")
        path = source.path if is_url(source.path) else str(Path(source.path).absolute())
        if is_of_plain_lines(source) and source.is_plain:
            with opened(path) as file:
                ends = list(cuts(file))
            parts += [Part(len(parts) + k, source.path, path, start, end) for k, (start, end) in enumerate(ends)]
        else:
            parts.append(Part(len(parts), source.path, path, 0, ALL))
    return parts


def read_parts(dialect: Dialect, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: the rows (`READ`) of the parts that *batches* name."""
    for batch in batches:
        for told in batch.to_pylist():
            yield from _read_part(Part(**told), dialect)


def _read_part(part: Part, dialect: Dialect) -> Iterator[pa.RecordBatch]:
    numbering, tally = RowBuilder(dialect.by), ReadCounts()
    # Only all parts together know which texts are one too many.
    numbering.agents, numbering.places, numbering.shapes = (
        InternTable(_UNLIMITED),
        InternTable(_UNLIMITED),
        InternTable(_UNLIMITED),
    )
    source = open_log(part.path, dialect)
    place = part.index << _BITS_OF_A_PLACE
    for rows in _rows_of(part, source, numbering, tally):
        for start in range(0, len(rows["t"]), _ROWS_AT_ONCE):
            some = {name: column[start : start + _ROWS_AT_ONCE] for name, column in rows.items()}
            yield _sent(some, place)
            place += len(some["t"])
    tally.damage = [one.replace(readable(part.path), readable(part.named), 1) for one in tally.damage]
    shapes = numbering.shapes
    meaning = Meaning(
        part.index, _texts(numbering.agents), _texts(numbering.places), shapes.texts[2:],
        [key for key in shapes.keys if isinstance(key, int)], numbering.others, dict(numbering.hosts),
        numbering.kept.told, tally,
    )  # fmt: skip
    last = {name: np.zeros(1, kind) for name, kind in COLUMNS.items()}
    yield _sent(last, place, msgspec.msgpack.encode(meaning))


def _texts(texts: InternTable) -> list[bytes]:
    return [key for key in texts.keys if isinstance(key, bytes)]


def _rows_of(part: Part, source: Source, numbering: RowBuilder, tally: ReadCounts) -> Iterator[Rows]:
    if not is_of_plain_lines(source):
        visits = source.visits(tally)
        while some := list(islice(visits, VISITS_AT_ONCE)):
            yield numbering.rows_of_visits(some)
        return
    parse = source.parser()
    if part.end == ALL:
        whole = pieces(source, tally)
    else:
        with Path(part.path).open("rb") as file:
            file.seek(part.start)
            data = file.read(part.end - part.start)
        tally.bytes_read += len(data)
        whole = iter([np.frombuffer(data, np.uint8)])
    for piece in whole:
        for lines, scanned in scan_all(piece, vhost=source.format.has_host):
            yield rows_of_piece(lines, scanned, parse, numbering, tally)
    source.report_damage(tally, tally.lines)


def _sent(rows: Rows, place: int, meaning: bytes | None = None) -> pa.RecordBatch:
    n = len(rows["t"])
    columns = {name: signed(name, rows[name]) for name in COLUMNS}
    columns["number"] = np.arange(place, place + n)
    arrays = [pa.array(column) for column in columns.values()]
    return pa.record_batch([*arrays, pa.array([meaning] * n, pa.binary())], names=[*columns, "meaning"])


def signed(name: str, column: NDArray[np.generic]) -> NDArray[np.generic]:
    """A column as Spark can hold it. Sources keep their order, all others of 64 bits their bits."""
    if name == "source":
        return (column.astype(np.uint64) ^ OTHER_CLIENT).view(np.int64)
    return column.view(np.int64) if name in _LONGS else column.astype(np.int32)


def unsigned(name: str, column: NDArray[np.generic]) -> NDArray[np.generic]:
    """The column that was made of one of rows, as it was."""
    if name == "source":
        return column.astype(np.int64).view(np.uint64) ^ OTHER_CLIENT
    kind = COLUMNS.get(name)
    if kind is np.uint64:
        return column.astype(np.int64).view(np.uint64)
    return column if kind is None else column.astype(kind)


Numbers = dict[str, NDArray[np.generic]]
"""By the name of a column: the number that each number of a part becomes."""


def join(meanings: Iterable[Meaning], numbering: RowBuilder, tally: ReadCounts) -> dict[int, Numbers]:
    """Enter into *numbering* and *tally* what parts have found; what their numbers become, by their index."""
    found: dict[int, Numbers] = {}
    for one in sorted(meanings, key=lambda meaning: meaning.index):
        agents = [numbering.agents.number(text) for text in one.agents]
        places = [numbering.places.number(text) for text in one.places]
        shapes = [numbering.shapes.number(*both) for both in zip(one.shapes, one.digests, strict=True)]
        shape = np.array([0, 1, *shapes], np.int32)
        others = [numbering.source(*other) for other in one.others]
        first = int(OTHER_CLIENT)
        numbering.kept.add({others[k - first] if k >= first else k: told for k, told in one.kept.items()})
        found[one.index] = {
            "source": np.array(others, np.uint64),
            "shape": shape, "lead": shape, "place": np.array([0, 1, *places], np.int32),
            "agent": np.array([0, 1, *agents], np.int32),
        }  # fmt: skip
        numbering.hosts.update(one.hosts)
        tally.add(one.tally)
    return found


def renumber(numbers: dict[int, Numbers], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: rows with the numbers that all parts share. A batch may have rows of several parts."""
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

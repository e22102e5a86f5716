"""
Reader: from log files to visits in the order of time, with a tally of what was read.

Three things are put right on the way:

- Files are read oldest first, whatever order the shell named them in (`access.log access.log.1` is newest
  first), and files that cover the same hours, as those of two web servers do, are merged. Within a file lines
  keep their order.
- Most logs tell whole seconds only. Twenty requests that came evenly over a second would all carry the same
  time, and a window of a second would see a burst that never was. So visits of the same second are spread
  evenly over it in their order: the k-th of n, counted from 0, gets k/n of the second. This looks one second
  ahead, and only so many visits.
- A file whose compression breaks off midway gives what can be read before that; the tally reports the damage.
"""

from __future__ import annotations

import bz2
import gzip
import heapq
import io
import lzma
import math
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import zstandard

from hedgerow.core.visit import Visit
from hedgerow.errors import LogError, StoreError
from hedgerow.ledger.reader import is_url, open_ledger_reader
from hedgerow.logs.dialect import AS_IT_IS, Dialect, Parser, W3cParser, choose, is_directive, parser
from hedgerow.logs.fields import FieldNames
from hedgerow.logs.formats import LEDGER, LEDGER_COLUMNS, Format, readable, visit_of_row
from hedgerow.logs.structured import parquet_rows
from hedgerow.request.bot_verifier import BotVerifier

LONGEST_LINE = 65_536
"""Bytes in the longest line that is looked at; a longer one is bad."""

STANDARD_INPUT = "-"

_MOST_SAMPLES = 5
SAMPLE_LENGTH = 200
_MOST_LOOK_AHEAD = 100_000
_BLOCK = 1 << 18
_ZSTD_PIECE = 1 << 12
_LOOKED_AT = 1 << 16
_LINES_LOOKED_AT = 200
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_PARQUET_MAGIC = b"PAR1"
_LEDGER_MAGIC = b"SQLite format 3\0"
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


class ReadCounts(msgspec.Struct):
    """
    What was read so far: every line was either parsed or is bad.

    *samples* are the first few bad lines, safe to print. *first* and *last* are the earliest and latest time,
    or None. *formats* names the formats found. *damage* has a sentence for each file that breaks off midway.
    *bytes_read* are bytes of the files as they are, compressed or not, of *bytes_total*, which is 0 where
    nobody can know. *exact* says that all times have fractions of seconds.
    *directives* are lines that only say how others are written (W3C logs); they count as no lines.
    """

    parsed: int = 0
    bad: int = 0
    samples: list[str] = []
    first: float | None = None
    last: float | None = None
    formats: list[str] = []
    damage: list[str] = []
    bytes_read: int = 0
    bytes_total: int = 0
    exact: bool = False
    directives: int = 0

    @property
    def lines(self) -> int:
        return self.parsed + self.bad

    def count_bad(self, sample: str) -> None:
        self.bad += 1
        if len(self.samples) < _MOST_SAMPLES:
            self.samples.append(readable(sample[:SAMPLE_LENGTH]))

    def count_parsed(self, at: float) -> None:
        self.parsed += 1
        if self.first is None or self.last is None:
            self.first = self.last = at
        elif at > self.last:
            self.last = at
        elif at < self.first:
            self.first = at

    def note_span(self, first: float, last: float) -> None:
        """Some lines, counted elsewhere, were from *first* to *last*."""
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)

    def add(self, other: ReadCounts) -> None:
        """Add what was read of a later part of the same logs."""
        self.parsed += other.parsed
        self.bad += other.bad
        self.samples = [*self.samples, *other.samples][:_MOST_SAMPLES]
        if other.first is not None and other.last is not None:
            self.note_span(other.first, other.last)
        self.damage += other.damage
        self.bytes_read += other.bytes_read
        self.directives += other.directives


class LogReader:
    """
    The visits of some logs, once, with the `tally` of what was read so far.

    Each of *paths* is an access log (plain, gzip, xz, bzip2 or zstandard, told by its first bytes), a ledger
    (a file, or in PostgreSQL), or "-", standard input. All are looked at before any is read: LogError where one cannot
    be read at all.
    *accounts* and *bot_verifier*: see `LineParser`. *dialect* says how lines are written, where somebody knows.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        accounts: bool = False,
        bot_verifier: BotVerifier | None = None,
        dialect: Dialect = AS_IT_IS,
    ) -> None:
        self.tally = ReadCounts()
        self._accounts = accounts
        self._welcome = bot_verifier
        self._sources = [look_at(path, dialect) for path in paths]
        for source in self._sources:
            if source.format.name not in self.tally.formats:
                self.tally.formats.append(source.format.name)
        sizes = [source.size for source in self._sources]
        if None not in sizes:
            self.tally.bytes_total = sum(size or 0 for size in sizes)

    @property
    def is_ledger(self) -> bool:
        """Whether all of it comes from ledgers, which tell of markers."""
        return all(source.format.name == "ledger" for source in self._sources)

    def __iter__(self) -> Iterator[Visit]:
        return _merged([(source.start, self._visits(source)) for source in self._sources])

    def _visits(self, source: Source) -> Iterator[Visit]:
        visits = source.visits(self.tally, accounts=self._accounts, bot_verifier=self._welcome)
        return visits if source.format.exact else spread(visits)


def _merged(sources: Sequence[tuple[float, Iterator[Visit]]]) -> Iterator[Visit]:
    """All visits of *sources*, by time; a source is not begun before its start has come."""
    waiting = sorted(((start, n) for n, (start, _) in enumerate(sources)), reverse=True)
    heads: list[tuple[float, int, Visit]] = []
    while waiting or heads:
        while waiting and (not heads or waiting[-1][0] <= heads[0][0]):
            n = waiting.pop()[1]
            for visit in sources[n][1]:
                heapq.heappush(heads, (visit.at, n, visit))
                break
        if not heads:
            continue
        _, n, visit = heads[0]
        yield visit
        following = next(sources[n][1], None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (following.at, n, following))


def spread(visits: Iterator[Visit], *, most: int = _MOST_LOOK_AHEAD) -> Iterator[Visit]:
    """
    The same visits; those that follow each other in one second are spread evenly over it, in their order.

    At most *most* are held back; in a second with more of them each such run is spread over the second.
    """
    run: list[Visit] = []
    for visit in visits:
        if run and (visit.at != run[0].at or len(run) >= most):
            yield from _spaced(run)
            run = []
        run.append(visit)
    yield from _spaced(run)


def _spaced(run: list[Visit]) -> Iterator[Visit]:
    count = len(run)
    for k, visit in enumerate(run):
        yield msgspec.structs.replace(visit, at=visit.at + k / count) if k else visit


class TextSource:
    """A file of lines. What can be read only once (a pipe) stays open, and what was looked at is kept."""

    def __init__(self, path: str, file: BinaryIO, dialect: Dialect = AS_IT_IS) -> None:
        self.path = path
        self.dialect = dialect
        self.size: int | None = None
        self._damage: list[str] = []
        self._kept: Iterator[bytes] | None = None
        self.is_plain = False
        """Whether it is a file that is not compressed, and can be read from anywhere."""
        compressed = _begins(file).startswith((_ZSTD_MAGIC, *_COMPRESSIONS))
        blocks = _blocks(file, self._damage)
        looked_at: list[bytes] = []
        while sum(map(len, looked_at)) < _LOOKED_AT and (block := next(blocks, None)) is not None:
            looked_at.append(block)
        if self._damage and not any(looked_at):
            file.close()
            raise LogError(f"{readable(path)}: cannot be read: {self._damage[0]}")
        if path == STANDARD_INPUT:
            self._kept = chain(looked_at, blocks)
        elif stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            self.size = os.fstat(file.fileno()).st_size
            self.is_plain = not compressed
            self._damage.clear()
            file.close()
        else:
            self._kept = _closing(file, chain(looked_at, blocks))
        lines = [line for line in b"".join(looked_at).split(b"\n") if len(line) <= LONGEST_LINE]
        self.format: Format = choose(lines[:_LINES_LOOKED_AT], dialect)
        parse = self.parser()
        times = (visit.at for line in lines if not is_directive(parse, line) and (visit := parse(line)))
        self.start = next(times, -math.inf)
        """The time of the first line that has one: when the file's turn comes."""

    def parser(self, *, accounts: bool = False, bot_verifier: BotVerifier | None = None) -> Parser:
        """What parses a line of it."""
        return parser(self.format, self.dialect, accounts=accounts, bot_verifier=bot_verifier)

    def visits(
        self,
        tally: ReadCounts,
        *,
        accounts: bool = False,
        bot_verifier: BotVerifier | None = None,
        blocks: Iterator[bytes] | None = None,
    ) -> Iterator[Visit]:
        """The visits in the file, or in its *blocks*, where somebody has read those already."""
        parse = self.parser(accounts=accounts, bot_verifier=bot_verifier)
        directives = isinstance(parse, W3cParser)
        seen = 0
        for lines in _lines(self.blocks(tally) if blocks is None else blocks):
            seen += len(lines)
            for line in lines:
                if directives and is_directive(parse, line):
                    tally.directives += 1
                    continue
                visit = parse(line) if len(line) <= LONGEST_LINE else None
                if visit is None:
                    tally.count_bad(line[:SAMPLE_LENGTH].decode("latin-1"))
                else:
                    tally.count_parsed(visit.at)
                    yield visit
        self.report_damage(tally, seen)

    def report_damage(self, tally: ReadCounts, seen: int) -> None:
        """Say in *tally* where the file breaks off, if it does; *seen* lines were read of it."""
        for reason in self._damage:
            tally.damage.append(f"{readable(self.path)}: breaks off after {seen:,} lines: {reason}")

    def blocks(self, tally: ReadCounts) -> Iterator[bytes]:
        """The file's blocks; the tally learns how many bytes of the file they were."""
        if self._kept is not None:
            for block in self._kept:
                tally.bytes_read += len(block)
                yield block
            return
        with _open(self.path) as file:
            before = 0
            for block in _blocks(file, self._damage):
                after = file.tell()
                tally.bytes_read += after - before
                before = after
                yield block


def _closing(file: BinaryIO, blocks: Iterator[bytes]) -> Iterator[bytes]:
    with file:
        yield from blocks


def _lines(blocks: Iterator[bytes]) -> Iterator[list[bytes]]:
    """The lines in *blocks*, some at a time. Of a line longer than the longest only the beginning is kept."""
    begun = b""
    for block in blocks:
        rest = block
        if len(begun) > LONGEST_LINE:
            _, newline, rest = block.partition(b"\n")
            if not newline:
                continue
            yield [begun]
            begun = b""
        lines = (begun + rest).split(b"\n")
        begun = lines.pop()[: LONGEST_LINE + 1]
        yield lines
    if begun:
        yield [begun]


def _blocks(file: BinaryIO, damage: list[str]) -> Iterator[bytes]:
    """The contents of *file*, decompressed. Where it breaks off the reason is put into *damage*."""
    try:
        magic = _begins(file)
        if magic.startswith(_ZSTD_MAGIC):
            yield from _unzstd(file)
            return
        plain: BinaryIO = file
        for start, opened in _COMPRESSIONS.items():
            if magic.startswith(start):
                plain = opened(file)
        # read1 gives what it has before it fails, where read would lose it.
        while block := plain.read1(_BLOCK):  # type: ignore[attr-defined]  # all four have it, BinaryIO has not
            yield block
    except _BROKEN as error:
        damage.append(_reason(error))


_COMPRESSIONS: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}


def _unzstd(file: BinaryIO) -> Iterator[bytes]:
    """
    Zstandard by hand: the library's own reader takes a file that was cut off for one that ends there.

    The input comes in small pieces, because nothing else bounds what one piece may unfold to.
    """
    decoder = zstandard.ZstdDecompressor().decompressobj()
    begun = False
    while piece := file.read(_ZSTD_PIECE):
        while piece:
            begun = True
            yield decoder.decompress(piece)
            piece = b""
            if decoder.eof:
                piece = decoder.unused_data
                decoder = zstandard.ZstdDecompressor().decompressobj()
                begun = False
    if begun:
        raise EOFError("the file ends before the compressed data do")


class LedgerSource:
    """Our own extended access log: exact times, in the order in which the gate saw the visits."""

    format = LEDGER

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with closing(open_ledger_reader(path)) as reading:
                self.name = reading.name
                self.size: int | None = reading.size
                first = reading.oldest()
        except StoreError as error:
            raise LogError(str(error) if is_url(path) else f"{error}; is it a ledger of Hedgerow?") from None
        self.start = first if first is not None else -math.inf

    def visits(
        self,
        tally: ReadCounts,
        *,
        accounts: bool = False,  # noqa: ARG002 - the ledger already names accounts and bots
        bot_verifier: BotVerifier | None = None,  # noqa: ARG002
    ) -> Iterator[Visit]:
        seen = 0
        try:
            with closing(open_ledger_reader(self.path)) as reading:
                span = reading.span()
                for some in reading.by_time(LEDGER_COLUMNS):
                    seen += len(some)
                    tally.bytes_read += (self.size or 0) * len(some) // span
                    for row in some:
                        visit = visit_of_row(row)
                        if visit is None:
                            tally.count_bad(str(row))
                        else:
                            tally.count_parsed(visit.at)
                            yield visit
        except StoreError as error:
            tally.damage.append(f"{readable(self.name)}: breaks off after {seen:,} rows: {error}")


def _open(path: str) -> BinaryIO:
    try:
        return sys.stdin.buffer if path == STANDARD_INPUT else Path(path).open("rb")
    except OSError as error:
        raise LogError(f"{readable(path)}: cannot be read: {_reason(error)}") from None


class ParquetSource:
    """A Parquet file whose columns have names that we know."""

    def __init__(self, path: str, dialect: Dialect = AS_IT_IS) -> None:
        self.path = path
        self.size: int | None = Path(path).stat().st_size
        self._dialect = dialect
        self._names = FieldNames(dialect.fields, sessions=bool(dialect.sessions))
        parse = dialect.parser(lambda _: None)
        first = next(parquet_rows(path, self._names), [])
        visits = [visit for row in first[:_LINES_LOOKED_AT] if row and (visit := parse.visit(row))]
        self.format = Format("parquet", exact=any(visit.at % 1 for visit in visits))
        self.start = visits[0].at if visits else -math.inf

    def visits(
        self, tally: ReadCounts, *, accounts: bool = False, bot_verifier: BotVerifier | None = None
    ) -> Iterator[Visit]:
        parse = self._dialect.parser(lambda _: None, accounts=accounts, bot_verifier=bot_verifier)
        for rows in parquet_rows(self.path, self._names):
            for row in rows:
                visit = parse.visit(row) if row else None
                if visit is None:
                    tally.count_bad(str(row))
                else:
                    tally.count_parsed(visit.at)
                    yield visit
        tally.bytes_read += self.size or 0


Source = TextSource | LedgerSource | ParquetSource


def look_at(path: str, dialect: Dialect = AS_IT_IS) -> Source:
    """The log *path*, looked at and not yet read; LogError where it cannot be read at all."""
    if is_url(path):
        return LedgerSource(path)
    file = _open(path)
    begins = _begins(file)
    if begins.startswith(_LEDGER_MAGIC):
        file.close()
        return LedgerSource(path)
    if begins.startswith(_PARQUET_MAGIC) and path != STANDARD_INPUT:
        file.close()
        return ParquetSource(path, dialect)
    return TextSource(path, file, dialect)


def _begins(file: BinaryIO) -> bytes:
    """The first bytes of *file*, which stay unread; none where it cannot be read, which will be found out."""
    try:
        return file.peek(len(_LEDGER_MAGIC)) if isinstance(file, io.BufferedReader) else b""
    except OSError:
        return b""


def _reason(error: BaseException) -> str:
    """Why something broke, in one line."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(reason.split()) or type(error).__name__

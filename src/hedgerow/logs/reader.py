"""
Reading of log files as visits in the order of time, with counts of what was read.

- Files are read oldest first, whatever their order on the command line. Files of the same hours, such as those of two
  web servers, are merged. Within a file, lines keep their order.
- Most logs have times in whole seconds. Twenty requests spread over a second would look like a burst. So the visits
  of a second are spread evenly over it in their order: the k-th of n, counted from 0, gets k/n of the second. A
  bounded number of visits is held back for that.
- If the compression of a file is damaged, everything before the damage is read, and the damage is reported.
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
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from hedgerow.core.ledger import POSTGRESQL_SCHEMES
from hedgerow.core.visit import Visit
from hedgerow.errors import LogError, StoreError
from hedgerow.ledger.reader import open_ledger_reader
from hedgerow.logs.dialect import DEFAULT_DIALECT, Dialect, Parser, detect_format, has_directives, is_directive, parser
from hedgerow.logs.fields import parquet_rows
from hedgerow.logs.formats import LEDGER, Format, readable
from hedgerow.logs.ledger_rows import LEDGER_COLUMNS, visit_of_row
from hedgerow.logs.wrappers import decoded, detect_utf16, detect_wrapper, unwrapped
from hedgerow.request.bots import BotVerifier

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_LINE_BYTES = 65_536
"""Maximum bytes of a line. A longer one is bad."""

STANDARD_INPUT = "-"

_MAX_SAMPLES = 5
SAMPLE_LENGTH = 200
_MAX_HELD_BACK = 100_000
_BLOCK = 1 << 18
_BYTES_EXAMINED = 1 << 16
_LINES_EXAMINED = 200
_PARQUET_MAGIC = b"PAR1"
_LEDGER_MAGIC = b"SQLite format 3\0"
_ZIP_MAGIC = b"PK\x03\x04"
# A member of a zip archive may be encrypted (RuntimeError) or compressed in a way that is not known.
_READ_ERRORS = (
    OSError, EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError, zipfile.BadZipFile, RuntimeError,
    NotImplementedError,
)  # fmt: skip


class ReadCounts(msgspec.Struct):
    """
    Counts of what was read so far. Every line is either parsed or bad.

    *samples* are the first few bad lines, safe to print. *first* and *last* are the earliest and latest time. *damage*
    has a sentence for each damaged file. *bytes_read* of *bytes_total* counts bytes of the files as stored; the total
    is 0 if unknown. *exact* is true if all times have fractions of seconds. *directives* (of W3C logs) do not count as
    lines.
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
        if len(self.samples) < _MAX_SAMPLES:
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
        """Extend the period to *first* and *last* of lines that were counted elsewhere."""
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)

    def add(self, other: ReadCounts) -> None:
        """Add the counts of a later part of the same logs."""
        self.parsed += other.parsed
        self.bad += other.bad
        self.samples = [*self.samples, *other.samples][:_MAX_SAMPLES]
        if other.first is not None and other.last is not None:
            self.note_span(other.first, other.last)
        self.damage += other.damage
        self.bytes_read += other.bytes_read
        self.directives += other.directives


class LogReader:
    """
    An iterator over the visits of several logs. `counts` has the counts so far.

    Each of *paths* is an access log (plain, gzip, xz, bzip2, zstandard or zip, told by its first bytes), a ledger (a
    file or the URL of PostgreSQL), or "-" for standard input. All are examined first: LogError if one cannot be read at
    all. *bot_verifier* is as in `LineParser`. *dialect* describes the lines. Visits of a ledger
    before *since* are left out.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        bot_verifier: BotVerifier | None = None,
        dialect: Dialect = DEFAULT_DIALECT,
        since: float = -math.inf,
    ) -> None:
        self.counts = ReadCounts()
        self._bot_verifier = bot_verifier
        self._sources = [open_log(path, dialect, since=since) for path in paths]
        for source in self._sources:
            if source.format.name not in self.counts.formats:
                self.counts.formats.append(source.format.name)
        sizes = [source.size for source in self._sources]
        if None not in sizes:
            self.counts.bytes_total = sum(size or 0 for size in sizes)

    @property
    def is_ledger(self) -> bool:
        """True if all sources are ledgers, which contain markers."""
        return all(source.format.name == "ledger" for source in self._sources)

    def __iter__(self) -> Iterator[Visit]:
        opened = [(one, one.visits(self.counts, bot_verifier=self._bot_verifier)) for one in self._sources]
        return _merged([(one.start, visits if one.format.exact else spread(visits)) for one, visits in opened])


def _merged(sources: Sequence[tuple[float, Iterator[Visit]]]) -> Iterator[Visit]:
    """Merge the visits of *sources* by time. A source is opened when its start time is reached."""
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
        next_visit = next(sources[n][1], None)
        if next_visit is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (next_visit.at, n, next_visit))


def spread(visits: Iterator[Visit], *, max_held: int = _MAX_HELD_BACK) -> Iterator[Visit]:
    """Spread consecutive visits of one second evenly over it. At most *max_held* visits are held back."""
    run: list[Visit] = []
    for visit in visits:
        if run and (visit.at != run[0].at or len(run) >= max_held):
            yield from _spaced(run)
            run = []
        run.append(visit)
    yield from _spaced(run)


def _spaced(run: list[Visit]) -> Iterator[Visit]:
    count = len(run)
    for k, visit in enumerate(run):
        yield msgspec.structs.replace(visit, at=visit.at + k / count) if k else visit


class TextSource:
    """A file of lines. A pipe can be read only once, so it stays open and its first blocks are kept."""

    def __init__(self, path: str, file: BinaryIO, dialect: Dialect = DEFAULT_DIALECT) -> None:
        self.path = path
        self.dialect = dialect
        self.size: int | None = None
        self._damage: list[str] = []
        self._unread: Iterator[bytes] | None = None
        self.is_plain = False
        """True for an uncompressed file that can be read from any offset."""
        compressed = _first_bytes(file).startswith((*_COMPRESSIONS, _ZIP_MAGIC))
        blocks = _blocks(file, self._damage)
        examined: list[bytes] = []
        while sum(map(len, examined)) < _BYTES_EXAMINED and (block := next(blocks, None)) is not None:
            examined.append(block)
        if self._damage and not any(examined):
            file.close()
            raise LogError(f"{readable(path)}: cannot be read: {self._damage[0]}")
        if path == STANDARD_INPUT:
            self._unread = chain(examined, blocks)
        elif stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            self.size = os.fstat(file.fileno()).st_size
            self.is_plain = not compressed
            self._damage.clear()
            file.close()
        else:
            self._unread = _closing(file, chain(examined, blocks))
        self._encoding = detect_utf16(b"".join(examined)[:_BYTES_EXAMINED])
        self.wrapper = ""
        """What is around each line (`WRAPPERS`), "" for nothing."""
        first = _whole_lines(self._decoded(iter(examined)))[:_LINES_EXAMINED]
        # A format that was given may describe the wrapper as well.
        if not (dialect.form and any(map(parser(detect_format(first, dialect), dialect), first))):
            self.wrapper = detect_wrapper(first)
        self.is_plain = self.is_plain and not self._encoding and not self.wrapper
        lines = _whole_lines(self._decoded(iter(examined)))
        self.format: Format = detect_format(lines[:_LINES_EXAMINED], dialect)
        parse = self.parser()
        times = (visit.at for line in lines if not is_directive(parse, line) and (visit := parse(line)))
        self.start = next(times, -math.inf)
        """The time of the first valid line, by which files are ordered."""

    def parser(self, bot_verifier: BotVerifier | None = None) -> Parser:
        return parser(self.format, self.dialect, bot_verifier)

    def visits(
        self, counts: ReadCounts, *, bot_verifier: BotVerifier | None = None, blocks: Iterator[bytes] | None = None
    ) -> Iterator[Visit]:
        """Yield the visits in the file, or in *blocks* of it that were read before."""
        parse = self.parser(bot_verifier)
        directives = has_directives(parse)
        seen = 0
        for lines in _lines(self.blocks(counts) if blocks is None else blocks):
            seen += len(lines)
            for line in lines:
                if directives and is_directive(parse, line):
                    counts.directives += 1
                    continue
                visit = parse(line) if len(line) <= MAX_LINE_BYTES else None
                if visit is None:
                    counts.count_bad(line[:SAMPLE_LENGTH].decode("latin-1"))
                else:
                    counts.count_parsed(visit.at)
                    yield visit
        self.report_damage(counts, seen)

    def report_damage(self, counts: ReadCounts, seen: int) -> None:
        """Add the damage of the file to *counts*. *seen* is the number of lines read."""
        for reason in self._damage:
            counts.damage.append(f"{readable(self.path)}: breaks off after {seen:,} lines: {reason}")

    def blocks(self, counts: ReadCounts) -> Iterator[bytes]:
        """Yield the text of the file in blocks, without wrappers, and count its bytes in *counts*."""
        return self._decoded(self._raw_blocks(counts))

    def _decoded(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        if self._encoding:
            blocks = decoded(blocks, self._encoding)
        return unwrapped(self.wrapper, _lines(blocks)) if self.wrapper else blocks

    def _raw_blocks(self, counts: ReadCounts) -> Iterator[bytes]:
        if self._unread is not None:
            for block in self._unread:
                counts.bytes_read += len(block)
                yield block
            return
        with _open(self.path) as file:
            before = 0
            for block in _blocks(file, self._damage):
                after = file.tell()
                counts.bytes_read += after - before
                before = after
                yield block


def _whole_lines(blocks: Iterator[bytes]) -> list[bytes]:
    """Return the lines in *blocks*, but for overlong ones."""
    return [line for line in b"".join(blocks).split(b"\n") if len(line) <= MAX_LINE_BYTES]


def _closing(file: BinaryIO, blocks: Iterator[bytes]) -> Iterator[bytes]:
    with file:
        yield from blocks


def _lines(blocks: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Yield the lines in *blocks*, in batches. Of an overlong line only the beginning is kept."""
    partial = b""
    for block in blocks:
        rest = block
        if len(partial) > MAX_LINE_BYTES:
            _, newline, rest = block.partition(b"\n")
            if not newline:
                continue
            yield [partial]
            partial = b""
        lines = (partial + rest).split(b"\n")
        partial = lines.pop()[: MAX_LINE_BYTES + 1]
        yield lines
    if partial:
        yield [partial]


def _blocks(file: BinaryIO, damage: list[str]) -> Iterator[bytes]:
    """Yield the decompressed contents of *file*. If it is damaged, add the reason to *damage*."""
    try:
        magic = _first_bytes(file)
        plain: BinaryIO = file
        if magic.startswith(_ZIP_MAGIC):
            yield from _members(file, damage)
            return
        for start, decompress in _COMPRESSIONS.items():
            if magic.startswith(start):
                plain = decompress(file)
        # Unlike read, read1 returns the data before an error.
        while block := plain.read1(_BLOCK):  # type: ignore[attr-defined]  # all of these classes have it, BinaryIO does not
            yield block
    except _READ_ERRORS as error:
        damage.append(_reason(error))


def _members(file: BinaryIO, damage: list[str]) -> Iterator[bytes]:
    """Yield the contents of all files in a zip archive, which may be compressed themselves."""
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.is_dir() or member.filename.startswith("__MACOSX/"):
                continue
            with archive.open(member) as inside:
                last = b""
                for block in _blocks(io.BufferedReader(inside), damage):  # type: ignore[type-var]  # it can be read from
                    yield block
                    last = block
                if not last.endswith(b"\n"):
                    yield b"\n"


_COMPRESSIONS: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
    b"\x28\xb5\x2f\xfd": zstd.ZstdFile,
}


class LedgerSource:
    """A ledger: exact times, in the order in which the gate saw the visits."""

    format = LEDGER

    def __init__(self, path: str, since: float = -math.inf) -> None:
        self.path = path
        self._since = since
        try:
            with closing(open_ledger_reader(path)) as reader:
                self.name = reader.name
                self.size: int | None = reader.size
                first = reader.oldest()
        except StoreError as error:
            is_file = not path.startswith(POSTGRESQL_SCHEMES)
            raise LogError(f"{error}; is it a ledger of Hedgerow?" if is_file else str(error)) from None
        self.start = first if first is not None else -math.inf

    def visits(
        self, counts: ReadCounts, *, bot_verifier: BotVerifier | None = None  # noqa: ARG002 - the ledger names bots
    ) -> Iterator[Visit]:  # fmt: skip
        seen = 0
        try:
            with closing(open_ledger_reader(self.path)) as reader:
                span = reader.span()
                for rows in reader.by_time(LEDGER_COLUMNS, self._since):
                    seen += len(rows)
                    counts.bytes_read += (self.size or 0) * len(rows) // span
                    yield from _counted(rows, visit_of_row, counts)
        except StoreError as error:
            counts.damage.append(f"{readable(self.name)}: breaks off after {seen:,} rows: {error}")


def _counted(rows: Iterable[Any], parse: Callable[[Any], Visit | None], counts: ReadCounts) -> Iterator[Visit]:
    for row in rows:
        visit = parse(row)
        if visit is None:
            counts.count_bad(str(row))
        else:
            counts.count_parsed(visit.at)
            yield visit


def _open(path: str) -> BinaryIO:
    try:
        return sys.stdin.buffer if path == STANDARD_INPUT else Path(path).open("rb")
    except OSError as error:
        raise LogError(f"{readable(path)}: cannot be read: {_reason(error)}") from None


class ParquetSource:
    """A Parquet file whose columns have known names."""

    def __init__(self, path: str, dialect: Dialect = DEFAULT_DIALECT) -> None:
        self.path = path
        self.size: int | None = Path(path).stat().st_size
        self._dialect = dialect
        self._names = dialect.names()
        parse = dialect.parser(lambda _: None)
        first = next(parquet_rows(path, self._names), [])
        visits = [visit for row in first[:_LINES_EXAMINED] if (visit := parse.visit(row))]
        self.format = Format("parquet", exact=any(visit.at % 1 for visit in visits))
        self.start = visits[0].at if visits else -math.inf

    def visits(self, counts: ReadCounts, *, bot_verifier: BotVerifier | None = None) -> Iterator[Visit]:
        parse = self._dialect.parser(lambda _: None, bot_verifier)
        for rows in parquet_rows(self.path, self._names):
            yield from _counted(rows, parse.visit, counts)
        counts.bytes_read += self.size or 0


Source = TextSource | LedgerSource | ParquetSource


def open_log(path: str, dialect: Dialect = DEFAULT_DIALECT, *, since: float = -math.inf) -> Source:
    """Open and examine the log *path*. Raise LogError if it cannot be read at all. *since* is for ledgers."""
    if path.startswith(POSTGRESQL_SCHEMES):
        return LedgerSource(path, since)
    file = _open(path)
    magic = _first_bytes(file)
    if magic.startswith(_LEDGER_MAGIC):
        file.close()
        return LedgerSource(path, since)
    if magic.startswith(_PARQUET_MAGIC) and path != STANDARD_INPUT:
        file.close()
        return ParquetSource(path, dialect)
    return TextSource(path, file, dialect)


def _first_bytes(file: BinaryIO) -> bytes:
    """Return the first bytes of *file* without reading them, b"" if that fails."""
    try:
        return file.peek(len(_LEDGER_MAGIC)) if isinstance(file, io.BufferedReader) else b""
    except OSError:
        return b""


def _reason(error: BaseException) -> str:
    """Describe an error in one line."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(reason.split()) or type(error).__name__

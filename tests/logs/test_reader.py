"""Files become visits in the order of time, every line is counted, and damage is reported."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sqlite3
import sys
import threading
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import LOGS
from hedgerow.core.decision import PASS
from hedgerow.core.ledger import Entry
from hedgerow.core.visit import Marker, Visit
from hedgerow.errors import LogError
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.logs import reader as reader_module
from hedgerow.logs.reader import MAX_LINE_BYTES, LogReader, spread, zstd

START = 1767225600


def line(second: float = 0, target: str = "/", address: str = "192.0.2.1") -> bytes:
    when = datetime.fromtimestamp(START + second, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    return f'{address} - - [{when}] "GET {target} HTTP/1.1" 200 1 "-" "Mozilla/5.0"\n'.encode()


@lru_cache
def many(count: int) -> bytes:
    return b"".join(line(n, f"/{n * 2_654_435_761 % 1_000_003}") for n in range(count))


def written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def test_lines_become_visits_and_are_counted(tmp_path):
    reader = LogReader([written(tmp_path / "a.log", line(0, "/a") + b"\nnoise\n" + line(5, "/b"))])
    assert [visit.target for visit in reader] == ["/a", "/b"]
    counts = reader.counts
    assert (counts.lines, counts.parsed, counts.bad) == (4, 2, 2)
    assert counts.samples == ["", "noise"]
    assert (counts.first, counts.last) == (START, START + 5)
    assert counts.formats == ["combined"]
    assert counts.bytes_read == counts.bytes_total > 0
    assert counts.damage == []


def test_the_last_line_needs_no_newline_and_an_empty_file_is_a_log(tmp_path):
    reader = LogReader([written(tmp_path / "a.log", line().rstrip()), written(tmp_path / "b.log", b"")])
    assert len(list(reader)) == reader.counts.lines == 1
    assert set(reader.counts.formats) == {"combined", "unknown"}


@given(st.lists(st.one_of(st.binary(max_size=50), st.just(line().rstrip())), max_size=20), st.booleans())
def test_any_bytes_are_read_and_every_line_is_counted(pieces, ends):
    """Through a pipe, so that no file is written for each example."""
    data = b"\n".join(pieces) + (b"\n" if ends else b"")
    if data.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"SQLite format 3\0", b"PAR1")):
        return
    there, back = os.pipe()
    os.write(back, data)
    os.close(back)
    try:
        reader = LogReader([f"/dev/fd/{there}"])
        found = sum(1 for _ in reader)
    finally:
        os.close(there)
    counts = reader.counts
    assert counts.lines == counts.parsed + counts.bad == data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    assert found == counts.parsed


def test_samples_of_bad_lines_are_few_short_and_printable(tmp_path):
    reader = LogReader([written(tmp_path / "a.log", (b"\x1b[2J\xff" + b"x" * 1000 + b"\n") * 50)])
    assert list(reader) == []
    assert reader.counts.bad == 50
    assert len(reader.counts.samples) == 5
    assert all(sample.isprintable() and len(sample) < 250 for sample in reader.counts.samples)


@pytest.mark.parametrize("length", [MAX_LINE_BYTES + 1, 1 << 18, 3_000_000])
def test_a_line_of_megabytes_is_one_bad_line(tmp_path, length):
    long = line(1).rstrip()[:-1] + b"x" * length + b'"\n'
    reader = LogReader([written(tmp_path / "a.log", line(0, "/a") + long + line(2, "/b") + long)])
    assert [visit.target for visit in reader] == ["/a", "/b"]
    assert (reader.counts.lines, reader.counts.bad) == (4, 2)


def test_a_line_of_the_maximum_length_is_read(tmp_path):
    whole = line().rstrip()
    fitting = whole[:-1] + b"x" * (MAX_LINE_BYTES - len(whole)) + b'"'
    assert len(fitting) == MAX_LINE_BYTES
    assert len(list(LogReader([written(tmp_path / "a.log", fitting + b"\n")]))) == 1


COMPRESSED = {
    "gz": gzip.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "bz2": bz2.compress,
    "zst": zstd.compress,
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_compression_is_detected_by_the_first_bytes(tmp_path, name):
    data = many(3000)
    # Two streams in one file, as `cat a.gz b.gz` makes, under a name that says nothing.
    halves = COMPRESSED[name](data[:100_000]) + COMPRESSED[name](data[100_000:])
    reader = LogReader([written(tmp_path / "rotated", halves)])
    assert sum(1 for _ in reader) == 3000
    assert reader.counts.bad == 0
    assert reader.counts.damage == []
    assert reader.counts.bytes_read == reader.counts.bytes_total == len(halves)


@pytest.mark.parametrize("name", COMPRESSED)
@pytest.mark.parametrize("harm", ["cut", "scrambled"])
def test_lines_before_damaged_compression_are_read(tmp_path, name, harm):
    data = many(20_000)
    whole = COMPRESSED[name](data)
    middle = len(whole) * 3 // 4
    broken = whole[:middle] if harm == "cut" else whole[:middle] + bytes(100) + whole[middle + 100 :]
    reader = LogReader([written(tmp_path / "broken", broken)])
    got = [visit.target for visit in reader]
    assert 0 < len(got) < 20_000
    assert got[:1000] == [f"/{n * 2_654_435_761 % 1_000_003}" for n in range(1000)]
    assert reader.counts.lines == reader.counts.parsed + reader.counts.bad
    [damage] = reader.counts.damage
    assert "broken: breaks off after" in damage
    assert "\n" not in damage


@pytest.mark.parametrize("name", COMPRESSED)
def test_compression_damaged_from_the_start_is_an_error(tmp_path, name):
    path = written(tmp_path / "broken", COMPRESSED[name](many(100))[:12])
    with pytest.raises(LogError, match="broken: cannot be read: ") as caught:
        LogReader([path])
    assert "\n" not in str(caught.value)


def test_an_unreadable_file_is_an_error_before_anything_is_read(tmp_path):
    good = written(tmp_path / "good.log", line())
    with pytest.raises(LogError, match=r"missing\.log: cannot be read: No such file"):
        LogReader([good, str(tmp_path / "missing.log")])
    with pytest.raises(LogError, match="cannot be read: Is a directory"):
        LogReader([good, str(tmp_path)])
    with pytest.raises(LogError, match="cannot be read: Input/output error"):
        LogReader([good, "/proc/self/mem"])


def test_standard_input_is_read(monkeypatch):
    data = gzip.compress(line(0, "/a") + line(1, "/b"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
    reader = LogReader(["-"])
    assert [visit.target for visit in reader] == ["/a", "/b"]
    assert reader.counts.bytes_total == 0
    assert reader.counts.bytes_read > 0


def test_a_pipe_is_read_once_and_whole(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(many(5000),))
    writer.start()
    assert sum(1 for _ in LogReader([str(path)])) == 5000
    writer.join()


def test_files_are_read_oldest_first_whatever_their_order(tmp_path):
    newest = written(tmp_path / "access.log", line(20, "/c") + line(21, "/d"))
    older = written(tmp_path / "access.log.1", line(10, "/a") + line(11, "/b"))
    assert [visit.target for visit in LogReader([newest, older])] == ["/a", "/b", "/c", "/d"]


def test_files_of_the_same_hours_are_merged(tmp_path):
    one = written(tmp_path / "one.log", b"".join(line(n, "/one") for n in range(0, 100, 2)))
    two = written(tmp_path / "two.log", b"".join(line(n, "/two") for n in range(1, 100, 2)))
    visits = list(LogReader([one, two, written(tmp_path / "noise", b"noise\n")]))
    assert [visit.at for visit in visits] == [START + n for n in range(100)]
    assert [visit.target for visit in visits[:3]] == ["/one", "/two", "/one"]


def test_lines_out_of_order_keep_their_order(tmp_path):
    path = written(tmp_path / "a.log", line(5, "/a") + line(3, "/b") + line(4, "/c"))
    reader = LogReader([path])
    assert [visit.target for visit in reader] == ["/a", "/b", "/c"]
    assert (reader.counts.first, reader.counts.last) == (START + 3, START + 5)


def test_visits_of_one_second_are_spread_over_it(tmp_path):
    path = written(tmp_path / "a.log", line(0) * 4 + line(1) + line(2) * 2)
    assert [visit.at - START for visit in LogReader([path])] == [0, 0.25, 0.5, 0.75, 1, 2, 2.5]


def test_times_with_fractions_are_left_alone(tmp_path):
    exact = line().replace(b":00 +0000", b":00.500000 +0000") * 3
    assert [visit.at - START for visit in LogReader([written(tmp_path / "a.log", exact)])] == [0.5, 0.5, 0.5]


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 10))
def test_spreading_changes_no_second_and_no_order(seconds, max_held):
    visits = [Visit(float(at), "192.0.2.1", "v", "p", "GET", f"/{n}") for n, at in enumerate(seconds)]
    out = list(spread(iter(visits), max_held=max_held))
    assert [visit.target for visit in out] == [visit.target for visit in visits]
    assert [int(visit.at) for visit in out] == seconds
    if max_held >= len(seconds):
        for before, after in pairwise(out):
            assert int(before.at) != int(after.at) or before.at < after.at


def test_spreading_holds_back_a_bounded_number_of_visits():
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield Visit(0.0, "192.0.2.1", "v", "p", "GET", "/")

    next(spread(endless(), max_held=100))
    assert taken == 101


def ledger_of(path: Path, visits: list[Visit]) -> str:
    ledger = SqliteLedger(path)
    for visit in visits:
        ledger.append(Entry(visit, PASS, visit.status, ""))
    ledger.close()
    return str(path)


VISIT = Visit(
    at=START + 0.123456,
    address="2001:db8::7",
    visitor="account:jo",
    prefix="2001:db8::/64",
    method="GET",
    target="/caf\u00c3\u00a9?x",
    account="jo",
    host="example.org",
    user_agent="Mozilla/5.0 \u00ff",
    referrer="https://example.org/",
    origin="same",
    marker=Marker("trap", b"123456", b"654321", "\0\1"),
    status=403,
)


def test_a_ledger_gives_the_same_visits(tmp_path):
    visits = [msgspec.structs.replace(VISIT, at=VISIT.at + n // 3, status=200 + n) for n in range(2500)]
    reader = LogReader([ledger_of(tmp_path / "ledger.sqlite", visits)])
    assert list(reader) == visits
    assert (reader.counts.lines, reader.counts.bad, reader.counts.formats) == (2500, 0, ["ledger"])
    assert 0 < reader.counts.bytes_read <= reader.counts.bytes_total


def test_a_bad_row_of_a_ledger_is_counted(tmp_path):
    path = ledger_of(tmp_path / "ledger.sqlite", [VISIT, VISIT])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE visits SET kind = 'odd', target = CAST(x'ff1b' AS TEXT) WHERE id = 2")
    connection.close()
    reader = LogReader([path])
    assert list(reader) == [VISIT]
    assert (reader.counts.lines, reader.counts.bad) == (2, 1)
    assert reader.counts.samples[0].isprintable()


def test_an_empty_ledger_has_no_visits(tmp_path):
    assert list(LogReader([ledger_of(tmp_path / "ledger.sqlite", [])])) == []


def test_a_database_of_another_program_is_rejected(tmp_path):
    connection = sqlite3.connect(tmp_path / "other.sqlite")
    connection.execute("CREATE TABLE things (id)")
    connection.close()
    with pytest.raises(LogError, match="no such table: visits; is it a ledger of Hedgerow"):
        LogReader([str(tmp_path / "other.sqlite")])


def test_a_damaged_ledger_is_read_up_to_the_damage(tmp_path):
    visits = [msgspec.structs.replace(VISIT, at=VISIT.at + n) for n in range(5000)]
    path = Path(ledger_of(tmp_path / "ledger.sqlite", visits))
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 40_960] = os.urandom(40_960)
    path.write_bytes(data)
    reader = LogReader([str(path)])
    got = sum(1 for _ in reader)
    assert 0 < got < 5000
    assert len(reader.counts.damage) == 1


def test_a_file_that_vanishes_is_an_error(tmp_path):
    path = tmp_path / "a.log"
    reader = LogReader([written(path, line())])
    path.unlink()
    with pytest.raises(LogError, match="cannot be read"):
        list(reader)


def test_a_disk_error_midway_is_reported_as_damage(tmp_path, monkeypatch):
    path = written(tmp_path / "a.log", many(5000))
    reader = LogReader([path])

    class Failing(io.BufferedReader):
        def read1(self, size: int = -1) -> bytes:
            if self.tell() > 100_000:
                raise OSError(5, "Input/output error")
            return super().read1(min(size, 60_000))

    monkeypatch.setattr(reader_module, "_open", lambda path: Failing(io.FileIO(path)))
    assert 0 < sum(1 for _ in reader) < 5000
    assert reader.counts.damage[0].endswith("lines: Input/output error")


ROWS = {
    "sparkdeveloper_2016-02_2016-03": (206_860, 0),
    "almhuette-raith_2020-12_2021-04": (294_094, 1),
    "french-site_2009-03_2009-04": (8_756, 0),
    "semicomplete_elastic-apache-10k_2015": (10_000, 0),
    "honeynet-redhat_2004": (38_483, 7),
}


@pytest.mark.parametrize("name", ROWS)
def test_real_logs_are_read_to_the_last_row(name):
    path = LOGS / f"{name}.log.xz"
    if not path.exists():
        pytest.skip(f"{path} is not here: real logs are kept outside the repository")
    reader = LogReader([str(path)])
    parsed = sum(1 for _ in reader)
    assert (parsed, reader.counts.bad) == ROWS[name]
    assert reader.counts.formats == ["combined"]

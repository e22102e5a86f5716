"""The compiled scanner and the reference see the same in any log: every line is a row or bad, and rows say the same."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasets import LOGS
from hedgerow.logs.dialect import Dialect, parser
from hedgerow.logs.formats import LineParser, detect_plain_format
from hedgerow.logs.reader import LogReader, ReadCounts, zstd
from hedgerow.report.tables import ingest, line_scanner
from hedgerow.report.tables.ingest import put, read, rows_of
from hedgerow.report.tables.line_scanner import new_work, scan, start_scan
from hedgerow.report.tables.local_store import LocalStore
from hedgerow.report.tables.row_builder import RowBuilder
from hedgerow.report.tables.rows import COLUMNS, Rows
from hedgerow.report.tables.source_tables import Tables
from hedgerow.report.tables.url_features import DigestKey

GOOD = b'192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a/b.html?x=1 HTTP/1.1" 200 2326 "http://e.org/" "Mozilla/5.0"'
OTHERS = (
    b'2001:db8::1 - frank [10/Oct/2000:13:55:37 +0200] "HEAD / HTTP/1.0" 404 -',
    b'198.51.100.7 - a b [11/Oct/2000:13:55:37 +0200] "GET /x HTTP/2" 206 5 "-" "-" extra "fields"',
    b'host.example - - [29/Feb/2000:23:59:60 +0000] "-" 408 - "-" "-"',
    rb'192.0.2.9 - - [10/Oct/2000:13:55:36 -0700] "GET /\x22 HTTP/1.1" 200 1 "-" "a \"b\" c"',
    b'192.0.2.9 - - [10/Oct/2000:13:55:36.125 -0700] "GET / HTTP/1.1" 200 1 "-" "unclosed',
    b'::ffff:192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "POST /form HTTP/1.1" 303 1 "http://e.org" "B"',
    b'192.0.2.010 - - [31/Apr/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 1',
)
SAMPLES = (GOOD, *OTHERS)


KEY = DigestKey()


@pytest.fixture(autouse=True)
def _scanned(monkeypatch):
    """Logs are scanned, however small they are."""
    monkeypatch.setattr(ingest, "SMALL", 0)


def scanned(data: bytes, by: str = "visitor"):
    work = new_work(KEY, vhost=False, users=by == "account")
    start_scan(work, put(data, work))
    found = scan(work)
    assert found is not None
    return found


def table_of(path: Path) -> tuple[Counter[tuple[str, int, int, int, int]], tuple[int, int, int]]:
    """Rows by source, second, status, kind and flags; and lines, parsed, bad."""
    numbering = RowBuilder()
    with LocalStore(memory=500_000_000) as store:
        read_counts = read([str(path)], store, numbering)
        found = Counter(row for rows in store.rows() for row in rows_by(numbering, rows))
    return found, (read_counts.lines, read_counts.parsed, read_counts.bad)


def rows_by(builder: RowBuilder, rows: Rows) -> Iterator[tuple[str, int, int, int, int]]:
    columns = (rows[name].tolist() for name in ("source", "t", "status", "kind", "flags"))
    for source, t, *more in zip(*columns, strict=True):
        yield builder.name(source), t // 1_000_000, *more


def reference_of(path: Path) -> tuple[Counter[tuple[str, int, int, int, int]], tuple[int, int, int]]:
    reader, builder = LogReader([str(path)]), RowBuilder()
    found = Counter(rows_by(builder, builder.rows_of(list(reader))))
    return found, (reader.counts.lines, reader.counts.parsed, reader.counts.bad)


def mutated(line: bytes, changes: list[tuple[int, int]]) -> bytes:
    text = bytearray(line)
    for place, byte in changes:
        text[place % len(text)] = byte
    return bytes(text)


lines = st.one_of(
    st.sampled_from(SAMPLES),
    st.binary(max_size=60),
    st.builds(
        mutated,
        st.sampled_from(SAMPLES),
        st.lists(st.tuples(st.integers(0, 200), st.sampled_from(b' "\\[]-:\r\t\0\xff/?0aZ')), max_size=3),
    ),
)


@given(st.lists(lines, max_size=12), st.booleans())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_as_a_log_add_up_and_equal_the_reference(tmp_path, some, ends):
    path = tmp_path / "log"
    path.write_bytes(b"\n".join(some) + (b"\n" if ends and some else b""))
    assert table_of(path) == reference_of(path)


@pytest.mark.parametrize("most", ["MOST_LINES", "MOST_SYMBOLS"])
def test_very_many_lines_are_scanned_some_at_a_time(tmp_path, most):
    """A log may be of hardly anything but line ends, each of which is a line; or of nothing but new texts."""
    path = tmp_path / "log"
    if most == "MOST_LINES":
        path.write_bytes(GOOD + b"\n" * (line_scanner.MOST_LINES + 9) + b"\n".join(SAMPLES * 5))
    else:
        some = range(line_scanner.MOST_SYMBOLS + 9)
        path.write_bytes(b"".join(GOOD.replace(b"Mozilla", b"Agent%d" % n) + b"\n" for n in some))
    assert table_of(path) == reference_of(path)


@given(st.lists(lines, max_size=8), st.lists(lines, max_size=8))
@settings(max_examples=50, deadline=None)
def test_what_was_scanned_before_leaves_no_trace(some, before):
    """Rows are made in memory that was used for other lines, or has anything at all in it."""
    found = []
    for room in (True, False):
        work = new_work(KEY, vhost=False, users=False)
        if room:
            work["rows"].view(np.uint8)[:] = 255
            start_scan(work, put(b"\n".join([GOOD, *before]), work))
            scan(work)
        start_scan(work, put(b"\n".join([GOOD, *some]), work))
        counts = ReadCounts()
        rows = rows_of(scan(work), LineParser(detect_plain_format([GOOD])), RowBuilder(key=KEY), counts)
        good = rows[rows["kind"] != line_scanner.ODD]
        found.append(([good[name].tolist() for name in COLUMNS], counts.parsed, counts.bad))
    assert found[0] == found[1]


def test_numbers_are_given_in_the_order_of_the_lines():
    """Be they plain or odd: so they are the same however a log is read."""
    hosts = [b"a.example", b"b.example", b"c.example", b"d.example"]
    ends = [b"plain", rb"o \"dd\"", b"plain too", rb"\"odd\""]
    data = [GOOD.replace(b"192.0.2.1", h).replace(b"Mozilla/5.0", e) for h, e in zip(hosts, ends, strict=True)]
    builder = RowBuilder(key=KEY)
    rows_of(scanned(b"\n".join(data)), LineParser(detect_plain_format([GOOD])), builder, ReadCounts())
    assert [name for name, _ in builder.others] == [host.decode() for host in hosts]
    assert builder.agents.texts[2:] == [b"plain", b'o "dd"', b"plain too", b'"odd"']


@given(st.lists(lines, min_size=1, max_size=8), st.sampled_from(["address", "network", "account"]))
@settings(max_examples=100, deadline=None)
def test_sources_of_scanned_lines_are_those_of_the_reference(some, by):
    some = [GOOD, *(line.replace(b"\n", b"") for line in some)]
    found = scanned(b"\n".join(some) + b"\n", by)
    builder, other = RowBuilder(by, KEY), RowBuilder(by)
    builder.number(found, [])
    parse = parser(detect_plain_format([GOOD]), Dialect(by=by))
    for k in set(range(len(some))) - set(found.odd.tolist()):
        visit = parse(some[k])
        assert visit is not None
        assert builder.name(int(found.rows["source"][k])) == other.name(other.source_of(visit))


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("visitor", ["192.0.2.1", "192.0.2.2", "2001:db8:1:2::/64"]),
        ("address", ["192.0.2.1", "192.0.2.2", "2001:db8:1:2::3"]),
        ("prefix", ["192.0.2.1", "192.0.2.2", "2001:db8:1:2::/64"]),
        ("network", ["192.0.2.0/24", "2001:db8:1::/48"]),
        # Who was asked for a password is nobody, whatever name it gave.
        ("account", ["192.0.2.2", "account:frank"]),
        ("session", ["192.0.2.1", "192.0.2.2", "2001:db8:1:2::/64"]),
    ],
)
@pytest.mark.parametrize("odd", [b"", b'\\"'])
@pytest.mark.parametrize("host", [b"", b"e.org "])
def test_what_a_source_is_can_be_said(tmp_path, by, names, odd, host):
    when = b'[10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1"'
    lines = [
        host + b"192.0.2.1 - frank " + when + b' 200 1 "-" "a' + odd + b'"',
        host + b"192.0.2.2 - mallory " + when + b' 401 1 "-" "a' + odd + b'"',
        host + b"2001:db8:1:2::3 - frank " + when + b' 200 1 "-" "a' + odd + b'"',
    ]
    path = tmp_path / "log"
    path.write_bytes(b"\n".join(lines))
    with Tables([str(path)], memory=500_000_000, dialect=Dialect(by=by)) as tables:
        assert sorted(tables.sources) == names
        assert set(tables.addresses) <= {"192.0.2.1", "192.0.2.2", "2001:db8:1:2::3", "192.0.2.0/24"}


@given(st.lists(lines, min_size=1, max_size=8))
@settings(max_examples=400, deadline=None)
def test_a_line_that_is_scanned_is_what_the_reference_says(some):
    """Every field that a row has."""
    some = [GOOD, *(line.replace(b"\n", b"") for line in some)]
    found = scanned(b"\n".join(some) + b"\n")
    builder, other = RowBuilder(key=KEY), RowBuilder(key=KEY)
    builder.number(found, [])
    parse = LineParser(detect_plain_format([GOOD]))
    rows = found.rows
    assert len(rows) == len(some)
    for k in set(range(len(some))) - set(found.odd.tolist()):
        visit = parse(some[k])
        assert visit is not None
        (row,) = other.rows_of([visit])
        for name in ("t", "page", "parent", "ord", "status", "kind", "flags"):
            assert rows[name][k] == row[name], name
        assert builder.name(int(rows["source"][k])) == visit.visitor
        for name, texts in (("agent", "agents"), ("place", "places"), ("shape", "shapes"), ("lead", "shapes")):
            mine, its = getattr(builder, texts), getattr(other, texts)
            key = mine.keys[rows[name][k] - 2] if rows[name][k] else None
            assert key == (its.keys[row[name] - 2] if row[name] else None), name


def test_an_unclosed_quote_swallows_nothing(tmp_path):
    path = tmp_path / "log"
    broken = b'192.0.2.2 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 1 "no end'
    path.write_bytes(b"\n".join([GOOD, broken, GOOD, b"", GOOD]))
    found, read_counts = table_of(path)
    assert read_counts == (5, 3, 2)
    assert sum(found.values()) == 3
    assert table_of(path) == reference_of(path)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress, zstd.compress, lambda data: data])
def test_compressed_and_in_many_pieces(tmp_path, monkeypatch, pack):
    """Pieces end at lines, whatever the size; a line longer than any piece is one bad line."""
    monkeypatch.setattr("hedgerow.report.tables.ingest._PIECE", 1000)
    text = b"\n".join([*SAMPLES * 20, b"x" * 200_000, *SAMPLES * 5])
    path = tmp_path / "log"
    path.write_bytes(pack(text))
    found, read_counts = table_of(path)
    assert (found, read_counts) == reference_of(path)
    assert read_counts[0] == len(SAMPLES) * 25 + 1


def test_a_log_that_is_cut_short_while_it_is_read(tmp_path, monkeypatch):
    """Some who rotate logs copy and cut them: what is still there is read, and nothing ends for it."""
    monkeypatch.setattr("hedgerow.report.tables.ingest._PIECE", 1000)
    path = tmp_path / "log"
    path.write_bytes((GOOD + b"\n") * 3000)
    with LocalStore(memory=500_000_000) as store:
        read_counts = read([str(path)], store, RowBuilder(), lambda _: os.truncate(path, 10 * len(GOOD)))
    assert 5 < read_counts.parsed < 100
    assert read_counts.lines == read_counts.parsed + read_counts.bad


def test_virtual_hosts(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"e.org:443 " + line + b"\n" for line in SAMPLES) + b"- " + GOOD + b"\n")
    assert table_of(path) == reference_of(path)


def test_a_small_log_gives_the_same_rows_without_the_scanner(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_bytes(b"\n".join(SAMPLES * 20))
    found = []
    for small in (0, 1_000_000):
        monkeypatch.setattr(ingest, "SMALL", small)
        builder = RowBuilder(key=KEY)
        with LocalStore(memory=500_000_000) as store:
            counts = read([str(path)], store, builder)
            rows = [row for some in store.rows() for row in some[list(COLUMNS)].tolist()]
        found.append((rows, builder.others, builder.agents.texts, builder.shapes.keys, counts))
    assert found[0] == found[1]


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: data])
def test_several_logs_are_small_only_if_they_are_so_together(tmp_path, monkeypatch, pack):
    names = [str(tmp_path / f"{n}.log") for n in range(4)]
    for name in names:
        Path(name).write_bytes(pack((GOOD + b"\n") * 100))
    used = []
    monkeypatch.setattr(ingest, "_read_lines", lambda source, *_: used.append(source.path))
    monkeypatch.setattr(ingest, "SMALL", 250 * len(GOOD))
    with LocalStore(memory=500_000_000) as store:
        read(names, store, RowBuilder())
    # How much is in compressed files is known only once they are read.
    assert used == (names if pack is not gzip.compress else names[2:])


def test_virtual_hosts_are_counted_without_a_usual_port(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"".join(host + GOOD + b"\n" for host in (b"e.org:443 ", b"E.org ", b"e.org:8080 ")))
    builder = RowBuilder()
    with LocalStore(memory=500_000_000) as store:
        read([str(path)], store, builder)
    assert builder.hosts == {"e.org": 2, "e.org:8080": 1}


def test_more_different_texts_than_the_first_table_holds(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"".join(GOOD.replace(b"Mozilla", b"Agent%d" % n) + b"\n" for n in range(9000)))
    numbering = RowBuilder()
    with LocalStore(memory=500_000_000) as store:
        read([str(path)], store, numbering)
        assert len({agent for rows in store.rows() for agent in rows["agent"].tolist()}) == 9000
    assert numbering.agents.texts[2:4] == [b"Agent0/5.0", b"Agent1/5.0"]


@pytest.mark.parametrize("name", ["french-site_2009-03_2009-04", "honeynet-redhat_2004"])
def test_a_real_log_gives_what_the_reference_gives(name):
    path = LOGS / f"{name}.log.xz"
    if not path.exists():
        pytest.skip(f"{path} is not here: real logs are kept outside the repository")
    assert table_of(path) == reference_of(path)

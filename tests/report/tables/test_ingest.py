"""The compiled parser and the reference see the same in any log: every line is a row or bad, and rows say the same."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasets import LOGS
from hedgerow.logs.dialect import Dialect, parser
from hedgerow.logs.formats import LineParser, detect_plain_format
from hedgerow.logs.reader import LogReader
from hedgerow.report.tables import line_scanner as scanning
from hedgerow.report.tables.buffer_pool import BufferPool
from hedgerow.report.tables.ingest import read
from hedgerow.report.tables.line_scanner import scan
from hedgerow.report.tables.local_store import LocalStore
from hedgerow.report.tables.row_builder import RowBuilder
from hedgerow.report.tables.source_tables import Tables

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


def table_of(path: Path) -> tuple[Counter[tuple[str, int, int, int]], tuple[int, int, int]]:
    """Rows by source, second, status and kind; and lines, parsed, bad."""
    numbering = RowBuilder()
    with LocalStore(memory=500_000_000) as store:
        tally = read([str(path)], store, numbering)
        found = Counter(
            (numbering.name(int(s)), int(t) // 1_000_000, int(code), int(kind))
            for rows in store.rows()
            for s, t, code, kind in zip(rows["source"], rows["t"], rows["status"], rows["kind"], strict=True)
        )
    return found, (tally.lines, tally.parsed, tally.bad)


def reference_of(path: Path) -> tuple[Counter[tuple[str, int, int, int]], tuple[int, int, int]]:
    kinds = {"page": 0, "call": 1, "asset": 2, "prefetch": 3}
    reader = LogReader([str(path)])
    found = Counter((v.visitor, int(v.at // 1), v.status, kinds[v.kind]) for v in reader)
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


def test_very_many_lines_are_scanned_some_at_a_time(tmp_path, monkeypatch):
    """A log may be of hardly anything but line ends, each of which is a line."""
    path = tmp_path / "log"
    path.write_bytes(GOOD + b"\n" * 40 + b"\n".join(SAMPLES * 5))
    whole = table_of(path)
    taken = []
    take = BufferPool.take
    monkeypatch.setattr(BufferPool, "take", lambda self, size: taken.append(size) or take(self, size))
    monkeypatch.setattr(scanning, "_MOST_LINES", 7)
    assert table_of(path) == whole == reference_of(path)
    assert len(taken) > 20
    assert max(taken) <= max(7 * 85, path.stat().st_size)


@given(st.lists(lines, min_size=1, max_size=8), st.sampled_from(["address", "network", "account"]))
@settings(max_examples=100, deadline=None)
def test_sources_of_scanned_lines_are_those_of_the_reference(some, by):
    data = np.frombuffer(b"\n".join([GOOD, *(line.replace(b"\n", b"") for line in some)]) + b"\n", np.uint8)
    scanned = scan(data, vhost=False, shelf=BufferPool())
    numbering, other = RowBuilder(by), RowBuilder(by)
    rows = numbering.rows_of(scanned, data)
    parse = parser(detect_plain_format([GOOD]), Dialect(by=by))
    for k in np.flatnonzero(~scanned.odd).tolist():
        visit = parse(data[scanned.starts[k] : scanned.ends[k]].tobytes())
        assert visit is not None
        assert numbering.name(int(rows["source"][k])) == other.name(other.source_of(visit))


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
    """Every field that a row has, and that the compiled parser takes on itself."""
    some = [line.replace(b"\n", b"") for line in some]
    data = np.frombuffer(b"\n".join([GOOD, *some]) + b"\n", np.uint8)
    form = detect_plain_format([GOOD])
    scanned = scan(data, vhost=False, shelf=BufferPool())
    numbering, other = RowBuilder(), RowBuilder()
    rows = numbering.rows_of(scanned, data)
    parse = LineParser(form)
    assert len(scanned.odd) == 1 + len(some)
    for k, line in enumerate([GOOD, *some]):
        if scanned.odd[k]:
            continue
        visit = parse(line)
        assert visit is not None
        row = other.rows_of_visits([visit])
        for name in ("t", "page", "parent", "ord", "status", "kind"):
            assert rows[name][k] == row[name][0], name
        assert rows["flags"][k] == row["flags"][0]
        assert numbering.name(int(rows["source"][k])) == visit.visitor
        assert numbering.agents.texts[rows["agent"][k]] == other.agents.texts[row["agent"][0]]
        assert numbering.places.texts[rows["place"][k]] == other.places.texts[row["place"][0]]
        assert bool(rows["lead"][k]) == bool(row["lead"][0])


def test_an_unclosed_quote_swallows_nothing(tmp_path):
    path = tmp_path / "log"
    broken = b'192.0.2.2 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 1 "no end'
    path.write_bytes(b"\n".join([GOOD, broken, GOOD, b"", GOOD]))
    found, tally = table_of(path)
    assert tally == (5, 3, 2)
    assert sum(found.values()) == 3
    assert table_of(path) == reference_of(path)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress, zstandard.compress, lambda data: data])
def test_compressed_and_in_many_pieces(tmp_path, monkeypatch, pack):
    """Pieces end at lines, whatever the size; a line longer than any piece is one bad line."""
    monkeypatch.setattr("hedgerow.report.tables.ingest._PIECE", 1000)
    text = b"\n".join([*SAMPLES * 20, b"x" * 200_000, *SAMPLES * 5])
    path = tmp_path / "log"
    path.write_bytes(pack(text))
    found, tally = table_of(path)
    assert (found, tally) == reference_of(path)
    assert tally[0] == len(SAMPLES) * 25 + 1


def test_a_log_that_is_cut_short_while_it_is_read(tmp_path, monkeypatch):
    """Some who rotate logs copy and cut them: what is still there is read, and nothing ends for it."""
    monkeypatch.setattr("hedgerow.report.tables.ingest._PIECE", 1000)
    path = tmp_path / "log"
    path.write_bytes((GOOD + b"\n") * 3000)
    with LocalStore(memory=500_000_000) as store:
        tally = read([str(path)], store, RowBuilder(), lambda _: os.truncate(path, 10 * len(GOOD)))
    assert 5 < tally.parsed < 100
    assert tally.lines == tally.parsed + tally.bad


def test_virtual_hosts(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"e.org:443 " + line + b"\n" for line in SAMPLES) + b"- " + GOOD + b"\n")
    assert table_of(path) == reference_of(path)


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

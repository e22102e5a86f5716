"""A log that is read in parts, each numbered alone, becomes the rows that reading it in one go gives."""

from __future__ import annotations

import gzip
import io
import sys

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from hedgerow.errors import LogError
from hedgerow.logs.dialect import DEFAULT_DIALECT, Dialect
from hedgerow.logs.reader import STANDARD_INPUT, ReadCounts
from hedgerow.report.tables import ingest as reading
from hedgerow.report.tables.row_builder import RowBuilder
from hedgerow.report.tables.rows import COLUMNS, ODD
from hedgerow.report.tables.spark_ingest import Meaning, join, parts_of, read_parts, renumber, unsigned
from hedgerow.report.tables.url_features import DigestKey


class Kept:
    """A store that only keeps what it is given."""

    def __init__(self):
        self.rows = []

    def add(self, rows):
        self.rows.append(rows[rows["kind"] != ODD])


def lines(first, last):
    """New sources, user agents, hosts and shapes come up all along; some lines are odd, and some bad."""
    for k in range(first, last):
        client = f"10.0.{k % 7}.{k % 250}" if k % 5 else f"2001:db8:{k // 50:x}::{k % 9:x}"
        agent = rf"Browser \"{k // 60}\"" if k % 11 == 0 else f"Browser {k // 40}"
        user = f"user{k // 70}" if k % 3 else "-"
        stamp = f"{k // 3600:02}:{k // 60 % 60:02}:{k % 60:02}"
        yield (
            f'{client} - {user} [10/Oct/2020:{stamp} +0000] "GET /part{k // 90}/{k % 60}.html HTTP/1.1" 200 10 '
            f'"http://site{k // 100}.example/list?page={k % 30}" "{agent}"'
        )
        if k % 100 == 0:
            yield f"no line {k}"


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_PIECE", 8000)
    plain, packed = tmp_path / "plain.log", tmp_path / "packed.log.gz"
    plain.write_text("\n".join(lines(0, 400)) + "\n")
    packed.write_bytes(gzip.compress("\n".join(lines(400, 600)).encode()))
    return [str(packed), str(plain)]


@pytest.mark.parametrize("by", ["visitor", "network", "account"])
def test_parts_give_the_same_rows_numbers_and_counts(logs, by):
    dialect = Dialect(by=by)
    key = DigestKey()
    kept, whole = Kept(), RowBuilder(by, key)
    read_counts = reading.read(logs, kept, whole, dialect=dialect)

    numbering, told = RowBuilder(by, key), ReadCounts()
    parts = parts_of(logs, dialect, told)
    assert len(parts) > 5
    meanings, batches = [], []
    # Workers are done in any order.
    for part in reversed(parts):
        for batch in read_parts(dialect, key.secret, [pa.RecordBatch.from_pylist([msgspec.to_builtins(part)])]):
            meaning = batch.column("meaning")[0].as_py()
            if meaning is None:
                batches.append(batch.drop_columns(["meaning"]))
            else:
                meanings.append(msgspec.msgpack.decode(meaning, type=Meaning))
    rows = pa.Table.from_batches(renumber(join(meanings, numbering, told), batches)).sort_by("number")

    for name in COLUMNS:
        expected = np.concatenate([some[name] for some in kept.rows])
        np.testing.assert_array_equal(unsigned(name, rows.column(name).to_numpy()), expected, err_msg=name)
    for texts in ("agents", "places", "shapes"):
        assert getattr(numbering, texts).texts == getattr(whole, texts).texts
    assert numbering.others == whole.others
    assert told == read_counts


def test_what_no_worker_can_read_is_said(monkeypatch):
    data = "\n".join(lines(0, 2)).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
    with pytest.raises(LogError, match="write it to a file"):
        parts_of([STANDARD_INPUT], DEFAULT_DIALECT, ReadCounts())

"""SQLite files that several processes share."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing

import pytest

from hedgerow.errors import StoreError
from hedgerow.sqlite_file import open_database, transaction

SCHEMA = "CREATE TABLE IF NOT EXISTS t (n INTEGER NOT NULL)"


def test_a_new_file_is_readable_by_its_owner_only(tmp_path):
    path = tmp_path / "deep" / "down" / "file.sqlite"
    with closing(open_database(path, SCHEMA, mode=0o700)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_that_is_no_database_is_named_in_the_error(tmp_path):
    path = tmp_path / "file"
    path.write_text("not a database, but long enough to be one" * 100)
    with pytest.raises(StoreError, match=f"the thing cannot be in {path}"):
        open_database(path, SCHEMA, name="the thing")


def test_a_transaction_is_undone_if_its_block_raises(tmp_path):
    with closing(open_database(tmp_path / "file.sqlite", SCHEMA)) as connection:
        with transaction(connection):
            connection.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(sqlite3.IntegrityError), transaction(connection):
            connection.executemany("INSERT INTO t VALUES (?)", [(2,), (None,)])
        assert connection.execute("SELECT n FROM t").fetchall() == [(1,)]


def test_a_transaction_excludes_other_writers(tmp_path):
    path = tmp_path / "file.sqlite"
    with (
        closing(open_database(path, SCHEMA)) as one,
        closing(open_database(path, SCHEMA, timeout=0.01)) as other,
        transaction(one),
        pytest.raises(sqlite3.OperationalError, match="locked"),
        transaction(other),
    ):
        pass

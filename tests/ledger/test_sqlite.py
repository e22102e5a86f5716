"""The ledger in SQLite: the conformance tests, and failures of the disk."""

from __future__ import annotations

import contextlib
import logging
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hedgerow.core.decision import PASS, Decision, Evidence
from hedgerow.core.ledger import Entry, NoLedger
from hedgerow.errors import StoreError
from hedgerow.ledger.sqlite import SqliteLedger, migrate
from hedgerow.logs.reader import LogReader

from .ledger_conformance import LedgerConformance, visit

NAME = "ledger.sqlite"


class TestSqliteLedger(LedgerConformance):
    def open(self, where, **options):
        return SqliteLedger(where / NAME, **options)

    def name(self, where):
        return str(where / NAME)

    def shared(self, where):
        return SqliteLedger, (where / NAME,)


def rows(path: Path) -> list[tuple]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT action, code, status, ref, evidence FROM visits ORDER BY id").fetchall()


def wait_until(met) -> None:
    deadline = time.monotonic() + 60
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_decisions_are_written_too(tmp_path):
    ledger = SqliteLedger(tmp_path / NAME)
    evidence = Evidence("trap", "trap", 1.0, "Followed a link.")
    ledger.append(Entry(visit(), Decision("refuse", (evidence,), 5.0), 403, "ABCD-1234"))
    ledger.append(Entry(visit(), PASS, 200))
    ledger.close()
    (action, code, status, ref, text), passed = rows(tmp_path / NAME)
    assert (action, code, status, ref) == ("refuse", "trap", 403, "ABCD-1234")
    assert "Followed a link." in text
    assert passed == ("pass", "", 200, "", "[]")


def test_rows_are_written_while_it_is_open(tmp_path):
    ledger = SqliteLedger(tmp_path / NAME)
    for n in range(1_000):
        ledger.append(Entry(visit(n), PASS, 200))
    wait_until(lambda: ledger.written == 1_000)
    assert len(rows(tmp_path / NAME)) == 1_000
    ledger.close()


def test_only_the_owner_can_read_a_ledger(tmp_path):
    SqliteLedger(tmp_path / "a" / NAME).close()
    assert stat.S_IMODE((tmp_path / "a" / NAME).stat().st_mode) == 0o600


@pytest.mark.parametrize("broken", ["directory", "no database", "no folder"])
def test_a_ledger_that_cannot_be_opened_says_so_in_one_line(tmp_path, broken):
    path = tmp_path / NAME
    if broken == "directory":
        path.mkdir()
    elif broken == "no database":
        path = tmp_path / "passwd"
        path.write_bytes(b"This is no database. " * 100)
    else:
        (tmp_path / "file").write_text("")
        path = tmp_path / "file" / NAME
    with pytest.raises(StoreError, match=r"cannot open the ledger|the ledger cannot be in") as error:
        SqliteLedger(path)
    assert "\n" not in str(error.value)


def test_a_failing_disk_loses_entries_but_not_the_writer(tmp_path, caplog):
    """Dropping the table simulates a failing disk: entries are lost, one line is logged, and writing recovers."""
    ledger = SqliteLedger(tmp_path / NAME)
    with contextlib.closing(sqlite3.connect(tmp_path / NAME)) as connection:
        connection.execute("ALTER TABLE visits RENAME TO taken")
        with caplog.at_level(logging.ERROR):
            for n in range(3):
                ledger.append(Entry(visit(n), PASS, 200))
                ledger._wake.set()
                wait_until(lambda n=n: ledger.lost == n + 1)
        assert len(caplog.records) == 1
        connection.execute("ALTER TABLE taken RENAME TO visits")
    ledger.append(Entry(visit(7), PASS, 200))
    ledger.close()
    assert ledger.lost == 3
    assert ledger.written == 1
    assert [v.target for v in LogReader([str(tmp_path / NAME)])] == ["/7"]


def test_an_entry_that_cannot_be_written_does_not_kill_the_writer(tmp_path):
    ledger = SqliteLedger(tmp_path / NAME)
    ledger.append(Entry(visit(0), PASS, 10**30))
    ledger._wake.set()
    wait_until(lambda: ledger.lost == 1)
    ledger.append(Entry(visit(1), PASS, 200))
    ledger.close()
    assert ledger.written == 1


def test_a_removed_directory_does_not_kill_the_writer(tmp_path):
    ledger = SqliteLedger(tmp_path / "a" / NAME)
    shutil.rmtree(tmp_path / "a")
    for n in range(1_500):
        ledger.append(Entry(visit(n), PASS, 200))
    wait_until(lambda: ledger.written + ledger.lost == 1_500)
    assert ledger._thread.is_alive()
    ledger.close()


def test_a_locked_ledger_waits(tmp_path):
    ledger = SqliteLedger(tmp_path / NAME)
    with contextlib.closing(sqlite3.connect(tmp_path / NAME, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        ledger.append(Entry(visit(), PASS, 200))
        ledger._wake.set()
        time.sleep(0.1)
        assert ledger.written == ledger.lost == 0
        connection.execute("COMMIT")
    ledger.close()
    assert ledger.written == 1


def test_pending_entries_are_written_at_exit(tmp_path):
    program = (
        "import sys; from pathlib import Path\n"
        "from hedgerow.ledger.sqlite import SqliteLedger; from hedgerow.core.ledger import Entry\n"
        "from hedgerow.core.decision import PASS; from hedgerow.core.visit import Visit\n"
        f"ledger = SqliteLedger(Path({str(tmp_path / NAME)!r}))\n"
        "ledger.append(Entry(Visit(1.0, 'a', 'a', 'a', 'GET', '/'), PASS, 200))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
    assert len(rows(tmp_path / NAME)) == 1


def test_no_ledger_stores_nothing():
    ledger = NoLedger()
    ledger.append(Entry(visit(), PASS, 200))
    ledger.close()
    assert ledger.lost == 0


# ---- Ledgers of older versions, as they were made

_START_OF_ALL = (
    "id INTEGER PRIMARY KEY, at REAL NOT NULL, visitor TEXT NOT NULL, address TEXT NOT NULL, account TEXT NOT NULL, "
    "method TEXT NOT NULL, host TEXT NOT NULL, target TEXT NOT NULL, kind TEXT NOT NULL, referrer TEXT NOT NULL, "
    "user_agent TEXT NOT NULL, origin TEXT NOT NULL, prefetch INTEGER NOT NULL, bot TEXT NOT NULL, "
)
_END_OF_ALL = (
    "status INTEGER NOT NULL, action TEXT NOT NULL, code TEXT NOT NULL, evidence TEXT NOT NULL, ref TEXT NOT NULL"
)
_MARKED = (
    "marker_kind TEXT, minted_for BLOB, parent BLOB, marker_target TEXT, asked TEXT NOT NULL, "
    "tampered INTEGER NOT NULL, linked BLOB NOT NULL, "
)
_OLD = {
    "traps alone": (
        "marker_kind TEXT, minted_for BLOB, page BLOB, marker_index INTEGER, ",
        "'trap', x'010203040506', x'0a0b0c0d0e0f', 3, ",
    ),
    "marked links": (
        _MARKED,
        "'trap', x'010203040506', x'0a0b0c0d0e0f', '', '', 0, x'', ",
    ),
}


@pytest.mark.parametrize("version", _OLD)
def test_a_ledger_of_an_older_version_is_upgraded(tmp_path, version):
    columns, values = _OLD[version]
    with contextlib.closing(sqlite3.connect(tmp_path / NAME)) as connection:
        connection.executescript(
            f"CREATE TABLE visits ({_START_OF_ALL}{columns}{_END_OF_ALL}); "
            "CREATE INDEX visits_at ON visits (at); CREATE INDEX visits_ref ON visits (ref) WHERE ref <> ''; "
            "INSERT INTO visits VALUES (7, 1800000000.0, 'a', '192.0.2.1', '', 'GET', 'h', '/old', 'page', '', '', "
            f"'none', 0, '', {values} 403, 'refuse', 'trap', '[]', 'ABCD-1234'); PRAGMA user_version=1;"
        )
    assert migrate(tmp_path / NAME) == (1, 4)
    assert migrate(tmp_path / NAME) == (4, 4)
    ledger = SqliteLedger(tmp_path / NAME)
    ledger.append(Entry(visit(1), PASS, 200))
    ledger.close()
    old, new = LogReader([str(tmp_path / NAME)])
    assert (old.target, old.status, old.marker.kind, old.marker.parent.hex()) == ("/old", 403, "trap", "0a0b0c0d0e0f")
    assert new.target == "/1"


def test_a_ledger_of_a_newer_version_is_rejected(tmp_path):
    SqliteLedger(tmp_path / NAME).close()
    with contextlib.closing(sqlite3.connect(tmp_path / NAME)) as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(StoreError, match="newer Hedgerow"):
        SqliteLedger(tmp_path / NAME)
    with pytest.raises(StoreError, match="newer Hedgerow"):
        migrate(tmp_path / NAME)

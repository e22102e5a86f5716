"""The ledger in PostgreSQL: what every ledger must do, the days it is made of, and what becomes of rows without it."""

from __future__ import annotations

import gc
import logging
import re
import signal
import sys
import time
from contextlib import closing
from datetime import UTC, datetime

import msgspec
import psycopg
import pytest

from hedgerow.cli.main import main
from hedgerow.core.decision import PASS, Decision, Evidence
from hedgerow.core.ledger import Entry
from hedgerow.errors import LogError, ModelError, StoreError
from hedgerow.lab.train import log_samples as sitelogs
from hedgerow.ledger import postgresql as module
from hedgerow.ledger.postgresql import MIGRATIONS, PostgresLedger, migrate
from hedgerow.ledger.postgresql_reader import PostgresLedgerReader
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.lists.follower import Follower, ListsCopy
from hedgerow.lists.model import Lists
from hedgerow.lists.postgresql_store import PostgresLists
from hedgerow.logs.ledger_rows import LedgerFollower
from hedgerow.logs.reader import LogReader
from ledger.ledger_conformance import START, LedgerConformance, visit
from lists.lists_conformance import ListsConformance, entry, found

from .databases import PATIENCE, PostgresServer

_urls: dict[str, str] = {}


@pytest.fixture(scope="module")
def server():
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def url(server):
    made = server.new_database()
    migrate(made)
    return made


def visits(url: str) -> list:
    return list(LogReader([url]))


def wait_until(met) -> None:
    end = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < end
        time.sleep(0.02)


class TestPostgresLedger(LedgerConformance):
    @pytest.fixture(autouse=True)
    def _server(self, server):
        TestPostgresLedger.server = server

    def open(self, where, **options):
        if str(where) not in _urls:
            _urls[str(where)] = self.server.new_database()
            migrate(_urls[str(where)])
        return PostgresLedger(_urls[str(where)], where / "spool", **options)

    def name(self, where):
        return _urls[str(where)]

    def shared(self, where):
        return PostgresLedger, (_urls[str(where)], where / "spool")


class TestPostgresLists(ListsConformance):
    @pytest.fixture(autouse=True)
    def _server(self, server):
        TestPostgresLists.server = server

    def store(self, where, clock):
        if str(where) not in _urls:
            _urls[str(where)] = self.server.new_database()
            migrate(_urls[str(where)])
        return PostgresLists(_urls[str(where)], clock=clock)


def test_lists_stay_as_they_are_while_it_is_away_and_go_on(server, url, tmp_path):
    store, copy = PostgresLists(url), ListsCopy(tmp_path / "copy.jsonl", url)
    store.add(entry("192.0.2.3"))
    with closing(Follower(store, Lists(), copy=copy)) as early:
        early.start()
        wait_until(lambda: copy.written_at > 0)
    store.remove("black", "192.0.2.3")
    store.add(entry())
    server.stop()
    try:
        late = Follower(store, Lists(), copy=copy)
        late.start()
        assert found(late.lists, "192.0.2.3") == "black 192.0.2.3"
        with pytest.raises(StoreError, match="cannot reach PostgreSQL"):
            store.add(entry("192.0.2.2"))
    finally:
        server.start()
    wait_until(lambda: found(late.lists) == "black 192.0.2.1")
    assert found(late.lists, "192.0.2.3") == ""
    server.stop()
    try:
        with pytest.raises(StoreError, match="PostgreSQL"):
            late.refresh()
        assert found(late.lists) == "black 192.0.2.1"
    finally:
        server.start()
    store.remove("black", "192.0.2.1")
    wait_until(lambda: found(late.lists) == "")
    late.close()


def test_a_server_that_ends_a_connection_leaves_no_cursor_open(url):
    store = PostgresLists(url)
    store.put(entry(f"192.0.{n // 250}.{n % 250}") for n in range(900))
    with closing(store.follow()) as feed, psycopg.connect(url, autocommit=True) as other:
        with pytest.raises(StoreError, match="terminat"), feed.since(0) as changes:  # noqa: PT012 - fails at its end
            next(changes.rows)
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hedgerow'")
            changes.rows.close()
        gc.collect()  # A cursor that is still open would warn, which is an error.


def partitions(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        query = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'visits'::regclass ORDER BY 1"
        return [name for (name,) in connection.execute(query)]


def test_each_day_is_a_table_and_old_ones_are_dropped_whole(url, tmp_path):
    ledger = PostgresLedger(url, tmp_path, keep_days=2.0)
    today = time.time() // 86_400 * 86_400
    times = [today - 86_400 * day for day in (4, 3, 2, 1, 0)]
    for at in times:
        ledger.append(Entry(visit(at - START), PASS, 200))
    ledger.close()
    assert partitions(url) == [f"visits_{datetime.fromtimestamp(at, UTC):%Y%m%d}" for at in times[2:]]
    assert len(visits(url)) == 3


def test_decisions_are_written_too(url, tmp_path):
    ledger = PostgresLedger(url, tmp_path)
    evidence = Evidence("trap", "trap", 1.0, "Followed a link.")
    ledger.append(Entry(visit(), Decision("refuse", (evidence,), 5.0), 403, "ABCD-1234"))
    ledger.close()
    with closing(PostgresLedgerReader(url)) as reading:
        action, code, status, text = reading.find("ABCD-1234", ["action", "code", "status", "evidence"])
    assert (action, code, status) == ("refuse", "trap", 403)
    assert msgspec.json.decode(text, type=list[Evidence]) == [evidence]


def test_a_row_that_cannot_be_written_takes_no_other_along(url, tmp_path):
    ledger = PostgresLedger(url, tmp_path)
    for n in range(5):
        ledger.append(Entry(visit(n), PASS, 10**12 if n == 2 else 200))
    ledger.close()
    assert [one.target for one in visits(url)] == ["/0", "/1", "/3", "/4"]
    assert ledger.lost == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_while_it_is_away_rows_wait_on_disk_and_none_is_lost_or_written_twice(server, url, tmp_path, number, caplog):
    ledger = PostgresLedger(url, tmp_path / "spool")
    ledger.append(Entry(visit(0), PASS, 200))
    wait_until(lambda: ledger.written == 1)
    server.stop(number)
    try:
        with caplog.at_level(logging.WARNING):
            for n in range(1, 2_001):
                ledger.append(Entry(visit(n), PASS, 200))
            wait_until(lambda: ledger.spool.size and not ledger._pending)
    finally:
        server.start()
    ledger.append(Entry(visit(2_001), PASS, 200))
    wait_until(lambda: ledger.written == 2_002)
    ledger.close()
    assert [one.target for one in visits(url)] == [f"/{n}" for n in range(2_002)]
    assert ledger.lost == 0
    assert not ledger.spool
    assert "rows wait on disk" in caplog.text


def test_what_was_on_disk_when_the_program_ended_is_written_at_the_next_start(server, url, tmp_path):
    server.stop()
    try:
        ledger = PostgresLedger(url, tmp_path / "spool")
        ledger.append(Entry(visit(0), PASS, 200))
        ledger.close()
        assert ledger.spool
    finally:
        server.start()
    ledger = PostgresLedger(url, tmp_path / "spool")
    wait_until(lambda: ledger.written == 1)
    ledger.close()
    assert [one.target for one in visits(url)] == ["/0"]


def test_a_spool_is_bounded_and_what_is_on_top_is_counted(server, url, tmp_path):
    server.stop()
    try:
        ledger = PostgresLedger(url, tmp_path / "spool", spool=20_000)
        for n in range(3_000):
            ledger.append(Entry(visit(n), PASS, 200))
        ledger.close()
    finally:
        server.start()
    assert ledger.spool.size <= 20_000
    # A writer that is slow to begin has them all in one batch, which does not fit.
    kept = sum(len(rows) for _, rows, _ in ledger.spool.batches())
    assert ledger.lost == 3_000 - kept
    assert ledger.lost > 1_000
    assert ledger.failing


def test_a_batch_that_was_written_and_not_removed_is_in_the_ledger_once(url, tmp_path):
    """The answer to a commit may get lost: then the batch is on disk, and in the ledger as well."""
    ledger = PostgresLedger(url, tmp_path / "spool")
    rows = [module.row_of(Entry(visit(n), PASS, 200)) for n in range(3)]
    assert ledger._write("name", rows)
    assert ledger.spool.put("name", rows)
    wait_until(lambda: not ledger.spool)
    ledger.close()
    assert len(visits(url)) == 3


# ---- Reading


def test_who_reads_along_misses_no_row_whoever_finishes_first(url, tmp_path):
    """Numbers are given before rows can be seen: one gate's may be there before another's lower ones."""
    slow, fast = (PostgresLedger(url, tmp_path / name) for name in ("slow", "fast"))
    fast.append(Entry(visit(0), PASS, 200))
    fast.close()
    rows = [module._without_nul(module.row_of(Entry(visit(n), PASS, 200))) for n in (1, 2)]
    with closing(PostgresLedgerReader(url)) as reading, psycopg.connect(url) as one, psycopg.connect(url) as other:
        along = LedgerFollower(reading, 0)
        assert [seen.target for seen, _ in along.read()] == ["/0"]
        for connection, row in ((one, rows[0]), (other, rows[1])):
            connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (module.WRITE_LOCK,))
            with connection.cursor().copy(module._COPY) as copy:
                copy.write_row(row)
        other.commit()
        assert along.read() == []
        one.commit()
        assert [seen.target for seen, _ in along.read()] == ["/1", "/2"]
    slow.close()


def test_a_reading_goes_on_when_it_is_back(server, url):
    with closing(PostgresLedgerReader(url)) as reading:
        server.stop()
        try:
            with pytest.raises(StoreError, match="cannot read the ledger in PostgreSQL"):
                reading.newest()
        finally:
            server.start()
        assert reading.newest() == 0


def test_replay_report_and_train_read_it_like_a_file(url, tmp_path, monkeypatch, capsys):
    """The same visits in both engines: the same answers to the letter."""
    from_file = tmp_path / "ledger.sqlite"
    ledgers = [PostgresLedger(url, tmp_path / "spool"), SqliteLedger(from_file)]
    for n in range(300):
        # A crawler of one address, and others that come now and then.
        who = f"192.0.2.{n % 7 if n % 2 else 1}"
        seen = visit(n, address=who, visitor=who, prefix=who, kind="page", host="example.org", target=f"/{n % 50}")
        for ledger in ledgers:
            ledger.append(Entry(seen, PASS, 200))
    for ledger in ledgers:
        ledger.close()
    monkeypatch.chdir(tmp_path)

    def said(*words: str) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["hedgerow", *words])
        with pytest.raises(SystemExit):
            main()
        out, err = capsys.readouterr()
        return re.sub(r'"seconds": [^,]+|"lines_per_second": [^,]+', "", out), err

    for words in (("replay", "--json", "-"), ("report", "--json", "-")):
        first, second = said(*words, url), said(*words, str(from_file))
        assert first == second
        assert '"192.0.2.1"' in first[0], first[1]
    gathered = []

    def stop_there(found, **_):
        gathered.append(found)
        raise ModelError("enough")

    monkeypatch.setattr(sitelogs, "train_for_site", stop_there)
    for ledger in (url, str(from_file)):
        assert said("train", ledger, "--recipe", "window")[1].endswith("hedgerow: enough\n")
    assert gathered[0] == gathered[1]
    assert gathered[0].kept_out + gathered[0].doubtful == 1


def test_an_empty_database_is_one_line(server):
    with pytest.raises(LogError, match="run hedgerow migrate") as error:
        LogReader([server.new_database()])
    assert "\n" not in str(error.value)


# ---- Migrations


def version(url: str) -> int:
    with psycopg.connect(url) as connection:
        return module.version_of(connection)


@pytest.mark.parametrize("first", range(len(MIGRATIONS) + 1))
def test_every_version_leads_to_the_last_and_keeps_its_rows(server, tmp_path, first, monkeypatch):
    url = server.new_database()
    with monkeypatch.context() as patched:
        patched.setattr(module, "MIGRATIONS", MIGRATIONS[:first])
        migrate(url)
    assert version(url) == first
    if first:
        with psycopg.connect(url) as connection:
            day = START // 86_400 * 86_400
            connection.execute(
                f"CREATE TABLE visits_20270115 PARTITION OF visits FOR VALUES FROM ({day}) TO ({day + 86_400})"
            )
            row = dict(zip(module.COLUMNS, module.row_of(Entry(visit(1), PASS, 200)), strict=True))
            if first < module.OBSERVED_SINCE:
                del row["observed"]
            values = ", ".join(["%s"] * len(row))
            connection.execute(f"INSERT INTO visits ({', '.join(row)}) VALUES ({values})", list(row.values()))
        # An older ledger can be read before it is migrated.
        assert [one.target for one in visits(url)] == ["/1"]
    if first < len(MIGRATIONS):
        with pytest.raises(StoreError, match="hedgerow migrate"):
            PostgresLedger(url, tmp_path)
    assert migrate(url) == (first, len(MIGRATIONS))
    assert migrate(url) == (len(MIGRATIONS), len(MIGRATIONS))
    ledger = PostgresLedger(url, tmp_path)
    ledger.append(Entry(visit(2), PASS, 200))
    ledger.close()
    assert [one.target for one in visits(url)] == (["/1"] if first else []) + ["/2"]


def test_what_a_newer_hedgerow_has_made_is_left_alone(url, tmp_path):
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE hedgerow_schema SET version = 99")
    with pytest.raises(StoreError, match="newer Hedgerow"):
        PostgresLedger(url, tmp_path)
    with pytest.raises(StoreError, match="newer Hedgerow"):
        migrate(url)


def test_nobody_there_is_one_line_without_the_password():
    with pytest.raises(StoreError, match="cannot reach PostgreSQL") as error:
        migrate("postgresql://gate:secret@127.0.0.1:1/nowhere")
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)

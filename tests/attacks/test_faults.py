"""Corrupt files and wrong clocks: the site starts, keeps running, and nobody stays blocked for it."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from driving import START, Client, settings, traps_in
from hedgerow.challenge.clearance import Clearances
from hedgerow.cli.main import main
from hedgerow.core.decision import PASS, Block, Evidence, ScoreUpdate
from hedgerow.core.ledger import Entry
from hedgerow.core.visit import Visit
from hedgerow.errors import StoreError
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.lists.model import Listing
from hedgerow.lists.sqlite_store import SqliteLists
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.policy.score import score_at, updated_score
from hedgerow.state.memory.state import MemoryState
from hedgerow.state.sqlite.journal import SqliteJournal, connect, read
from hedgerow.state.used_challenges import SqliteUsedChallenges
from hedgerow.web.app import Site
from hedgerow.web.stores import build_list_store

DAYS = 86_400.0
WEEK = 7 * DAYS
TEXT = "directory = '{}'\n[watch]\nenabled = false\n"
EVIDENCE = Evidence("trap", "trap", 1.0, "Followed a hidden link.")


def entry(number: int, at: float = START) -> Entry:
    return Entry(Visit(at + number, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", f"/{number}"), PASS, 200)


def garbage(path: Path) -> None:
    path.write_bytes(b"\xde\xad\xbe\xef" * 5_000)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: max(100, path.stat().st_size // 3)])


def overwritten(path: Path) -> None:
    """Its header stays, and everything after it is gone."""
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\xff" * (len(data) - 100))


DAMAGES = [garbage, truncated, overwritten]


@pytest.fixture
def folder(tmp_path) -> Path:
    """The directory of a site that has been running: a block, a list, a used challenge, visits, limits."""
    own = settings(TEXT.format(tmp_path))
    site = Site(own)
    site.stores.state.commit(Block("192.0.2.1", "192.0.2.1", time.time(), time.time() + 3600, "refuse", EVIDENCE))
    site.stores.used_challenges.mark_used(b"one", time.time() + 60, time.time())
    for number in range(200):
        site.stores.ledger.append(entry(number))
    build_list_store(own).put([Listing("black", f"192.0.2.{n}", "", "", 0.0, 0.0) for n in range(100)])
    site.close()
    (tmp_path / "limits.json").write_text('{"k1": 30, "k2": 400}')
    (tmp_path / "models").mkdir()
    for name in ("paths", "windows"):
        (tmp_path / "models" / f"{name}.json").write_text("{}")
    (tmp_path / "ranges.json").write_text("{}")
    for path in tmp_path.glob("*.sqlite"):
        # Everything in the file itself, as after some time.
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return tmp_path


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["state.sqlite", "ledger.sqlite", "lists.sqlite", "challenges.sqlite"])
def test_a_corrupt_database_is_set_aside_and_the_site_goes_on(folder, caplog, name, damage):
    """Our own: with a corrupt state, ledger or lists the site did not start."""
    damage(folder / name)
    bad = (folder / name).read_bytes()
    site = Site(settings(TEXT.format(folder)))
    try:
        now = time.time()
        site.stores.state.commit(Block("192.0.2.9", "192.0.2.9", now, now + 60, "refuse", EVIDENCE))
        for number in range(100):
            site.stores.ledger.append(entry(number))
        assert site.stores.used_challenges.mark_used(b"two", now + 60, now)
        assert not site.stores.used_challenges.mark_used(b"two", now + 60, now)
    finally:
        site.close()
    aside = [path for path in folder.iterdir() if path.name.startswith(f"{name}.corrupt-") and path.suffix != ".wal"]
    assert [path.read_bytes() for path in aside if not path.name.endswith(("-wal", "-shm"))] == [bad]
    said = [record for record in caplog.records if "is corrupt" in record.getMessage()]
    assert len(said) == 1
    assert str(folder / name) in said[0].getMessage()
    # The next start finds files that are sound.
    caplog.clear()
    Site(settings(TEXT.format(folder))).close()
    assert not caplog.records


@pytest.mark.parametrize("damage", [garbage, lambda path: path.write_text('{"k1": "x"}')], ids=["garbage", "json"])
def test_a_corrupt_limits_file_is_set_aside(folder, caplog, damage):
    """Our own: it was ignored without a word, and nobody knew why the limits had changed."""
    damage(folder / "limits.json")
    Site(settings(TEXT.format(folder))).close()
    assert list(folder.glob("limits.json.corrupt-*"))
    assert sum("is corrupt" in record.getMessage() for record in caplog.records) == 1


def test_a_corrupt_file_of_bots_addresses_is_set_aside(folder):
    """Our own: a damaged ranges.json stopped the start."""
    garbage(folder / "ranges.json")
    Site(settings(TEXT.format(folder))).close()
    assert list(folder.glob("ranges.json.corrupt-*"))


def test_a_corrupt_model_of_the_site_is_replaced_by_the_shipped_one(folder):
    """Our own: a damaged model in the state directory stopped the start."""
    for path in (folder / "models").iterdir():
        garbage(path)
    Site(settings(f"directory = '{folder}'\n")).close()
    assert len(list((folder / "models").glob("*.json.corrupt-*"))) == 2


def test_a_corrupt_file_of_network_operators_does_not_stop_the_site(folder, caplog):
    """Our own: the file is replaced by a download every week, and a broken one stopped the next start."""
    garbage(folder / "asn.mmdb")
    site = Site(settings(TEXT.format(folder) + f"[lists]\nasn_file = '{folder}/asn.mmdb'\n"))
    site.close()
    assert "AS64496" in caplog.text
    assert len(site.lists.sizes)


def test_damaged_rows_of_a_sound_database_are_skipped(folder, caplog):
    """Our own: one row that is no JSON stopped the start."""
    with contextlib.closing(sqlite3.connect(folder / "state.sqlite")) as connection:
        later = time.time() + 3600
        connection.executemany(
            "INSERT INTO blocks VALUES (?, ?, ?)", [(b"x", later, b"{"), (b"y", later, "text"), (b"z", later, b"[1]")]
        )
        connection.execute("INSERT INTO standings VALUES (?, ?, ?)", (b"x", time.time(), b"\xff\xff"))
        connection.execute("INSERT INTO campaigns VALUES (?, ?, ?)", (b"x", time.time(), b"nothing"))
        connection.commit()
    site = Site(settings(TEXT.format(folder)))
    assert [block.key for block in site.blocks(time.time())] == ["192.0.2.1"]
    site.campaigns()
    site.close()
    assert "cannot be read and are ignored" in caplog.text


def test_a_ledger_that_becomes_corrupt_is_replaced_while_the_site_runs(folder):
    """Our own: every later entry was lost until somebody restarted the site."""
    path = folder / "ledger.sqlite"
    ledger = SqliteLedger(path)
    try:
        ledger.append(entry(1))
        wait_until(lambda: ledger.written == 1)
        ledger._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        overwritten(path)
        end = time.monotonic() + 60
        while not list(folder.glob("ledger.sqlite.corrupt-*")) and time.monotonic() < end:
            # It notices when it reads a page that is not in its cache.
            ledger._connection.execute("PRAGMA shrink_memory")
            for number in range(500):
                ledger.append(entry(number))
            time.sleep(0.05)
        written = ledger.written
        ledger.append(entry(2))
        wait_until(lambda: ledger.written > written)
    finally:
        ledger.close()
    assert list(folder.glob("ledger.sqlite.corrupt-*"))


def wait_until(condition) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_file_of_another_program_is_never_moved(tmp_path):
    """Our own: a wrong path in the settings (`ledger.path = "/etc/passwd"`) must not cost the file."""
    foreign = tmp_path / "passwd"
    foreign.write_text("root:x:0:0:root:/root:/bin/bash\n" * 100)
    with pytest.raises(StoreError, match="file of something else"):
        SqliteLedger(foreign)
    assert foreign.read_text().startswith("root:x:0:0")
    with pytest.raises(StoreError):
        list(SqliteLists(foreign).read())
    assert foreign.read_text().startswith("root:x:0:0")


@pytest.mark.parametrize(
    ("name", "command"),
    [("state.sqlite", ["visitors", "show"]), ("limits.json", ["limits"]), ("models/paths.json", ["models", "show"])],
)
def test_a_command_that_only_shows_something_moves_no_file(folder, monkeypatch, capsys, name, command):
    """Our own: the gate that runs beside the command may have the file open, and would go on with the renamed one."""
    (folder / "hedgerow.toml").write_text(f"directory = '{folder}'\n")
    monkeypatch.chdir(folder)
    garbage(folder / name)
    monkeypatch.setattr(sys, "argv", ["hedgerow", *command])
    with pytest.raises(SystemExit):
        main()
    assert "Traceback" not in capsys.readouterr().err
    assert (folder / name).read_bytes().startswith(b"\xde\xad\xbe\xef")
    assert not list(folder.rglob("*.corrupt-*"))


def test_a_corrupt_key_file_stops_the_start_with_one_sentence(folder):
    """A new key would make every link and clearance of everybody invalid: that is for an operator to decide."""
    key = folder / "hedgerow.key"
    key.write_bytes(b"\0" * 100)
    with pytest.raises(StoreError, match="does not hold keys"):
        Site(settings(TEXT.format(folder)))
    assert key.read_bytes() == b"\0" * 100


def test_an_empty_file_left_by_a_crash_does_not_prevent_a_start(folder):
    """A power failure can leave files of no bytes."""
    for path in folder.iterdir():
        if path.is_file() and path.name != "hedgerow.key":
            path.write_bytes(b"")
    Site(settings(TEXT.format(folder))).close()


def test_two_processes_that_find_a_corrupt_file_set_one_file_aside(folder):
    """Our own: the second must not move the new file of the first."""
    garbage(folder / "state.sqlite")
    first = connect(folder / "state.sqlite")
    second = connect(folder / "state.sqlite")
    assert len(list(folder.glob("state.sqlite.corrupt-*"))) == 1
    first.close()
    second.close()


# ---- Clocks


def test_a_block_made_while_the_clock_was_ahead_ends_within_the_longest_block():
    """Our own: a block made with a clock 300 days ahead lasted 300 days, although `longest_block` is a week."""
    client = Client()
    client.clock.now += 300 * DAYS
    trap = traps_in(client.get().body)[0]
    assert client.get(trap).status == 403
    client.clock.now = START
    assert client.get().status == 403
    blocks = client.site.stores.state.blocks(START)
    assert all(block.until <= START + WEEK for block in blocks)
    assert len(blocks) == 1
    client.clock.now = START + WEEK + 1
    assert client.get().status == 200


def test_a_block_of_a_wrong_clock_is_shown_and_exported_with_its_true_end():
    """The same for those who read the list of blocks, such as ban-list clients, before the visitor returns."""
    client = Client()
    client.clock.now += 300 * DAYS
    client.get(traps_in(client.get().body)[0])
    assert [block.until <= START + WEEK for block in client.site.blocks(START)] == [True]


def test_a_block_of_an_operator_keeps_its_end():
    """An operator may block for a year, whatever `longest_block` says."""
    client = Client()
    by_hand = Evidence("operator", "blocked", 1.0, "By hand.")
    year = Block("192.0.2.1", "192.0.2.1", START, START + 365 * DAYS, "refuse", by_hand)
    client.site.stores.state.commit(year)
    assert client.get().status == 403
    assert client.site.blocks(START) == [year]


def test_a_score_of_a_wrong_clock_does_not_make_a_suspect_for_months():
    """Our own: a score does not fade before its own time, so a suspect of the future stayed one for 300 days."""
    future = updated_score(None, ScoreUpdate("a", START + 300 * DAYS, 1, 3600.0, weight=5.0, identity="suspect"))
    assert score_at(future, START, 3600.0) == 0.0
    now = updated_score(future, ScoreUpdate("a", START, 1, 3600.0, weight=0.3))
    assert (now.at, now.identity, score_at(now, START, 3600.0)) == (START, "person", 0.3)
    assert score_at(now, START + 3600, 3600.0) == pytest.approx(0.15)


def test_the_budget_of_the_day_counts_again_after_a_wrong_clock():
    """Our own: after a day of the future no day before it was counted, so nobody had a budget for 300 days."""
    client = Client(None, "[containment]\nenabled = true\nk1 = 5\n")
    client.clock.now += 300 * DAYS
    client.get()
    client.clock.now = START
    answers = [client.get(f"/{n}").status for n in range(10)]
    assert answers[0] == 200
    assert answers[-1] != 200


def test_a_clearance_of_a_wrong_clock_is_not_valid_for_months():
    """A clearance that was issued with a clock 300 days ahead does not count now, nor for 300 days."""
    clearances = Clearances(TokenCodecs([Key(1, bytes(range(64)), 0.0)]), seconds=DAYS)
    visit = entry(0).visit
    value, _ = clearances.issue(visit, "work", START + 300 * DAYS)
    assert clearances.check(value, visit, START).grade == "none"
    assert clearances.check(value, visit, START + 300 * DAYS + 60).grade != "none"


def test_a_clock_that_was_ahead_does_not_stop_the_ledger_from_deleting(tmp_path):
    """Our own: rows are deleted once an hour by the clock, so after a jump back none were for 300 days."""
    ledger = SqliteLedger(tmp_path / "ledger.sqlite", keep_days=1.0)
    try:
        now = time.time() // 1
        for at in (now + 300 * DAYS, now - 3 * DAYS, now):
            written = ledger.written
            ledger.append(entry(0, at))
            wait_until(lambda written=written: ledger.written > written)
    finally:
        ledger.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM visits WHERE at = ?", (now - 3 * DAYS,)).fetchone() == (0,)


def test_a_clock_that_jumps_ahead_deletes_no_rows_of_the_ledger(tmp_path, monkeypatch):
    """Our own: after a jump by 300 days all rows were too old, and gone. A restart does not make it believable."""
    path = tmp_path / "ledger.sqlite"
    real, ahead = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + ahead[0])
    for ahead[0] in (0.0, 300 * DAYS, 300 * DAYS + 7200):
        ledger = SqliteLedger(path, keep_days=1.0)
        ledger.append(entry(0, time.time()))
        ledger.close()
    assert rows_in(path) == 3
    # A site that was switched off for so long deletes them a day later.
    ahead[0] = 301.1 * DAYS
    ledger = SqliteLedger(path, keep_days=1.0)
    ledger.append(entry(0, time.time()))
    ledger.close()
    assert rows_in(path) == 1


def rows_in(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM visits").fetchone()[0]


def test_a_journal_of_a_wrong_clock_is_read_back(tmp_path):
    """The future block of a file is there after a restart, and limited when it is looked at."""
    state = MemoryState(())
    journal = SqliteJournal(tmp_path / "state.sqlite")
    state.use_journal(journal)
    state.commit(Block("a", "a", START + 300 * DAYS, START + 301 * DAYS, "refuse", EVIDENCE))
    journal.close()
    with contextlib.closing(connect(tmp_path / "state.sqlite")) as connection:
        blocks, _ = read(connection, START)
    policy = Client().site.app.gate.engine.policy
    assert [policy.limited(block, START).until <= START + WEEK for block in blocks] == [True]


def test_challenges_are_not_refused_for_ever_when_their_file_is_corrupt(folder):
    """Our own: no answer was accepted any more, so that no person could pass."""
    used = SqliteUsedChallenges(folder / "challenges.sqlite")
    assert used.mark_used(b"a", 60.0, 0.0)
    used._open().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    used.close()
    overwritten(folder / "challenges.sqlite")
    used = SqliteUsedChallenges(folder / "challenges.sqlite")
    assert used.mark_used(b"b", 60.0, 0.0)
    assert not used.mark_used(b"b", 60.0, 0.0)
    used.close()

"""What outlives a restart, and what does not."""

from __future__ import annotations

import sqlite3
import threading
import time

import pytest

from hedgerow.core.decision import Block, Campaign, Evidence, ScoreUpdate, VisitorScore
from hedgerow.core.rate_limit import RateLimit
from hedgerow.core.state import StateQuery, prefix_key
from hedgerow.errors import StoreError
from hedgerow.state.memory.state import MemoryState
from hedgerow.state.sqlite.journal import SqliteJournal, connect, order_changes

START = 1_800_000_000.0
WHY = Evidence("trap", "trap", 1.0, "Why.")
WINDOWS = (RateLimit(count=5, seconds=3.0),)


def state_at(path, now: float = START) -> tuple[MemoryState, SqliteJournal]:
    state, journal = MemoryState(WINDOWS), SqliteJournal(path)
    state.restore(*journal.read(now))
    state.journal = journal
    return state, journal


def record_visit(state: MemoryState, key: str, at: float = START):
    return state.record_visit(StateQuery(at, "page", key, "192.0.2.1", "", count=True))


def test_blocks_and_standings_are_there_after_a_restart(tmp_path):
    state, journal = state_at(tmp_path / "s.sqlite")
    state.commit(Block("account:ann", "192.0.2.1", START, START + 60, "refuse", WHY))
    state.commit(Block(prefix_key("192.0.2.9"), "192.0.2.9", START, START + 60, "detain", WHY))
    state.update_score(
        ScoreUpdate("odd \udcff key", START, 5, 3600.0, weight=0.4, codes=("a", "b"), identity="suspect")
    )
    journal.close()
    again, journal = state_at(tmp_path / "s.sqlite")
    assert record_visit(again, "account:ann").block == Block(
        "account:ann", "192.0.2.1", START, START + 60, "refuse", WHY
    )
    assert len(again.blocks(START)) == 2
    assert record_visit(again, "account:bob").strikes == 1
    assert record_visit(again, "odd \udcff key").score == VisitorScore(
        "suspect", 0.4, START, 5, 0, 0, (("a", 1), ("b", 1))
    )
    journal.close()


def test_what_is_forgiven_or_over_is_not(tmp_path):
    state, journal = state_at(tmp_path / "s.sqlite")
    for key in ("a", "b"):
        state.commit(Block(key, key, START, START + 60, "refuse", WHY))
        state.update_score(ScoreUpdate(key, START, 1, 3600.0, weight=0.4))
    assert state.forgive("a")
    journal.close()
    again, journal = state_at(tmp_path / "s.sqlite", START + 30)
    assert [block.key for block in again.blocks(START)] == ["b"]
    assert [key for key, _ in again.scores()] == ["b"]
    journal.close()
    again, journal = state_at(tmp_path / "s.sqlite", START + 61)
    assert again.blocks(0.0) == []
    journal.close()
    again, journal = state_at(tmp_path / "s.sqlite", START + 8 * 86_400)
    assert again.scores() == []
    journal.close()


def test_it_is_written_without_being_closed(tmp_path):
    state, journal = state_at(tmp_path / "s.sqlite")
    state.commit(Block("a", "a", START, START + 60, "refuse", WHY))
    deadline = time.monotonic() + 60
    rows = 0
    while not rows and time.monotonic() < deadline:
        with sqlite3.connect(tmp_path / "s.sqlite") as reading:
            rows = reading.execute("SELECT count(*) FROM blocks").fetchone()[0]
        time.sleep(0.05)
    assert rows == 1
    journal.close()


def test_while_another_writes_nothing_is_lost(tmp_path, caplog):
    state, journal = state_at(tmp_path / "s.sqlite")
    journal._connection.execute("PRAGMA busy_timeout=10")
    with sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        state.update_score(ScoreUpdate("a", START, 1, 3600.0, weight=0.4))
        journal._write()
        other.execute("COMMIT")
    assert "cannot write blocks" in caplog.text
    journal.close()
    again, journal = state_at(tmp_path / "s.sqlite")
    assert [key for key, _ in again.scores()] == ["a"]
    journal.close()


def test_many_threads_note_at_once(tmp_path):
    state, journal = state_at(tmp_path / "s.sqlite")

    def update_score(name: str) -> None:
        for n in range(200):
            state.update_score(ScoreUpdate(f"{name}{n % 10}", START + n, 1, 1e9, weight=0.01))

    threads = [threading.Thread(target=update_score, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    again, journal = state_at(tmp_path / "s.sqlite")
    assert len(again.scores()) == 40
    assert all(abs(score.total - 0.2) < 1e-6 for _, score in again.scores())
    journal.close()


def test_a_file_that_is_none(tmp_path):
    (tmp_path / "s").write_text("not a database, and long enough not to be taken for an empty one" * 20)
    with pytest.raises(StoreError, match="a file of something else"):
        SqliteJournal(tmp_path / "s")


def test_the_word_of_a_watch_elsewhere_is_carried_out_within_a_second(tmp_path):
    state, journal = state_at(tmp_path / "s.sqlite")
    told = threading.Event()

    def obey(key, what):
        assert key == "192.0.2.7"
        state.update_score(what)
        told.set()

    journal.on_command = obey
    connection = connect(tmp_path / "s.sqlite")
    change = ScoreUpdate("192.0.2.7", START, 5, 3600.0, weight=2.0, codes=("campaign",), identity="suspect")
    order_changes(connection, [change])
    connection.close()
    assert told.wait(60.0)
    assert record_visit(state, "192.0.2.7").score.identity == "suspect"
    journal.close()


def test_campaigns_are_there_after_a_restart(tmp_path):
    _, journal = state_at(tmp_path / "s.sqlite")
    kept, gone = (Campaign(name, "sharing", START, START, ("a", "b", "c"), "Why.") for name in ("kept", "gone"))
    journal.note_campaign("kept", kept)
    journal.note_campaign("gone", gone)
    journal.note_campaign("gone", None)
    journal.close()
    _, journal = state_at(tmp_path / "s.sqlite")
    assert journal.campaigns(START) == [kept]
    assert journal.campaigns(START + 8 * 86_400) == []
    journal.close()


def test_a_file_of_before_there_was_a_watch(tmp_path):
    old = sqlite3.connect(tmp_path / "s.sqlite")
    old.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL, block BLOB)")
    old.close()
    connection = connect(tmp_path / "s.sqlite")
    order_changes(connection, [ScoreUpdate("a", START, 5, 3600.0)])
    connection.close()

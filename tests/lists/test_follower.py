"""The store of lists in SQLite, and the follower that keeps a server's lists up to date."""

from __future__ import annotations

import sqlite3
import stat
import time
from contextlib import closing

import pytest
from mmdb_writer import MMDBWriter
from netaddr import IPSet

from hedgerow.errors import StoreAwayError, StoreError
from hedgerow.lists import follower as module
from hedgerow.lists import sqlite_store as sqlite_lists
from hedgerow.lists.follower import Follower, ListsCopy, asn_file
from hedgerow.lists.model import Listing, Lists
from hedgerow.lists.sql_store import ListFilter
from hedgerow.lists.sqlite_store import SqliteLists

from .lists_conformance import NOW, ListsConformance, entry, found


class TestSqliteLists(ListsConformance):
    def store(self, where, clock):
        return SqliteLists(where / "lists.sqlite", clock=clock)


@pytest.fixture
def store(tmp_path):
    return SqliteLists(tmp_path / "state" / "lists.sqlite", clock=lambda: NOW)


@pytest.fixture
def follower(store):
    follower = Follower(store, Lists())
    yield follower
    follower.close()


def test_the_first_write_creates_a_file_that_only_its_owner_can_read(store):
    assert list(store.read()) == []
    assert not store.path.exists()
    store.add(entry())
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert store.count("black", NOW) == 1
    assert store.count("white", NOW) == 0


def test_a_file_that_is_no_database_is_reported(tmp_path):
    path = tmp_path / "lists"
    path.write_bytes(b"This is no database." * 100)
    with pytest.raises(StoreError, match="a file of something else"):
        SqliteLists(path).add(entry())
    with pytest.raises(StoreError, match="a file of something else"):
        Follower(SqliteLists(path), Lists()).refresh()


def test_a_directory_that_cannot_be_created_is_reported(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot use the lists"):
        SqliteLists(tmp_path / "file" / "lists.sqlite").add(entry())


def test_a_persistent_lock_is_reported(store, monkeypatch):
    store.add(entry())
    monkeypatch.setattr(sqlite_lists, "_LOCK_TIMEOUT", 0.05)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="being written by another program"):
            store.add(entry("192.0.2.2"))
        assert len(list(store.read())) == 1


def test_a_follower_reads_only_changes(store, follower, monkeypatch):
    store.put([entry(f"10.0.{n // 250}.{n % 250}") for n in range(1000)])
    follower.refresh()
    taken = []
    monkeypatch.setattr(follower.lists, "put", taken.append)
    store.add(entry("192.0.2.7"))
    follower.refresh()
    follower.refresh()
    assert [listing.subject for listing in taken] == ["192.0.2.7"]


def test_the_thread_of_a_follower_applies_changes(store, follower):
    follower.start()
    store.add(entry())
    began = time.monotonic()
    while found(follower.lists) != "black 192.0.2.1":
        assert time.monotonic() - began < 60
        time.sleep(0.01)


def test_a_broken_store_keeps_the_lists_and_is_logged_once(store, follower, monkeypatch, caplog):
    monkeypatch.setattr(module, "_INTERVAL", 0.01)
    store.add(entry())
    follower.start()
    assert found(follower.lists) == "black 192.0.2.1"
    real = follower._apply_changes
    monkeypatch.setattr(follower, "_apply_changes", lambda _: 1 / 0)

    def told() -> int:
        return sum("cannot read the lists" in record.getMessage() for record in caplog.records)

    began = time.monotonic()
    while not told():
        assert time.monotonic() - began < 60
        time.sleep(0.01)
    time.sleep(0.1)
    assert found(follower.lists) == "black 192.0.2.1"
    assert told() == 1
    monkeypatch.setattr(follower, "_apply_changes", real)
    store.remove("black", "192.0.2.1")
    began = time.monotonic()
    while found(follower.lists):
        assert time.monotonic() - began < 60
        time.sleep(0.01)


def operators(path, number: int) -> None:
    writer = MMDBWriter(ip_version=6, ipv4_compatible=True, database_type="GeoLite2-ASN")
    writer.insert_network(IPSet(["192.0.2.0/24"]), {"autonomous_system_number": number})
    writer.insert_network(IPSet(["2001:db8::/32"]), {"autonomous_system_number": 64497})
    writer.insert_network(IPSet(["198.51.100.0/24"]), {"something": "else"})
    writer.to_db_file(str(path))


def test_a_replaced_maxmind_file_is_opened_again(tmp_path, store):
    path = tmp_path / "asn.mmdb"
    operators(path, 64496)
    store.put([entry("AS64496"), entry("AS64497", "white")])
    follower = Follower(store, Lists(), asn=asn_file(path))
    follower.refresh()
    assert found(follower.lists) == "black AS64496"
    assert found(follower.lists, "2001:db8::5") == "white AS64497"
    assert found(follower.lists, "198.51.100.1") == found(follower.lists, "203.0.113.1") == ""
    beside = tmp_path / "new.mmdb"
    operators(beside, 64511)
    beside.replace(path)
    follower.refresh()
    assert found(follower.lists) == ""
    follower.close()


def test_an_unreadable_maxmind_file_is_reported(tmp_path):
    with pytest.raises(StoreError, match="cannot read the file of network operators"):
        asn_file(tmp_path / "missing.mmdb").changed()
    (tmp_path / "bad.mmdb").write_bytes(b"x" * 1000)
    with pytest.raises(StoreError, match="cannot read the file of network operators"):
        asn_file(tmp_path / "bad.mmdb").changed()


# ---- The copy


class Distant(SqliteLists):
    """A store that may be unreachable."""

    away = False

    def follow(self):
        if self.away:
            raise StoreAwayError("cannot reach the store")
        return super().follow()


def test_a_server_starts_with_the_copy_while_the_store_is_unreachable(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(module, "_INTERVAL", 0.01)
    store, copy = Distant(tmp_path / "lists.sqlite"), ListsCopy(tmp_path / "own" / "copy.jsonl", "a")
    store.put([entry(), entry("2001:db8::/32")])
    with closing(Follower(store, Lists(), copy=copy)) as first:
        first.start()
        wait_until(lambda: copy.written_at > 0)
    assert stat.S_IMODE(copy.path.stat().st_mode) == 0o600
    store.away = True
    store.remove("black", "192.0.2.1")
    with closing(Follower(store, Lists(), copy=copy)) as late:
        late.start()
        assert found(late.lists) == "black 192.0.2.1"
        assert "cannot reach the store; until it is back the lists are those of 2" in caplog.text
        store.away = False
        wait_until(lambda: found(late.lists) == "")
        assert late.lists.find(NOW, "2001:db8::1") is not None
        assert len(late.lists) == 1


def test_a_copy_of_another_store_or_an_incomplete_copy_is_ignored(tmp_path, caplog):
    copy = ListsCopy(tmp_path / "copy.jsonl", "a")
    assert copy.read() is None
    copy.write([entry(str(n)) for n in range(300)], lambda: None)
    assert len(copy.read()) == 300
    assert ListsCopy(copy.path, "b").read() is None
    whole = copy.path.read_bytes()
    copy.path.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1])
    assert copy.read() is None
    copy.path.write_bytes(b"something else\n")
    assert copy.read() is None
    assert "cannot read the copy" in caplog.text
    store = Distant(tmp_path / "lists.sqlite")
    store.away = True
    with closing(Follower(store, Lists(), copy=copy)) as late:
        late.start()
        assert "there are no lists" in caplog.text


def test_only_one_process_writes_the_copy(tmp_path):
    copy = ListsCopy(tmp_path / "copy.jsonl", "a")

    def entries():
        yield entry()
        ListsCopy(copy.path, "a").write([], lambda: None)
        yield entry("192.0.2.2")

    copy.write(entries(), lambda: None)
    assert len(copy.read()) == 2


def wait_until(met) -> None:
    end = time.monotonic() + 30
    while not met():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("name", [None, "black"])
def test_a_part_of_a_long_list_is_found_by_the_index(tmp_path, name):
    """Otherwise each part would be found by reading all before it."""
    lists = SqliteLists(tmp_path / "lists.sqlite")
    lists.put([Listing("black", f"10.0.0.{n}", "", "", 0.0, 0.0) for n in range(9)])
    where, values = lists._conditions(ListFilter(list=name, after=("black", "10.0.0.4"), in_force_at=1.0))
    with closing(sqlite3.connect(tmp_path / "lists.sqlite")) as connection:
        ((*_, plan),) = connection.execute(f"EXPLAIN QUERY PLAN SELECT * FROM entries WHERE {where}", values)
    assert "subject>" in plan.replace("(list,subject)>", "subject>")

"""
Conformance tests for stores of lists. A store's test file subclasses them and creates the store:

    class TestSqliteLists(ListsConformance):
        def store(self, where, clock):
            return SqliteLists(where / "lists.sqlite", clock=clock)
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from hedgerow.lists.follower import Follower
from hedgerow.lists.model import Listing, Lists, entry_of
from hedgerow.lists.sql_store import ListFilter

NOW = 1_800_000_000.0


class Broken(Exception):  # noqa: N818
    pass


def entry(subject: str = "192.0.2.1", name: str = "black", **fields: Any) -> Listing:
    return Listing(name, subject, **{"reason": "why", "author": "ann", "since": NOW, **fields})


def found(lists: Lists, address: str = "192.0.2.1") -> str:
    seen = lists.find(NOW, address)
    listing = entry_of(seen) if seen else None
    return f"{listing.list} {listing.subject}" if listing else ""


class ListsConformance:
    def store(self, where: Path, clock: Any) -> Any:
        raise NotImplementedError

    @pytest.fixture
    def lists(self, tmp_path):
        return self.store(tmp_path, lambda: NOW)

    def subjects(self, lists: Any, **wanted: Any) -> list[str]:
        return [found.subject for found in lists.read(ListFilter(**wanted))]

    def test_a_new_store_is_empty(self, lists):
        assert list(lists.read()) == []
        assert lists.remove("black", "192.0.2.1") is False

    def test_entries_are_read_as_they_were_put(self, lists, tmp_path):
        given = [
            entry("192.0.2.0/24", reason="Zoë 🌿 'x' \"y\"", until=NOW + 0.25),
            entry("account:Zoë", "white"),
            entry("192.0.2.0/24", "white"),
        ]
        assert lists.put(given) == 3
        order = sorted(given, key=lambda e: (e.list, e.subject))
        assert list(lists.read()) == order
        assert list(self.store(tmp_path, lambda: NOW).read()) == order

    def test_add_does_not_replace_an_entry(self, lists):
        assert lists.add(entry(reason="a")) is True
        assert lists.add(entry(reason="b")) is False
        assert lists.add(entry(name="white")) is True
        assert [e.reason for e in lists.read(ListFilter(list="black"))] == ["a"]

    def test_an_ended_entry_can_be_added_again(self, lists):
        assert lists.add(entry(until=NOW))
        assert lists.add(entry(until=NOW + 1, reason="again"))
        assert [e.reason for e in lists.read()] == ["again"]

    def test_put_replaces_an_entry(self, lists):
        lists.add(entry(reason="a"))
        assert lists.put([entry(reason="b", until=NOW + 5), entry("192.0.2.2")]) == 2
        assert [(e.reason, e.until) for e in lists.read()] == [("b", NOW + 5), ("why", 0.0)]

    def test_an_entry_can_be_removed(self, lists):
        lists.add(entry())
        lists.add(entry(name="white"))
        assert lists.remove("black", "192.0.2.1") is True
        assert lists.remove("black", "192.0.2.1") is False
        assert [e.list for e in lists.read()] == ["white"]
        assert lists.add(entry()) is True

    def test_a_failed_import_stores_nothing(self, lists):
        lists.add(entry(reason="before"))

        def breaking():
            for n in range(2000):
                yield entry(f"10.0.{n // 250}.{n % 250}")
            yield entry(reason="after")
            raise Broken

        with pytest.raises(Broken):
            lists.put(breaking(), replacing="ann")
        assert [(e.subject, e.reason) for e in lists.read()] == [("192.0.2.1", "before")]

    def test_put_can_replace_all_entries_of_an_author(self, lists):
        lists.put([entry("10.0.0.1"), entry("10.0.0.2"), entry("10.0.0.3", author="bob")])
        lists.put([entry("10.0.0.2"), entry("10.0.0.4")], replacing="ann")
        assert self.subjects(lists) == ["10.0.0.2", "10.0.0.3", "10.0.0.4"]

    @pytest.mark.parametrize(
        ("wanted", "subjects"),
        [
            ({"list": "white"}, ["192.0.2.0/24"]),
            ({"kind": "account"}, ["account:ann"]),
            ({"kind": "address"}, ["192.0.2.1", "192.0.2.2"]),
            ({"author": "bob"}, ["AS64496"]),
            ({"text": "SPAM"}, ["192.0.2.2"]),
            ({"text": "%"}, []),
            ({"subject": "192.0.2.1"}, ["192.0.2.1"]),
            ({"address": "192.0.2.1"}, ["192.0.2.1", "192.0.2.0/24"]),
            ({"address": "192.0.2.0/25"}, ["192.0.2.0/24"]),
            ({"address": "2001:db8::1"}, ["2001:db8::/32"]),
            ({"in_force_at": NOW}, ["192.0.2.1", "2001:db8::/32", "AS64496", "account:ann", "192.0.2.0/24"]),
            ({"limit": 2}, ["192.0.2.1", "192.0.2.2"]),
            ({"after": ("black", "AS64496")}, ["account:ann", "192.0.2.0/24"]),
        ],
    )
    def test_filters_select_entries(self, lists, wanted, subjects):
        lists.put(
            [
                entry("192.0.2.1"), entry("192.0.2.2", reason="Comment spam", until=NOW), entry("account:ann"),
                entry("192.0.2.0/24", "white"), entry("AS64496", author="bob"), entry("2001:db8::/32"),
            ]
        )  # fmt: skip
        assert self.subjects(lists, **wanted) == subjects

    @pytest.mark.parametrize("name", [None, "white", "black"])
    def test_entries_are_read_one_part_after_another(self, lists, name):
        lists.put([entry(f"192.0.2.{n}", one) for n in range(5) for one in ("white", "black")])
        found, after = [], None
        while part := list(lists.read(ListFilter(list=name, after=after, limit=2))):
            found += part
            after = part[-1].list, part[-1].subject
        assert found == list(lists.read(ListFilter(list=name)))

    def test_several_threads_can_write_at_once(self, lists, tmp_path):
        lists.add(entry("10.9.9.9"))

        def write(who: int) -> None:
            mine = self.store(tmp_path, lambda: NOW)
            for n in range(20):
                assert mine.add(entry(f"10.0.{who}.{n}"))

        running = [threading.Thread(target=write, args=(who,)) for who in range(4)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert len(list(lists.read())) == 81

    def test_a_follower_applies_changes(self, lists):
        follower = Follower(lists, Lists())
        follower.refresh()
        assert found(follower.lists) == ""
        lists.add(entry())
        follower.refresh()
        assert found(follower.lists) == "black 192.0.2.1"
        lists.put([entry("192.0.2.1", "white"), entry("10.0.0.0/8"), entry("10.0.0.0/8", reason="again")])
        follower.refresh()
        assert found(follower.lists) == "white 192.0.2.1"
        assert found(follower.lists, "10.1.2.3") == "black 10.0.0.0/8"
        lists.remove("white", "192.0.2.1")
        follower.refresh()
        follower.refresh()
        assert found(follower.lists) == "black 192.0.2.1"
        assert follower.lists.sizes == {"white": 0, "black": 2}
        follower.close()

    def test_purge_deletes_old_entries_and_marks_of_removal(self, tmp_path):
        now = NOW
        store = self.store(tmp_path, lambda: now)
        store.put([entry("10.0.0.1", until=NOW + 1), entry("10.0.0.2"), entry("10.0.0.3")])
        awake, asleep = Follower(store, Lists()), Follower(store, Lists())
        awake.refresh()
        asleep.refresh()
        store.remove("black", "10.0.0.3")
        now = NOW + 8 * 86_400
        store.purge()
        awake.refresh()
        assert awake.lists.sizes["black"] == 1
        now += 7200
        store.purge()
        assert [one.subject for one in store.read()] == ["10.0.0.2"]
        store.add(entry("10.0.0.9"))
        awake.refresh()
        asleep.refresh()
        # Who slept through it all has missed nothing.
        assert awake.lists.sizes == asleep.lists.sizes == {"white": 0, "black": 2}
        assert found(asleep.lists, "10.0.0.3") == ""
        assert found(asleep.lists, "10.0.0.9") == "black 10.0.0.9"
        awake.close()
        asleep.close()

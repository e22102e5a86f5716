"""Rows are arranged and questions answered the same in memory, in files, however they are divided, and in SQL."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.tables.sql_store import SqlStore, sql_store

from hedgerow.errors import StoreError
from hedgerow.report.tables import distinct_count as different
from hedgerow.report.tables.distinct_count import DistinctCount
from hedgerow.report.tables.figures import FOREIGN, OWN, Kinds
from hedgerow.report.tables.local_store import LocalStore
from hedgerow.report.tables.queries import Columns
from hedgerow.report.tables.row_builder import COLUMNS, Rows
from hedgerow.report.tables.row_order import PARTS
from hedgerow.report.tables.url_features import ASSET, PAGE

SECOND, DAY = 1_000_000, 86_400 * 1_000_000
AMPLE, SCANT = 500_000_000, 100_000
FIRST_PAGE = 7


def rows_of(seed: int, count: int = 4000, *, loud: bool = False) -> Rows:
    """Rows of some sources over some days, not quite in the order of time; where one is *loud*, most are its."""
    chance = np.random.default_rng(seed)
    source = chance.integers(1, 60, count).astype(np.uint64)
    source[source % np.uint64(9) == 0] += np.uint64(1 << 63)
    if loud:
        source = np.where(chance.random(count) < 0.9, np.uint64(5), source)
    kind = chance.choice([PAGE, PAGE, 1, ASSET], count)
    place = chance.integers(0, 4, count)
    page = chance.integers(FIRST_PAGE, 400, count)
    given = {
        "source": source, "t": np.sort(chance.integers(0, 4 * DAY, count)) + chance.integers(0, 3 * SECOND, count),
        "page": page, "parent": np.where(place, chance.integers(FIRST_PAGE, 400, count), 0), "ord": page * 3,
        "shape": page % 11 + 2, "lead": np.where(place, chance.integers(2, 9, count), 0), "place": place,
        "agent": chance.integers(0, 5, count), "status": chance.choice([200, 404], count), "kind": kind,
        "flags": chance.integers(0, 32, count),
    }  # fmt: skip
    return {name: given[name].astype(kind) for name, kind in COLUMNS.items()}


def filled(store: LocalStore, rows: Rows) -> LocalStore:
    """*rows*, some at a time."""
    for start in range(0, len(rows["t"]), 1000):
        store.add({name: column[start : start + 1000] for name, column in rows.items()})
    return store


def sorted_by(columns: Columns, *names: str) -> dict[str, list[int]]:
    order = np.lexsort([columns[name] for name in reversed(names)])
    return {name: np.asarray(column)[order].astype(object).tolist() for name, column in columns.items()}


def answers(store: LocalStore | SqlStore) -> list[object]:
    """What a report asks."""
    places = np.array([0, FOREIGN, OWN, FOREIGN], np.uint8)
    flags = np.arange(20) % 2 == 0
    counted = store.count(Kinds(exact=False, agents=5, places=places, listing=flags, profile=flags))
    some = np.array([1, 5, 17, (1 << 63) + 9], np.uint64)
    return [
        sorted_by(store.hosts(FIRST_PAGE), "place"),
        sorted(store.groups(20).tolist()),
        sorted_by(store.leads([2, 3]), "lead"),
        [part.tolist() for part in (counted.sources, counted.first, counted.last, counted.values, counted.sessions)],
        counted.paths.tolist(),
        sorted_by(store.series(0, 1800 * SECOND), "source", "bin"),
        sorted_by(store.series_of(some, 0, 7200 * SECOND), "source", "bin"),
        sorted_by(store.days(some), "n"),
        sorted_by(store.first_pages(some, 30), "source", "t"),
    ]


@pytest.mark.parametrize("loud", [False, True])
@pytest.mark.parametrize("memory", [AMPLE, SCANT])
def test_it_answers_as_sql_does(memory: int, loud: bool) -> None:
    """With scant memory rows go to files, and a part that is too large is divided by source and time."""
    rows = rows_of(1, loud=loud)
    with filled(LocalStore(memory=memory), rows) as store, sql_store(rows) as other:
        assert answers(store) == answers(other)


@pytest.mark.parametrize("memory", [AMPLE, SCANT])
def test_rows_come_by_source_and_time_and_else_as_they_came(memory: int) -> None:
    rows = rows_of(2, loud=True)
    rows["t"] -= rows["t"] % (3600 * SECOND)
    rows["ord"] = np.arange(len(rows["t"]), dtype=np.uint64)
    with filled(LocalStore(memory=memory), rows) as store:
        found = [[row[k].tolist() for row in some.values()] for some in store.rows() for k in range(len(some["t"]))]
    order = np.lexsort((rows["t"], rows["source"]))
    assert sorted(found, key=lambda row: row[0]) == [[rows[name][k].tolist() for name in COLUMNS] for k in order]


def test_nothing_is_left_and_a_place_without_room_is_one_line(tmp_path: Path) -> None:
    with filled(LocalStore(memory=SCANT, directory=tmp_path), rows_of(3)) as store:
        assert sum(len(rows["t"]) for rows in store.rows()) == 4000
        (place,) = tmp_path.iterdir()
        assert 1 < len(list(place.iterdir())) <= PARTS * 40
    assert not list(tmp_path.iterdir())
    with pytest.raises(StoreError, match=r"^no room for the tables: [^\n]*; name another place by TMPDIR$"):
        LocalStore(memory=SCANT, directory=tmp_path / "nowhere")


def test_an_interrupt_while_the_directory_is_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory is there already, and nothing else."""
    make = os.mkdir

    def interrupted(*arguments: Any, **more: Any) -> None:
        make(*arguments, **more)
        assert list(tmp_path.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "mkdir", interrupted)
    with suppress(KeyboardInterrupt):
        LocalStore(memory=SCANT, directory=tmp_path)
    assert not list(tmp_path.iterdir())


def test_of_more_things_than_there_is_room_for_a_sample_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It depends on the things only: not on their order, nor on how many counted."""
    monkeypatch.setattr(different, "MOST", 8192)
    things = np.random.default_rng(4).integers(1, 1 << 63, 60_000).astype(np.uint64)
    keys = np.arange(len(things), dtype=np.uint64) % np.uint64(3)
    one, half, other = DistinctCount(), DistinctCount(), DistinctCount()
    one.enter(things, keys)
    half.enter(things[::-2].copy(), keys[::-2].copy())
    other.enter(things[::2].copy(), keys[::2].copy())
    half.take(other)
    assert one.halvings == half.halvings > 0
    assert one.by_other() == half.by_other()
    assert all(abs(count - 20_000) < 2000 for count in one.by_other().values())


def test_enough_is_enough() -> None:
    found = DistinctCount(enough=20)
    things = np.arange(1, 1001, 2, dtype=np.uint64)
    found.enter(things, np.where(things < 6, 1, 3).astype(np.uint64))
    assert found.by_other() == {1: 3, 3: 20}

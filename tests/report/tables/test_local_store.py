"""Rows are arranged and questions answered the same in memory, in files, however they are divided, and in SQL."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import StoreError
from hedgerow.report.tables import local_store
from hedgerow.report.tables.figures import FOREIGN, OWN, SiteFacts
from hedgerow.report.tables.local_store import LocalStore
from hedgerow.report.tables.queries import Columns
from hedgerow.report.tables.rows import COLUMNS, MOST, ODD, PARTS, ROW, Rows
from hedgerow.report.tables.url_features import ASSET, PAGE
from report.tables.sql_store import SqlStore, sql_store

SECOND, DAY = 1_000_000, 86_400 * 1_000_000
AMPLE, SCANT = 500_000_000, 100_000
FIRST_PAGE = 7
FIRST_DIGEST = FIRST_PAGE * 0x9E3779B97F4A7C15 % (1 << 64)


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
    rows = np.zeros(count, ROW)
    for name, column in given.items():
        rows[name] = column
    # As digests are, all over the numbers that there are.
    for name in ("page", "parent"):
        rows[name] *= np.uint64(0x9E3779B97F4A7C15)
    return rows


def filled(store: LocalStore, rows: Rows) -> LocalStore:
    """*rows*, some at a time."""
    for start in range(0, len(rows), 1000):
        store.add(rows[start : start + 1000])
    return store


def sorted_by(columns: Columns, *names: str) -> dict[str, list[int]]:
    order = np.lexsort([columns[name] for name in reversed(names)])
    return {name: np.asarray(column)[order].astype(object).tolist() for name, column in columns.items()}


def answers(store: LocalStore | SqlStore) -> list[object]:
    """What a report asks."""
    places = np.array([0, FOREIGN, OWN, FOREIGN], np.uint8)
    flags = np.arange(20) % 2 == 0
    counted = store.count(SiteFacts(exact=False, agents=5, places=places, listing=flags, profile=flags))
    some = np.array([1, 5, 17, (1 << 63) + 9], np.uint64)
    return [
        sorted_by(store.hosts(FIRST_DIGEST), "place"),
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
@pytest.mark.parametrize("most", [MOST, 50])
@pytest.mark.parametrize(("memory", "small"), [(AMPLE, 0), (SCANT, 0), (AMPLE, 4000)])
def test_it_answers_as_sql_does(
    monkeypatch: pytest.MonkeyPatch, memory: int, small: int, most: int, loud: bool
) -> None:
    """
    With scant memory rows go to files, and a part that is too large is divided by source and time. With few rows
    nothing is compiled. Where few pairs of pages and groups may be kept, rows are looked at several times.
    """
    monkeypatch.setattr(local_store, "SMALL", small)
    monkeypatch.setattr("hedgerow.report.tables.rows.MOST", most)
    rows = rows_of(1, loud=loud)
    with filled(LocalStore(memory=memory), rows) as store, sql_store(rows) as other:
        assert answers(store) == answers(other)


@pytest.mark.parametrize("late", [0, 1000])
@pytest.mark.parametrize("memory", [AMPLE, SCANT])
def test_rows_come_by_source_and_time_and_else_as_they_came(
    monkeypatch: pytest.MonkeyPatch, memory: int, late: int
) -> None:
    """Where more than a few sources have rows that are late, all rows are sorted."""
    monkeypatch.setattr(local_store, "SMALL", 0)
    monkeypatch.setattr("hedgerow.report.tables.rows._MOST_LATE", late)
    rows = rows_of(2, loud=True)
    rows["t"] -= rows["t"] % (3600 * SECOND)
    rows["ord"] = np.arange(len(rows))
    with filled(LocalStore(memory=memory), rows) as store:
        found = [row for some in store.rows() for row in some[list(COLUMNS)].tolist()]
    order = np.lexsort((rows["t"], rows["source"]))
    assert sorted(found, key=lambda row: row[0]) == rows[order][list(COLUMNS)].tolist()


@pytest.mark.parametrize("small", [0, 4000])
def test_rows_of_bad_lines_are_left_out(monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    monkeypatch.setattr(local_store, "SMALL", small)
    rows = rows_of(4, 100)
    rows["kind"][::3] = ODD
    with filled(LocalStore(memory=AMPLE), rows) as store:
        assert sum(map(len, store.rows())) == 66


@pytest.mark.parametrize("small", [0, 4000])
def test_rows_may_be_overwritten_once_they_are_added(monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    monkeypatch.setattr(local_store, "SMALL", small)
    rows = rows_of(5, 50)
    with LocalStore(memory=AMPLE) as store:
        store.add(rows)
        rows["source"] = 7
        assert {int(source) for some in store.rows() for source in some["source"]} != {7}


def test_nothing_is_left_and_a_place_without_room_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_store, "SMALL", 0)
    with filled(LocalStore(memory=SCANT, directory=tmp_path), rows_of(3)) as store:
        assert sum(map(len, store.rows())) == 4000
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

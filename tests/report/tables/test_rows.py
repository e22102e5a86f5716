"""Distinct pairs are counted exactly, in however little memory, and however the rows are shared."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.report.tables.rows import GROUPS, ROW, DistinctPairs, by_group, different, in_ranges


def selected(rows):
    return [(rows["page"], rows["shape"]), (rows["parent"], rows["lead"])]


@pytest.mark.parametrize("most", [1 << 20, 4000, 100])
@pytest.mark.parametrize("shares", [1, 3])
def test_all_pairs_are_counted_once(monkeypatch, most, shares):
    monkeypatch.setattr("hedgerow.report.tables.rows.MOST", most)
    chance = np.random.default_rng(4)
    rows = np.zeros(30_000, ROW)
    rows["page"] = chance.integers(0, 1 << 63, 9000, np.uint64)[chance.integers(0, 9000, len(rows))] * np.uint64(2)
    rows["parent"] = chance.integers(0, 1 << 63, 50, np.uint64)[chance.integers(0, 50, len(rows))]
    rows["shape"], rows["lead"] = rows["page"] % np.uint64(7), rows["parent"] % np.uint64(3)
    ranges = []

    def count(low):
        found = [DistinctPairs(selected, low) for _ in range(shares)]
        for k in range(0, len(rows), 1000):
            found[k // 1000 % shares].add(rows[k : k + 1000])
        ranges.append(low)
        return found

    counted = np.zeros((2, GROUPS), np.int64)
    for pages, parents in in_ranges(count):
        assert max(len(pages), len(parents)) <= shares * most
        counted += [by_group(pages), by_group(parents)]
    assert (len(ranges) > 1) == (most < 9000)
    for (page, group), found in zip(selected(rows), counted, strict=True):
        expected = {one: len(set(page[group == one].tolist())) for one in set(group.tolist())}
        assert {one: number for one, number in enumerate(found.tolist()) if number} == expected


def test_one_page_in_more_groups_than_there_is_room_for_is_no_endless_loop(monkeypatch):
    monkeypatch.setattr("hedgerow.report.tables.rows.MOST", 10)
    rows = np.zeros(100, ROW)
    rows["page"], rows["shape"] = 12345 << 20, np.arange(100)
    lows = []

    def count(low):
        lows.append(low)
        found = DistinctPairs(lambda some: [(some["page"], some["shape"])], low)
        found.add(rows)
        return [found]

    assert sum(len(pairs) for (pairs,) in in_ranges(count)) == 100
    assert lows == sorted(set(lows))


def test_nothing_has_no_pairs():
    assert [len(pairs) for kinds in in_ranges(lambda low: [DistinctPairs(selected, low)]) for pairs in kinds] == [0, 0]
    assert different(np.array([3, 1, 3], np.uint64)).tolist() == [1, 3]

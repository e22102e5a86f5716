"""The paths of a log's sources have the features that the live engine computes."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.markers.token import PAGE_BYTES
from hedgerow.report.tables.path_features import MOST_SESSIONS, WIDTH, step
from hedgerow.watch.sessions.path import LONG, PathSession


def sessions_of(rows: list[tuple[float, int, int | None, int]]) -> list[tuple[int, tuple[float, ...]]]:
    """The reference: steps and features of each long session of at least ten steps."""
    found = []
    session = PathSession()
    for at, page, parent, kind in rows:
        if kind:
            session.add_side_request()
            continue
        if session.full:
            found.append((session.size, session.all_features()))
        session.add(at, page.to_bytes(PAGE_BYTES), None if parent is None else parent.to_bytes(PAGE_BYTES))
    if session.size >= 10:
        found.append((session.size, session.all_features()))
    return found[:MOST_SESSIONS]


@given(st.integers(0, 10**6), st.integers(1, 700), st.integers(2, 80), st.sampled_from([0.3, 9.0, 40.0]))
@settings(max_examples=60)
def test_features_are_those_of_the_live_engine(seed, count, pages, pause):
    chance = Random(seed)
    at, rows = 0.0, []
    for _ in range(count):
        at += round(chance.expovariate(1 / pause), 6)
        parent = chance.choice([None, chance.randrange(1, pages)])
        rows.append((at, chance.randrange(1, pages), parent, chance.choice([0, 0, 2])))
    found, features = np.zeros((20, 2), np.int64), np.zeros((20, WIDTH))
    number = step(
        np.array([0, count]), 10**6, True,
        np.array([round(row[0] * 1e6) for row in rows]),
        np.array([row[1] for row in rows], np.uint64),
        np.array([row[2] or 0 for row in rows], np.uint64),
        np.array([row[2] is not None for row in rows], np.uint32),
        np.array([row[3] for row in rows], np.uint8),
        np.array([2, 1], np.uint8), found, features,
    )  # fmt: skip
    expected = sessions_of(rows)
    assert number == len(expected)
    assert found[:number].tolist() == [[0, size] for size, _ in expected]
    assert np.allclose(features[:number], np.array([wide for _, wide in expected]).reshape(-1, WIDTH), atol=1e-4)


def test_visits_of_one_second_are_spread_over_it():
    count = LONG
    found, features = np.zeros((2, 2), np.int64), np.zeros((2, WIDTH))
    step(
        np.array([0, count]), 10**6, False, np.zeros(count, np.int64), np.arange(1, count + 1, dtype=np.uint64),
        np.zeros(count, np.uint64), np.zeros(count, np.uint32), np.zeros(count, np.uint8), np.array([2], np.uint8),
        found, features,
    )  # fmt: skip
    assert found[0].tolist() == [0, LONG]
    assert np.isclose(features[0][6], 1 / count, atol=1e-4)

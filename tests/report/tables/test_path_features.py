"""The paths of a log's sources have the features that the live engine computes, in plain Python and compiled."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.markers.encoding import PAGE_BYTES
from hedgerow.report.tables.figures import FOREIGN, OWN, SiteFacts
from hedgerow.report.tables.path_features import MOST_SESSIONS, WIDTH, sessions_of
from hedgerow.report.tables.rows import ROW
from hedgerow.watch.sessions.path import LONG, PathSession

NONE = np.zeros(1, np.bool_)


def facts(*, exact: bool) -> SiteFacts:
    return SiteFacts(exact, 1, np.array([FOREIGN, OWN], np.uint8), NONE, NONE)


def expected_of(rows: list[tuple[float, int, int | None, int]]) -> list[tuple[int, tuple[float, ...]]]:
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


def found_of(rows: Any, *, exact: bool) -> tuple[Any, Any]:
    """What plain Python and compiled functions both find."""
    pages = np.array([(rows["kind"] == 0).sum()])
    bounds = np.array([0, len(rows)])
    plain = sessions_of(
        {name: rows[name].tolist() for name in ROW.names or ()},
        bounds.tolist(),
        pages,
        facts(exact=exact),
        compiled=False,
    )
    compiled = sessions_of(rows, bounds, pages, facts(exact=exact), compiled=True)
    assert [part.tolist() for part in plain] == [part.tolist() for part in compiled]
    return plain


@given(st.integers(0, 10**6), st.integers(1, 700), st.integers(2, 80), st.sampled_from([0.3, 9.0, 40.0]))
@settings(max_examples=30, deadline=None)
def test_features_are_those_of_the_live_engine(seed, count, pages, pause):
    chance = Random(seed)
    at, visits = 0.0, []
    for _ in range(count):
        at += round(chance.expovariate(1 / pause), 6)
        parent = chance.choice([None, chance.randrange(1, pages)])
        visits.append((at, chance.randrange(1, pages), parent, chance.choice([0, 0, 2])))
    rows = np.zeros(count, ROW)
    rows["t"] = [round(visit[0] * 1e6) for visit in visits]
    rows["page"], rows["kind"] = [visit[1] for visit in visits], [visit[3] for visit in visits]
    rows["parent"], rows["place"] = [visit[2] or 0 for visit in visits], [visit[2] is not None for visit in visits]
    sessions, features = found_of(rows, exact=True)
    expected = expected_of(visits)
    assert sessions.tolist() == [[0, size] for size, _ in expected]
    assert np.allclose(features, np.array([wide for _, wide in expected]).reshape(-1, WIDTH), atol=1e-4)


@pytest.mark.parametrize("exact", [False, True])
def test_visits_of_one_second_are_spread_over_it(exact):
    rows = np.zeros(LONG, ROW)
    rows["page"] = np.arange(1, LONG + 1)
    sessions, features = found_of(rows, exact=exact)
    assert sessions.tolist() == [[0, LONG]]
    assert np.isclose(features[0][6], 0 if exact else 1 / LONG, atol=1e-4)

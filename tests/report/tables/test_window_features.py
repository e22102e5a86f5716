"""The windows of a log's sources have the features that the live engine computes, in plain Python and compiled."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.report.tables.figures import FOREIGN, OWN, SiteFacts
from hedgerow.report.tables.rows import ROW
from hedgerow.report.tables.window_features import MOST_WINDOWS, WIDTH, windows_of
from hedgerow.watch.sessions.window import Access, SessionWindow

REFERRED = {0: "absent", 1: "own", 2: "foreign"}
"""By the number of the referring host."""


def expected_of(rows: list[tuple[float, int, int, int, int, int]], *, hidden: bool) -> list[tuple[float, ...]]:
    """The reference: the features of each window when it is due."""
    found = []
    window = SessionWindow()
    for at, page, parent, place, agent, kind in rows:
        if kind:
            continue
        name = b"" if hidden else agent.to_bytes(4)
        led = parent.to_bytes(2) if place == 1 else None
        state = "absent" if not agent and not hidden else "browser"
        window.add(Access(at, "", name, page.to_bytes(2), led, REFERRED[place], b"", "absent", state))
        if window.is_due:
            window.fresh = 0
            found.append(window.features())
    return found[:MOST_WINDOWS]


@given(
    st.integers(0, 10**6), st.integers(1, 320), st.integers(2, 80), st.sampled_from([0.3, 40.0, 900.0]), st.booleans()
)
@settings(max_examples=60, deadline=None)
def test_features_are_those_of_the_live_engine(seed, count, pages, pause, hidden):
    chance = Random(seed)
    at, rows = 0.0, []
    for _ in range(count):
        at += round(chance.expovariate(1 / pause), 6)
        page, parent = chance.randrange(1, pages), chance.randrange(1, pages)
        rows.append((at, page, parent, chance.choice([0, 1, 1, 2]), chance.choice([0, 2, 2, 3]), chance.choice([0, 2])))
    table = np.zeros(count, ROW)
    for name, column in zip(
        ("page", "parent", "place", "agent", "kind"), list(zip(*rows, strict=True))[1:], strict=True
    ):
        table[name] = column
    table["t"] = [round(row[0] * 1e6) for row in rows]
    none = np.zeros(1, np.bool_)
    facts = SiteFacts(True, 4, np.array([FOREIGN, OWN, FOREIGN], np.uint8), none, none, hidden)
    bounds, visits = np.array([0, count]), np.array([(table["kind"] == 0).sum()])
    who, features = windows_of(table, bounds, visits, facts, compiled=True)
    listed = {name: table[name].tolist() for name in ROW.names or ()}
    plain = windows_of(listed, bounds.tolist(), visits, facts, compiled=False)
    assert [part.tolist() for part in plain] == [who.tolist(), features.tolist()]
    number = len(who)
    expected = expected_of(rows, hidden=hidden)
    assert np.allclose(features[:number], np.array(expected).reshape(-1, WIDTH), rtol=1e-5, atol=1e-6)
    assert (who[:number, 0] == 0).all()

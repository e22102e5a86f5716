"""The windows of a log's sources have the features that the live engine computes."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.report.tables.window_features import MOST_WINDOWS, WHO, WIDTH, slide
from hedgerow.watch.sessions.window import Access, SessionWindow

REFERRED = {0: "absent", 1: "own", 2: "foreign"}
"""By the number of the referring host."""


def windows_of(rows: list[tuple[float, int, int, int, int, int]], *, hidden: bool) -> list[tuple[float, ...]]:
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
    who, features = np.zeros((20, WHO), np.int64), np.zeros((20, WIDTH))
    columns = list(zip(*rows, strict=True))
    number = slide(
        np.array([0, count]), np.array([count]), 10**6, True, hidden, np.array([round(at * 1e6) for at in columns[0]]),
        np.array(columns[1], np.uint64), np.array(columns[2], np.uint64), np.array(columns[3], np.uint32),
        np.array(columns[4], np.uint32), np.array(columns[5], np.uint8), np.array([2, 1, 2], np.uint8), who, features,
    )  # fmt: skip
    expected = windows_of(rows, hidden=hidden)
    assert number == len(expected)
    assert np.allclose(features[:number], np.array(expected).reshape(-1, WIDTH), rtol=1e-5, atol=1e-6)
    assert (who[:number, 0] == 0).all()

"""Figures are the same in plain Python and compiled, however the rows of a source are divided."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.report.tables import figures, path_features, window_features
from hedgerow.report.tables.figures import FOREIGN, OWN, Figures, SiteFacts, count, join_figures
from hedgerow.report.tables.rows import sort_rows

from .test_local_store import rows_of

FACTS = SiteFacts(
    False, 5, np.array([0, FOREIGN, OWN, FOREIGN], np.uint8), np.arange(20) % 2 == 0, np.arange(20) % 3 == 0
)


def told(found: Figures) -> list[object]:
    return [getattr(found, name).tolist() for name in Figures.__struct_fields__]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("hidden", [False, True])
def test_plain_python_and_compiled_functions_agree(exact, hidden):
    rows = sort_rows(rows_of(1, 6000, loud=True))
    if not exact:
        rows["t"] -= rows["t"] % 1_000_000
    facts = FACTS._replace(exact=exact, hidden=hidden)
    assert told(count([rows], facts, compiled=False)) == told(count([rows], facts, compiled=True))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_source_may_go_on_in_the_next_pieces(compiled):
    rows = sort_rows(rows_of(2, 3000, loud=True))
    pieces = [rows[k : k + 400] for k in range(0, len(rows), 400)]
    assert told(count(pieces, FACTS, compiled=compiled)) == told(count([rows], FACTS, compiled=compiled))


def test_of_a_very_busy_source_the_first_rows_are_looked_at_closely(monkeypatch):
    for module in (figures, path_features, window_features):
        monkeypatch.setattr(module, "CLOSELY", 500)
    rows = sort_rows(rows_of(2, 3000, loud=True))
    pieces = [rows[k : k + 400] for k in range(0, len(rows), 400)]
    found = count(pieces, FACTS, compiled=False)
    busiest = int(found["requests"].argmax())
    mine = rows[rows["source"] == found.sources[busiest]]
    assert found["requests"][busiest] == len(mine) > 2000
    assert found["closely"][busiest] == 500
    assert found.last[busiest] == mine["t"][-1]
    assert len(set(found.sources.tolist())) == len(found.sources)


def test_parts_are_joined_by_source():
    rows = sort_rows(rows_of(3, 3000))
    parts = [rows[rows["source"] % np.uint64(3) == k] for k in range(3)]
    joined = join_figures([count([part], FACTS, compiled=False) for part in parts])
    assert told(joined) == told(count([rows], FACTS, compiled=False))
    assert told(join_figures([])) == [[]] * len(Figures.__struct_fields__)

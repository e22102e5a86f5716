"""Evidence about many sources at once is what it is about each of them by itself."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.report.evidence_columns import rounded
from hedgerow.report.path_opinion import _IDENTITIES, _identities
from hedgerow.report.pipeline import Options, make
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots, known_bots
from hedgerow.watch.models.bundle import Bundle, shipped

from .logs import site_log
from .weeks import busy_log

HALFWAY = st.integers(0, 20_000).map(lambda k: k / 20_000)
NEARLY = st.builds(np.nextafter, HALFWAY, st.sampled_from((0.0, 1.0))).map(float)


@example([0.0515], 3)  # of which numpy's own says 0.052
@given(st.lists(st.floats(0.0, 1.0) | HALFWAY | NEARLY), st.sampled_from((3, 4)))
def test_many_numbers_are_rounded_as_one(values: list[float], digits: int) -> None:
    assert rounded(np.array(values), digits).tolist() == [round(value, digits) for value in values]


@pytest.fixture(params=["site", "busy"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "access.log"
    if request.param == "busy":
        return busy_log(path)
    path.write_text(site_log(agent="Googlebot/2.1 (+http://www.google.com/bot.html)"))
    return path


def test_many_sources_are_spoken_of_as_each(log: Path) -> None:
    with Tables([str(log)], memory=500_000_000) as tables:
        report = make(tables, Bots(known=known_bots()), Options())
        told = json.loads("".join(report.to_json()))["sources"]
        places = report.ranked
    each = [list(chain(*report.judgements.evidence(np.array([place])))) for place in places]
    assert list(report.judgements.evidence(places)) == each
    assert len({one.detector for evidence in each for one in evidence}) > 3
    for evidence, one in zip(each, told, strict=True):
        assert evidence == sorted(evidence, key=lambda e: (-e.weight, e.detector, e.code))
        written = [{"detector": e.detector, "code": e.code, "weight": e.weight, "text": e.text} for e in evidence]
        assert one["evidence"] == written


@pytest.mark.parametrize("name", ["boosted", "pathmarker"])
def test_many_paths_are_named_as_each(name: str) -> None:
    bundle: Bundle = shipped(name)
    rows = np.random.default_rng(1).lognormal(0.0, 2.0, (200, len(bundle.features)))
    for stage in bundle.stages:
        found = [_IDENTITIES[kind] for kind in _identities(stage.kinds, rows)]
        assert found == [stage.kinds.name(row) if stage.kinds else "suspect" for row in rows.tolist()]

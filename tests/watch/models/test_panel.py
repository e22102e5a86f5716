"""A bundle and its shadow, what is recorded of both, and whether people are still what they were."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.watch.models.bundle import Bins, encoded, load, shipped
from hedgerow.watch.models.panel import MAJOR_DRIFT, MIN_SESSIONS, Drift, Panel, PanelRecord, stability_index
from hedgerow.watch.sessions.path import PathSession

BOOSTED, PATHMARKER, WINDOW = shipped("boosted"), shipped("pathmarker"), shipped("window")


def crawl(steps: int = 60) -> PathSession:
    """One page after another, a second apart."""
    session = PathSession()
    for n in range(steps):
        session.add(1.8e9 + n, f"/{n}", f"/{n - 1}" if n else None)
    return session


def sessions_of_people(count: int, seed: int = 99, steps: int = 60):
    """The first and second long sessions of so many people, as in the training."""
    # Imports scikit-learn, which takes seconds.
    from hedgerow.lab.train.samples import add_stride
    from hedgerow.lab.train.simulated_data import draw_people, draw_sites

    for walk in draw_people(Random(seed), draw_sites(Random(seed), 10), count, long_sessions=2):
        for strides in walk.sessions():
            session = PathSession()
            for stride in strides[:steps]:
                add_stride(session, stride)
            if session.size == steps:
                yield session


def test_a_shadow_is_compared_and_has_no_effect():
    panel = Panel("paths", BOOSTED, PATHMARKER)
    said = panel.judge(crawl(20), "192.0.2.1", 1.8e9).identity
    assert said == BOOSTED.judge_session(crawl(20)).identity != "person"
    # PathMarker is asked at 60 visits only.
    assert panel.record.compared == {said: {"person": 1}}
    assert (panel.record.sessions, panel.record.agreed, panel.record.flagged) == (1, 0, (1, 0))
    (difference,) = panel.record.differences
    assert (difference.visitor, difference.judged, difference.shadow) == ("192.0.2.1", said, "person")
    for _ in range(100):
        panel.judge(crawl(20), "192.0.2.1", 1.8e9)
    assert len(panel.record.differences) == 50


def test_a_record_is_restored_only_for_the_same_bundles():
    before = Panel("paths", BOOSTED, PATHMARKER)
    before.judge(crawl(), "192.0.2.1", 1.8e9)
    kept = msgspec.json.decode(msgspec.json.encode(before.record), type=PanelRecord)
    same, promoted, unshadowed = (
        Panel("paths", BOOSTED, PATHMARKER),
        Panel("paths", PATHMARKER),
        Panel("paths", BOOSTED),
    )
    for panel in (same, promoted, unshadowed):
        panel.restore(kept)
    assert same.record == before.record
    assert promoted.record.judged == {}
    assert (unshadowed.record.judged, unshadowed.record.compared) == (before.record.judged, {})


@pytest.mark.slow
def test_people_as_in_the_training_data_cause_no_drift():
    """PathMarker's bundle is trained on drawn people alone; among those of the other are real ones."""
    panel = Panel("paths", PATHMARKER)
    for session in sessions_of_people(300):
        panel.judge(session, "v", 0.0)
    assert {one.size for one in panel.drift()} == {60}
    assert {one.feature for one in panel.drift()} == set(PATHMARKER.features)
    assert max(one.drift for one in panel.drift()) < MAJOR_DRIFT
    assert panel.warning() == ""


@pytest.mark.slow
def test_changed_behaviour_of_people_causes_a_drift_warning():
    panel = Panel("paths", BOOSTED)
    for session in sessions_of_people(300):
        # Ten times as many assets as any site of the training had.
        session.side_requests = 20 + session.side_requests * 10
        panel.judge(session, "v", 0.0)
    far = {one.feature for one in panel.drift() if one.drift > MAJOR_DRIFT}
    assert "beside" in far
    assert "no longer resemble" in panel.warning()
    assert "beside" in panel.warning()


@pytest.mark.slow
def test_few_sessions_cause_no_drift_warning():
    panel = Panel("paths", BOOSTED)
    for session in sessions_of_people(MIN_SESSIONS // 4):
        session.side_requests = 5000
        panel.judge(session, "v", 0.0)
    assert panel.drift()
    assert panel.warning() == ""


@pytest.mark.slow
def test_a_bundle_without_bins_has_no_drift():
    bare = msgspec.structs.replace(
        BOOSTED, stages=tuple(msgspec.structs.replace(stage, bins=()) for stage in BOOSTED.stages)
    )
    panel = Panel("paths", bare)
    for session in sessions_of_people(20):
        panel.judge(session, "v", 0.0)
    assert panel.drift() == []


@given(st.lists(st.integers(0, 1000), min_size=3, max_size=3))
def test_a_stability_index_is_never_negative(counts):
    bins = Bins((1.0, 2.0), (0.2, 0.5, 0.3))
    assert stability_index(bins, counts) >= 0


def test_drift_counts_of_old_sessions_fade():
    drift = Drift()
    row = tuple(0.0 for _ in BOOSTED.features)
    for _ in range(20_001):
        drift.add(BOOSTED, row, 10)
    assert {sum(one) for one in drift.counts["10"]} == {10_000}


@pytest.mark.parametrize(
    "bins",
    [
        Bins((2.0, 1.0), (0.3, 0.3, 0.4)),
        Bins((1.0, 1.0), (0.3, 0.3, 0.4)),
        Bins((1.0,), (1.0,)),
        Bins((float("nan"),), (0.5, 0.5)),
        Bins((1.0,), (1.5, -0.5)),
    ],
)
def test_invalid_bins_are_a_fault(bins):
    stage = msgspec.structs.replace(WINDOW.stages[0], bins=(bins,) * len(WINDOW.features))
    assert list(msgspec.structs.replace(WINDOW, stages=(stage,)).faults())


def test_bins_of_another_width_are_a_fault():
    stage = msgspec.structs.replace(WINDOW.stages[0], bins=WINDOW.stages[0].bins[:-1])
    assert list(msgspec.structs.replace(WINDOW, stages=(stage,)).faults())


def test_shipped_bundles_have_bins(tmp_path):
    for bundle in (BOOSTED, PATHMARKER, WINDOW):
        assert all(len(stage.bins) == len(bundle.features) for stage in bundle.stages)
        (tmp_path / "b.json").write_bytes(encoded(bundle))
        assert load(tmp_path / "b.json") == bundle

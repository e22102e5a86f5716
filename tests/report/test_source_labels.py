"""Opinions become scores, labels and evidence, and all other sources together have a daily rhythm."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.report.model_opinions import _IDENTITIES, _identities
from hedgerow.report.pipeline import Options, make
from hedgerow.report.shape.series import NIGHT, Counts, plan_of
from hedgerow.report.source_labels import CRAWLER, PERSON, UNKNOWN, SourceLabels, residual_traffic, rounded
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


class OneOpinion:
    """An opinion about five sources, without evidence."""

    detector, codes = "test", ("test-code",)
    probability = np.array([0.05, 0.45, 0.5, 0.75, np.nan])
    speaks = np.zeros(5, np.bool_)


def test_a_score_of_one_half_or_more_makes_a_crawler() -> None:
    """Were the limit 0.9, a crawler with a score of 0.75 would be called a person."""
    labels = SourceLabels(np.full(5, 5), {"test": OneOpinion()}, None, trust={})  # type: ignore[dict-item]
    assert labels.score.round(9).tolist() == [0.05, 0.45, 0.5, 0.75, 0.5]
    assert labels.label.tolist() == [PERSON, PERSON, CRAWLER, CRAWLER, UNKNOWN]


def test_a_source_with_too_few_pages_is_unknown() -> None:
    labels = SourceLabels(np.array([4, 4, 4, 4, 5]), {"test": OneOpinion()}, None, trust={})  # type: ignore[dict-item]
    assert labels.label.tolist() == [UNKNOWN] * 5


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
    campaign_of = {name: one.id for one in report.campaigns for name in one.members}
    assert [one["campaign"] for one in told] == [campaign_of.get(one["source"]) for one in told]
    assert campaign_of


@pytest.mark.parametrize("name", ["boosted", "pathmarker"])
def test_many_paths_are_named_as_each(name: str) -> None:
    bundle: Bundle = shipped(name)
    rows = np.random.default_rng(1).lognormal(0.0, 2.0, (200, len(bundle.features)))
    for stage in bundle.stages:
        found = [_IDENTITIES[kind] for kind in _identities(stage.kinds, rows)]
        assert found == [stage.kinds.name(row) if stage.kinds else "suspect" for row in rows.tolist()]


DAYS = 6


def crowd(at_night: int, days: int = DAYS):
    """Sources of one request each, so many of them in each half-hour of a night, and a crawler that never sleeps."""
    bins = np.arange(48 * days)
    each = np.where(bins % 48 < 16, at_night, 20)
    rows = np.arange(each.sum())
    label = np.where(rows % 3, UNKNOWN, PERSON)
    busy = np.full(len(bins), len(rows))
    counts = Counts(
        np.concatenate([rows, busy]), np.concatenate([np.repeat(bins, each), bins]),
        np.concatenate([np.ones(len(rows)), np.full(len(bins), 500.0)]), len(rows) + 1,
    )  # fmt: skip
    plan = plan_of(0.0, days * 86400.0 - 1)
    return residual_traffic(SimpleNamespace(label=np.append(label, CRAWLER)), counts, plan, NIGHT)


@pytest.mark.parametrize(("at_night", "crawl"), [(3, False), (19, True)])
def test_a_crowd_sleeps_and_a_scraper_does_not(at_night, crawl):
    found = crowd(at_night)
    assert found.rhythm.crawl is crawl
    assert found.sources == found.requests == DAYS * (16 * at_night + 32 * 20)
    assert found.text.startswith(f"The {found.sources:,} sources that are not held to be crawlers")
    assert ("may hide among them" in found.text) is crawl


def test_of_a_short_log_nothing_is_said():
    assert crowd(19, days=2).text == ""
    assert crowd(19, days=1) is None

"""The parts of the evaluation that do not need its data."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from evaluate import baselines, independent, pointer_data, walks
from evaluate.__main__ import goals_of
from evaluate.charts import line_chart
from evaluate.pointer import Trainer, unseen_scores
from evaluate.texts import TEXTS
from evaluate.unseen import folder_site

from hedgerow.lab.train.samples import PERSON, Stride, Walk
from hedgerow.request.pointer_model import LOOKS_DRIVEN


def test_a_folder_of_html_is_read_as_a_site(tmp_path):
    (tmp_path / "index.html").write_text(
        '<a href="a.html#x">a</a> <A HREF=b/c.html>c</a> <a href="http://else.org/">e</a>'
    )
    (tmp_path / "a.html").write_text('<a href="/index.html">home</a> <a href="gone.html">gone</a>')
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.html").write_text('<a href="../a.html">a</a>')
    assert folder_site(tmp_path) == ((1, 2), (0,), (1,))


def test_a_line_chart_contains_its_curves():
    plot = ET.fromstring(line_chart("a < b", {"one & two": [(0.0, 0.0), (10.0, 1.0)]}, max_x=10.0))
    (curve,) = plot.findall("{http://www.w3.org/2000/svg}polyline")
    assert curve.get("points") == "50.0,360.0 500.0,60.0"


@pytest.mark.parametrize("name", TEXTS)
def test_the_page_has_the_texts_of_its_template(name):
    page = (Path(__file__).parents[1] / "docs" / "evaluation" / "README.md").read_text("utf-8")
    pattern = re.sub(r"\\\{\w+\\\}", "[^\n]+", re.escape(TEXTS[name]))
    assert re.search(pattern, page)


def test_the_pointer_model_on_sessions_that_training_has_not_seen():
    """The goal: 95 % of moderate and of advanced bots, and at most 1 of 50 people."""
    if not pointer_data.is_available():
        pytest.skip(f"{pointer_data.DATA} is not there")
    trainer = Trainer([*pointer_data.iliou(), *pointer_data.balabit()])
    called: dict[str, list[bool]] = {}
    for session, score in zip(trainer.sessions, unseen_scores(trainer), strict=True):
        group = session.group if session.group.endswith("_bot") else "people"
        called.setdefault(group, []).append(score >= LOOKS_DRIVEN)
    assert sum(called["moderate_bot"]) >= 0.95 * len(called["moderate_bot"])
    assert sum(called["advanced_bot"]) >= 0.95 * len(called["advanced_bot"])
    assert sum(called["people"]) <= len(called["people"]) / 50


def walk(gap: float, pages: int, *, side_requests: int = 0, distinct: int = 1000) -> Walk:
    strides = tuple(Stride(n * gap, n % distinct, None, side_requests) for n in range(pages))
    return Walk("somebody", PERSON, "test", "site", strides)


def test_crowdsecs_rule_counts_distinct_pages_and_forgets_one_every_half_second():
    assert baselines.crowdsec_rule(walk(0.01, 45))
    assert not baselines.crowdsec_rule(walk(0.01, 40))
    assert not baselines.crowdsec_rule(walk(0.01, 200, distinct=30))
    assert not baselines.crowdsec_rule(walk(0.6, 500))


def test_the_rate_rule_counts_pages_within_a_minute():
    assert baselines.rate_threshold(walk(1.0, 60))
    assert not baselines.rate_threshold(walk(2.0, 60))
    assert not baselines.rate_threshold(walk(1.0, 30))


def test_the_asset_rule_looks_at_ten_pages():
    assert baselines.no_assets(walk(1.0, 20))
    assert not baselines.no_assets(walk(1.0, 20, side_requests=1))


def test_the_small_model_has_eight_features_and_finds_a_flat_out_crawler():
    assert len(baselines.features(walk(1.0, 20).strides)) == len(baselines.FEATURES) == 8
    judge = baselines.logistic_regression(1)
    assert judge(walk(0.02, 60))


def test_rows_about_generated_people_and_labels_from_assets_decide_no_goal():
    decisive = ["99 % of the long sessions of people, Wikispeedia, by paths", "99 %", "96 %", "met"]
    others = [
        ["99 % of the long sessions of people, generated, by paths", "99 %", "96 %", "met"],
        ["99 % of the long sessions of people, logs, by paths", "99 %", "96 %", "met"],
        ["almhuette, readers: area under ROC", "0.9", "", "no figure was set"],
    ]
    goals, _, comparison = goals_of([decisive, *others]).partition("for comparison |")
    assert goals.count("met |") == 1
    assert all(row[0] in comparison and row[0] not in goals for row in others)
    assert "met" not in comparison


def test_walks_in_a_browser_were_recorded_at_the_sites_of_the_crawls():
    recorded = walks.load()
    assert len(recorded) >= 40
    assert {one.site for one in recorded} == {one.site for its in independent.crawlers().values() for one in its} - {
        "iliou"
    }
    assert sum(len(one.strides) >= baselines.MIN_PAGES for one in recorded) >= 30

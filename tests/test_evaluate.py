"""The parts of the evaluation that do not need its data."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from evaluate import pointer_data
from evaluate.charts import line_chart
from evaluate.pointer import Trainer, unseen_scores
from evaluate.texts import TEXTS
from evaluate.unseen import folder_site

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

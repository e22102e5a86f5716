"""The paper's pipeline on a log made by its recipe: busy crawlers, workers in step, readers with days and nights."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest

from hedgerow.errors import SettingsError
from hedgerow.report.pipeline import Options, make
from hedgerow.report.pubcrawl import Prefilter, busiest_days
from hedgerow.report.shape.series import Counts, plan_of
from hedgerow.report.source_labels import CRAWLER, LABELS, UNKNOWN
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots
from hedgerow.settings.load import Settings, load_settings
from hedgerow.settings.tables import ReportSettings
from report.logs import line

START = 1_700_006_400.0
DAY = 86_400.0


def paper_log(seed: int = 1) -> str:
    chance, draw = Random(seed), np.random.default_rng(seed)
    lines: list[tuple[float, str]] = []
    plan = draw.gamma(0.05, 1, 240)
    plan *= 600 / plan.sum()
    for worker in range(4):
        address = f"198.51.{worker}.7"
        for half_hour, count in enumerate(draw.poisson(plan).tolist()):
            for _ in range(count):
                at = START + half_hour * 1800 + chance.random() * 1800
                status = 404 if chance.random() < 0.5 else 200
                page = f"/profile/{chance.randrange(100_000)}"
                lines.append((at, line(address, at, page, status=status)))
    at = START
    while at < START + DAY:
        lines.append((at, line("198.51.100.1", at, f"/profile/{chance.randrange(100_000)}")))
        at += 60
    for reader in range(30):
        for day in chance.sample(range(5), chance.randint(1, 2)):
            at, here = START + day * DAY + 8 * 3600 + chance.random() * 40_000, "/profile/1"
            for _ in range(6):
                page = f"/profile/{chance.randrange(30)}?lang=en"
                lines.append((at, line(f"192.0.2.{reader}", at, page, referrer=f"http://e.org{here}")))
                lines += [(at, line(f"192.0.2.{reader}", at, f"/i/{k}.png")) for k in range(5)]
                at, here = at + chance.expovariate(1 / 60), page
    lines.append((START, line("203.0.113.1", START, "/")))
    return "".join(text for _, text in sorted(lines, key=lambda one: one[0]))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("paper") / "access.log"
    path.write_text(paper_log())
    with Tables([str(path)], memory=10**9) as tables:
        made = make(tables, Bots(), Options(method="pubcrawl"))
        yield made, "".join(made.to_json())


def test_algorithm_1_finds_the_workers_that_are_in_step(report):
    made, _ = report
    assert [sorted(one.members) for one in made.campaigns] == [[f"198.51.{n}.7" for n in range(4)]]
    assert made.campaigns[0].kind == "synchronous"


def test_prefilter_heuristics_and_containment_decide_in_turn(report):
    made, text = report
    labels = dict(zip(made.tables.sources, made.judgements.label.tolist(), strict=True))
    assert labels["198.51.100.1"] == CRAWLER
    assert all(labels[f"198.51.{n}.7"] == CRAWLER for n in range(4))
    assert labels["203.0.113.1"] == UNKNOWN
    people = [LABELS[labels[f"192.0.2.{n}"]] for n in range(30)]
    # The paper has 82.5 % of users right.
    assert people.count("person") >= 25
    data = json.loads(text)
    assert data["method"]["name"] == "pubcrawl"
    assert data["method"]["outright"] == 1
    assert data["method"]["prefilter"] == {"crawler_from": 1000, "judged_from": 1}
    assert (data["containment"]["k1"], data["containment"]["k2"]) == (20, 1000)
    outright = next(one for one in data["sources"] if one["source"] == "198.51.100.1")
    assert "It made 1,440 requests on one day, more than 1,000." in [e["text"] for e in outright["evidence"]]


def test_limits_of_the_settings_hold():
    given = ReportSettings(crawler_from=70, judged_from=30)
    assert Prefilter.of(given, 10**9, 5.0) == Prefilter(70, 30)
    assert Settings().report == ReportSettings()


def test_limits_in_the_wrong_order_are_refused(tmp_path):
    path = tmp_path / "hedgerow.toml"
    path.write_text("[report]\ncrawler_from = 10\njudged_from = 20\n")
    with pytest.raises(SettingsError, match="must be above judged_from"):
        load_settings(path)


def test_the_busiest_day_counts():
    plan = plan_of(0.0, 5 * DAY)
    counts = Counts.of_matrix([[1, *[0] * 47, 5, 6, *[0] * 190], [0] * 240])
    assert busiest_days(counts, plan).tolist() == [11, 0]

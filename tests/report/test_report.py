"""The report as a whole: labels, the contract of the JSON, and that the same log gives the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from hedgerow.logs.dialect import Dialect
from hedgerow.report.blocklist import listings
from hedgerow.report.heuristics import NAMES, Thresholds, Votes
from hedgerow.report.html.page import page
from hedgerow.report.model_opinions import scores
from hedgerow.report.pipeline import Options, make
from hedgerow.report.tables.source_tables import Tables
from hedgerow.report.terminal import print_report
from hedgerow.request.bots import Bot, Bots, known_bots
from hedgerow.watch.models.bundle import shipped
from report.logs import line, site_log

MEMORY = 400_000_000
BOTS = Bots(known=known_bots())


def report_of(path: Path, **options):
    with Tables([str(path)], memory=MEMORY) as tables:
        return json.loads("".join(make(tables, BOTS, Options(**options)).to_json()))


def labels_of(data) -> dict[str, str]:
    return {one["source"]: one["label"] for one in data["sources"]}


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("report") / "access.log"
    path.write_text(site_log() + "no line\n")
    return path


@pytest.mark.parametrize("hidden", [False, True])
def test_crawlers_are_told_from_people(log, hidden):
    data = report_of(log, ignore_agents=hidden)
    found = labels_of(data)
    assert all(label == ("crawler" if source.startswith("198.") else "person") for source, label in found.items())
    assert data["log"]["lines"] == data["log"]["parsed"] + 1 == 30 * 48 + 600 + 1
    assert data["log"]["hosts"] == ["e.org"]
    for one in data["sources"]:
        assert 0 <= one["score"] <= 1
        assert set(one) >= {"source", "requests", "label", "score", "evidence", "campaign"}
        assert one["label"] != "crawler" or one["evidence"]
        assert all(set(e) == {"detector", "code", "weight", "text"} for e in one["evidence"])
    assert sum(one["requests"] for one in data["sources"]) == data["log"]["parsed"]


@pytest.mark.parametrize("hidden", [False, True])
def test_who_has_evidence_is_known_beforehand(log, hidden):
    with Tables([str(log)], memory=MEMORY) as tables:
        judgements = make(tables, BOTS, Options(ignore_agents=hidden)).judgements
        for opinion in judgements._opinions.values():
            found = opinion.evidence(np.flatnonzero(opinion.speaks))
            assert np.unique(found.whom).tolist() == list(range(opinion.speaks.sum()))
        assert any(opinion.speaks.any() for opinion in judgements._opinions.values())


def test_accounts_are_sources_where_they_are_asked_for(tmp_path, capsys):
    path = tmp_path / "log"
    path.write_text("".join(
        one.replace(" - - [", " - bulk [") if one.startswith("198.") else one for one in site_log().splitlines(True)
    ))  # fmt: skip
    with Tables([str(path)], memory=MEMORY, dialect=Dialect(by="account")) as tables:
        report = make(tables, BOTS, Options())
        data = json.loads("".join(report.to_json()))
        print_report(Console(), report)
        shown = "".join(page(report))
    assert data["log"]["by"] == "account"
    (bulk,) = [one for one in data["sources"] if one["source"] == "account:bulk"]
    assert (bulk["requests"], bulk["label"]) == (600, "crawler")
    assert bulk["address"].startswith("198.51.100.")
    assert all("address" not in one for one in data["sources"] if one is not bulk)
    said = capsys.readouterr().out
    assert "Sources are accounts" in said
    assert "account:bulk" in said
    assert "<code>account:bulk</code> 198.51.100." in shown
    assert [one.subject for one in listings(report, since=0.0, until=0.0)] == ["account:bulk"]


def test_hidden_user_agents_change_nothing(tmp_path):
    """Whatever a crawler calls itself, with --ignore-user-agent it is judged by what it does."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text(site_log())
    other.write_text(site_log(agent="Googlebot/2.1 (+http://www.google.com/bot.html)"))
    assert report_of(one, ignore_agents=True) == report_of(other, ignore_agents=True)
    assert labels_of(report_of(other))["198.51.100.1"] == "crawler"


def test_the_same_log_gives_the_same_bytes(log):
    texts = set()
    for _ in range(2):
        with Tables([str(log)], memory=MEMORY) as tables:
            texts.add("".join(make(tables, BOTS, Options()).to_json()))
    assert len(texts) == 1


def test_a_verified_bot_is_a_good_one(log):
    with Tables([str(log)], memory=MEMORY) as tables:
        bots = Bots([Bot("ours", ("198.51.100.0/24",))], known=known_bots())
        # Bots of the settings are known by their networks, whatever they say.
        assert bots.verified("198.51.100.1", "x") == "ours"
        report = make(tables, bots, Options())
        assert report.totals()["crawler"][0] + report.totals()["good-bot"][0] == 10


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        line("192.0.2.1", 0.0, "/"),
        line("192.0.2.1", 1.7e9, "/") * 50,
        line("192.0.2.1", -1e10, "/") + line("192.0.2.1", 2e10, "/a"),
        "".join(line(f"192.0.2.{n}", 1.7e9, f"/{n}") for n in range(50)),
    ],
    ids=["empty", "blank", "one line", "one source in one second", "a thousand years", "one second"],
)
def test_logs_at_the_edge(tmp_path, text):
    path = tmp_path / "log"
    path.write_text(text)
    data = report_of(path)
    assert data["log"]["lines"] == text.count("\n")
    assert sum(one["requests"] for one in data["sources"]) == data["log"]["parsed"]


@pytest.mark.parametrize("own", ["b.example", "a.example"])
def test_own_hosts_are_those_that_are_asked_for_not_those_that_anybody_names(tmp_path, own):
    path = tmp_path / "log"
    some = [json.dumps({"time": 1.7e9 + n, "ip": "192.0.2.1", "path": f"/{n}", "host": own}) for n in range(2000)]
    some += [json.dumps({"time": 1.7e9 + n, "ip": "192.0.2.2", "path": "/", "host": "www.example"}) for n in range(20)]
    some.append(json.dumps({"time": 1.7e9, "ip": "192.0.2.3", "path": "/", "host": "www.google.com"}))
    path.write_text("\n".join(some))
    assert report_of(path)["log"]["hosts"] == [own, "www.example"]
    # Where only who looks for an open proxy names a host, it is none of ours.
    path.write_text("\n".join(one.replace("host", "x") for one in some) + "\n" + some[0])
    assert report_of(path)["log"]["hosts"] == []


def test_who_ignores_cookies_has_a_vote_against_it_where_the_log_tells(tmp_path):
    path = tmp_path / "log"
    some = [
        {
            "time": 1.7e9 + n,
            "ip": f"192.0.2.{who}",
            "method": "GET",
            "path": f"/{n}",
            "sid": "a" if who == 1 and n else "",
        }
        for n in range(10)
        for who in (1, 2)
    ]
    path.write_text("\n".join(map(json.dumps, some)))
    with Tables([str(path)], memory=MEMORY, dialect=Dialect(cookies=True)) as tables:
        votes = make(tables, BOTS, Options()).votes
    assert votes.votes[:, NAMES.index("cookies")].tolist() == [0, 1]
    said = votes.sentences(np.array([1]), np.array([NAMES.index("cookies")]))
    assert said == ["100 % of its page visits began a new session."]


@pytest.mark.parametrize(
    ("text", "said"),
    [("2000-10-10 GET /\n", "--format"), ('{"when": 1}\n', "[logs] fields")],
)
def test_a_log_that_nobody_can_read_comes_with_advice(tmp_path, text, said):
    path = tmp_path / "log"
    path.write_text(text)
    with Tables([str(path)], memory=MEMORY) as tables:
        console = Console(record=True, width=200)
        print_report(console, make(tables, BOTS, Options()))
    assert said in console.export_text().splitlines()[1]


def test_members_of_campaigns_are_named_as_the_sources_are(tmp_path):
    path = tmp_path / "log"
    text = "".join(line(f"c\xe9{n}", 1.7e9 + k, f"/{k}", agent="x-crawler/1") for n in range(5) for k in range(9))
    path.write_bytes(b"\xef\xbb\xbf\0" + text.encode("latin-1"))
    data = report_of(path)
    members = {name for campaign in data["campaigns"] for name in campaign["members"]}
    assert members == {one["source"] for one in data["sources"]} == {f"c\xe9{n}" for n in range(5)}


def test_every_source_with_five_page_views_has_a_label(log):
    data = report_of(log)
    assert all(one["label"] != "unknown" for one in data["sources"] if one["pages"] >= 5)


def test_lists_hold_crawlers_only(log):
    with Tables([str(log)], memory=MEMORY) as tables:
        found = list(listings(make(tables, BOTS, Options()), since=1.0, until=2.0, sure=0.5))
    assert {one.subject for one in found} == {f"198.51.100.{n}" for n in range(10)}
    assert all((one.list, one.since, one.until) == ("black", 1.0, 2.0) and one.reason for one in found)


def test_series_are_counts_in_common_intervals(log):
    with Tables([str(log)], memory=MEMORY) as tables:
        place, bins, requests = tables.sparse(1800.0)
        assert (np.bincount(place, requests, 40) == tables.requests).all()
        last = int(tables.span // 1800.0)
        assert (bins.min(), bins.max()) == (0, last)
        assert (np.diff(place * (last + 1) + bins) > 0).all()
        assert tables.sources[0] == "192.0.2.0"


def test_what_a_log_lacks_nobody_is_held_to_lack(tmp_path):
    """A common log tells no referrers, and a site's images may lie elsewhere: its people are people all the same."""
    common, bare = tmp_path / "common", tmp_path / "bare"
    common.write_text("".join(one.rsplit(' "', 2)[0] + "\n" for one in site_log().splitlines()))
    bare.write_text("".join(one for one in site_log().splitlines(True) if ".png" not in one))
    for path in (common, bare):
        found = labels_of(report_of(path))
        assert all(label == "crawler" for name, label in found.items() if name.startswith("198."))
        assert sum(label == "person" for label in found.values()) > 0.8 * 30


def test_order_and_errors_and_queries(tmp_path):
    """The heuristics, one by one: what each is about."""
    pages = [f"/item/{name}" for name in "abcdefghijklmnopqrstuvwxyz"]
    text = "".join(line("192.0.2.1", 1.7e9 + n, page) for n, page in enumerate(pages))
    text += "".join(line("192.0.2.2", 1.7e9 + n, "/item/a?x=1", status=404, agent=f"a{n == 0}") for n in range(200))
    path = tmp_path / "log"
    path.write_text(text)
    with Tables([str(path)], memory=MEMORY) as tables:
        votes = Votes(tables.figures, Thresholds())
    first, second = (dict(zip(NAMES, row, strict=True)) for row in votes.votes.tolist())
    assert first == {
        "errors": 0, "revisits": 1, "referrer": 1, "cookies": -1, "unbalanced": -1, "parameters": 1, "order": 1,
    }  # fmt: skip
    assert second == {
        "errors": 1, "revisits": 0, "referrer": 1, "cookies": -1, "unbalanced": 1, "parameters": 0, "order": -1,
    }  # fmt: skip
    assert votes.crawlers.tolist() == [True, True]


@pytest.mark.parametrize("name", ["boosted", "pathmarker"])
def test_scores_in_bulk_are_those_of_one(name):
    bundle = shipped(name)
    rows = np.random.default_rng(1).gamma(1.0, 2.0, (40, len(bundle.features)))
    for stage in bundle.stages:
        assert np.allclose(scores(stage, rows), [stage.model.score(row) for row in rows.tolist()])

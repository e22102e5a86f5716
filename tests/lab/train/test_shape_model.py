"""From labelled sources to a bundle: labels, people put together, rules, and figures on sources left out."""

import json

import numpy as np
import pytest

from hedgerow.cli.main import main
from hedgerow.core.visit import Visit
from hedgerow.errors import ModelError
from hedgerow.lab.train.cn2_rules import fit_rules
from hedgerow.lab.train.samples import PERSON
from hedgerow.lab.train.shape_model import (
    CRAWLER,
    MERGED,
    LabelledSource,
    bot_declaration,
    gather,
    merged_people,
    rows_of,
    train_shape,
)
from hedgerow.report.shape.classifiers import load

DAY = 86_400.0


def sources(count=40, seed=1):
    """Crawlers that come all the time, people who come once or twice, and one nobody knows."""
    chance = np.random.default_rng(seed)
    found = []
    for number in range(count):
        times = np.sort(chance.uniform(0, 6 * DAY, int(chance.integers(25, 80))))
        found.append(LabelledSource(f"c{number}", times, np.ones(len(times), bool), CRAWLER, number % 5))
        pages = chance.integers(0, 6) * DAY + 40_000 + np.cumsum(chance.exponential(60, 6))
        times = np.sort(np.repeat(pages, 8) + chance.integers(0, 3, 48))
        found.append(LabelledSource(f"p{number}", times, np.arange(48) % 8 == 0, PERSON, number % 5))
    found.append(LabelledSource("x", np.array([0.0, 6 * DAY]), np.ones(2, bool), "", 0))
    return found


@pytest.fixture(scope="module")
def bundle():
    return train_shape({"a": sources()}, provenance={"who": "made up"})


def test_a_bundle_has_models_and_quality_figures(bundle):
    assert list(bundle.faults()) == []
    assert bundle.provenance["crawlers"] == 40
    assert bundle.provenance["who"] == "made up"
    for name in ("eight", "series", "all"):
        assert bundle.metrics[name]["auc"] > 0.95
        assert bundle.metrics[name]["crawlers_by_vote"]["of"] == 40
        assert bundle.models[name].threshold >= 0.5


def test_the_same_sources_give_the_same_bundle(bundle):
    assert train_shape({"a": sources()}, provenance={"who": "made up"}) == bundle


def test_too_few_sources_are_an_error():
    with pytest.raises(ModelError, match="20 of each are needed"):
        train_shape({"a": sources(count=5)})


def test_merged_people_are_of_one_fold():
    put = merged_people(sources(), 1)
    assert put
    assert {one.label for one in put} == {MERGED}
    by_fold = {
        fold: {float(t) for s in sources() if s.label == PERSON and s.fold == fold for t in s.times}
        for fold in range(5)
    }
    assert all({float(t) for t in one.times} <= by_fold[one.fold] for one in put)
    rows = rows_of([*sources(), *put])
    assert set(rows.labels.tolist()) == {CRAWLER, PERSON, MERGED}


def test_cn2_finds_a_planted_rule():
    chance = np.random.default_rng(3)
    rows = chance.random((400, 4))
    crawlers = (rows[:, 2] > 0.6) & (rows[:, 0] <= 0.5)
    rules = fit_rules(rows, crawlers)
    right = (rules.probability(rows) > 0.5) == crawlers
    assert right.mean() > 0.93
    first = rules.rules[0]
    assert first.crawler
    assert {(c.column, c.above) for c in first.conditions} == {(2, True), (0, False)}


def visit(at, address, agent, kind="page", referrer=""):
    return Visit(at, address, address, address, "GET", f"/{at}", kind=kind, user_agent=agent, referrer=referrer)


def test_labels_come_from_the_log_or_from_a_file():
    visits = [visit(float(n), "192.0.2.1", "Googlebot/2.1") for n in range(4)]
    for n, kind in enumerate(("page", "asset", "asset", "asset")):
        visits.append(visit(10.0 + n, "192.0.2.2", "Mozilla/5.0 Firefox", kind, "https://site.example/"))
    visits.append(visit(20.0, "192.0.2.3", "Mozilla/5.0 Firefox"))
    found = {source.name: source.label for source in gather(visits)}
    assert found == {"192.0.2.1": CRAWLER, "192.0.2.2": PERSON, "192.0.2.3": ""}
    told = {"192.0.2.3": "depth-first", "192.0.2.1": PERSON}
    found = {source.name: source.label for source in gather(visits, told)}
    assert found == {"192.0.2.1": PERSON, "192.0.2.2": "", "192.0.2.3": CRAWLER}


def test_user_agents_that_declare_a_bot():
    is_declared = bot_declaration()
    assert all(map(is_declared, ("Googlebot/2.1", "python-requests/2.31", "x (+https://who.example/bot)", "curl/8")))
    assert not is_declared("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0")


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["hedgerow", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def write_log(path):
    lines = []
    for source in sources(count=24):
        agent = "thing-bot/1.0" if source.label == CRAWLER else "Mozilla/5.0 (X11) Firefox/99.0"
        address = f"192.0.{2 + source.name.startswith('p')}.{int(source.name[1:] or 0)}"
        for at, page in zip(source.times.tolist(), source.pages.tolist(), strict=True):
            day, rest = divmod(int(at), 86_400)
            clock = f"{1 + day:02}/Mar/2026:{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02} +0000"
            target = f"/page/{int(at)}" if page else f"/style/{int(at)}.css"
            lines.append((at, f'{address} - - [{clock}] "GET {target} HTTP/1.1" 200 9 "https://s.example/" "{agent}"'))
    path.write_text("\n".join(line for _, line in sorted(lines)) + "\n")


def test_train_shape_on_the_command_line(monkeypatch, tmp_path, capsys):
    write_log(tmp_path / "access.log")
    out = tmp_path / "shape.json"
    assert run(monkeypatch, "train", "shape", str(tmp_path / "access.log"), "--out", str(out)) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["provenance"]["crawlers"] == 24
    assert "The bundle is in" in said.err
    assert load(out).metrics["all"]["auc"] > 0.9


def test_train_shape_without_logs_says_what_to_do(monkeypatch, capsys):
    assert run(monkeypatch, "train", "shape") != 0
    assert "hedgerow train shape LOG..." in capsys.readouterr().err

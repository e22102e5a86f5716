"""Training from a site's own logs, and the command."""

from __future__ import annotations

import json
from random import Random

import pytest
from typer.testing import CliRunner

from hedgerow.cli import app
from hedgerow.errors import ModelError
from hedgerow.models.bundle import load
from hedgerow.training.rows import draw_crawlers, draw_people, draw_sites
from hedgerow.training.simulated import Size
from hedgerow.training.sitelogs import gather, read_labels, train_from_logs
from hedgerow.visit import Visit

SITES = draw_sites(Random(1), 4)


def visits_of(walks):
    """The walks as a log has them: with referrers, on example.org."""
    visits = []
    for number, walk in enumerate(walks):
        who = f"192.0.2.{number}"
        for stride in walk.strides:
            referrer = "" if stride.parent is None else f"http://example.org/{stride.parent}"
            visits.append(Visit(stride.at, who, who, who, "GET", f"/{stride.page}", referrer=referrer))
            visits += [
                Visit(
                    stride.at,
                    who,
                    who,
                    who,
                    "GET",
                    "/x.png",
                    kind="asset",
                    referrer=f"http://example.org/{stride.page}",
                )
            ] * stride.beside
    return sorted(visits, key=lambda visit: visit.at)


def test_a_bundle_for_a_site():
    chance = Random(5)
    people = draw_people(chance, SITES, 40, marked=False)
    crawlers = draw_crawlers(chance, SITES, 36, marked=False, vary=False)
    labels = {f"192.0.2.{40 + n}": walk.label for n, walk in enumerate(crawlers)}
    gathered = gather(visits_of([*people, *crawlers]), labels, load(), host="example.org")
    assert gathered.crawlers == 36
    assert gathered.people + gathered.kept_out == 40
    assert gathered.kept_out <= 4
    bundle = train_from_logs(gathered, recipe="boosted", seed=1)
    assert not list(bundle.faults())
    assert "of this site" in bundle.provenance["people"]
    assert "simulated" not in bundle.provenance["crawlers"]


def test_crawlers_that_nobody_labelled_are_kept_out():
    crawlers = draw_crawlers(Random(5), SITES, 12, marked=False, vary=False)
    gathered = gather(visits_of(crawlers), {}, load(), host="example.org")
    assert gathered.people <= 1


def test_who_is_named_a_person_is_one():
    crawlers = draw_crawlers(Random(5), SITES, 6, marked=False, vary=False)
    gathered = gather(visits_of(crawlers), {f"192.0.2.{n}": "person" for n in range(6)}, load(), host="example.org")
    assert gathered.people == 6


def test_labels(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("visitor,label\n192.0.2.1,depth-first\n\naccount:ann,person\n")
    assert read_labels(path) == {"192.0.2.1": "depth-first", "account:ann": "person"}
    path.write_text("192.0.2.1,robot\n")
    with pytest.raises(ModelError, match="line 1"):
        read_labels(path)
    with pytest.raises(ModelError, match="cannot be read"):
        read_labels(tmp_path / "none.csv")


def test_the_command_simulated(tmp_path):
    out, told = tmp_path / "bundle.json", tmp_path / "told.json"
    arguments = ["train", "--recipe", "pathmarker", "--people", "60", "--crawlers", "60", "--out", str(out)]
    result = CliRunner().invoke(app, [*arguments, "--json", str(told)])
    assert result.exit_code == 0, result.output
    assert load(out).name == "pathmarker"
    assert json.loads(told.read_text())["metrics"]["60"]["people_right"]["of"] == 120
    assert "people right" in result.output


def test_the_command_with_a_log(tmp_path, monkeypatch):
    monkeypatch.setattr("hedgerow.training.sitelogs.Size", lambda: Size(4, 60, 60))
    log = tmp_path / "access.log"
    lines = [
        f'192.0.2.1 - - [10/Oct/2020:13:{n // 60:02d}:{n % 60:02d} +0000] "GET /{n} HTTP/1.1" 200 5 "-" "Mozilla"'
        for n in range(70)
    ]
    log.write_text("\n".join(lines) + "\n")
    labels = tmp_path / "labels.csv"
    labels.write_text("192.0.2.1,random-like\n")
    result = CliRunner().invoke(app, ["train", str(log), "--labels", str(labels), "--json", "-"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["provenance"]["crawlers"].startswith("1 of this site")


def test_the_window_is_not_trained_from_logs(tmp_path):
    (tmp_path / "access.log").write_text("")
    result = CliRunner().invoke(app, ["train", str(tmp_path / "access.log"), "--recipe", "window"])
    assert isinstance(result.exception, ModelError)

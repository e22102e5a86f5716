"""Training from a site's own logs, and the command."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import msgspec
import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.core.decision import PASS
from hedgerow.core.ledger import Entry
from hedgerow.core.visit import Visit
from hedgerow.errors import ModelError
from hedgerow.lab.train.log_samples import gather, label_crawls, read_labels, train_for_site
from hedgerow.lab.train.simulated_data import Size, draw_crawlers, draw_people, draw_sites
from hedgerow.ledger.labels import Label, add_label, labels_path
from hedgerow.ledger.labels import read_labels as read_crawls
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.logs.reader import LogReader
from hedgerow.watch.models.bundle import load, shipped

SITES = draw_sites(Random(1), 4)
SMALL = Size(4, 60, 60)


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
            ] * stride.side_requests
    return sorted(visits, key=lambda visit: visit.at)


def test_a_bundle_is_trained_on_the_log_of_a_site():
    chance = Random(5)
    people = draw_people(chance, SITES, 40, marked=False)
    crawlers = draw_crawlers(chance, SITES, 36, marked=False, vary=False)
    labels = {f"192.0.2.{40 + n}": walk.label for n, walk in enumerate(crawlers)}
    gathered = gather(visits_of([*people, *crawlers]), labels, load(), host="example.org")
    assert gathered.crawlers == 36
    assert gathered.people + gathered.kept_out + gathered.doubtful == 40
    assert gathered.kept_out + gathered.doubtful <= 4
    bundle = train_for_site(gathered, recipe="boosted", start=load(), size=SMALL).bundle
    assert not list(bundle.faults())
    assert bundle.provenance["people"].startswith(f"{gathered.people} of this site")
    assert bundle.provenance["crawlers"] == "36 of this site, and 60 simulated"
    assert [stage.size for stage in bundle.stages] == [10, 20, 30, 40, 50, 60], "no stage is dropped"


def test_unlabelled_crawlers_are_filtered_out():
    crawlers = draw_crawlers(Random(5), SITES, 12, marked=False, vary=False)
    gathered = gather(visits_of(crawlers), {}, load(), host="example.org")
    assert gathered.people <= 1


def test_visitors_labelled_as_people_are_not_filtered():
    crawlers = draw_crawlers(Random(5), SITES, 6, marked=False, vary=False)
    gathered = gather(visits_of(crawlers), {f"192.0.2.{n}": "person" for n in range(6)}, load(), host="example.org")
    assert gathered.people == 6


def test_labels_are_read_and_faults_name_the_line(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("visitor,label\n192.0.2.1,depth-first\n\naccount:ann,person\n")
    assert read_labels(path) == {"192.0.2.1": "depth-first", "account:ann": "person"}
    path.write_text("192.0.2.1,robot\n")
    with pytest.raises(ModelError, match="line 1"):
        read_labels(path)
    with pytest.raises(ModelError, match="cannot be read"):
        read_labels(tmp_path / "none.csv")


@pytest.fixture(autouse=True)
def _own_directory(tmp_path, monkeypatch):
    """Nothing of the machine's own is read, and nothing is put there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path / "state"))


def test_train_with_simulated_visitors(tmp_path):
    out, told = tmp_path / "bundle.json", tmp_path / "told.json"
    arguments = ["train", "--simulated", "--recipe", "pathmarker", "--people", "60", "--crawlers", "60"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(out), "--json", str(told)])
    assert result.exit_code == 0, result.output
    assert load(out).name == "pathmarker"
    assert json.loads(told.read_text())["metrics"]["60"]["people_right"]["of"] == 120
    assert "people right" in result.output
    page = (tmp_path / "bundle.html").read_text()
    assert "<svg" in page
    assert "classified as person" in page
    # Drawn elsewhere: nothing that a site should have in its shadow.
    assert not (tmp_path / "state").exists()


def test_train_with_a_log(tmp_path, monkeypatch):
    monkeypatch.setattr("hedgerow.lab.train.log_samples.SIMULATED", SMALL)
    log = tmp_path / "access.log"
    lines = [
        f'192.0.2.77 - - [10/Oct/2020:13:{n // 60:02d}:{n % 60:02d} +0000] "GET /{n} HTTP/1.1" 200 5 "-" "Mozilla"'
        for n in range(70)
    ]
    log.write_text("\n".join(lines) + "\n")
    labels = tmp_path / "labels.csv"
    labels.write_text("192.0.2.77,random-like\n")
    arguments = ["train", str(log), "--labels", str(labels), "--host", "example.org", "--json", "-"]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, ModelError)
    assert "no person has read 10 pages yet" in str(result.exception)
    for visit in visits_of(draw_people(Random(5), SITES, 12, marked=False)):
        at = datetime.fromtimestamp(visit.at, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
        referrer = visit.referrer or "-"
        lines.append(f'{visit.address} - - [{at}] "GET {visit.target} HTTP/1.1" 200 5 "{referrer}" "Mozilla"')
    log.write_text("\n".join(lines) + "\n")
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["provenance"]["crawlers"].startswith("1 of this site")
    assert told["metrics"]["60"]["own"]["crawlers"] == 1


def test_the_window_model_needs_a_ledger(tmp_path):
    (tmp_path / "access.log").write_text("")
    result = CliRunner().invoke(app, ["train", str(tmp_path / "access.log"), "--recipe", "window"])
    assert isinstance(result.exception, ModelError)
    assert "ledger" in str(result.exception)


def test_train_without_a_ledger_says_what_to_do():
    result = CliRunner().invoke(app, ["train"])
    assert isinstance(result.exception, ModelError)
    assert "--config" in str(result.exception)
    assert "--simulated" in str(result.exception)


# ---- From the ledger, with the crawls of `hedgerow crawl`


@pytest.fixture
def crawled(tmp_path) -> Path:
    """
    A ledger: forty people, and six training crawlers one after the other from one address, where a person reads, too.
    """
    chance = Random(5)
    people = draw_people(chance, SITES, 41, marked=False)
    crawlers = draw_crawlers(chance, SITES, 6, marked=False, vary=False, long_sessions=2)
    path = tmp_path / "state" / "ledger.sqlite"
    ledger = SqliteLedger(path, keep_days=1e6)
    visits = []
    for visit in visits_of([*people, *crawlers]):
        number = int(visit.address.rpartition(".")[2])
        here = "127.0.0.1" if number >= 40 else visit.address
        agent = "hedgerow-crawl" if number >= 41 else "Mozilla/5.0"
        at = visit.at + (number * 1e7 if number >= 41 else 0)
        visits.append(
            msgspec.structs.replace(
                visit, at=at, address=here, visitor=here, prefix=here, host="example.org", user_agent=agent
            )
        )
    for n, walk in enumerate(crawlers, 41):
        times = [stride.at + n * 1e7 for stride in walk.strides]
        label = Label("127.0.0.1", "hedgerow-crawl", "example.org", min(times), max(times), walk.label)
        add_label(labels_path(path), label)
    for visit in sorted(visits, key=lambda visit: visit.at):
        ledger.append(Entry(visit, PASS, 200))
    ledger.close()
    return path


def test_crawls_are_separated_from_people_at_the_same_address(crawled):
    labels: dict[str, str] = {}
    visits = list(label_crawls(LogReader([str(crawled)]), read_crawls(labels_path(crawled)), labels))
    assert sorted(labels) == [f"crawl {n}" for n in range(1, 7)]
    assert set(labels.values()) == {"depth-first", "width-first", "random-like"}
    agents = {
        (visit.visitor.startswith("crawl "), visit.user_agent) for visit in visits if visit.address == "127.0.0.1"
    }
    assert agents == {(True, "hedgerow-crawl"), (False, "Mozilla/5.0")}


def test_a_custom_label_counts_as_suspect():
    crawl = Label("192.0.2.1", "x", "example.org", 0.0, 9.0, "my-tool")
    visit = Visit(5.0, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", "/", host="example.org", user_agent="x")
    labels: dict[str, str] = {}
    (told,) = label_crawls([visit], [crawl], labels)
    assert labels == {told.visitor: "suspect"}
    (after,) = label_crawls([msgspec.structs.replace(visit, at=10.0)], [crawl], labels)
    assert after.visitor == "192.0.2.1"


def test_train_without_logs_uses_the_ledger_and_creates_a_shadow(crawled, monkeypatch):
    monkeypatch.setattr("hedgerow.lab.train.log_samples.SIMULATED", SMALL)
    result = CliRunner().invoke(app, ["train"])
    assert result.exit_code == 0, result.output
    assert "6 crawls of hedgerow crawl" in result.output
    assert "and 6 crawlers;" in result.output
    shadow = crawled.parent / "models" / "paths-shadow.json"
    bundle = load(shadow)
    assert bundle.provenance["crawlers"].startswith("6 of this site, and 60 simulated")
    assert bundle.provenance["people"].endswith("and 60 simulated")
    own = bundle.metrics["60"]["own"]
    assert (own["crawlers"], own["crawlers_found"]["of"]) == (6, 12)
    assert all(stage.bins for stage in bundle.stages)
    assert bundle.metrics["60"]["calibration"]
    assert "From this site, at 60 visits" in " ".join(result.output.split())
    assert "This site" in shadow.with_suffix(".html").read_text()


def test_windows_are_trained_from_a_ledger(crawled, monkeypatch):
    monkeypatch.setattr("hedgerow.lab.train.log_samples.SIMULATED", SMALL)
    out = crawled.parent / "models" / "windows-shadow.json"
    result = CliRunner().invoke(app, ["train", "--recipe", "window"])
    if isinstance(result.exception, ModelError):
        # So few people and crawlers may make it worse; then nothing is replaced.
        assert "rejected, nothing was replaced" in str(result.exception)
        assert not out.exists()
    else:
        assert result.exit_code == 0, result.output
        assert load(out).input == "window"


def test_pathmarkers_models_are_trained_with_few_people_of_sixty_pages():
    """Simulated people are added, and all numbers are of visitors with sixty pages."""
    walks = draw_people(Random(5), SITES, 12, marked=False)
    short = [walk._replace(strides=walk.strides[:30]) for walk in walks[4:]]
    gathered = gather(visits_of([*walks[:4], *short]), {}, load(), host="example.org").with_pages(60)
    assert 0 < gathered.people <= 4
    adapted = train_for_site(gathered, recipe="pathmarker", start=shipped("pathmarker"), size=SMALL)
    assert [stage.size for stage in adapted.bundle.stages] == [60]
    assert adapted.bundle.metrics["60"]["own"]["people"] == gathered.people
    nobody = gather(visits_of(short), {}, load(), host="example.org").with_pages(60)
    with pytest.raises(ModelError, match="no person has read 60 pages yet"):
        train_for_site(nobody, recipe="pathmarker", start=shipped("pathmarker"), size=SMALL)


def test_people_whom_the_shipped_bundle_misjudges_once_stay_in_training():
    walks = draw_people(Random(5), SITES, 12, marked=False)
    severe = msgspec.structs.replace(
        load(),
        stages=tuple(
            msgspec.structs.replace(stage, threshold=-1e9 if stage.size == 10 else 1e9) for stage in load().stages
        ),
    )
    gathered = gather(visits_of(walks), {}, severe, host="example.org")
    assert (gathered.people, gathered.suspected, gathered.doubtful) == (12, 12, 0)
    always = msgspec.structs.replace(
        severe, stages=tuple(msgspec.structs.replace(stage, threshold=-1e9) for stage in load().stages)
    )
    assert gather(visits_of(walks), {}, always, host="example.org").doubtful == 12
    cleared = [msgspec.structs.replace(visit, visitor=f"clearance:{visit.visitor}") for visit in visits_of(walks)]
    assert gather(cleared, {}, always, host="example.org").people == 12


def test_a_bundle_that_is_worse_is_rejected_and_nothing_is_replaced(crawled, monkeypatch, tmp_path):
    """The crawls are called people: a bundle that spares them no longer finds other crawlers."""
    monkeypatch.setattr("hedgerow.lab.train.log_samples.SIMULATED", SMALL)
    monkeypatch.setenv("HEDGEROW__WATCH__JUDGE_AT", "[60]")
    labels_path(crawled).unlink()
    (tmp_path / "labels.csv").write_text("127.0.0.1,person\n")
    result = CliRunner().invoke(app, ["train", "--labels", str(tmp_path / "labels.csv")])
    assert isinstance(result.exception, ModelError), result.output
    assert str(result.exception).startswith("the new bundle was rejected, nothing was replaced: it ")
    assert "\n" not in str(result.exception)
    assert not (crawled.parent / "models").exists()

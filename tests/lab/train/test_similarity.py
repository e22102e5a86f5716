"""k of algorithm 1 is learned from a log with known campaigns, and can be used."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.report.shape.classifiers import load
from report.test_pubcrawl import paper_log


def run(*arguments: str):
    return CliRunner().invoke(app, ["train", "similarity", *arguments])


def test_k_is_learned_by_a_command_and_used_by_a_report(tmp_path):
    log, labels, out = tmp_path / "access.log", tmp_path / "labels.csv", tmp_path / "shape.json"
    log.write_text(paper_log())
    labels.write_text("".join(f"198.51.{n}.7,crew\n" for n in range(4)))
    result = run(str(log), "--labels", str(labels), "--out", str(out), "--json", str(tmp_path / "k.json"))
    assert result.exit_code == 0, result.output
    data = json.loads((tmp_path / "k.json").read_text())
    assert data["logs"][0]["series"] == 4
    assert data["k"] > 100
    assert load(out).similarity == data["k"]


def test_a_log_without_campaigns_teaches_nothing(tmp_path):
    log = tmp_path / "access.log"
    log.write_text(paper_log())
    result = run(str(log), "--out", str(tmp_path / "shape.json"))
    assert result.exit_code != 0
    assert "k cannot be learned" in str(result.exception)
    assert not (tmp_path / "shape.json").exists()
    assert "name the logs" in str(run().exception)

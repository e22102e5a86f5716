"""`hedgerow report` as it is typed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from fakedns import FakeDns
from hedgerow.cli.main import app, main
from hedgerow.errors import SettingsError
from report.logs import line, site_log


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "access.log"
    path.write_text(site_log())
    return path


def run(*arguments: str):
    return CliRunner().invoke(app, ["report", *arguments])


def test_report_writes_summary_json_and_lists(log, tmp_path):
    written = ("--json", str(tmp_path / "r.json"), "--export", f"nftables={tmp_path}/l.nft")
    result = run(str(tmp_path / "acc*.log"), *written)
    assert result.exit_code == 0, result.output
    assert "crawlers" in result.output
    assert "198.51.100." in result.output
    data = json.loads((tmp_path / "r.json").read_text())
    assert data["log"]["format"] == "combined"
    assert data["timing"] == {}
    assert "198.51.100." in (tmp_path / "l.nft").read_text()
    assert json.loads(run(str(log), "--json", "-", "--timing").stdout)["timing"]["read"] > 0


def test_apply_puts_crawlers_on_the_black_list_for_a_while(log, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    refused = run(str(log), "--apply")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "no Hedgerow has run with the directory" in str(refused.exception)
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path / "state"))
    assert run(str(log), "--apply", "--for", "2h").exit_code == 0
    shown = json.loads(CliRunner().invoke(app, ["lists", "show", "--json"]).stdout)
    assert len(shown) == 10
    assert all(one["list"] == "black" and one["author"] == "hedgerow report" and one["until"] for one in shown)


def test_a_list_on_standard_output_replaces_the_summary(log):
    result = run(str(log), "--export", "plain=-")
    assert len(result.stdout.splitlines()) == 10
    assert all(one.startswith("198.51.100.") for one in result.stdout.splitlines())


def test_files_are_read_once_and_in_whatever_order_they_are_named(log, tmp_path):
    text = log.read_text().splitlines(keepends=True)
    # Both begin in the same second.
    other = tmp_path / "access.log.1"
    other.write_text(text[0] + "".join(text[1:900]).replace("192.0.2.", "2001:db8::"))
    found = [
        run(*paths, "--json", "-").stdout
        for paths in [(str(log), str(other)), (str(other), str(log)), (f"{tmp_path}/access*", str(log), str(other))]
    ]
    assert json.loads(found[0])["log"]["lines"] == len(text) + 900
    assert found[1:] == found[:1] * 2


def test_bots_are_verified_by_the_name_server_of_the_settings(tmp_path, monkeypatch):
    """One is what it says, one lies, and of one nobody knows."""
    monkeypatch.chdir(tmp_path)
    google = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
    text = "".join(line(f"192.0.2.{n}", 1.7e9 + k, f"/{k}", agent=google) for n in (1, 2) for k in range(9))
    (tmp_path / "log").write_text(text)
    with FakeDns() as dns:
        dns.is_true("192.0.2.1", "crawl-1.googlebot.com")
        (tmp_path / "hedgerow.toml").write_text(f'[bots]\nresolver = "{dns.server}"\n')
        data = json.loads(run("log", "--resolve", "--json", "-").stdout)
        labels = {one["source"]: (one["label"], {e["code"] for e in one["evidence"]}) for one in data["sources"]}
        for source, label, code in [("192.0.2.1", "good-bot", "verified-bot"), ("192.0.2.2", "crawler", "false-bot")]:
            assert labels[source][0] == label
            assert code in labels[source][1]
        dns.mood = "failing"
        assert "no answer about 2 addresses" in run("log", "--resolve").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("{log}", "--json", "-", "--export", "csv=-"),
        ("{log}", "--format", "nonsense"),
        ("{log}", "--export", "nftables"),
        ("{log}", "--for", "soon"),
        ("{log}.gone",),
        ("{log}", "--json", "/gone/r.json"),
        ("{log}", "--model", "{log}"),
        ("{log}", "--shape", "{log}"),
    ],
)
def test_wrong_use_is_one_line(log, arguments, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["hedgerow", "report", *(a.format(log=log) for a in arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr()
    assert end.value.code in {1, 2}
    assert said.err.count("\n") == 1, said.err
    assert said.out == ""


def test_an_interrupted_report_says_so_and_leaves_no_files(tmp_path):
    """It waits for standard input when the signal comes."""
    place = tmp_path / "tmp"
    place.mkdir()
    process = subprocess.Popen(
        # Where tests run in the background, Ctrl-C is ignored, and so it would be in what they start.
        ["env", "--default-signal=INT", sys.executable, "-m", "hedgerow", "report", "-",
         "--json", str(tmp_path / "r.json")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"TMPDIR": str(place)},
    )  # fmt: skip
    try:
        until = time.monotonic() + 120
        while not list(place.iterdir()) and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        # Where it reads is where it notices.
        _, told = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, told
    assert "Interrupted" in told
    assert list(tmp_path.iterdir()) == [place]
    assert list(place.iterdir()) == []


def test_the_engine_that_was_removed_is_an_alias_and_warns_in_one_line(log, tmp_path):
    found = {
        engine: run(str(log), "--engine", engine, "--json", str(tmp_path / engine)) for engine in ("local", "duckdb")
    }
    assert [result.exit_code for result in found.values()] == [0, 0]
    assert (tmp_path / "local").read_bytes() == (tmp_path / "duckdb").read_bytes()
    assert found["duckdb"].stderr == "--engine duckdb is deprecated: --engine local is used.\n"
    assert found["local"].stderr == ""


def test_without_pyspark_the_error_names_the_extra(log, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, "hedgerow.report.tables.spark_store", raising=False)
    result = run(str(log), "--engine", "spark")
    assert str(result.exception) == "--engine spark needs pyspark; install hedgerow[spark]"


@pytest.mark.parametrize("wrong", [("--engine", "abacus"), ("--master", "local[2]")])
def test_unknown_engines_are_refused(log, wrong):
    result = run(str(log), *wrong)
    assert isinstance(result.exception, SettingsError)
    assert wrong[0] in str(result.exception)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "nothing to read, there is no line in it"),
        (b"Hello, this is no log.\nNor is this.\n", "cannot read any of its 2 lines; the first is 'Hello, this"),
        (b'{"level": "info"}\n', "[logs] fields"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "cannot read its only line"),
    ],
)
def test_a_log_that_cannot_be_read_is_an_error_in_one_line(tmp_path, content, said, monkeypatch, capsys):
    path = tmp_path / "some.log"
    path.write_bytes(content)
    monkeypatch.setattr(sys, "argv", ["hedgerow", "report", str(path), "--html", str(tmp_path / "r.html")])
    with pytest.raises(SystemExit) as end:
        main()
    output = capsys.readouterr()
    assert end.value.code == 1
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert said in output.err
    assert str(path) in output.err
    assert not (tmp_path / "r.html").exists()

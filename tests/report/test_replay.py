"""A log goes through the very gate that stands in front of a site, and the command tells what came of it."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import json
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer

from hedgerow.core.gate import Gate, run_now
from hedgerow.core.ledger import NoLedger
from hedgerow.core.visit import Visit
from hedgerow.errors import HedgerowError, LogError, SettingsError
from hedgerow.logs.formats import iso
from hedgerow.logs.reader import LogReader, ReadCounts
from hedgerow.markers.token import Key, TokenCodecs, page_digest, visitor_digest
from hedgerow.report.replay import Replay, replay, to_json
from hedgerow.settings import read_settings
from hedgerow.web.gate import build_gate
from hedgerow.web.key_file import load_keys

# The package has a function of the same name, the command itself.
command = importlib.import_module("hedgerow.cli.replay")

KEY = bytes(range(64))
START = 1767225600.0
SETTINGS = """
[policy]
suspects = "refuse"
[density]
block_for = 60
[[density.windows]]
count = 5
seconds = 2
[traps]
response = "detain"
"""
CRAWLER = "203.0.113.9"
PERSON = "192.0.2.1"
ESCAPE = "\x1b"


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    """Nothing of the machine's own settings, key or ledger, and no trace left there."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    for name in [name for name in os.environ if name.startswith("HEDGEROW__")]:
        monkeypatch.delenv(name)
    yield
    assert not (tmp_path / "state").exists()


def gate(text: str = SETTINGS) -> Gate:
    seals = TokenCodecs([Key(1, KEY, 0.0)])
    return build_gate(read_settings(text, environment={}), tokens=seals, ledger=NoLedger(), entries=False)


def visit(at: float, visitor: str = PERSON, target: str = "/", **fields) -> Visit:
    return Visit(START + at, visitor, visitor, visitor, "GET", target, **fields)


def story() -> list[Visit]:
    """A person reads a page every ten seconds; a crawler takes twenty in two seconds."""
    person = [visit(n * 10, PERSON, f"/{n}") for n in range(10)]
    crawler = [visit(15 + n / 10, CRAWLER, f"/{n}") for n in range(20)]
    return sorted(person + crawler, key=lambda v: v.at)


def test_the_crawler_is_stopped_and_the_person_is_not():
    result = replay(gate(), story())
    person, crawler = result.fates[PERSON], result.fates[CRAWLER]
    assert (person.requests, person.passed, person.stopped, person.stopped_at) == (10, 10, 0, None)
    assert (person.first, person.last) == (START, START + 90)
    assert (crawler.requests, crawler.passed, crawler.refused, crawler.detained) == (20, 5, 15, 0)
    assert crawler.stopped_at == START + 15.5
    assert crawler.pages_before == 5
    assert [e.code for e in crawler.evidence] == ["density-visitor"]
    assert result.seconds > 0


def test_a_replayed_visit_gets_the_decision_of_a_live_one():
    live = gate()
    decided = [run_now(live.decide(v)).action for v in story()]
    assert replay(gate(), story()).totals()["decisions"] == {
        action: decided.count(action) for action in ("pass", "challenge", "detain", "refuse")
    }


def test_pages_before_are_pages_that_passed():
    visits = [visit(0, CRAWLER, "/a.png", kind="asset"), visit(1, CRAWLER, "/api", kind="call")]
    visits += [visit(10 + n / 10, CRAWLER) for n in range(6)]
    visits += [visit(1000 + n, CRAWLER) for n in range(3)]
    fate = replay(gate(), visits).fates[CRAWLER]
    assert fate.pages_before == 5
    # The block ran out, and pages that pass after it were not before it.
    assert fate.passed == 10


def trap_target(visitor: str) -> str:
    token = TokenCodecs([Key(1, KEY, 0.0)]).of("").seal("trap", visitor_digest(visitor), page_digest("/"), bytes(15))
    return "/~" + token.decode()


def test_a_trap_in_a_log_is_a_trap_under_the_sites_key():
    target = trap_target(CRAWLER)
    fate = replay(gate(), [visit(0, CRAWLER), visit(1, CRAWLER, target), visit(2, CRAWLER)]).fates[CRAWLER]
    assert (fate.passed, fate.detained, fate.pages_before) == (1, 2, 1)
    assert fate.evidence[0].code == "trap"
    # Somebody else's link, or another key's, is nothing.
    assert replay(gate(), [visit(0, PERSON, target)]).fates[PERSON].passed == 1
    other = build_gate(
        read_settings("", environment={}), tokens=TokenCodecs([Key(1, bytes(64), 0.0)]), ledger=NoLedger()
    )
    assert replay(other, [visit(0, CRAWLER, target)]).fates[CRAWLER].passed == 1


def test_late_visits_widen_the_span():
    fate = replay(gate(), [visit(10), visit(5), visit(20)]).fates[PERSON]
    assert (fate.first, fate.last) == (START + 5, START + 20)


def test_memory_is_bounded_and_the_rest_is_counted():
    visits = [visit(n, f"198.51.100.{n}") for n in range(30)]
    result = replay(gate(), visits, most_visitors=10)
    assert len(result.fates) == 10
    assert result.beyond == 20
    assert result.totals()["requests"] == 30


def test_the_order_of_visitors_is_always_the_same():
    visits = [visit(n, name) for n, name in enumerate(["b", "a", "c", "c"])]
    visits += [visit(100 + n / 10, CRAWLER) for n in range(7)]
    names = [name for name, _ in replay(gate(), visits).ranked()]
    assert names == [CRAWLER, "c", "a", "b"]


def test_json_has_the_agreed_shape():
    read_counts = ReadCounts(parsed=30, bad=1, samples=["x"], first=START, last=START + 90, formats=["combined"])
    data = json.loads(json.dumps(to_json(replay(gate(), story()), read_counts)))
    assert data["log"] == {
        "lines": 31,
        "parsed": 30,
        "bad": 1,
        "from": "2026-01-01T00:00:00.000Z",
        "to": "2026-01-01T00:01:30.000Z",
        "format": "combined",
        "samples": ["x"],
        "damage": [],
    }
    first, second = data["visitors"]
    assert first == {
        "visitor": CRAWLER,
        "requests": 20,
        "first": "2026-01-01T00:00:15.000Z",
        "last": "2026-01-01T00:00:16.900Z",
        "decisions": {"pass": 5, "challenge": 0, "detain": 0, "refuse": 15},
        "first_stopped_at": "2026-01-01T00:00:15.500Z",
        "pages_before": 5,
        "evidence": [
            {
                "detector": "density",
                "code": "density-visitor",
                "weight": 1.0,
                "text": "More than 5 pages in 2 seconds.",
            }
        ],
    }
    assert (second["visitor"], second["first_stopped_at"], second["pages_before"]) == (PERSON, None, None)
    assert second["evidence"] == []
    assert data["totals"] == {
        "visitors": 2,
        "stopped_visitors": 1,
        "requests": 30,
        "decisions": {"pass": 15, "challenge": 0, "detain": 0, "refuse": 15},
        "beyond": 0,
    }
    assert set(data["timing"]) == {"seconds", "lines_per_second"}


def test_nothing_replayed_is_json_too():
    assert to_json(Replay(), ReadCounts())["log"]["from"] is None


@pytest.mark.parametrize("at", [None, 1e18, -1e18, float("nan")])
def test_times_beyond_the_calendar_have_no_date(at):
    assert iso(at) is None


def line_of(v: Visit) -> str:
    when = datetime.fromtimestamp(int(v.at), UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    return f'{v.address} - - [{when}] "GET {v.target} HTTP/1.1" 200 1 "-" "Mozilla/5.0"\n'


@pytest.fixture
def log(tmp_path) -> str:
    path = tmp_path / "access.log"
    path.write_text("".join(map(line_of, story())) + f"{ESCAPE}]0;evil\x07[bold]bad\n")
    return str(path)


@pytest.fixture
def config(tmp_path) -> Path:
    path = tmp_path / "hedgerow.toml"
    path.write_text(SETTINGS)
    return path


def test_a_log_gives_the_decisions_of_its_visits(log):
    """Whole seconds are spread, so the log shows the crawler as fast as it was."""
    fate = replay(gate(), LogReader([log])).fates[CRAWLER]
    assert (fate.requests, fate.passed, fate.refused) == (20, 5, 15)


def test_the_command_tells_what_the_watch_finds(log, config, capsys, tmp_path):
    """Ten pages, each ten seconds after the other, and no referrer: whoever it is, no person reads like that."""
    out = tmp_path / "out.json"
    command.run([log], config=config, json_path=str(out))
    told = json.loads(out.read_text())["watch"]
    assert [one["visitor"] for one in told["found"]] == [PERSON]
    assert told["judged"] == {next(iter(told["found"][0]["codes"])).removeprefix("path-"): 1}
    said = capsys.readouterr().out
    assert "1 classifications of paths, 0 of windows; 1 visitors found, 0 campaigns" in said
    assert "paths: record" in said


def test_the_command_prints_a_table(log, config, capsys):
    command.run([log], config=config, no_watch=True)
    out, err = capsys.readouterr()
    assert "31 lines (combined): 30 read, 1 bad; 2026-01-01 00:00:00 to 2026-01-01 00:01:30 UTC" in out
    assert "2 visitors, 1 of them stopped; 30 requests, 15 of them stopped" in out
    [row] = [row for row in out.splitlines() if CRAWLER in row]
    cells = [cell.strip() for cell in re.split("[│|]", row) if cell.strip()]
    assert cells[:5] == [CRAWLER, "20", "5", "15", "0"]
    assert cells[6:] == ["5", "More than 5 pages in 2 seconds."]
    assert PERSON not in out
    # What a bad line holds is shown, and steers nothing: neither the terminal nor the markup.
    assert ESCAPE not in out
    assert "bad: \\x1b]0;evil\\x07[bold]bad" in out
    assert err == ""


def test_the_command_says_when_nobody_is_stopped(log, capsys):
    command.run([log])
    assert "Nobody would have been stopped." in capsys.readouterr().out


def test_the_command_says_what_an_access_log_cannot_show(log, capsys):
    command.run([log], no_watch=True)
    out = capsys.readouterr().out
    assert "An access log cannot show marked links, traps, clearances or headers" in out
    assert "--propose computes rate limits that fit this log." in out
    command.run([log], no_watch=True, propose=True)
    assert "--propose" not in capsys.readouterr().out


def test_the_table_is_cut_and_says_so(tmp_path, config, capsys):
    path = tmp_path / "access.log"
    visits = [visit(n / 10, f"203.0.113.{who}") for n in range(10) for who in range(5)]
    path.write_text("".join(map(line_of, visits)))
    command.run([str(path)], config=config, top=2)
    out = capsys.readouterr().out
    assert out.count("203.0.113.") == 2
    assert "and 3 more" in out


def test_json_goes_to_standard_output_alone(log, config, capsys):
    command.run([log], config=config, json_path="-")
    data = json.loads(capsys.readouterr().out)
    assert data["visitors"][0]["visitor"] == CRAWLER
    assert data["log"]["samples"] == ["\\x1b]0;evil\\x07[bold]bad"]
    assert "proposals" not in data


def test_json_goes_to_a_file_beside_the_table(log, config, tmp_path, capsys):
    command.run([log], config=config, json_path=str(tmp_path / "out.json"), propose=True)
    assert "visitors" in capsys.readouterr().out
    assert json.loads((tmp_path / "out.json").read_text())["proposals"] == []


@pytest.mark.parametrize("path", ["missing/out.json", "."])
def test_a_file_that_cannot_be_written_is_told_before_the_work(log, tmp_path, path):
    with pytest.raises(HedgerowError, match="cannot be written"):
        command.run([log], json_path=str(tmp_path / path))


def test_proposals_can_be_put_into_the_settings(tmp_path, capsys):
    path = tmp_path / "access.log"
    visits = [visit(n * 3, f"198.51.100.{who}") for n in range(20) for who in range(30)]
    path.write_text("".join(map(line_of, visits)))
    command.run([str(path)], propose=True)
    out = capsys.readouterr().out
    toml = out[out.index("# Nearly all") :]
    windows = read_settings(toml, environment={}).density.windows
    assert [(w.count, w.seconds) for w in windows] == [(10, 1.2), (10, 3.0), (30, 60.0), (30, 600.0)]
    assert "30 ordinary visitors" in out


def test_too_few_visitors_for_a_proposal_are_told(log, capsys):
    command.run([log], propose=True)
    assert "too few ordinary visitors" in capsys.readouterr().out


def test_damage_is_told(tmp_path, capsys):
    data = "".join(line_of(visit(n, f"198.51.100.{n % 200}", f"/{n * 7919 % 10007}")) for n in range(9000))
    path = tmp_path / "access.log.gz"
    path.write_bytes(gzip.compress(data.encode())[:-5000])
    command.run([str(path)])
    assert re.search(r"damaged: .*access.log.gz: breaks off after [0-9,]+ lines: ", capsys.readouterr().out)


def test_wrong_logs_and_settings_are_told_by_their_errors(tmp_path, log):
    with pytest.raises(LogError):
        command.run([str(tmp_path / "missing.log")])
    with pytest.raises(SettingsError):
        command.run([log], config=tmp_path / "missing.toml")


def test_the_sites_key_is_used_where_there_is_one(tmp_path, config, capsys):
    """The command knows a trap in a log of the site whose key it finds, and changes nothing there."""
    directory = tmp_path / "site"
    directory.mkdir()
    config.write_text(f'directory = "{directory}"\n' + SETTINGS)
    build_gate(read_settings(config.read_text(), environment={}), ledger=NoLedger())
    [key] = directory.iterdir()
    seal = TokenCodecs(load_keys(key, 0.0)).of("")
    token = seal.seal("trap", visitor_digest(CRAWLER), page_digest("/"), bytes(15)).decode()
    path = tmp_path / "access.log"
    path.write_text(line_of(visit(0, CRAWLER)) + line_of(visit(1, CRAWLER, f"/~{token}")))
    command.run([str(path)], config=config)
    assert "that no person can see" in capsys.readouterr().out
    assert list(directory.iterdir()) == [key]


def test_an_interrupt_is_told(log, monkeypatch, capsys):
    def interrupted(_gate, visits, **_options):
        next(visits)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "replay", interrupted)
    with pytest.raises(typer.Exit) as caught:
        command.run([log])
    assert caught.value.exit_code == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(r"Interrupted after \d+ lines", err)


def test_control_c_ends_a_real_replay_with_130(tmp_path):
    """The whole thing in a process of its own, which waits for a pipe when the interrupt comes."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code = "from hedgerow.cli.main import main; main()"
    # Where tests run in the background, Ctrl-C is ignored, and so it would be in what they start.
    command = ["env", "--default-signal=INT", sys.executable, "-c", code, "replay", str(fifo)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with fifo.open("w") as pipe:
        for n in range(2000):
            pipe.write(line_of(visit(n)))
        pipe.flush()
        # The process has taken what it looks at first, and waits for more. Python loses an interrupt that comes while
        # it removes an object; then a person presses the keys again.
        for _ in range(5):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                _, err = process.communicate(timeout=24)
                break
    assert process.returncode == 130
    assert "Interrupted after" in err

"""`hedgerow campaigns show`."""

from __future__ import annotations

import json
import sys

import pytest

from hedgerow.cli.main import main
from hedgerow.core.decision import Campaign
from hedgerow.state.sqlite.journal import SqliteJournal

from .said import without_place

FOUND = Campaign("ABC123", "sharing", 1.8e9, 1.8e9 + 60, tuple(f"192.0.2.{n}" for n in range(30)), "Why\x1b.")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hedgerow", "campaigns", "show", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out, without_place(said.err)

    return run


@pytest.fixture
def _found(tmp_path):
    journal = SqliteJournal(tmp_path / "state.sqlite")
    journal.note_campaign(FOUND.id, FOUND)
    journal.close()


def test_without_a_state_the_error_names_config(run):
    status, _, said = run()
    assert status == 1
    assert "--config" in said


def test_a_state_without_campaigns_is_reported(run, tmp_path):
    SqliteJournal(tmp_path / "state.sqlite").close()
    assert run() == (0, "no campaigns\n", "")


@pytest.mark.usefixtures("_found")
def test_campaigns_are_shown(run):
    status, said, _ = run()
    assert status == 0
    assert "ABC123  2027-01-15 08:00 UTC to 2027-01-15 08:01 UTC" in said
    assert "Why" in said
    assert "\x1b" not in said
    assert "192.0.2.19 and 10 more" in said
    assert "192.0.2.29" in run("abc123")[1]
    assert json.loads(run("--json")[1])[0]["members"][-1] == "192.0.2.29"
    assert run("nope")[0] == 1

"""The audit log: what commands change is in it, and a log that cannot be written stops nothing."""

from __future__ import annotations

import time

import pytest

from driving import settings
from hedgerow.web.audit import AuditLog, audit_command


def test_a_command_is_in_the_log_with_its_user(tmp_path, monkeypatch):
    monkeypatch.setenv("SUDO_USER", "alice")
    own = settings(f"directory = '{tmp_path}'")
    audit_command(own, "lists.add", "192.0.2.7\udcff", "black, no end")
    (entry,), total = AuditLog(own).read()
    assert total == 1
    assert (entry.who, entry.source, entry.change) == ("alice", "command line", "lists.add")
    assert entry.subject == "192.0.2.7\\udcff"


def test_a_log_that_cannot_be_written_is_a_warning(tmp_path, caplog):
    (tmp_path / "audit.sqlite").mkdir()
    audit_command(settings(f"directory = '{tmp_path}'"), "lists.add", "192.0.2.7")
    assert "audit log" in caplog.text


def test_entries_are_sorted_searched_and_paged(tmp_path):
    log = AuditLog(settings(f"directory = '{tmp_path}'"))
    assert log.read() == ((), 0)
    for number in range(5):
        log.add("bob", "127.0.0.1", "lists.add", f"192.0.2.{number}")
    found, total = log.read(sort="subject", descending=False, limit=2, offset=2)
    assert [entry.subject for entry in found] == ["192.0.2.2", "192.0.2.3"]
    assert total == 5
    assert log.read(text="2.4")[1] == 1
    assert log.read(text="%")[1] == 0
    with pytest.raises(ValueError, match="no column"):
        log.read(sort="at; DROP TABLE audit")


def test_entries_end_when_the_settings_say_so(tmp_path, monkeypatch):
    log = AuditLog(settings(f"directory = '{tmp_path}'\n[privacy]\naudit_days = 10\n"))
    start = 1_800_000_000.0
    for day in (0, 9, 19.5):
        monkeypatch.setattr(time, "time", lambda at=start + day * 86_400: at)
        log.add("bob", "127.0.0.1", "lists.add", f"day {day}")
    assert [entry.subject for entry in log.read()[0]] == ["day 19.5"]


def test_what_is_about_a_subject_is_found_exactly(tmp_path):
    log = AuditLog(settings(f"directory = '{tmp_path}'"))
    for subject in ("192.0.2.1", "192.0.2.10"):
        log.add("bob", "127.0.0.1", "lists.add", subject)
    assert [entry.subject for entry in log.about(["192.0.2.1", "192.0.2.1"])] == ["192.0.2.1"]

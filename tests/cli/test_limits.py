"""`hedgerow limits`."""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing

import msgspec
import pytest

from driving import settings
from hedgerow.challenge.prices import gateway_key
from hedgerow.cli.main import main
from hedgerow.core.decision import PASS, Decision, Evidence, VisitorScore
from hedgerow.core.ledger import Entry
from hedgerow.core.visit import Visit
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.state.sqlite.journal import connect
from hedgerow.web.daily_limits import StoredLimits
from hedgerow.web.paths import limits_path, state_path

from .said import without_place

START = 1_800_000_000.0
ASKED = Decision("challenge", (Evidence("containment", "k1", 1.0, "More than 20 pages."),))


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hedgerow", "limits", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out, without_place(said.err)

    return run


def visit(visitor: str, *, day: int = 0, kind: str = "page", **more) -> Visit:
    return Visit(START + 86_400 * day, "192.0.2.1", visitor, "192.0.2.1", "GET", "/", kind=kind, **more)


@pytest.fixture
def ledger(tmp_path):
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    yield ledger
    ledger.close()


def test_without_a_ledger_the_error_names_config(run):
    status, _, said = run()
    assert status == 1
    assert "--config" in said


def test_days_are_counted_by_who_has_a_clearance(run, ledger):
    for day in range(3):
        for _ in range(30):
            ledger.append(Entry(visit("192.0.2.1", day=day), PASS, 200))
        for _ in range(5):
            ledger.append(Entry(visit("clearance:abc", day=day), PASS, 200))
            ledger.append(Entry(visit("clearance:abc", day=day, kind="asset"), PASS, 200))
            ledger.append(Entry(visit("192.0.2.7", day=day, anomalies=("by-program",)), PASS, 200))
            ledger.append(Entry(visit("192.0.2.8", day=day, bot="Googlebot"), PASS, 200))
    ledger.append(Entry(visit("192.0.2.1\x1b", day=2), ASKED, 403))
    ledger.close()
    status, said, _ = run()
    assert status == 0
    assert "an address may have 20 pages a day (k1, as shipped)" in said
    assert "\x1b" not in said
    assert "1 visitors were asked" in said
    found = json.loads(run("--json")[1])
    assert (found["days_with_clearance"], found["days_without"], found["over_k1"]) == (3, 4, 3)
    assert found["pages_with_clearance"]["99.9%"] == 5
    assert list(found["asked"].values()) == [1]


def test_who_shares_a_budget_with_others_of_its_address_was_asked(run, ledger):
    shared = Decision("challenge", (Evidence("shared-budget", "k2-address", 1.0, "More than 300 pages."),))
    ledger.append(Entry(visit("clearance:abc"), shared, 403))
    ledger.close()
    assert "1 visitors were asked" in run()[1]


def test_who_would_have_been_affected_before_the_limits_were_in_force(run, ledger):
    """While observing every page passes, and the number of its pages shows who would not have got them."""
    observed = Decision("challenge", ASKED.evidence, observed="neutral")
    for number in range(25):
        ledger.append(Entry(visit("192.0.2.1"), observed if number >= 20 else PASS, 200))
        ledger.append(Entry(visit("clearance:abc"), PASS, 200))
    ledger.close()
    found = json.loads(run("--json")[1])
    assert found["over"] == {"192.0.2.1": 1}
    assert "1 visitors read more than this on a day, enforced or not:\n  192.0.2.1: 1 days" in run()[1]


def test_why_the_limits_are_what_they_are(run, ledger, tmp_path, monkeypatch):
    ledger.append(Entry(visit("192.0.2.1"), PASS, 200))
    ledger.close()
    assert "300; above that the models decide (k2, as shipped)" in run()[1]
    stored = StoredLimits(20, 450, 0, 2_345)
    limits_path(settings(f"directory = '{tmp_path}'")).write_bytes(msgspec.json.encode(stored))
    assert "450; above that the models decide (k2, derived from 2,345 days of people)" in run()[1]
    found = json.loads(run("--json")[1])
    assert (found["k1_source"], found["k2_source"], found["k2"]) == ("shipped", "derived", 450)
    monkeypatch.setenv("HEDGEROW__CONTAINMENT__K2", "77")
    assert "77; above that the models decide (k2, set by you)" in run()[1]


def test_gateways_are_shown(run, ledger, tmp_path):
    ledger.append(Entry(visit("192.0.2.1"), PASS, 200))
    ledger.close()
    now = time.time()
    with closing(connect(state_path(settings(f"directory = '{tmp_path}'")))) as connection, connection:
        for address, people in (("192.0.2.7", 27.0), ("192.0.2.8", 2.0)):
            row = (gateway_key(address).encode(), now, msgspec.json.encode(VisitorScore(total=people, at=now)))
            connection.execute("INSERT INTO standings VALUES (?, ?, ?)", row)
    assert "1 visitors are gateways, where more is allowed:\n  192.0.2.7: 27 people" in run()[1]

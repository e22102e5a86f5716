"""The limits of the budget, derived once a day: from the ledger, by one process, for all, and beyond a restart."""

from __future__ import annotations

import fcntl
import os
from contextlib import closing

import pytest

from driving import START, settings
from hedgerow.core.daily_limits import DailyLimits
from hedgerow.core.decision import PASS, Decision, Evidence
from hedgerow.core.ledger import Entry
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.containment import ContainmentDetector
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.web.app import Site
from hedgerow.web.daily_limits import DailyLimitsThread, StoredLimits, read_limits
from hedgerow.web.paths import limits_path

DAY = 86_400.0
SUSPECT = Decision("pass", (Evidence("suspicion", "suspect", 1.0, "Suspected for path-random-like."),), owes=True)


def own(tmp_path, text: str = ""):
    return settings(f"directory = '{tmp_path}'\n{text}")


def fill(tmp_path, days: int, pages: dict[str, int], decision: Decision = PASS) -> None:
    """A visitor with a clearance at each address, with so many pages a day."""
    with closing(SqliteLedger(tmp_path / "ledger.sqlite", queue=1_000_000)) as ledger:
        for day in range(days):
            for number, (address, count) in enumerate(pages.items()):
                for page in range(count):
                    at = START + day * DAY + page
                    visit = Visit(at, address, f"clearance:{number}", address, "GET", "/", kind="page")
                    ledger.append(Entry(visit, decision, 200))


def addresses(count: int, pages: int) -> dict[str, int]:
    return {f"10.0.{number // 250}.{number % 250}": pages for number in range(count)}


def derive(tmp_path, *, later: float = 10 * DAY, limits: DailyLimits | None = None, text: str = "") -> DailyLimits:
    limits = limits or DailyLimits()
    with closing(DailyLimitsThread(own(tmp_path, text), limits, counts=True, clock=lambda: START + later)) as thread:
        while thread.step():
            pass
    return limits


def test_without_a_ledger_the_shipped_numbers_stay(tmp_path):
    limits = derive(tmp_path)
    assert (limits.k1, limits.k2) == (20, 300)


def test_one_in_a_thousand_days_of_people_is_longer_than_k2(tmp_path):
    fill(tmp_path, 4, {**addresses(250, 2), "192.0.2.1": 350})
    assert derive(tmp_path).k2 == 350
    stored = read_limits(limits_path(own(tmp_path)))
    assert (stored.k2, stored.k2_days, stored.k1_days) == (350, 1004, 0)


def test_people_who_were_suspects_do_not_count(tmp_path):
    fill(tmp_path, 4, addresses(250, 2))
    fill(tmp_path, 4, {"192.0.2.1": 350}, SUSPECT)
    assert derive(tmp_path).k2 == 300


def test_it_survives_a_restart_and_reaches_processes_that_do_not_count(tmp_path):
    fill(tmp_path, 4, {**addresses(250, 2), "192.0.2.1": 350})
    derive(tmp_path)
    (tmp_path / "ledger.sqlite").unlink()
    limits = DailyLimits()
    with closing(DailyLimitsThread(own(tmp_path), limits, counts=False)):
        assert limits.k2 == 350
    with closing(Site(own(tmp_path))) as site:
        assert site.daily_limits.k2 == 350


def test_a_day_counts_once_and_only_when_it_is_over(tmp_path):
    fill(tmp_path, 4, addresses(300, 2))
    midnight = START - START % DAY
    derive(tmp_path, later=midnight - START + DAY + 500)
    assert read_limits(limits_path(own(tmp_path))).days == {}
    derive(tmp_path, later=midnight - START + DAY + 700)
    first = read_limits(limits_path(own(tmp_path)))
    assert [sum(day.holders.values()) for day in first.days.values()] == [300]
    derive(tmp_path)
    assert read_limits(limits_path(own(tmp_path))).k2_days == 1200
    derive(tmp_path)
    assert read_limits(limits_path(own(tmp_path))).k2_days == 1200


def test_only_one_process_counts_at_a_time(tmp_path):
    fill(tmp_path, 1, addresses(3, 2))
    descriptor = os.open(limits_path(own(tmp_path)).with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    derive(tmp_path)
    assert read_limits(limits_path(own(tmp_path))) == StoredLimits()
    os.close(descriptor)
    derive(tmp_path)
    assert read_limits(limits_path(own(tmp_path))).days


@pytest.mark.parametrize("content", [b"", b"{", b'{"k1": "many"}', b'{"k1": -5, "k2": 1000000}'])
def test_a_damaged_file_does_no_harm(tmp_path, content):
    limits_path(own(tmp_path)).write_bytes(content)
    limits = DailyLimits()
    with closing(DailyLimitsThread(own(tmp_path), limits, counts=False)):
        assert 20 <= limits.k1 <= 100
        assert 300 <= limits.k2 <= 1000


def test_the_detector_uses_the_number_of_the_moment_unless_one_is_set():
    limits, visit = DailyLimits(), Visit(START, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", "/")
    auto, fixed = ContainmentDetector(0, 0, limits=limits), ContainmentDetector(20, 300, limits=limits)
    assert auto(visit, StateReply(None, (), today=21))
    limits.k1 = 50
    assert not auto(visit, StateReply(None, (), today=50))
    assert auto(visit, StateReply(None, (), today=51))
    assert fixed(visit, StateReply(None, (), today=21))

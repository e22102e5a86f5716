"""A jump of the clock is believed only after it has lasted for a day."""

from __future__ import annotations

import time

import pytest

from hedgerow.ledger.believed_time import BelievedTime

DAY = 86_400.0


class Machine:
    """A clock that can jump, and one that cannot."""

    def __init__(self) -> None:
        self.clock, self.monotonic = 1e9, 50.0

    def sleep(self, seconds: float) -> None:
        self.clock += seconds
        self.monotonic += seconds


@pytest.fixture
def machine(monkeypatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(time, "time", lambda: made.clock)
    monkeypatch.setattr(time, "monotonic", lambda: made.monotonic)
    return made


def test_a_clock_that_goes_on_is_believed_even_after_a_long_pause(machine):
    believed = BelievedTime()
    for seconds in (60.0, 3 * DAY, 300 * DAY):
        machine.sleep(seconds)
        assert believed.now() == machine.clock


def test_a_jump_ahead_is_not_believed_until_it_has_lasted_a_day(machine):
    believed = BelievedTime()
    machine.clock += 300 * DAY
    machine.sleep(60)
    assert believed.now() == 1e9 + 60
    machine.sleep(DAY - 120)
    assert believed.now() < 1e9 + DAY
    machine.sleep(3600)
    assert believed.now() == machine.clock


def test_a_jump_back_is_believed_at_once(machine):
    believed = BelievedTime()
    machine.clock -= 300 * DAY
    assert believed.now() == machine.clock


def test_a_jump_that_is_corrected_leaves_nothing_behind(machine):
    believed = BelievedTime()
    machine.clock += 300 * DAY
    believed.now()
    machine.clock -= 300 * DAY
    machine.sleep(60)
    assert believed.now() == machine.clock
    assert believed.jumped == 0.0


def test_a_restart_does_not_make_a_jump_believable(machine):
    believed = BelievedTime()
    machine.clock += 300 * DAY
    believed.now()
    again = BelievedTime(believed.confirmed, believed.jumped)
    machine.sleep(3600)
    assert again.now() < 1e9 + 2 * DAY
    machine.sleep(DAY)
    assert again.now() == machine.clock

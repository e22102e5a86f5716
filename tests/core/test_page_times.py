"""The mean time for a page."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.page_times import PageTimes


def times_of(*seconds: float) -> PageTimes:
    times = PageTimes()
    for one in seconds:
        times.add(one)
    return times


def test_a_few_pages_say_nothing():
    assert times_of(*[3.0] * 19).seconds == 0.0
    assert times_of(*[3.0] * 20).seconds == 3.0


def test_the_last_pages_count():
    assert times_of(*[0.01] * 1000, *[1.0] * 1000).seconds > 0.98


def test_a_page_that_hangs_counts_for_ten_seconds():
    assert times_of(*[0.1] * 199, 3600.0).seconds < 0.16


@given(st.lists(st.floats(0, 1e6), min_size=20))
def test_the_mean_is_within_what_was_measured(seconds):
    bounded = [min(one, 10.0) for one in seconds]
    assert min(bounded) - 1e-9 <= times_of(*seconds).seconds <= max(bounded) + 1e-9

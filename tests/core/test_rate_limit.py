"""The sliding window: to the visit, whenever visits come."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.rate_limit import add_hit, count_hits, counted_by, drop_hit, series_of

# Whole quarters: their differences are exact, so the reference has no rounding of its own.
TIMES = st.integers(0, 400).map(lambda n: n / 4)


def fill(times, *, keep=10.0, most=1000):
    hits = array("d")
    for at in times:
        add_hit(hits, at, keep=keep, most=most)
    return hits


@given(st.lists(TIMES, min_size=1), st.integers(1, 40).map(lambda n: n / 4))
def test_in_order_the_count_is_that_of_a_plain_list(times, seconds):
    times.sort()
    hits = array("d")
    for number, at in enumerate(times, 1):
        add_hit(hits, at, keep=10.0, most=1000)
        assert count_hits(hits, at, seconds) == sum(at - seconds < t <= at for t in times[:number])


@given(st.lists(TIMES, min_size=1), st.integers(1, 40).map(lambda n: n / 4))
def test_out_of_order_no_visit_is_made_up_and_none_lost_that_the_newest_can_see(times, seconds):
    """Kept is what lies within *keep* of the newest; a late-comer whose window lies within that is counted exactly."""
    hits = array("d")
    for number, at in enumerate(times, 1):
        add_hit(hits, at, keep=10.0, most=1000)
        true = sum(at - seconds < t <= at for t in times[:number])
        counted = count_hits(hits, at, seconds)
        assert counted <= true
        if at - seconds >= max(times[:number]) - 10.0:
            assert counted == true
    assert list(hits) == sorted(hits)


@given(st.lists(TIMES), st.integers(1, 20))
def test_no_more_than_the_most_are_kept_and_they_are_the_newest(times, most):
    hits = fill(times, most=most)
    kept = sorted(t for t in times if t > max(times) - 10.0)
    if times == sorted(times):
        assert list(hits) == kept[-most:]
    assert len(hits) <= most


@given(st.lists(TIMES), TIMES)
def test_a_hit_can_be_taken_back(times, at):
    hits = array("d", sorted([*times, at]))
    drop_hit(hits, at)
    assert list(hits) == sorted(times)
    drop_hit(hits, -1.0)
    assert list(hits) == sorted(times)


def test_adjoining_windows_never_count_one_hit_twice():
    hits = fill([0.0, 8.0, 9.0, 10.0], keep=20.0)
    assert count_hits(hits, 10.0, 10.0) == 3
    assert count_hits(hits, 10.0, 10.5) == 4
    assert count_hits(hits, 9.5, 1.0) == 1
    assert count_hits(array("d"), 5.0, 1.0) == 0


def test_what_is_counted_by_what():
    assert counted_by("pages") == (series_of("page"),)
    assert counted_by("requests") == (series_of("page"), series_of("call"))
    assert counted_by("prefetches") == (series_of("prefetch"),)
    assert counted_by("everything") == (series_of("page"), series_of("call"), series_of("asset"))
